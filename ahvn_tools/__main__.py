"""`python -m ahvn_tools` is the command `ahvn-tools`."""

from __future__ import annotations

import sys

from ahvn_tools.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
