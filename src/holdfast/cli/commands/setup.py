"""Commands that set Holdfast up for a client, serve the client, and check it all.

``holdfast memory`` is here because its graph is the one of ``holdfast mcp memory``.
"""

from __future__ import annotations

import os

from holdfast import answers
from holdfast.cli.answer import Answer, Silence, answer_done
from holdfast.cli.main import open_keeper, wait_s
from holdfast.cli.parser import GROUPS, Parameter, Usage, command
from holdfast.core.visible import clean, clean_exactly
from holdfast.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.cli.parser import Arguments
    from holdfast.cli.screen import Screen, Tone
    from holdfast.core.types import Fields
    from holdfast.install import SetupOutcome
    from holdfast.keeper import Keeper
    from holdfast.layers.graph.memory_graph import MemoryGraph

GROUPS["memory"] = "search the graph of `holdfast mcp memory`, or write it as JSONL"

_SCOPE = (
    Parameter("--agent NAME", "the client: claude, codex or gemini", names="agent"),
    Parameter("--local", "your own settings in this project (.claude/settings.local.json)"),
    Parameter("--user", "your own settings everywhere (~/.claude/settings.json and its like)"),
)
_MEMORY_FILE = Parameter(
    "--file PATH",
    "the memory's JSONL file (default: MEMORY_FILE_PATH, else the person's own)",
    into="memory_file",
    names="file",
)
_DRY_RUN = Parameter("--dry-run", "only show what would change")
_UNWELL = 1
_MAX_ROWS = 10
_CHECK_MARKS = {"good": "completed", "bad": "blocked", "unknown": "pending"}
_DIFF_TONES: dict[str, Tone] = {"+": "good", "-": "bad", "@": "active"}


@command(
    "init: put the hooks into a client's settings, the team's by default",
    *_SCOPE,
    Parameter("--enforce", "also the hooks that hold an agent back: before edits, at its end"),
    Parameter("--statusline", "also a line on the workflow, beside the status line that is there"),
    _DRY_RUN,
    "holdfast init --dry-run",
    "holdfast init --agent codex --user",
    workspace=False,
)
def init(args: Arguments) -> Answer:
    from holdfast.install import init as install

    agent, scope = _choice(args)
    agent, scope = agent or "claude", scope or "team"
    outcome = install(
        agent=agent, scope=scope, enforce=args["enforce"], status_line=args["statusline"],
        dry_run=args["dry_run"],
    )  # fmt: skip
    return _answer(outcome, args, agent, scope, [] if args["dry_run"] else _to_do(agent, scope))


def _to_do(agent: str, scope: str) -> list[str]:
    """Return what a user does after ``init``, one thing in a line."""
    from holdfast.install.agents import AGENTS
    from holdfast.install.client_files import SKILL_PREFIX

    client, start = AGENTS[agent], "holdfast start dev FILE"
    if client.skills_folder(scope) is not None:
        start = f"{client.skill_call.format(SKILL_PREFIX + 'dev')}, or in a terminal: {start}"
    return [
        f"Restart {client.title} in this project: it reads its hooks when a session starts.",
        f"Then begin: {start}",
        "holdfast doctor tries everything that was set up.",
    ]


@command(
    "uninstall: take the hooks out again: untouched files are restored byte for byte",
    *_SCOPE,
    _DRY_RUN,
    "holdfast uninstall --dry-run",
    "holdfast uninstall --user",
    workspace=False,
)
def uninstall(args: Arguments) -> Answer:
    from holdfast.install import uninstall as remove

    agent, scope = _choice(args)
    outcome = remove(agent=agent, scope=scope, dry_run=args["dry_run"])
    return _answer(outcome, args, agent, scope)


def _answer(
    outcome: SetupOutcome,
    args: Arguments,
    agent: str | None,
    scope: str | None,
    to_do: Sequence[str] = (),
) -> Answer:
    fields: Fields = {
        "files": [change.as_fields() for change in outcome.changes],
        "agent": agent,
        "scope": scope,
        "dry_run": args["dry_run"],
    }
    # A line of a diff is one line, however long it is.
    answer = SetupAnswer(
        fields, lambda screen: settings_lines(screen, fields), outcome.notes, is_wrapped=False
    )
    answer.to_do = to_do
    return answer


class SetupAnswer(Answer):
    """An answer that ends with what the user does next."""

    to_do: Sequence[str] = ()

    def all_lines(self, screen: Screen) -> Iterator[str]:
        yield from super().all_lines(screen)
        if self.to_do:
            yield ""
            yield from self.to_do


