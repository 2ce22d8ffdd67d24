"""The chapters in which not a person asks but a client: hooks, both servers, the settings."""

from golden.steps import Fire, Look, Replace, Run, Serve, Write, call, hello

NOTES = """\
# Current Workflow State

Workflow: Shop Pages - Product List
Phase: 4/10 - Texts

@CLAUDE/Pages.md
@docs/products.md
@../../outside.md
"""
PLAN = """\
# Plan 007: Search

**Status**: 🔄 In Progress

## Phase 1: Index ✅
## Phase 2: Query 🔄 In Progress
## Phase 3: Rank
"""
READ = {"tool_name": "Read", "tool_input": {"file_path": "{root}/docs/guide.md"}}
EDIT = {"tool_name": "Edit", "tool_input": {"file_path": "{root}/README.md"}}

HOOKS = [
    Fire("HoldfastPing", {}),
    Fire("SessionStart", {"source": "startup"}),
    Fire("Stop", {"stop_hook_active": False}),
    Fire("Whatever", {}),
    Write("docs/guide.md", "Read me.\n"),
    ("start custom 'Database Migration' --phase Backup --phase Transform --read @docs/guide.md "
    "--remind 'Back up first' --task one"),
    Fire("SessionStart", {"source": "startup"}),
    Fire("SessionStart", {"source": "startup"}, session="session-2"),
    Fire("PostToolUse", {**READ, "tool_response": {"type": "text"}, "agent_id": "sub"}),
    Fire("PostToolUse", {**READ, "tool_response": {"file": {
        "startLine": 1, "numLines": 2, "totalLines": 9}}}),
    Fire("PostToolUse", {**READ, "tool_response": {"type": "text"}}),
    "show",
    Fire("PreCompact", {"trigger": "auto", "custom_instructions": None}),
    Fire("PreCompact", {"trigger": "auto", "custom_instructions": None}),
    Fire("SessionStart", {"source": "compact"}),
    "show",
    Run("ask 'Which tool?' --choice pg_dump --choice rsync", session="session-1"),
    Fire("UserPromptSubmit", {"prompt": "go on"}),
    Run("answer 1 2", session=""),
    Fire("UserPromptSubmit", {"prompt": "go on"}),
    Fire("UserPromptSubmit", {"prompt": "go on"}),
    Fire("AfterTool", {"tool_name": "read_file",
                       "tool_input": {"absolute_path": "{root}/docs/guide.md"}}),
    Fire("PreCompress", {"trigger": "auto"}),
    Fire("PreCompress", {"trigger": "manual"}),
    Fire("BeforeAgent", {"prompt": "go on"}),
    Fire("BeforeAgent", {"prompt": "go on"}),
    Fire("PreToolUse", EDIT),
    Fire("Stop", {"stop_hook_active": False}),
    Write(".claude/holdfast.toml", 'enforce = ["reading", "stop"]\n'),
    Fire("PreToolUse", EDIT),
    Fire("BeforeTool", {"tool_name": "replace", "tool_input": {"file_path": "README.md"}}),
    Fire("Stop", {"stop_hook_active": False}),
    Fire("Stop", {"stop_hook_active": True}),
    Fire("AfterAgent", {"stop_hook_active": False}),
    Fire("SessionStart", {"source": "resume"}),
    *(
        f"hook --explain {event}"
        for event in (
            "SessionStart", "PreCompact", "PreCompress", "SessionEnd", "PostToolUse", "AfterTool",
            "PreToolUse", "BeforeTool", "Stop", "AfterAgent", "BeforeAgent", "Whatever",
        )
    ),
    Fire("PostToolUse", {**READ, "tool_response": {"type": "text"}}),
    Fire("PreToolUse", EDIT),
    "task done 1",
    Fire("Stop", {"stop_hook_active": False}),
    Write(".claude/holdfast.toml", 'enforce = ["everything"]\n'),
    Fire("SessionStart", {"source": "clear"}),
    Fire("PreToolUse", EDIT),
    Write(".claude/holdfast.toml", ""),
    Look(),
    Fire("SessionEnd", {"reason": "clear"}),
    Fire("SessionEnd", {"reason": "other"}),
    "show database-migration",
    Write("CLAUDE.local.md", NOTES),
    Write("CLAUDE/Plan/007-search/PLAN.md", PLAN),
    "hook --explain PreCompact",
    Fire("PreCompact", {"trigger": "auto"}),
    "status",
    "show shop-pages-product-list",
    Replace("CLAUDE.local.md", "4/10 - Texts", "5/10 - Pictures"),
    Fire("PreCompact", {"trigger": "manual"}),
    "show shop-pages-product-list",
    Fire("SessionStart", {"source": "compact"}, session="session-3"),
    "doctor",
    "log",
    "initiative create Tidy --milestone M1",
    "complete --force --reason x -w database-migration",
    "complete --force --reason x -w shop-pages-product-list",
    "abandon -w plan-007-search",
    Fire("SessionStart", {"source": "startup"}),
    "status",
    "verify",
]  # fmt: skip

