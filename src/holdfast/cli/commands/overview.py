"""``holdfast`` alone and ``holdfast context``: what is going on here.

``holdfast`` alone names the commands that are likely next. It only reads, so it can be typed
anywhere at any time; a folder without a ledger stays so. ``context`` says which layers know what.
"""

from __future__ import annotations

import os

from holdfast.adopt.unknown_records import announcement
from holdfast.answers.json import row_view
from holdfast.answers.text import clean
from holdfast.cli.answer import page
from holdfast.cli.commands.workflow import status_table
from holdfast.cli.parser import command
from holdfast.cli.screen import cells, padded
from holdfast.core.next_step import next_step
from holdfast.core.refusal import word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.cli.answer import Answer
    from holdfast.cli.parser import Arguments
    from holdfast.cli.screen import Screen
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper
    from holdfast.keeper.overview import Overview
    from holdfast.workspace.location import Workspace

    Next = tuple[str, str]
    """A command, and what it is for."""

_MAX_ROWS = 8
_MAX_COMMANDS, _MAX_RECORDS = 3, 3
_ABOUT_MIN_COLUMNS = 30
_MAX_LEARNINGS, _MAX_AGENTS = 5, 4
_LABEL_COLUMNS = 13
_LAYER_NAMES = {"L1": "File state", "L2": "Auto-memory", "L3": "MCP Memory"}
_CONTEXT_ROW = (
    "id", "recipe", "title", "status", "phase", "phase_index", "phase_total", "tasks_done",
    "tasks_total", "branch", "worktree", "updated_at",
)  # fmt: skip
_WATCH = ("holdfast watch", "see it move")
_START = ("holdfast start RECIPE SUBJECT", "open a workflow, such as: start dev docs/login.md")
_DEMO = ("holdfast demo", "watch a workflow survive a kill")
_RECIPES = ("holdfast recipes", "what a workflow can be opened from")


def overview(keeper: Keeper, args: Arguments) -> Answer:
    found = keeper.overview()
    workflow = args["workflow"]
    if workflow is not None and workflow not in found.states:
        workflow = keeper.show(workflow=workflow).state["id"]
    found.mine = workflow or found.mine
    workspace = keeper.workspace
    commands = _likely_commands(found, workspace, args["workflow"])[:_MAX_COMMANDS]
    fields: Fields = {
        "folder": workspace.root,
        "git": workspace.git is not None,
        "branch": workspace.branch(),
        "workflows": [row_view(row) for row in found.rows],
        "unopened": found.unopened,
        "mine": found.mine,
        "initiative": found.initiative,
        "damage": found.damage,
        "next": [{"command": command, "about": about} for command, about in commands],
    }
    notes = [*_record_notes(found), *_read_only_notes(found, workspace), *keeper.noticed()]
    return page(fields, lambda screen: _lines(screen, fields), notes)


def _record_notes(found: Overview) -> list[str]:
    """Announce records that are not adopted yet, or say why no active workflow is the caller's.

    An ambiguous choice needs no note: the table shows it.
    """
    if found.strangers:
        return [announcement(state) for state in found.strangers[:_MAX_RECORDS]]
    is_seen = found.why is None or found.why.code == "ambiguous" or not found.rows
    return [] if is_seen or found.mine or found.why is None else [found.why.message]


def _read_only_notes(found: Overview, workspace: Workspace) -> list[str]:
    if not found.unwritable:
        return []
    way = f"make {found.unwritable} writable"
    if found.unwritable == workspace.home:
        from holdfast.errors import ways_to_write

        way = ways_to_write(workspace.home)
    return [f"nothing can be written here: {way}"]


def _likely_commands(found: Overview, workspace: Workspace, aimed: str | None) -> list[Next]:
    if found.unwritable:
        return _reading(found)
    continuing = [*_switch(found, workspace), *_continuing(found, aimed)]
    return _repairing(found) or continuing or _starting(found)


def _reading(found: Overview) -> list[Next]:
    """Return the commands for a workspace where nothing can be written."""
    doctor = ("holdfast doctor", "what is wrong here, and what mends it")
    row = _likely_row(found)
    if row is None:
        return [doctor, _RECIPES, _DEMO]
    return [(f"holdfast show {word(row['id'])}", "all about it"), doctor, _WATCH]


def _repairing(found: Overview) -> list[Next]:
    if not found.damage:
        return []
    return [
        ("holdfast verify", "all that is damaged, line by line"),
        ("holdfast repair", "put it aside and rebuild the rest; nothing is deleted"),
        ("holdfast status", "the workflows that can be read"),
    ]


def _likely_row(found: Overview) -> Fields | None:
    """Return the row of the caller's workflow, else of the newest that could be theirs."""
    candidates: Any = [found.mine]
    if found.mine is None and found.why is not None:
        candidates = found.why.details["candidates"]
    rows = [row for row in found.rows if row["id"] in candidates]
    return next(iter([*rows, *found.rows]), None)


