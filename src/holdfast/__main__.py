"""``python -m holdfast``: the same as the console script."""

from __future__ import annotations

from holdfast.cli.main import process

if __name__ == "__main__":
    process()