def settings_lines(screen: Screen, fields: Fields) -> Iterator[str]:
    """Yield the diff of every settings file first, then what became of each."""
    for file in fields["files"]:
        is_whole = file["change"] in ("created", "removed")
        if is_whole and str(file["path"]).endswith("SKILL.md"):
            continue  # a page of ours: the line about it says enough
        for line in file["diff"].split("\n")[:-1]:
            text = line[:1] + clean_exactly(line[1:].removesuffix("\r"))
            tone = _DIFF_TONES.get(line[:1])
            yield screen.paint(text, tone) if tone else text
    for file in fields["files"]:
        became = file["change"]
        if became != "unchanged":
            became = f"would be {became}" if fields["dry_run"] else f"was {became}"
        yield screen.row("completed", f"{file['path']} {became}")
    if not fields["files"]:
        yield "Nothing of Holdfast's is in these settings."


def _choice(args: Arguments) -> tuple[str | None, str | None]:
    """Return the agent and the scope, as far as the line has them."""
    from holdfast.install.agents import AGENTS

    agent, line = args["agent"], f"holdfast {args['command']}"
    if agent is not None and agent not in AGENTS:
        raise Usage(f"--agent is one of {', '.join(AGENTS)}, not {agent[:60]!r}", line)
    if args["local"] and args["user"]:
        message = "--local and --user name two different files: give one of them"
        raise Usage(message, f"{line} --local")
    return agent, "local" if args["local"] else "user" if args["user"] else None


@command(
    "hook: answer an event of an agent's client, read from standard input",
    Parameter("--explain EVENT", "tell what would be done here, such as SessionStart"),
    "holdfast hook --explain SessionStart",
    workspace=False,
)
def hook(args: Arguments) -> Answer:
    if args["explain"] is not None:
        return _explain(args["explain"], args["session"])
    if os.isatty(0):
        message = "hook: a client says on standard input what happened; this is a terminal"
        raise Usage(message, "holdfast hook --explain SessionStart")
    from holdfast.hooks.quick_check import main

    main()
    return Silence()


@command(
    "statusline: print one line on this session's workflow, for a client's status line",
    Parameter(
        "--after COMMAND", "run this status line first, and print what it prints", names="shell"
    ),
    "holdfast statusline",
    "holdfast statusline --after 'date +%H:%M'",
    workspace=False,
)
def statusline(args: Arguments) -> Answer:
    from holdfast.hooks.statusline import AFTER, main

    main([] if args["after"] is None else [AFTER, args["after"]])
    return Silence()


def _explain(event: str, session: str | None) -> Answer:
    from holdfast.hooks.handlers import EVENTS, HookCall, plan_for
    from holdfast.hooks.quick_check import folder_of
    from holdfast.workspace.location import find

    if event not in EVENTS:
        raise Refused(
            "not_found",
            f"hook: Holdfast has no part in {event[:60]!r}; it has in {', '.join(EVENTS)}",
            "holdfast hook --explain SessionStart",
        )
    message = {"hook_event_name": event, "cwd": os.getcwd(), "stop_hook_active": False}
    if session:
        message["session_id"] = session
    plan = plan_for(HookCall(message, find(folder_of(message)).root))
    answer: Fields = plan.answer or {}
    context = answer.get("hookSpecificOutput", {}).get("additionalContext", "")

    def lines(screen: Screen) -> Iterator[str]:
        yield f"{screen.mark('in_progress')} {clean(plan.summary)}"
        if context:
            yield ""
            yield from [clean(line, is_shown=True) for line in context.split("\n")]

    return Answer({"does": plan.summary, "answer": answer, "context": context}, lines)


@command(
    "mcp: serve the workflows to an agent over MCP, on standard input and output",
    "holdfast mcp",
    workspace=False,
)
def serve_workflows(args: Arguments) -> Answer:
    _check_client(args)
    from holdfast.mcp.server import project_folder, serve
    from holdfast.mcp.workflows import WorkflowApp

    def open_shared(share: Keeper | None) -> Keeper:
        return open_keeper(args, project_folder(), by="mcp", client=os.getppid(), share=share)

    serve(WorkflowApp(open_shared))
    return Silence()


@command(
    "mcp memory: serve a memory graph over MCP, in place of the reference Memory server",
    _MEMORY_FILE,
    Parameter(
        "--jsonl",
        "write the JSONL file after each change (default: only if it exists)",
    ),
    "holdfast mcp memory",
    "holdfast mcp memory --file notes/memory.jsonl",
    workspace=False,
)
def serve_memory(args: Arguments) -> Answer:
    _check_client(args)
    from holdfast.mcp.memory import MemoryApp
    from holdfast.mcp.server import project_folder, serve

    app = MemoryApp(args["memory_file"], project_folder(), wait_s(), keep_file=args["jsonl"])
    serve(app)
    return Silence()


