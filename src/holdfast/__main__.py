"""``python -m holdfast``: the same as the console script."""

from __future__ import annotations

import sys

from holdfast.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
