"""Every way in which a command can fail, as an answer with its exit code."""

from __future__ import annotations

import sys

from holdfast.cli.arguments import Usage
from holdfast.cli.text import clean
from holdfast.errors import HoldfastError, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Answer
    from holdfast.core.shapes import Fields

FAULT = 3
_CODES: dict[type[HoldfastError], int] = {Refused: 1, Usage: 2}


def failure(error: Exception) -> Answer:
    if isinstance(error, HoldfastError):
        told = _told(error.code, error.message, error.hint)
        if error.details:
            told["details"] = error.details
        code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), FAULT)
        return {"kind": "failure", "data": told, "code": code}
    if isinstance(error, OSError):
        return {"kind": "failure", "data": _told_of_system(error), "code": FAULT}
    _print_trace()
    message = f"an error in Holdfast itself: {type(error).__name__}: {error}"
    hint = "holdfast verify  (then report the lines above)"
    return {"kind": "failure", "data": _told("internal", message, hint), "code": FAULT}


def _told(code: str, message: str, hint: str) -> Fields:
    return {"code": code, "message": message, "hint": hint}


def _told_of_system(error: OSError) -> Fields:
    where = f" ({error.filename})" if error.filename else ""
    message = f"the system refused: {error.strerror or error}{where}"
    return _told("storage", message, "see to that, then run the same command again")


def _print_trace() -> None:
    from traceback import format_exc

    if sys.stderr is not None:
        for line in format_exc().splitlines():
            print(clean(line), file=sys.stderr)
