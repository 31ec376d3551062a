"""A tool travels to a file, to other processes, and to a worker process that a timeout kills. Its secret stays here."""

from __future__ import annotations

import copy
import os
import pickle
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Annotated

from ahvn_tools import Secret, ToolSpec

RATES = {"EUR": 1.0, "USD": 1.25}


def convert(amount: float, currency: str, key: Annotated[str, Secret]) -> str:
    """Convert euros."""
    return f"{amount * RATES[currency]:.2f} {currency} with {len(key)} letters"


def read_key() -> str:
    """Read the key where the tool runs."""
    return os.environ["RATES_KEY"]


def call(spec: ToolSpec, amount: float) -> str:
    """Give the tool its secret in another process."""
    return str(spec.bind("key", resolver=read_key)(amount=amount))


def main() -> None:
    """Send the tool around."""
    os.environ["RATES_KEY"] = "key-4711"
    spec = ToolSpec.from_function(convert).bind("currency", "user.currency", "USD").bind("key", default="key-4711")
    data = pickle.dumps(spec)
    assert b"key-4711" not in data
    loaded = pickle.loads(data)
    assert loaded.to("openai") == spec.to("openai")
    assert loaded.exec(amount=2).error.code == "unbound_state"
    loaded.bind("key", resolver=read_key)
    assert loaded(amount=2) == spec(amount=2) == "2.50 USD with 8 letters"
    twin = copy.deepcopy(loaded)
    twin.state["user"]["currency"] = "EUR"
    assert (twin(amount=2)[:8], loaded(amount=2)[:8]) == ("2.00 EUR", "2.50 USD")
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert [text[:4] for text in pool.map(call, [loaded, twin], [4, 4])] == ["5.00", "4.00"]
    hanging = ToolSpec.from_function(lambda: time.sleep(600), name="hang", timeout=2, isolation="process")
    assert hanging.exec().error.code == "timeout"


if __name__ == "__main__":
    main()
