"""Every way in which a command can fail, as an answer with its exit code."""

from __future__ import annotations

import os
import sys

from holdfast.cli.parser import Usage
from holdfast.cli.table import COMMANDS, WITHOUT_WORKSPACE
from holdfast.cli.terminal_text import clean
from holdfast.core.refusal import word
from holdfast.errors import HoldfastError, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Answer
    from holdfast.core.types import Fields

FAULT = 3
_OF_ALL = (*WITHOUT_WORKSPACE, "recipes", "start", "status", "verify", "repair")
"""Commands that are not about one workflow."""
_NAMING = ("show", "resume", "log")
"""Commands that take the workflow's id as their first word."""
_UNKNOWN = ("not_found", "no_recipe", "no_command", "invalid", "usage")
"""The refusals that a name leads to which nobody knows."""
_CODES: dict[type[HoldfastError], int] = {Refused: 1, Usage: 2}


def failure(
    error: Exception, workflow: str | None = None, words: list[str] | None = None
) -> Answer:
    """The answer to a command of these words; ``workflow`` is the one that the caller named."""
    if isinstance(error, HoldfastError):
        told = _meant(error, words or []) or _told(
            error.code, error.message, _aimed(error.hint, workflow)
        )
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


def _meant(error: HoldfastError, words: list[str]) -> Fields | None:
    """The refusal of a name that nobody knows, with the one that was probably meant."""
    if not words or error.code not in _UNKNOWN:
        return None
    from holdfast.cli.suggestions import corrected

    found = corrected(words, fixed=isinstance(error, Usage))
    if found is None:
        return None
    return _told(error.code, f"{error.message}; did you mean {found[0]!r}?", found[1])


def _aimed(hint: str, workflow: str | None) -> str:
    """The hint with the workflow that the caller named: without, it might go to another one."""
    if workflow is None or "-w " in hint:
        return hint
    before, *commands = hint.split("holdfast ")
    aim = f"-w {word(workflow)} "
    aimed = [aim + command if _needs_aim(command) else command for command in commands]
    return "holdfast ".join([before, *aimed])


def _needs_aim(command: str) -> bool:
    """Whether it is about one workflow, and does not say which."""
    name, _, more = command.partition(" ")
    is_of_one = name not in _OF_ALL and any(known.split(" ")[0] == name for known in COMMANDS)
    return is_of_one and not (more and name in _NAMING)


def _told_of_system(error: OSError) -> Fields:
    if isinstance(error, FileNotFoundError) and not _is_somewhere():
        return _told("storage", "the current folder is gone", "cd to one that exists")
    where = f" ({error.filename})" if error.filename else ""
    message = f"the system refused: {error.strerror or error}{where}"
    return _told("storage", message, "see to that, then run the same command again")


def _is_somewhere() -> bool:
    """Whether the current folder still exists."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _print_trace() -> None:
    from traceback import format_exc

    if sys.stderr is not None:
        for line in format_exc().splitlines():
            print(clean(line), file=sys.stderr)