def _check_client(args: Arguments) -> None:
    """Raise ``Usage`` if a person started the server on a terminal."""
    if os.isatty(0):
        message = f"{args['command']}: a client speaks on standard input; this is a terminal"
        raise Usage(message, f"claude mcp add holdfast -- holdfast {args['command']}")


@command(
    "memory search: find entities of a memory graph by their words, the likeliest first",
    Parameter("QUERY", "words; all of them are in what is found"),
    Parameter(
        "--file PATH",
        "a JSONL file; default: MEMORY_FILE_PATH, this project's graph, or your memory",
        into="memory_file",
        names="file",
    ),
    Parameter("--limit N", "only the first N", kind="count"),
    "holdfast memory search 'login page' --limit 5",
    "holdfast memory search tests --file notes/memory.jsonl",
    workspace=False,
)
def search_memory(args: Arguments) -> Answer:
    query, limit = args["query"], args["limit"]
    own = None if _names_a_file(args) else _search_workspace(args)
    if own is not None:
        fields, notes = own
    else:
        with _open_graph(args) as graph:
            nodes = graph.store().search_nodes(query, ranked=True, limit=limit)
            fields, notes = {"path": graph.path, "query": query, **nodes}, graph.notes
    return Answer(fields, lambda screen: _search_lines(screen, fields), notes)


def _names_a_file(args: Arguments) -> bool:
    return bool(args["memory_file"] or os.environ.get("MEMORY_FILE_PATH"))


def _search_workspace(args: Arguments) -> tuple[Fields, list[str]] | None:
    """Search the graph of the workspace; return ``None`` where there is no ledger."""
    from holdfast.cli.main import open_keeper

    keeper = open_keeper(args)
    if not keeper.store.ledger.head_seq:
        return None
    return keeper.search_memory(args["query"], limit=args["limit"]), keeper.drain_notes()


def _search_lines(screen: Screen, fields: Fields) -> Iterator[str]:
    relations: dict[str, list[str]] = {}
    for relation in fields["relations"]:
        text = f"{relation['relationType']} {relation['to']}"
        relations.setdefault(relation["from"], []).append(text)
    for entity in fields["entities"]:
        kind = screen.paint(clean(entity["entityType"]), "dim")
        yield f"{screen.paint(clean(entity['name']), 'strong')}  {kind}"
        for text in entity["observations"][:_MAX_ROWS]:
            yield f"  {clean(text)}"
        hidden = len(entity["observations"]) - _MAX_ROWS
        if hidden > 0:
            yield screen.paint(f"  and {hidden} more: --json", "dim")
        for text in relations.get(entity["name"], [])[:_MAX_ROWS]:
            yield screen.paint(f"  {screen.arrow} {clean(text)}", "dim")
    if not fields["entities"]:
        yield f"Nothing in {clean(fields['path'])} has all of these words."


@command(
    "memory export: write a memory graph as JSONL, as the reference Memory server reads it",
    Parameter("[PATH]", "where to (default: the file it came from)", names="file"),
    _MEMORY_FILE,
    "holdfast memory export",
    "holdfast memory export /tmp/memory.jsonl",
    workspace=False,
)
def export_memory(args: Arguments) -> Answer:
    with _open_graph(args) as graph:
        fields = graph.export(args["path"])
        notes = graph.notes
    counts = f"{fields['entities']} entities and {fields['relations']} relations"
    backup = f"; the previous file is {fields['kept']}" if fields["kept"] else ""
    return answer_done(f"{counts} written to {fields['path']}{backup}", fields, notes)


def _open_graph(args: Arguments) -> MemoryGraph:
    """Open the selected graph; raise ``Refused`` if it does not exist."""
    from holdfast.layers.graph.memory_graph import MemoryGraph, path_of

    graph = MemoryGraph(path_of(args["memory_file"], os.getcwd()), wait_s=wait_s())
    if not os.path.exists(graph.path) and not os.path.exists(graph.database):
        raise Refused(
            "no_memory",
            f"memory: there is neither {graph.path} nor a database beside it",
            "name the file: --file PATH, or MEMORY_FILE_PATH",
            path=graph.path,
        )
    return graph


@command(
    "doctor: check that everything works here, and say how to fix what does not",
    "holdfast doctor",
)
def doctor(keeper: Keeper, _args: Arguments) -> Answer:
    from holdfast.install.doctor import examine

    checks = examine(keeper)

    def lines(screen: Screen) -> Iterator[str]:
        for check in checks:
            yield screen.row(_CHECK_MARKS[check["status"]], check["what"], check["found"])
            if check["hint"]:
                yield f"  next: {clean(check['hint'])}"

    is_bad = any(check["status"] == "bad" for check in checks)
    return Answer(lambda: answers.checks(checks), lines, code=_UNWELL if is_bad else 0)
