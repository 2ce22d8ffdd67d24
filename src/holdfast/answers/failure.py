"""Describe a failed request: code, message, next step, and details where there are any."""

from __future__ import annotations

import os
import sys

from holdfast.answers.text import clean
from holdfast.core.refusal import shell_word
from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields

_OF_ONE_WORKFLOW = (
    *("abandon", "advance", "complete", "files", "gate", "log", "loop", "phase", "read", "remind"),
    *("resume", "set", "show", "step", "task", "tests", "violation"),
)
"""First words of the commands that work on one workflow."""
_TAKE_AN_ID = ("show", "resume", "log")
"""Those of them that take the workflow's id as their first argument."""


def failure_fields(error: Exception, workflow: str | None = None) -> Fields:
    """Return the ``error`` object of an answer.

    ``workflow`` is the one that the caller named: commands in the hint name it too, because
    without it they might go to another one. The traceback of an error that is a bug goes to
    standard error.
    """
    if isinstance(error, HoldfastError):
        fields = _error(error.code, error.message, _aim_hint(error.hint, workflow))
        return {**fields, "details": error.details} if error.details else fields
    if isinstance(error, FileNotFoundError):
        try:
            os.getcwd()
        except FileNotFoundError:
            return _error("storage", "the current folder is gone", "cd to one that exists")
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        message = f"the system refused: {error.strerror or error}{where}"
        return _error("storage", message, "see to that, then run the same command again")
    from traceback import format_exc

    if sys.stderr is not None:
        for line in format_exc().splitlines():
            print(clean(line), file=sys.stderr)
    message = f"an error in Holdfast itself: {type(error).__name__}: {error}"
    return _error("internal", message, "holdfast verify  (then report the lines above)")


def _error(code: str, message: str, hint: str) -> Fields:
    return {"code": code, "message": message, "hint": hint}


def _aim_hint(hint: str, workflow: str | None) -> str:
    """Return the hint with the workflow in its commands that work on one and do not name it."""
    if workflow is None or "-w " in hint:
        return hint
    parts = hint.split("holdfast ")
    for number, command in enumerate(parts[1:], 1):
        name, _, more = command.partition(" ")
        if name in _OF_ONE_WORKFLOW and not (more and name in _TAKE_AN_ID):
            parts[number] = f"-w {shell_word(workflow)} {command}"
    return "holdfast ".join(parts)