MINE = '{\n  "model": "opus",\n  "hooks": {"Stop": []}\n}\n'
LINE = '{\n  "statusLine": {"type": "command", "command": "date"}\n}\n'
INIT = [
    "init --dry-run",
    "init",
    Look(),
    "init",
    "doctor",
    "init --enforce",
    Look(),
    "uninstall --dry-run",
    "uninstall",
    "uninstall",
    Write(".claude/settings.json", MINE),
    "init",
    Replace(".claude/settings.json", "opus", "sonnet"),
    "uninstall",
    Look(),
    "init --local",
    "init --user",
    "doctor",
    Look(),
    "uninstall --user",
    "uninstall --local",
    Write(".claude/settings.local.json", LINE),
    "init --local --statusline",
    "statusline",
    "uninstall --local",
    "init --agent codex",
    "init --agent codex --user",
    "init --agent gemini",
    "init --agent gemini --user --enforce",
    "init --agent nosuch",
    Look(),
    "uninstall --agent codex --user",
    "uninstall --agent codex",
    "uninstall --agent gemini --user",
    "uninstall",
    Write(".claude/settings.json", "{ no json\n"),
    "init",
    "doctor",
]

WORKFLOW = "holdfast://workflow/dev-b25a2dc1"
MCP = [
    Write(
        ".claude/holdfast.toml",
        '[gates.lint]\ncommand = "true"\n[gates.test]\ncommand = "echo broken; exit 3"\n',
    ),
    Serve("mcp", (
        *hello(),
        ("ping", {}),
        ("tools/list", {}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        call("status"),
        call("resume"),
        call("start", recipe="nosuch"),
        call("start", recipe="dev", subject="feature.md", title="Import", tasks=["one"],
             reading=["@README.md"], reminders=["slowly"], context={"ticket": 7}, id="r-1"),
        call("start", recipe="dev", subject="feature.md", id="r-1"),
        call("start", recipe="dev", subject="feature.md"),
        call("status"),
        call("task", action="add", text="two"),
        call("task", action="start", task=1),
        call("task", action="phase", task=1, phase="green"),
        call("task", action="done", task=1, commit="4f5e6d7"),
        call("task", action="done", task=1, commit="HEAD"),
        call("task", action="block", task=2, reason="waiting"),
        call("task", action="done", task=9),
        call("task", action="dance"),
        call("task", action="done", task="2"),
        call("phase", action="complete", name="load_feature", fields={"found": 3}),
        call("phase", action="block", name="create_branch", reason="no access"),
        call("phase", action="unblock", name="create_branch"),
        call("phase", action="advance"),
        call("phase", action="start", name="verification"),
        call("phase", action="step", name="lint"),
        call("phase", action="start"),
        call("gate", action="run", gate="lint"),
        call("gate", action="tests", command="pytest", failing=["a"], passing=["b"]),
        call("gate", action="record", gate="test", passed=True, fields={"n": 1}),
        call("note", kind="reminder", text="once more"),
        call("note", kind="reading", text="@docs/a.md"),
        call("note", kind="question", text="Which?", choices=["a", "b"], blocking=True),
        call("note", kind="answer", number=1, text="2"),
        call("note", kind="context", fields={"host": "x"}),
        call("note", kind="learning", text="short commits"),
        call("note", kind="violation", code="V-1", severity="HIGH", text="no test"),
        call("complete"),
        call("note", kind="fixed", code="V-1"),
        call("resume"),
        call("status", show=True),
        call("search", query="import", limit=1),
        ("resources/list", {}),
        ("resources/read", {"uri": WORKFLOW}),
        ("resources/read", {"uri": f"{WORKFLOW}/briefing"}),
        ("resources/read", {"uri": f"{WORKFLOW}/log"}),
        ("resources/read", {"uri": "holdfast://workflow/nosuch"}),
        ("tools/call", {"name": "nosuch", "arguments": {}}),
        ("nosuch", {}),
        call("complete", outcome="merged", force=True, reason="enough"),
    )),
    "show dev-b25a2dc1",
    "trust",
    "log",
    Replace(".claude/workflow-state/completed/dev-b25a2dc1.json", '"two"', '"second"'),
    Serve("mcp", (
        *hello("2024-11-05"),
        call("resume", workflow="dev-b25a2dc1"),
        call("status", workflow="dev-b25a2dc1"),
        call("status", workflow="nosuch"),
    )),
    "verify",
]  # fmt: skip

LOGIN = {"name": "Login", "entityType": "page", "observations": ["has a form"]}
ADA = {"name": "Ada", "entityType": "person", "observations": ["likes tests", "reviews"]}
OWNS = {"from": "Ada", "to": "Login", "relationType": "owns"}
MEMORY_SERVER = [
    Serve("mcp memory", (
        *hello(),
        ("tools/list", {}),
        ("resources/list", {}),
        call("read_graph"),
        call("create_entities", entities=[LOGIN, ADA]),
        call("create_entities", entities=[LOGIN]),
        call("create_entities", entities="none"),
        call("create_relations", relations=[OWNS]),
        call("add_observations", observations=[{"entityName": "Login", "contents": ["is slow"]}]),
        call("add_observations", observations=[{"entityName": "Nobody", "contents": ["x"]}]),
        call("search_nodes", query="form"),
        call("search_nodes", query="slow form", ranked=True, limit=1),
        call("open_nodes", names=["Ada", "Login"]),
        ("resources/read", {"uri": "memory://knowledge-graph"}),
        call("delete_observations",
             deletions=[{"entityName": "Ada", "observations": ["reviews"]}]),
        call("delete_relations", relations=[OWNS]),
        call("read_graph"),
        call("delete_entities", entityNames=["Ada"]),
        call("read_graph"),
        call("nosuch"),
    )),
    "memory search form",
    "memory export memory.jsonl",
    Serve("mcp memory --file notes/graph.jsonl", (
        *hello(),
        call("create_entities", entities=[ADA]),
        call("read_graph"),
    )),
    "memory search tests --file notes/graph.jsonl",
    "memory export --file notes/graph.jsonl",
]  # fmt: skip
