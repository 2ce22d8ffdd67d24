"""The two exceptions that the library raises, and the faults that several rooms share.

Both exceptions carry what was tried and the next step. Each function below builds one fault of
storage, so that the same trouble has the same code and the same words wherever it happens.
"""

from __future__ import annotations

import os
from errno import EACCES, EPERM, EROFS

_PLAIN_FOLDER = ".claude"
"""The folder around a ledger outside git."""
_AGAIN = "then run the same command again"


DENIED = (EACCES, EPERM, EROFS)
"""The errors of a folder that this process may not write."""
CANNOT_WRITE = "ERROR: Cannot write state files — workflow state will not persist"


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


def busy(what: str, path: str, *, holder: str = "another process", wait: str = "too long") -> Fault:
    """Return the fault of a lock that another process did not release in time."""
    message = f"{what} is locked by {holder} for {wait}"
    return Fault("busy", message, f"wait for that process or end it, {_AGAIN}", path=path)


def damaged_ledger(path: str, why: str) -> Fault:
    """Return the fault of a ledger that SQLite cannot read."""
    hint = "holdfast repair recovers what it still has, beside the damaged file"
    return Fault("ledger_damaged", f"the ledger {path} is {_damaged(why)}", hint, path=path)


def damaged_graph(path: str, why: str) -> Fault:
    """Return the fault of a memory graph that SQLite cannot read."""
    hint = (
        f"keep it for a look: mv {path} {path}.damaged; the next call begins anew, with what the "
        "JSONL file has"
    )
    return Fault("graph_damaged", f"the graph {path} is {_damaged(why)}", hint, path=path)


def _damaged(why: str) -> str:
    return f"damaged: {why}; nothing of it was changed"


def not_written(what: str, why: object, remedy: str) -> Fault:
    """Return the fault of a write that failed before anything was committed."""
    message = f"{what} cannot be written ({why}): nothing was recorded"
    return Fault("not_written", message, f"{remedy}, {_AGAIN}")


def symbolic_link(kind: str, path: str) -> Refused:
    """Return the refusal to open a database through a link."""
    return Refused(
        "outside",
        f"the {kind} {path} is a symbolic link; it has to be a file of its own",
        f"replace the link by the file it names: {path}",
    )


def system_refused(error: OSError, remedy: str = "see to that") -> Fault:
    """Return the fault of a call that the operating system refused."""
    path = f" ({error.filename})" if error.filename else ""
    message = f"the system refused: {error.strerror or error}{path}"
    return Fault("storage", message, f"{remedy}, {_AGAIN}")


def newer_file(path: str, version: object) -> Fault:
    """Return the fault of a file that a newer version of Holdfast wrote."""
    message = f"a newer Holdfast wrote {path} (version {version}); this one would lose what it says"
    return Fault("newer_file", message, INSTALL_NEWER, path=path)


def refuse_newer(path: str, version: object, known: int) -> None:
    """Raise ``Fault`` if a file has a version that this Holdfast does not know; none is the first.

    A version such as ``1.4`` counts by the number before its first dot.
    """
    if version is None:
        return
    number = str(version).partition(".")[0]
    if isinstance(version, bool) or not number.isdecimal() or int(number[:9]) > known:
        raise newer_file(path, version)


INSTALL_NEWER = "install the newer Holdfast: git pull in its checkout, then pip install ."


def not_writable(folder: str, why: str) -> Fault:
    """Return the fault of a folder that cannot be written, with the ways out."""
    above = os.path.dirname(folder)
    is_file = os.path.lexists(above) and not os.path.isdir(above)
    mend = f"move {above} away, it is not a folder" if is_file else ways_to_write(folder)
    return Fault(
        "not_writable",
        f"Cannot write state files in {folder} ({why}) — workflow state will not persist",
        mend,
        path=folder,
    )


def ways_to_write(folder: str) -> str:
    """Return what helps if a ledger's folder cannot be written.

    In git's folder the cause is mostly a client's sandbox, and there are two ways out.
    """
    if os.path.basename(os.path.dirname(folder)) == _PLAIN_FOLDER:
        return f"make {folder} writable"
    return (
        "allow it, in a terminal: holdfast init --agent codex (without Codex: make the folder "
        "writable); or have it done outside the sandbox, by the tools of holdfast mcp or a person"
    )
