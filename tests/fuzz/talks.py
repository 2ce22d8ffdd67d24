"""The same for what is asked of Holdfast while it runs: hooks, servers, the command line."""

import contextlib
import functools
import os
import shutil

from fuzz import inputs
from holdfast import Keeper
from holdfast.cli.commands import completion
from holdfast.cli.parser import load_all, parse
from holdfast.core import json_text
from holdfast.hooks import quick_check
from holdfast.hooks.handlers import HookCall, plan_for
from holdfast.mcp.memory import MemoryApp
from holdfast.mcp.server import Server
from holdfast.mcp.stdio import MAX_LINE_BYTES
from holdfast.mcp.workflows import WorkflowApp
from holdfast.workspace.location import find
from support.workshop import Clock

COMMANDS = load_all()


def hook_input(data):
    """An event is answered with JSON or not at all; what it would record is not recorded here."""
    event = quick_check.parse_event(data)
    root = inputs.workspace()
    if isinstance(event.get("cwd"), str):
        event["cwd"] = os.path.join(root, "docs")
    folder = quick_check.folder_of(event)
    if not folder or find(folder).root != root:
        return
    quick_check._may_matter(event, find(folder))
    plan = plan_for(HookCall(event, root))
    assert plan.summary.isprintable() or plan.answer is None
    assert json_text.loads(json_text.dumps(plan.answer).encode()) == plan.answer


class _Pipe:
    """The client's end: one line in, and what comes out."""

    def __init__(self, line):
        self._line = line
        self.sent = []

    def lines(self, _before_wait):
        yield from self._line.split(b"\n")[:20]

    def send(self, message):
        self.sent.append(message)
        text = json_text.dumps(message)
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            raw = text.encode(errors="backslashreplace")
        assert b"\n" not in raw
        assert len(raw) < MAX_LINE_BYTES


class _NoRuns(WorkflowApp):
    """The server of workflows, which runs no command here."""

    def _run_gate(self, _arguments, context):
        context.answer({"content": []})


def mcp_workflows(data):
    """Every request has one answer, whatever came before it."""
    root = inputs.workspace()
    keeper = functools.partial(Keeper, root, session="session-1", by="mcp", clock_ms=Clock())
    _served(_NoRuns(lambda share: keeper(share=share)), data)


def mcp_memory(data):
    place = os.path.join(inputs.folder(), "memory")
    shutil.rmtree(place, ignore_errors=True)
    os.mkdir(place)
    _served(MemoryApp(os.path.join(place, "memory.jsonl"), place), data)


def _served(app, data):
    pipe = _Pipe(data)
    Server(app, pipe).serve()
    answered = [one for one in pipe.sent if "id" in one]
    assert len(answered) <= len(data.split(b"\n"))
    for one in answered:
        assert ("result" in one) != ("error" in one)
        told = one.get("error", {})
        assert told.get("code", 0) != INTERNAL, told


INTERNAL = -32603
"""What a server says when something went wrong in it that nobody foresaw."""


def command_line(data):
    """The words are a command that there is, none at all, or a mistake with a hint."""
    words = data.decode(errors="surrogateescape").split("\0")[:40]
    found = parse(words)
    assert found["command"] in COMMANDS or found["command"] == ""


def typed_line(data):
    """A line that is still being typed: candidates are words, and nothing is run."""
    text = data.decode(errors="replace").replace("\0", " ")
    pieces = text.split(" ")[:20] or [""]
    words, kept, quote = completion.join_pieces(pieces)
    assert isinstance(kept, str)
    for piece in pieces:
        bare, _, _ = completion.unquote(piece)
        assert completion.unquote(completion.quote(bare, ""))[0] == bare
    assert quote in ("", "'", '"')
    with contextlib.chdir(inputs.workspace()):
        for value, _ in completion.candidates(words or [""]):
            assert isinstance(value, str)