def _switch(found: Overview, workspace: Workspace) -> list[Next]:
    """Return the way to the workflow's branch, if another one is checked out."""
    row = _likely_row(found)
    if row is None or workspace.git is None or row["worktree"] != workspace.name:
        return []
    if row["floating"] or row["branch"] in (None, workspace.branch()):
        return []
    if not workspace.can_switch(row["branch"]):
        return []
    return [(f"git switch {word(row['branch'])}", f"the branch that {row['id']} is for")]


def _continuing(found: Overview, aimed: str | None) -> list[Next]:
    """Return how to go on with the caller's workflow, else with one of the active ones."""
    if not found.rows:
        return []
    goal = _goal(found)[:1]
    state = found.states.get(found.mine or "")
    if state is None:
        newest = word((_likely_row(found) or found.rows[0])["id"])
        take = (f"holdfast resume {newest}", "take this one up: its briefing")
        return [take, (f"holdfast show {newest}", "all about it"), *goal, _WATCH]
    about, words = next_step(state, is_named=aimed is not None) or ("", ["show", state["id"]])
    step = " ".join(["holdfast", *map(word, words)])
    resume = "holdfast resume" + (f" {word(state['id'])}" if aimed else "")
    return [(step, about), (resume, "the briefing, in a new session"), *goal, _WATCH]


def _starting(found: Overview) -> list[Next]:
    """Return what can be begun, or brought back."""
    if found.strangers:
        adopt = f"holdfast resume {word(found.strangers[0]['id'])}"
        return [(adopt, "take in the record that stands here"), _START, _RECIPES]
    if not found.seq:
        setup = ("holdfast init", "let Claude Code, Codex or Gemini CLI brief every session")
        return [_START, setup, _DEMO]
    goal = _goal(found)
    back = [
        (f"holdfast resume {word(row['id'])}", f"it was {row['status'].replace('_', ' ')}")
        for row in found.ended[:1]
        if row["status"] != "completed"
    ]
    start = [_START] if len(goal) < 2 else []
    return [*goal, *back, *start, _RECIPES, ("holdfast log --limit 10", "what happened here")]


def _goal(found: Overview) -> list[Next]:
    name = found.initiative["name"] if found.initiative else ""
    return [(command, f"for the initiative {name}") for command in found.goal]


def _lines(screen: Screen, fields: Fields) -> Iterator[str]:
    folder = clean(os.path.basename(fields["folder"]) or fields["folder"])
    branch = "no branch" if fields["git"] else "not a git repository"
    if fields["branch"]:
        branch = clean(f"branch {fields['branch']}")
    yield f"{screen.paint(folder, 'strong')}{screen.dot}{branch}"
    yield from _workflow_lines(screen, fields["workflows"], fields["unopened"])
    initiative = fields["initiative"]
    if initiative is not None:
        facts = [f"initiative {initiative['name']}", initiative["status"].replace("_", " ")]
        if initiative["current_milestone"]:
            facts.append(f"current {initiative['current_milestone']}")
        facts.append(f"milestones {initiative['completed']}/{initiative['total']}")
        mark = "blocked" if initiative["status"] == "blocked" else "in_progress"
        yield screen.row(mark, screen.dot.join(facts))
    for line in fields["damage"]:
        yield screen.row("blocked", line)
    yield ""
    yield from _command_lines(screen, fields["next"])


def _workflow_lines(screen: Screen, rows: list[Fields], unopened: int) -> Iterator[str]:
    if not rows:
        yield "No workflow is active here."
        return
    yield from status_table(screen, rows[:_MAX_ROWS])
    more = max(0, len(rows) - _MAX_ROWS) + unopened
    if more:
        yield screen.paint(f"  and {more} more: holdfast status", "dim")


def _command_lines(screen: Screen, rows: list[Fields]) -> Iterator[str]:
    """Yield each command with what it is for, beside it or, on a narrow terminal, below it."""
    widest = max([cells(clean(row["command"])) for row in rows])
    is_wide = screen.width is None or screen.width - widest >= _ABOUT_MIN_COLUMNS
    for row in rows:
        command, about = clean(row["command"]), clean(row["about"])
        if is_wide:
            about = screen.fitted(about, widest + 5)
            yield f"  {padded(command, widest)}   {screen.paint(about, 'dim')}".rstrip()
        else:
            yield f"  {command}"
            yield screen.paint(f"      {screen.fitted(about, 6)}", "dim")


@command(
    "context",
    "show all that is going on here, and which layers know of it",
    "holdfast context",
    "holdfast context --json",
)
def context(keeper: Keeper, _args: Arguments) -> Answer:
    from holdfast.initiatives.initiatives import Initiatives
    from holdfast.keeper.initiative_link import initiative_view

    # The layers come first: listing the workflows updates layers that are behind.
    layers, notes = keeper.context()
    rows, more_notes = keeper.workflows()
    initiatives = Initiatives(keeper).all()
    initiative = initiatives["all"].get(initiatives["current"] or "")
    interviews = keeper.interviews().show()["interviews"]
    delegations = keeper.delegations().list()
    learnings = keeper.learnings()
    fields = {
        **layers,
        "workflows": [{name: row[name] for name in _CONTEXT_ROW} for row in rows],
        "initiative": initiative and initiative_view(str(initiatives["current"]), initiative),
        "interview": interviews[-1] if interviews else None,
        "delegations": delegations["summary"] if delegations["entries"] else None,
        "learnings": list(reversed(learnings))[:_MAX_LEARNINGS],
    }
    notes = [*notes, *more_notes, *keeper.noticed()]
    return page(fields, lambda screen: context_lines(screen, fields), notes)


