"""How a call runs: from validated arguments to a value or a ToolResult.

`plan` holds what is prepared once for a tool. `direct_call` runs a body to its value or its result; `pipeline` runs it
behind middleware, where `endpoint` runs the body, and streams what it makes. `runner` runs a body in a loop, in one of
the `threads` or, by `isolation`, in a worker process, within its `deadline`; `consume` iterates what it returned.
`convert` makes results of outcomes. Sync callers run async bodies on the `background_loop`.
"""

from __future__ import annotations


def abandoned() -> int:
    """Return how many bodies still run in this process although no caller waits for them.

    They exceeded their timeout or their callers left: sync bodies, whose threads Python cannot end, and async bodies
    that ignored their cancellation. Each counts until it ends.

    >>> from ahvn_tools import execution
    >>> still_running = execution.abandoned()
    """
    from ahvn_tools.execution import deadline, threads

    return threads.count_abandoned_threads() + deadline.count_abandoned_tasks()
