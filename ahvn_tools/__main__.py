"""The process of the command `ahvn-tools`, which `python -m ahvn_tools` is, too."""

from __future__ import annotations

import sys

from ahvn_tools.cli.garbage import begin_start


def run() -> int:
    """Run the command with the arguments of the process, and return the exit status."""
    begin_start()
    from ahvn_tools.cli.app import main  # after that: it is slow

    return main()


if __name__ == "__main__":
    sys.exit(run())
