"""Every parser of Holdfast, in one table: what feeds it, and which exceptions are an answer.

``TARGETS`` has a row for each: the function that asks it (see ``parsers``, ``pages``, ``talks``),
texts to begin with, words that it knows, and the exceptions by which it may say no. Two drivers use
the table: ``test_targets.py`` with Hypothesis in every test run, ``run.py`` with atheris for as
long as one likes. A case that was found is a file in ``cases/NAME/``, and is tried for ever.
"""

import functools
import json
import os
from typing import NamedTuple

from fuzz import inputs, pages, parsers, talks
from holdfast.core.json_text import BadJson
from holdfast.errors import HoldfastError
from holdfast.formats.schema import Invalid
from holdfast.initiatives import BadFile
from holdfast.initiatives.sources import new_status_file
from holdfast.loops.pages import render_brief, render_guardrails, render_units
from holdfast.storage import skill_index

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases")


class Target(NamedTuple):
    name: str
    ask: object
    seeds: object
    """A function that gives texts which the parser takes; most of them whole ones."""
    words: tuple[bytes, ...] = ()
    answers: tuple[type[Exception], ...] = (HoldfastError,)
    is_slow: bool = False
    """Whether it works on a real workspace: then a test tries it less often."""

    def run(self, data):
        """Tries these bytes; raises where that is a finding."""
        try:
            self.ask(data)
        except self.answers:
            return

    def cases(self):
        """The cases that were found once, by name."""
        place = os.path.join(CASES, self.name)
        names = sorted(os.listdir(place)) if os.path.isdir(place) else []
        return {name: _read(os.path.join(place, name)) for name in names}


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def _texts(*texts):
    return lambda: [text if isinstance(text, bytes) else text.encode() for text in texts]


def _dumped(*values):
    return lambda: [json.dumps(value).encode() for value in values]


def _words(text):
    return tuple(word.encode() for word in text.split())


_JSON = _words('" "" {} [] null true false 1 -1 1.5 "_holdfast" "rest" "digest" "seq" "id"')
_RECORD = _JSON + _words(
    '"status" "phase" "phases" "tasks" "context" "in_progress" "completed" "blocked" "pending" '
    '"name" "current" "steps" "recipe" "gates" "ttl" "24h" "2026-01-01T00:00:00Z" "description"'
)
_TOML = (
    *_words("= [ ] [[ ]] # \\u001b 1e9 0x1F 1979-05-27 inf nan true gates command"),
    b'"""', b"'''", b"[[phases]]\nname = ", b"[gates.x]\n", b"format = ",
)  # fmt: skip
_MARKDOWN = (
    *_words("# ## - * + 1. ``` ~~~ > <!-- --> [ ] [x] ** &#10; \\ | --- === ✅ :"),
    b"- [ ] ", b"  - ", b"\n\n", b"\r\n", b"    ",
)  # fmt: skip


def _skeletons():
    """Events of a ledger, as the target for replaying takes them: its streams, one by one."""
    streams = {}
    for line in inputs.history():
        event = json.loads(line)
        told = {"type": event["type"], "data": event["data"]}
        streams.setdefault(event["stream"], []).append(told)
    return [json.dumps(told[:12]).encode() for told in streams.values()]


def _records(name):
    """As other tools write them, and as Holdfast does."""
    found = inputs.samples(f"{name}-")
    origin = {"at": parsers.AT, "path": parsers.PLACES[name], "worktree": "."}
    for raw in found[:1]:
        told = {**origin, "recipe": parsers._recipe}
        state = parsers.formats.module(name).parse(json.loads(raw), {}, told)
        found.append(parsers.WORKFLOWS.render(state, "l" * 32, 7, "h" * 32))
    return found


def _loop_pages():
    state = pages._loop().state
    return [page(state).encode() for page in (render_brief, render_units)] + [
        render_guardrails({**state, "guardrails": [{"name": "a", "when": "b"}]}).encode()
    ]


