"""The two exceptions that the library raises. Both carry what was tried and the next step."""

from __future__ import annotations


class HoldfastError(Exception):
    """Something was not done; ``code`` is stable, ``message`` says why, ``hint`` what to run."""

    def __init__(self, code: str, message: str, hint: str = "", **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.details = details


class Refused(HoldfastError):
    """An expected no: the request does not fit the state. Nothing changed."""


class Fault(HoldfastError):
    """Trouble with storage: the request may fit, the disk, the lock or a file did not."""


def newer_file(path: str, version: object) -> Fault:
    return Fault(
        "newer_file",
        f"a newer Holdfast wrote {path} (version {version}); this one would lose what it says",
        "install the newer Holdfast: git pull in its checkout, then pip install .",
        path=path,
    )
