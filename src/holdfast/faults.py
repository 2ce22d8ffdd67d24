"""Faults that several modules raise, in the same words."""

from __future__ import annotations

from holdfast.errors import Fault


def newer_file(path: str, version: object) -> Fault:
    return Fault(
        "newer_file",
        f"a newer Holdfast wrote {path} (version {version}); this one would lose what it says",
        "install the newer Holdfast: git pull in its checkout, then pip install .",
        path=path,
    )