def _log():
    empty = pages.progress_log.LogComparison("", pages._loop().events)
    return [empty.addition().encode(), b"# Progress Log\n\n## T1 - Iteration 1 - x\n**Did:** y\n"]


def _index():
    row = {
        "id": "a",
        "recipe": "dev",
        "subject": "b",
        "created_at": parsers.AT,
        "updated_at": parsers.AT,
    }
    return [
        skill_index.rendered([skill_index.row_of(row)], parsers.AT),
        skill_index.rendered([], parsers.AT),
    ]


INITIATIVES = {
    "version": 1,
    "current": "a",
    "initiatives": {
        "a": {
            "name": "A",
            "status": "in_progress",
            "currentMilestone": "M1",
            "milestones": {"M1": {"status": "pending", "tasks": [{"text": "x", "done": False}]}},
        }
    },
}
EVENT = {"session_id": "session-1", "cwd": "/", "hook_event_name": "SessionStart"}
_EVENTS = [
    {**EVENT, "source": "compact", "transcript_path": "/nowhere"},
    {**EVENT, "hook_event_name": "PreCompact", "trigger": "auto"},
    {
        **EVENT,
        "hook_event_name": "PostToolUse",
        "tool_name": "Read",
        "tool_input": {"file_path": "plan.md"},
        "tool_response": {"file": {"startLine": 1, "numLines": 1, "totalLines": 1}},
    },
    {**EVENT, "hook_event_name": "PreToolUse", "tool_name": "Edit", "tool_input": {}},
    {**EVENT, "hook_event_name": "Stop", "stop_hook_active": False},
    {**EVENT, "hook_event_name": "SessionEnd", "reason": "clear"},
    {**EVENT, "hook_event_name": "BeforeAgent", "prompt": "x", "transcript_path": "/nowhere"},
    {
        **EVENT,
        "hook_event_name": "AfterTool",
        "tool_name": "read_many_files",
        "tool_input": {"paths": ["docs/plan.md"], "include": ["*"]},
    },
    {**EVENT, "hook_event_name": "PreCompress", "trigger": "manual"},
    {**EVENT, "hook_event_name": "HoldfastPing"},
]
_META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


def _call(name, **arguments):
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def _ask(method, **params):
    return {"jsonrpc": "2.0", "id": "a", "method": method, "params": params}


_GREETINGS = [
    _ask("initialize", protocolVersion="2025-06-18"),
    _ask("server/discover", _meta=_META),
    _ask("tools/list"),
    _ask("resources/templates/list", _meta=_META),
    _ask("resources/subscribe", uri="memory://x"),
    _ask("subscriptions/listen", notifications={"resourceSubscriptions": ["memory://x"]}),
    {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 1},
    },
]
_ENTITY = {"name": "a", "entityType": "b", "observations": ["c"]}
_RELATION = {"from": "a", "to": "a", "relationType": "d"}

