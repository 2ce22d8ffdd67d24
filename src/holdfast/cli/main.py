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
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from holdfast.cli.answer import Answer
    from holdfast.cli.parser import Arguments
    from holdfast.core.next_step import NextStep
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper
    from holdfast.keeper.questions import Answers

_REFUSED, _USAGE, _FAULT, INTERRUPTED = 1, 2, 3, 130
"""Exit codes."""
_UNKNOWN_NAME = ("not_found", "no_recipe", "no_command", "invalid", "usage")
"""Codes of the errors that an unknown name causes."""
_LOOKS = ("context", "status")
"""Commands about the work of all sessions."""
_HOOK_OPTIONS = ("--explain", "--help", "-h")
"""Options with which a person, not a client, runs ``holdfast hook``."""
_LONG_RUNNING = (
    "--follow", "archive", "export", "import", "log", "mcp", "repair", "run", "verify", "watch",
    "web",
)  # fmt: skip
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
        if words[:1] == ["statusline"] and words[1:2] not in (["--help"], ["-h"]):
            from holdfast.hooks.statusline import main as print_line

            return print_line(words[1:])
        return _run(words)
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(words: list[str]) -> int:
    from holdfast.cli.answer import Answer, print_answer
    from holdfast.cli.parser import COMMANDS, parse

    as_json = "--json" in words
    args: Arguments = {"workflow": None}
    keeper = None
    try:
        if "--version" in words and all(word in ("--version", "--json") for word in words):
            from holdfast import __version__ as version

            answer = Answer({"version": version}, lambda _screen: [version])
        else:
            args = parse(words)
            as_json = args["json"]
            if args["command"]:
                command = COMMANDS[args["command"]]
                if command.takes_keeper:
                    keeper = open_keeper(args)
                    answer = command.run(keeper, args)
                else:
                    answer = command.run(args)
            else:
                from holdfast.cli.commands.overview import overview

                answer = overview(open_keeper(args), args)
    except Exception as error:  # noqa: BLE001 - every error becomes an answer
        answer = failure(error, words, args, keeper)
    new_answers = None if keeper is None else _new_answers(keeper, args.get("command"))
    if new_answers is not None:
        answer.late_notes = new_answers.notes
    try:
        code = print_answer(answer, as_json=as_json)
    except Exception as error:
        # An answer may read the ledger while it is printed.
        if answer.is_failure:
            raise
        code = print_answer(failure(error), as_json=as_json)
    if new_answers is not None and (answer.has_shown_late_notes or not new_answers.notes):
        new_answers.seen()
    if keeper is not None:
        _renew_lease(keeper)
    return code


def _new_answers(keeper: Keeper, command: str | None) -> Answers | None:
    """Return the answers to its questions that the session was not told yet.

    The output of some commands is read by programs, so only those about work tell them.
    """
    session = keeper.session.id
    if not session or not keeper.workspace.waits_for_answers(session):
        return None
    from holdfast.answers import is_about_workflow
    from holdfast.errors import HoldfastError

    if command and command not in _LOOKS and not is_about_workflow(command):
        return None

    try:
        return keeper.new_answers()
    except (HoldfastError, OSError):
        return None  # They are told with another command.


def _renew_lease(keeper: Keeper) -> None:
    """Renew what the session holds if that is due: whoever only looks is alive, too."""
    session = keeper.session.id
    if session and keeper.workspace.is_lease_due(session, keeper.store.now_ms()):
        from holdfast.errors import HoldfastError

        try:
            keeper.renew_leases()
        except (HoldfastError, OSError):
            return  # The answer stands; the next change of the session renews it.


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
    is_person = by == "cli" and not session
    if is_person:
        from holdfast.workspace.environment import client_of

        is_person = client_of(os.environ) is None
    return Keeper(
        path=folder, session=session or None, pid=pid or client, by=by, wait_s=wait_s(),
        share=share, is_person=is_person,
    )  # fmt: skip


def wait_s() -> float | None:
    """Return how long to wait for a lock, if the environment says so."""
    wait_ms = _integer("HOLDFAST_WAIT_MS")
    return None if wait_ms is None else wait_ms / 1_000


def _integer(name: str) -> int | None:
    """Read an integer variable; return ``None`` if it is unset or not a number."""
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def failure(
    error: Exception,
    words: list[str] | None = None,
    args: Arguments | None = None,
    keeper: Keeper | None = None,
) -> Answer:
    """Return the answer to a command line that failed."""
    from holdfast.answers import failure_fields, is_about_workflow
    from holdfast.cli.answer import Failure
    from holdfast.cli.parser import Usage
    from holdfast.errors import Refused

    fields = failure_fields(error, args["workflow"] if args else None)
    if words and fields["code"] in _UNKNOWN_NAME:
        from holdfast.cli.commands.help import correct

        correction = correct(words, only_fixed=isinstance(error, Usage))
        if correction is not None:
            fields["message"] += f"; did you mean {correction[0]!r}?"
            fields["hint"] = correction[1]
    if isinstance(error, Usage):
        return Failure(fields, _USAGE)
    if not isinstance(error, Refused):
        return Failure(fields, _FAULT)
    step = None
    if args is not None and keeper is not None and is_about_workflow(args.get("command")):
        step = step_after_refusal(fields, words or [], args, keeper)
    return Failure(fields, _REFUSED, step)


def step_after_refusal(
    error: Fields, words: list[str], args: Arguments, keeper: Keeper
) -> Callable[[], NextStep | None]:
    """Return what computes the next step after a refusal: what its hint names, else the work's.

    It is never the command that was refused.
    """
    from holdfast import answers
    from holdfast.core.next_step import step_of_hint
    from holdfast.errors import HoldfastError

    def compute() -> NextStep | None:
        try:
            return find()
        except HoldfastError:
            # The refusal is the answer, whatever can be read after it.
            return step_of_hint(error["hint"])

    def find() -> NextStep | None:
        typed = [word for word in words if word != "--json"]
        choice = answers.step_to_choose(error, keeper, typed)
        if choice is not None:
            return choice
        group = str(args["command"]).partition(" ")[0]
        if error["code"] == "untrusted":
            group = ""  # a person approves it, whatever it is about
        if group == "initiative":
            from holdfast.cli.commands import initiative

            return initiative.step_after_refusal(error, args, keeper)
        if group == "loop":
            from holdfast.cli.commands import loop

            return loop.step_after_refusal(error, args, keeper)
        return answers.step_after_refusal(
            error, keeper, args["workflow"], typed, after=args["command"], is_named=args["is_aimed"]
        )

    return compute