def context_lines(screen: Screen, fields: Fields) -> Iterator[str]:
    """Yield the work first, then what was learned, then the layers."""
    yield from _work(screen, fields["workflows"])
    yield _line(screen, "Initiative", _initiative(screen, fields["initiative"]))
    yield _line(screen, "Interview", _interview(screen, fields["interview"]))
    yield _line(screen, "Delegations", _delegations(screen, fields["delegations"]))
    learnings = [clean(entry["text"]) for entry in fields["learnings"]]
    yield _line(screen, "Learnings", learnings[0] if learnings else "none")
    for text in learnings[1:]:
        yield " " * (_LABEL_COLUMNS + 2) + screen.paint(text, "dim")
    yield ""
    name = fields["tier"] or "none"
    yield f"{screen.paint('Layers', 'strong')}: {name}, resume: {fields['resume']}"
    yield screen.paint(f"  {fields['behaviour']}", "dim")
    for layer in fields["layers"]:
        yield _layer(screen, layer)


def _work(screen: Screen, rows: list[Fields]) -> Iterator[str]:
    for row in rows:
        facts = []
        if row["phase"]:
            facts.append(f"phase {row['phase_index']}/{row['phase_total']} {row['phase']}")
        if row["tasks_total"]:
            facts.append(f"tasks {row['tasks_done']}/{row['tasks_total']}")
        facts.append(screen.age(row["updated_at"]))
        mark = screen.mark("blocked" if row["status"] == "blocked" else "in_progress")
        title = screen.paint(clean(row["title"] or row["id"]), "strong")
        yield f"{mark} {clean(row['recipe']).upper()}  {title}  {screen.dim(*facts)}"
    if not rows:
        yield "No workflow is active here."
    yield ""


def _line(screen: Screen, label: str, text: str) -> str:
    return f"  {label:{_LABEL_COLUMNS}}" + screen.paint(text, "dim")


def _initiative(screen: Screen, initiative: Fields | None) -> str:
    if initiative is None:
        return "none"
    facts = [clean(initiative["name"]), initiative["status"].replace("_", " ")]
    if initiative["current_milestone"] and initiative["status"] not in ("completed", "archived"):
        facts.append(clean(initiative["current_milestone"]))
    facts.append(f"milestones {initiative['completed']}/{initiative['total']}")
    facts.append(screen.age(initiative["updated_at"]))
    return screen.dot.join(facts)


def _interview(screen: Screen, interview: Fields | None) -> str:
    if interview is None:
        return "none"
    facts = [clean(interview["skill"])]
    if interview.get("confidence") is not None:
        facts.append(f"confidence {interview['confidence']}")
    if interview.get("timestamp"):
        facts.append(screen.age(interview["timestamp"]))
    return screen.dot.join(facts)


def _delegations(screen: Screen, summary: Fields | None) -> str:
    if summary is None:
        return "none"
    agents = sorted(summary["agents"], key=lambda row: -int(row["count"]))
    facts = [f"{clean(row['agent'])} {row['count']}" for row in agents[:_MAX_AGENTS]]
    if summary["escalations"]:
        facts.append(f"{sum(row['count'] for row in summary['escalations'])} handed over")
    return screen.dot.join(facts)


def _layer(screen: Screen, layer: Fields) -> str:
    """Return ``MCP Memory: ✗ (degraded mode)``, or the layer's file and what it says."""
    name = _LAYER_NAMES[layer["layer"]]
    glyph = ("✓", "✗") if screen.fancy else ("yes", "no")
    if not layer["available"]:
        why = "(degraded mode)" if layer["layer"] == "L3" else f"({clean(_missing(layer))})"
        if layer["layer"] == "L3" and layer.get("why"):
            why += screen.paint(f"{screen.dot}{clean(layer['why'])}", "dim")
        return f"  {name}: {screen.paint(glyph[1], 'bad')} {why}"
    position = layer["position"]
    if isinstance(position, dict):
        # Other programs write into the graph too, so any of it may be missing.
        names = ("type", "phase_index", "phase")
        named = " ".join(position[name] for name in names if position[name])
        position = screen.dot.join([named, screen.age(position["updated"] or "")])
    about = screen.dot.join([clean(text) for text in (position, layer["target"]) if text])
    return f"  {name}: {screen.paint(glyph[0], 'good')} {screen.paint(about, 'dim')}"


def _missing(layer: Fields) -> str:
    if layer.get("why"):
        return str(layer["why"])
    if layer["layer"] == "L1":
        return "no record of an active workflow"
    return "off" if layer["target"] is None else "nothing of ours is in it"
