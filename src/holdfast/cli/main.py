"""The entry of the command line: parse, call one command, print its answer, return the exit code.

``main`` is for callers in the same process. ``process`` is what a shell starts: it runs ``main``
and ends the process without closing the ledger, whose journal then stays in place for readers that
cannot write there. No command asks a question, so all run the same with and without a terminal.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn, TextIO

    from holdfast.cli.shapes import Answer, Arguments
    from holdfast.keeper import Keeper

INTERRUPTED = 130
_UNWRITTEN = 3
_VERSION_WORDS = ("--version", "--json")
_LASTING = ("--follow", "export", "import", "log", "mcp", "repair", "run", "verify", "watch")
"""Words of commands that last, or go through the whole ledger."""


class _Unheard(Exception):
    """The answer could not be written; the cause says why."""


def process() -> NoReturn:
    """Run the command line of this process, and end the process."""
    words = sys.argv[1:]
    if not any(word in _LASTING for word in words):
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
            code = code or _UNWRITTEN
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name) and return its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        return _hook() if words == ["hook"] and not os.isatty(0) else _run(words)
    except KeyboardInterrupt:
        return INTERRUPTED


def _hook() -> int:
    """Answer a client's event by the shortest way, because clients send many."""
    from holdfast.hooks.quick_check import main as answer

    return answer()


def _run(words: list[str]) -> int:
    from holdfast.cli.parser import parse

    as_json = "--json" in words
    workflow = None
    try:
        if "--version" in words and all(word in _VERSION_WORDS for word in words):
            answer = _version()
        else:
            args = parse(words)
            as_json, workflow = args["json"], args["workflow"]
            answer = _answer(args)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is answered
        answer = _failure(error, workflow, words)
    return _deliver(answer, as_json=as_json)


def _answer(args: Arguments) -> Answer:
    from holdfast.cli.table import COMMANDS, WITHOUT_WORKSPACE

    name = args["command"]
    called = COMMANDS[name]["call"] if name else "commands.overview.here"
    module, _, function = called.rpartition(".")
    call = getattr(__import__(f"holdfast.cli.{module}", fromlist=(function,)), function)
    answer: Answer = call(args) if name in WITHOUT_WORKSPACE else call(open_keeper(args), args)
    return answer


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

    here = os.environ.get("CLAUDE_CODE_SESSION_ID", os.environ.get("CODEX_SESSION_ID"))
    session = here if args["session"] is None else args["session"]
    pid = _client() if session and session == here else None
    pid = pid or client
    return Keeper(
        path=folder, session=session or None, pid=pid, by=by, wait_s=wait_s(), share=share
    )


def wait_s() -> float | None:
    """Return how long to wait for a lock, if the environment says so."""
    wait_ms = _number("HOLDFAST_WAIT_MS")
    return None if wait_ms is None else wait_ms / 1_000


def _client() -> int | None:
    """Return the process of the client that the environment names; it outlives a ``/clear``."""
    return _number("CLAUDE_PID") or None


def _number(name: str) -> int | None:
    """Read an integer variable; return ``None`` if it is unset or not a number."""
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _version() -> Answer:
    from holdfast import __version__

    return {"kind": "text", "data": {"version": __version__}}


def _failure(
    error: Exception, workflow: str | None = None, words: list[str] | None = None
) -> Answer:
    from holdfast.answers.failure import failure

    return failure(error, workflow, words)


def _deliver(answer: Answer, *, as_json: bool) -> int:
    """Print the answer and return the exit code, which a closed pipe does not change."""
    try:
        _print(answer, as_json=as_json)
    except _Unheard as unheard:
        return _unheard(unheard.__cause__, answer.get("code", 0))
    except Exception as error:
        if answer["kind"] == "failure":
            raise
        return _deliver(_failure(error), as_json=as_json)
    # What is read while it is printed can fail on the way.
    return answer.get("code", 0)


def _print(answer: Answer, *, as_json: bool) -> None:
    out = sys.stderr if answer["kind"] == "failure" and not as_json else sys.stdout
    if out is None:
        return
    is_live = answer["kind"] == "stream"
    if as_json or answer["kind"] == "lines":
        from holdfast.answers.json import texts

        for text in texts(answer, out):
            _write(out, text, flush=is_live)
    else:
        from holdfast.cli.screen import lines

        for line in lines(answer, out):
            _write(out, f"{line}\n", flush=is_live)
    _write(out, "", flush=True)


def _write(out: TextIO, text: str, *, flush: bool) -> None:
    try:
        out.write(text)
        if flush:
            out.flush()
    except OSError as error:
        raise _Unheard from error


def _unheard(cause: BaseException | None, code: int) -> int:
    # Otherwise the rest would be written once more at the end.
    sys.stdout = sys.stderr
    if isinstance(cause, BrokenPipeError):
        return code
    try:
        print(f"holdfast: the answer could not be written: {cause}", file=sys.stderr)
    except OSError:
        return code or _UNWRITTEN
    return code or _UNWRITTEN
