"""The entry of the command line: parse, call one command, print its answer, return the exit code.

``main`` is for callers in the same process. ``process`` is what a shell starts: it runs ``main``
and ends the process without closing the ledger, whose journal then stays in place for readers that
cannot write there. Only ``trust`` asks a question, so all others run the same without a terminal.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from holdfast.cli.answer import Answer
    from holdfast.cli.parser import Arguments
    from holdfast.keeper import Keeper

_REFUSED, _USAGE, _FAULT, INTERRUPTED = 1, 2, 3, 130
"""Exit codes."""
_UNKNOWN_NAME = ("not_found", "no_recipe", "no_command", "invalid", "usage")
"""Codes of the errors that an unknown name causes."""
_HOOK_OPTIONS = ("--explain", "--help", "-h")
"""Options with which a person, not a client, runs ``holdfast hook``."""
_LONG_RUNNING = ("--follow", "export", "import", "log", "mcp", "repair", "run", "verify", "watch")
"""Words of commands that run until they are ended, or read the whole ledger."""


def process() -> NoReturn:
    """Run the command line of this process, and end the process."""
    words = sys.argv[1:]
    if not any(word in _LONG_RUNNING for word in words):
        # The process ends before there is anything to collect.
        gc.disable()
    end(main(words))


def end(code: int) -> NoReturn:
    """End the process at once, with what was printed flushed and nothing else closed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            code = code or _FAULT
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name) and return its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        is_explained = any(word.startswith(_HOOK_OPTIONS) for word in words)
        if words[:1] == ["hook"] and not is_explained and not os.isatty(0):
            # Clients send many events, so this one takes the shortest way. Whatever else is on the
            # command line is ignored: the exit code of a usage error would block the agent.
            from holdfast.hooks.quick_check import main as answer_event

            return answer_event()
        return _run(words)
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(words: list[str]) -> int:
    from holdfast.cli.answer import Answer, print_answer
    from holdfast.cli.parser import COMMANDS, parse

    as_json = "--json" in words
    workflow = None
    try:
        if "--version" in words and all(word in ("--version", "--json") for word in words):
            from holdfast import __version__ as version

            answer = Answer({"version": version}, lambda _screen: [version])
        else:
            args = parse(words)
            as_json, workflow = args["json"], args["workflow"]
            if args["command"]:
                command = COMMANDS[args["command"]]
                opened = [open_keeper(args)] if command.takes_keeper else []
                answer = command.run(*opened, args)
            else:
                from holdfast.cli.commands.overview import overview

                answer = overview(open_keeper(args), args)
    except Exception as error:  # noqa: BLE001 - every error becomes an answer
        answer = failure(error, words, workflow)
    try:
        return print_answer(answer, as_json=as_json)
    except Exception as error:
        # An answer may read the ledger while it is printed.
        if answer.is_failure:
            raise
        return print_answer(failure(error), as_json=as_json)


def open_keeper(
    args: Arguments,
    folder: str = ".",
    *,
    by: str = "cli",
    client: int | None = None,
    share: Keeper | None = None,
) -> Keeper:
    """Open the workspace of a folder for the session that asks; ``client`` is its process."""
    from holdfast.keeper import Keeper

    client_session = os.environ.get("CLAUDE_CODE_SESSION_ID", os.environ.get("CODEX_SESSION_ID"))
    session = client_session if args["session"] is None else args["session"]
    # The client's process outlives its sessions: ``/clear`` begins another one.
    pid = _integer("CLAUDE_PID") if session and session == client_session else None
    return Keeper(
        path=folder, session=session or None, pid=pid or client, by=by, wait_s=wait_s(), share=share
    )


def wait_s() -> float | None:
    """Return how long to wait for a lock, if the environment says so."""
    wait_ms = _integer("HOLDFAST_WAIT_MS")
    return None if wait_ms is None else wait_ms / 1_000


def _integer(name: str) -> int | None:
    """Read an integer variable; return ``None`` if it is unset or not a number."""
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def failure(
    error: Exception, words: list[str] | None = None, workflow: str | None = None
) -> Answer:
    """Return the answer to a command line that failed."""
    from holdfast.answers import failure_fields
    from holdfast.cli.answer import Failure
    from holdfast.cli.parser import Usage
    from holdfast.errors import Refused

    fields = failure_fields(error, workflow)
    if words and fields["code"] in _UNKNOWN_NAME:
        from holdfast.cli.commands.help import correct

        correction = correct(words, only_fixed=isinstance(error, Usage))
        if correction is not None:
            fields["message"] += f"; did you mean {correction[0]!r}?"
            fields["hint"] = correction[1]
    if isinstance(error, Usage):
        return Failure(fields, _USAGE)
    return Failure(fields, _REFUSED if isinstance(error, Refused) else _FAULT)
