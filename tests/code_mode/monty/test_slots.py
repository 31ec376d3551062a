"""Slots: their number holds in all event loops together, tasks get them in order, and none is lost."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest

from ahvn_tools.code_mode.monty.slots import Slots
from ahvn_tools.code_mode.sandbox import SandboxError


def test_tasks_get_slots_in_order_and_cancelled_ones_are_skipped() -> None:
    slots, order = Slots(1), list[int]()

    async def use(number: int) -> None:
        await slots.acquire(30)
        order.append(number)
        slots.release()

    async def main() -> None:
        await slots.acquire(30)
        tasks = [asyncio.create_task(use(number)) for number in range(6)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[3].cancel()
        slots.release()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())
    assert order == [1, 2, 4, 5]


def test_a_wait_has_a_limit() -> None:
    slots = Slots(1)

    async def main() -> None:
        await slots.acquire(30)
        with pytest.raises(SandboxError, match="1 programs run already"):
            await slots.acquire(0.01)
        slots.release()
        await slots.acquire(30)

    asyncio.run(main())


def test_a_task_that_is_deleted_in_a_thread_that_holds_the_lock_releases_its_slot() -> None:
    slots = Slots(1)

    async def wait() -> None:
        await slots.acquire(30)
        try:
            await asyncio.Event().wait()
        finally:
            slots.release()

    def delete() -> None:
        async def main() -> None:
            waiting = wait()
            waiting.send(None)
            with slots._lock:  # the garbage collector runs at any moment
                waiting.close()
            await slots.acquire(30)

        asyncio.run(main())

    thread = threading.Thread(target=delete, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.parametrize("seed", range(3))
def test_no_slot_is_lost_and_none_is_given_twice(seed: int) -> None:
    slots, lock = Slots(3), threading.Lock()
    used = most = 0
    chance = random.Random(seed)
    delays = [[chance.choice([0, 0, 0.0005, 0.002]) for _ in range(60)] for _ in range(3)]

    async def use(delay: float) -> None:
        nonlocal used, most
        await slots.acquire(30)
        try:
            with lock:
                used += 1
                most = max(most, used)
            await asyncio.sleep(delay)
            with lock:
                used -= 1
        except asyncio.CancelledError:
            with lock:
                used -= 1
            raise
        finally:
            slots.release()

    async def main(part: list[float]) -> None:
        tasks = [asyncio.create_task(use(delay)) for delay in part]
        for task, delay in zip(tasks, part, strict=True):
            await asyncio.sleep(delay / 2)
            if delay:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    threads = [threading.Thread(target=asyncio.run, args=(main(part),)) for part in delays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most <= 3

    async def take_all() -> None:
        for _ in range(3):
            await slots.acquire(1)

    asyncio.run(take_all())
    assert used == 0