TARGETS = (
    Target("json", parsers.json_text, lambda: inputs.samples(""), _JSON, (BadJson,)),
    Target("ledger-line", parsers.event_line, inputs.history, _RECORD),
    Target("old-ledger", parsers.old_ledger, lambda: [b"\n".join(inputs.history()[:9]) + b"\n"]),
    Target("export", parsers.export, inputs.exports, _RECORD, is_slow=True),
    Target("events", parsers.events, _skeletons, _RECORD, (BadJson,)),
    *[
        Target(
            f"record-{name}",
            functools.partial(parsers.record, name),
            functools.partial(_records, name),
            _RECORD,
            (BadJson, Invalid),
        )
        for name in ("verb", "formal", "skill", "loop")
    ],
    *[
        Target(
            f"record-{kind}",
            functools.partial(parsers.small_record, kind),
            seeds,
            _RECORD,
            (BadJson, Invalid),
        )
        for kind, seeds in {
            "initiatives": _dumped(INITIATIVES, {"name": "A", "status": "created"}),
            "interview": _dumped({"interviews": [{"skill": "a", "confidence": 0.5}], "skips": []}),
            "delegation": _dumped({"delegations": [{"agent": "a", "outcome": "b"}]}),
            "learning": _dumped({"learnings": [{"kind": "preference", "text": "x"}]}),
            "forge": _dumped({"entries": [{"key": "a", "text": "x", "timestamp": parsers.AT}]}),
        }.items()
    ],
    Target("index", parsers.index_file, _index, _RECORD),
    Target("recipe", parsers.recipe, inputs.recipes, _TOML),
    Target(
        "settings",
        parsers.own_settings,
        _texts(
            'enforce = ["reading", "stop"]\nmemory = "off"\nmemory_lines = 40\ngraph = "mcp:x"\n'
            'milestones = "docs"\n[gates.lint]\ncommand = "make"\ntimeout = "30s"\n'
            '[ttl]\ndev = "24h"\n[clean]\ncompleted = "7d"\n'
        ),
        _TOML,
    ),
    Target("approvals", parsers.approvals, _dumped({"workspaces": {"/x": {"make": "now"}}}), _JSON),
    Target("moments", parsers.moments, _texts(parsers.AT, "24h", "2025-03-04 05:06+02", "90m")),
    Target(
        "git-folder",
        parsers.git_folder,
        _texts(
            b"ref: refs/heads/main\n\0[core]\n\tbare = false\n\tworktree = ../x\n\0"
            + b"0" * 40
            + b" refs/heads/main\n",
            b"ref: refs/heads/a\0[core]\nbare = true\0",
        ),
        _words("[core] bare worktree = true ../ /etc refs/heads/ ref:"),
    ),
    Target(
        "servers",
        parsers.servers_file,
        _dumped(
            {"mcpServers": {"memory": {"command": "x", "args": ["${HOME}"], "env": {"A": "b"}}}},
            {"mcpServers": {"memory": {"type": "http", "url": "http://x", "headers": {"a": "b"}}}},
        ),
        (*_JSON, b"${", b"}", b":-", b"${A:-b}", b'"url"', b'"command"', b'"type"', b'"http"'),
    ),
    Target(
        "client-settings",
        pages.client_settings,
        _dumped(
            {},
            {"hooks": {"Stop": [{"matcher": "", "hooks": [{"command": "holdfast hook"}]}]}, "a": 1},
            {"mcpServers": {"holdfast": {"command": "holdfast", "args": ["mcp"]}}},
        ),
        (*_JSON, b'"hooks"', b'"SessionStart"', b'"matcher"', b'"command"', b"holdfast hook"),
    ),
    Target(
        "workflow-status",
        pages.workflow_status,
        lambda: [
            new_status_file(pages.VALUES, pages.PROGRESS),
            b"# a\nstatus: x # b\nprogress: {M1: pending}\nteam: [a]\n",
        ],
        _words("--- ... & * ! | > ~ # : - ? { } [ ] progress: status: M1: ' \" !!str <<:"),
        (BadFile,),
    ),
    Target(
        "milestone-page",
        pages.milestone_page,
        _texts("# Tidy\n\n- [ ] M1: Map\n- [x] M2: Go\n\n## M1: Map\n\n- [ ] one\n  - [x] two\n"),
        (*_MARKDOWN, b"M1: ", b"## M2"),
        (BadFile,),
    ),
    Target(
        "loop-units",
        pages.loop_units,
        _loop_pages,
        (*_MARKDOWN, b"**T1**: ", b"T1 \xe2\x86\x92 T2"),
    ),
    Target("loop-pages", pages.loop_pages, _loop_pages, (*_MARKDOWN, b"**When**: ")),
    Target("loop-log", pages.loop_log, _log, (*_MARKDOWN, b"**Did:** ", b"## T1 - Iteration 1 - ")),
    Target(
        "memory-section",
        parsers.memory_section,
        _texts("# M\n\n<!-- holdfast:begin k -->\n- one\n- two\n<!-- holdfast:end k -->\nrest\n"),
        (b"<!-- holdfast:begin k -->", b"<!-- holdfast:end k -->", b"- one", b"\r\n", b"## "),
    ),
    Target(
        "notes",
        parsers.notes,
        _texts(
            "# Workflow state\nWorkflow: Texts\nPhase: 2/3 - Draft\n- @docs/a.md\n",
            "# Plan\n\nStatus: 🔄 In Progress\nWorkflow: x\n## Phase 1: A ✅\n## Phase 2: B 🔄\n",
        ),
        (b"Workflow:", b"Phase:", b"4/10", b"@", "🔄".encode(), b"phase 9 of 3", b"Status:"),
    ),
    Target(
        "transcript",
        parsers.transcript,
        _texts(
            '{"x":1}\n{"sessionId":"a"}\n{"id":"1"}\n{"$set":{"messages":[],'
            f'"lastUpdated":"{parsers.AT}"}}}}\n'
        ),
        (b'\n{"sessionId":', b'\n{"$set":{"messages":[', b'\n{"id":', b'"lastUpdated":"'),
    ),
    Target(
        "test-log", parsers.test_log, inputs.test_logs, _words("FAILED PASS ok --- panic: Tests:")
    ),
    Target(
        "memory-file",
        parsers.memory_file,
        lambda: [
            b"\n".join(
                json.dumps({"type": kind, **told}).encode()
                for kind, told in (("entity", _ENTITY), ("relation", _RELATION))
            )
        ],
        (*_JSON, b'"type"', b'"entity"', b'"relation"', b'"observations"'),
    ),
    Target("hook-input", talks.hook_input, _dumped(*_EVENTS), _JSON, is_slow=True),
    Target(
        "mcp-workflows",
        talks.mcp_workflows,
        _dumped(
            *_GREETINGS,
            _call("status", show=True),
            _call("resume"),
            _call("task", action="start", task=1),
            _call("gate", action="run", gate="x"),
            _call("start", recipe="dev", subject="x", tasks=["a"], context={"a": 1}),
            _ask("resources/list"),
            _ask("resources/read", uri="holdfast://workflow/x"),
        ),
        (*_JSON, b'"method"', b'"params"', b'"arguments"', b'"_meta"', b"holdfast://", b"\n"),
        is_slow=True,
    ),
    Target(
        "mcp-memory",
        talks.mcp_memory,
        _dumped(
            *_GREETINGS,
            _call("create_entities", entities=[_ENTITY]),
            _call("create_relations", relations=[_RELATION]),
            _call("add_observations", observations=[{"entityName": "a", "contents": ["x"]}]),
            _call("search_nodes", query="a", ranked=True, limit=3),
            _call("open_nodes", names=["a"]),
            _call("delete_entities", entityNames=["a"]),
            _call("read_graph"),
        ),
        (*_JSON, b'"method"', b'"params"', b'"arguments"', b'"_meta"', b"\n"),
        is_slow=True,
    ),
    Target(
        "command-line",
        talks.command_line,
        _texts(
            "start\0dev\0docs/x.md\0--task\0a\0--set\0k=1",
            "task\0done\0001\0--commit\0004f5e6d7",
            "gate\0run\0lint\0--\0make",
            "log\0--json\0-w\0x",
        ),
        _words("-- --json --help -w = start task done help --set k={} k=[1, --task= loop recipes"),
    ),
    Target(
        "typed-line",
        talks.typed_line,
        _texts("start de", "task done ", "show --workflow = ", "gate run 'li", 'set "a b'),
        _words("-- --json -w = : @ ' \" \\ start task done show $ ` ! loop recipes show"),
        is_slow=True,
    ),
)
BY_NAME = {target.name: target for target in TARGETS}
