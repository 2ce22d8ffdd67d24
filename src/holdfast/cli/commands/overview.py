"""``holdfast`` alone and ``holdfast context``: what is going on here.

``holdfast`` alone names the commands that are likely next. It only reads, so it can be typed
anywhere at any time; a folder without a ledger stays so. ``context`` says which layers know what.
"""

from __future__ import annotations

import os

from holdfast.adopt.unknown_workflows import announcement
from holdfast.answers import row_view
from holdfast.cli.answer import Answer
from holdfast.cli.commands.workflow import status_table
from holdfast.cli.parser import command
from holdfast.cli.screen import Screen, count_cells, pad
from holdfast.core.next_step import next_step
from holdfast.core.refusal import shell_word
from holdfast.core.visible import clean
from holdfast.errors import HoldfastError, ways_to_write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.cli.parser import Arguments
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper
    from holdfast.keeper.overview import Overview

    Next = tuple[str, str]
    """A command, and what it is for."""

_MAX_ROWS = 8
_MAX_COMMANDS, _MAX_RECORDS = 3, 3
_ABOUT_MIN_COLUMNS = 30
_MAX_LEARNINGS, _MAX_AGENTS = 5, 4
_LABEL_COLUMNS = 13
_LAYER_NAMES = {"L1": "File state", "L2": "Auto-memory", "L3": "MCP Memory"}
_LAYER_STATES = {
    "completed": "completed: nothing is in progress",
    "nothing yet": "nothing written yet",
    "learnings": "what was learned",
}
_CONTEXT_ROW = (
    "id", "recipe", "title", "status", "phase", "phase_index", "phase_total", "tasks_done",
    "tasks_total", "branch", "worktree", "updated_at",
)  # fmt: skip
_WATCH = ("holdfast watch", "see it move")
_START = ("holdfast start RECIPE SUBJECT", "open a workflow, such as: start dev docs/login.md")
_DEMO = ("holdfast demo", "watch a workflow survive a kill")
_RECIPES = ("holdfast recipes", "what a workflow can be opened from")


def overview(keeper: Keeper, args: Arguments) -> Answer:
    view, workspace, workflow = keeper.overview(), keeper.workspace, args["workflow"]
    asked = [] if view.damage else keeper.open_questions()
    if workflow is not None and workflow not in view.states:
        workflow = keeper.show(workflow=workflow).state["id"]
    view.mine = workflow or view.mine
    commands = _likely_commands(keeper, view, is_named=workflow is not None)[:_MAX_COMMANDS]
    fields: Fields = {
        "folder": workspace.root,
        "git": workspace.git is not None,
        "branch": workspace.branch(),
        "workflows": [row_view(row) for row in view.rows],
        "unopened": view.unopened,
        "mine": view.mine,
        "initiative": view.initiative,
        "damage": view.damage,
        "questions": [row for row in asked if workflow in (None, row["workflow"])],
        "next": [{"command": command, "about": about} for command, about in commands],
    }
    notes = [announcement(state) for state in view.strangers[:_MAX_RECORDS]]
    # An ambiguous choice needs no note: the table shows it.
    if not notes and view.rows and not view.mine and view.why and view.why.code != "ambiguous":
        notes = [view.why.message]
    if view.unwritable:
        remedy = f"make {view.unwritable} writable"
        if view.unwritable == workspace.home:
            remedy = ways_to_write(workspace.home)
        notes.append(f"nothing can be written here: {remedy}")
    return Answer(fields, lambda screen: _lines(screen, fields), [*notes, *keeper.drain_notes()])


def _likely_commands(keeper: Keeper, view: Overview, *, is_named: bool) -> list[Next]:
    """Return the commands that are likely next; ``is_named``: the caller named the workflow."""
    workspace = keeper.workspace
    # The caller's workflow, else the newest that could be theirs.
    candidates: Any = [view.mine]
    if view.mine is None and view.why is not None:
        candidates = view.why.details["candidates"]
    likely = [row for row in view.rows if row["id"] in candidates]
    row = next(iter([*likely, *view.rows]), None)
    if view.unwritable:
        doctor = ("holdfast doctor", "what is wrong here, and how to fix it")
        if row is None:
            return [doctor, _RECIPES, _DEMO]
        return [(f"holdfast show {shell_word(row['id'])}", "all about it"), doctor, _WATCH]
    if view.damage:
        return [
            ("holdfast verify", "all that is damaged, line by line"),
            ("holdfast repair", "put it aside and rebuild the rest; nothing is deleted"),
            ("holdfast status", "the workflows that can be read"),
        ]
    initiative = view.initiative["name"] if view.initiative else ""
    goal = [(command, f"for the initiative {initiative}") for command in view.goal]
    if view.recoverable is not None:
        what, recover = view.recoverable
        goal.append((recover, what))
    if row is None:
        return _starting(view, goal, is_connected=workspace.is_connected())
    switch: list[Next] = []
    is_here = workspace.git is not None and row["worktree"] == workspace.name
    is_on_branch = row["floating"] or row["branch"] in (None, workspace.branch())
    if is_here and not is_on_branch and workspace.can_switch(row["branch"]):
        about = f"the branch that {row['id']} is for"
        switch = [(f"git switch {shell_word(row['branch'])}", about)]
    name, state = shell_word(row["id"]), view.states.get(view.mine or "")
    if state is None:
        take = (f"holdfast resume {name}", "take this one up: its briefing")
        return [*switch, take, (f"holdfast show {name}", "all about it"), *goal[:1], _WATCH]
    following = next_step(state, keeper.session.facts.of_next_step(state), is_named=is_named)
    step = (following.text, following.remark) if following else (f"holdfast show {name}", "")
    resume = "holdfast resume" + (f" {shell_word(state['id'])}" if is_named else "")
    return [*switch, step, (resume, "the briefing, in a new session"), *goal[:1], _WATCH]


def _starting(view: Overview, goal: list[Next], *, is_connected: bool) -> list[Next]:
    """Return what can be begun, or brought back."""
    if view.strangers:
        adopt = f"holdfast resume {shell_word(view.strangers[0]['id'])}"
        return [(adopt, "take in the record that stands here"), _START, _RECIPES]
    if not view.seq:
        setup = ("holdfast init", "let Claude Code, Codex or Gemini CLI brief every session")
        return [*goal, _START, _RECIPES if is_connected else setup, _DEMO]
    back = [
        (f"holdfast resume {shell_word(row['id'])}", f"it was {row['status'].replace('_', ' ')}")
        for row in view.ended[:1]
        if row["status"] != "completed"
    ]
    start = [_START] if len(goal) < 2 else []
    return [*goal, *back, *start, _RECIPES, ("holdfast log --limit 10", "what happened here")]


def _lines(screen: Screen, fields: Fields) -> Iterator[str]:
    folder = clean(os.path.basename(fields["folder"]) or fields["folder"])
    branch = "no branch" if fields["git"] else "not a git repository"
    if fields["branch"]:
        branch = clean(f"branch {fields['branch']}")
    yield f"{screen.paint(folder, 'strong')}{screen.dot}{branch}"
    rows = fields["workflows"]
    if rows:
        yield from status_table(screen, rows[:_MAX_ROWS])
        more = max(0, len(rows) - _MAX_ROWS) + fields["unopened"]
        if more:
            yield screen.paint(f"  and {more} more: holdfast status", "dim")
    else:
        yield "No workflow is active here."
    initiative = fields["initiative"]
    if initiative is not None:
        milestone = initiative["current_milestone"]
        facts = [
            f"initiative {initiative['name']}",
            initiative["status"].replace("_", " "),
            *([f"current {milestone}"] if milestone else []),
            f"milestones {initiative['completed']}/{initiative['total']}",
        ]
        mark = "blocked" if initiative["status"] == "blocked" else "in_progress"
        yield screen.row(mark, screen.dot.join(facts))
    for line in fields["damage"]:
        yield screen.row("blocked", line)
    if fields["questions"]:
        from holdfast.cli.commands.questions import waiting_lines

        yield from waiting_lines(screen, fields["questions"])
    yield ""
    yield from _command_lines(screen, fields["next"])


def _command_lines(screen: Screen, rows: list[Fields]) -> Iterator[str]:
    """Yield each command with what it is for, beside it or, on a narrow terminal, below it."""
    widest = max([count_cells(clean(row["command"])) for row in rows])
    is_wide = screen.width is None or screen.width - widest >= _ABOUT_MIN_COLUMNS
    for row in rows:
        command, about = clean(row["command"]), clean(row["about"])
        if is_wide:
            about = screen.fitted(about, widest + 5)
            yield f"  {pad(command, widest)}   {screen.paint(about, 'dim')}".rstrip()
        else:
            yield f"  {command}"
            yield screen.paint(f"      {screen.fitted(about, 6)}", "dim")


@command(
    "context: show all that is going on here, and which layers know of it",
    "holdfast context",
    "holdfast context --json",
)
def context(keeper: Keeper, _args: Arguments) -> Answer:
    from holdfast.initiatives import Initiatives
    from holdfast.keeper.logs import FINAL, find_recoverable, initiative_view

    # The layers come first: listing the workflows updates layers that are behind.
    layers, notes = keeper.context()
    rows, more_notes = keeper.workflows()
    initiatives = Initiatives(keeper).all()
    initiative = initiatives["all"].get(initiatives["current"] or "")
    recoverable = None
    if initiative is None or initiative["status"] in FINAL:
        try:
            recoverable = find_recoverable(keeper.session, initiatives)
        except HoldfastError as error:
            more_notes.append(f"{error.message}: {error.hint}")
    interviews = keeper.interviews().show()["interviews"]
    delegations = keeper.delegations().list()
    learnings = keeper.learnings()
    fields = {
        **layers,
        "workflows": [{name: row[name] for name in _CONTEXT_ROW} for row in rows],
        "initiative": initiative and initiative_view(str(initiatives["current"]), initiative),
        "recover": recoverable and {"about": recoverable[0], "command": recoverable[1]},
        "interview": interviews[-1] if interviews else None,
        "delegations": delegations["summary"] if delegations["entries"] else None,
        "learnings": list(reversed(learnings))[:_MAX_LEARNINGS],
    }
    notes = [*notes, *more_notes, *keeper.drain_notes()]
    return Answer(fields, lambda screen: _context_lines(screen, fields), notes)


def _context_lines(screen: Screen, fields: Fields) -> Iterator[str]:
    """Yield the work first, then what was learned, then the layers."""
    for row in fields["workflows"]:
        phase = f"phase {row['phase_index']}/{row['phase_total']} {row['phase']}"
        tasks = f"tasks {row['tasks_done']}/{row['tasks_total']}"
        about = screen.dim(
            phase if row["phase"] else "",
            tasks if row["tasks_total"] else "",
            screen.age(row["updated_at"]),
        )
        mark = screen.mark("blocked" if row["status"] == "blocked" else "in_progress")
        title = screen.paint(clean(row["title"] or row["id"]), "strong")
        yield f"{mark} {clean(row['recipe']).upper()}  {title}  {about}"
    if not fields["workflows"]:
        yield "No workflow is active here."
    yield ""
    learnings = [clean(entry["text"]) for entry in fields["learnings"]]
    for label, facts in {**_labelled_facts(screen, fields), "Learnings": learnings[:1]}.items():
        yield f"  {label:{_LABEL_COLUMNS}}" + screen.dim(*(facts or ["none"]))
    for text in learnings[1:]:
        yield " " * (_LABEL_COLUMNS + 2) + screen.dim(text)
    yield ""
    name = fields["tier"] or "none"
    yield f"{screen.paint('Layers', 'strong')}: {name}, resume: {fields['resume']}"
    yield screen.paint(f"  {fields['behaviour']}", "dim")
    for layer in fields["layers"]:
        yield _layer_line(screen, layer)


def _labelled_facts(screen: Screen, fields: Fields) -> dict[str, list[str]]:
    facts: dict[str, list[str]] = {"Initiative": [], "Interview": [], "Delegations": []}
    initiative, interview = fields["initiative"], fields["interview"]
    if initiative is not None:
        is_over = initiative["status"] in ("completed", "archived")
        facts["Initiative"] = [
            initiative["name"],
            initiative["status"].replace("_", " "),
            "" if is_over else initiative["current_milestone"] or "",
            f"milestones {initiative['completed']}/{initiative['total']}",
            screen.age(initiative["updated_at"]),
        ]
    elif fields["recover"] is not None:
        recovery = fields["recover"]
        facts["Initiative"] = ["none is known", f"{recovery['about']}: {recovery['command']}"]
    if interview is not None:
        confidence, at = interview.get("confidence"), interview.get("timestamp")
        facts["Interview"] = [
            str(interview["skill"]),
            "" if confidence is None else f"confidence {confidence}",
            screen.age(at) if at else "",
        ]
    if fields["delegations"] is not None:
        agents = sorted(fields["delegations"]["agents"], key=lambda row: -int(row["count"]))
        handed_over = sum(row["count"] for row in fields["delegations"]["escalations"])
        facts["Delegations"] = [f"{row['agent']} {row['count']}" for row in agents[:_MAX_AGENTS]]
        facts["Delegations"] += [f"{handed_over} handed over"] if handed_over else []
    return facts


def _layer_line(screen: Screen, layer: Fields) -> str:
    """Return ``MCP Memory: ✗ (degraded mode)``, or the layer's file and what it says."""
    name, position, state = _LAYER_NAMES[layer["layer"]], layer["position"], layer["state"]
    why = layer.get("why", "")
    if not layer["available"] or state == "unavailable":
        if state in ("completed", "nothing yet"):
            mark, words = screen.mark("pending"), _LAYER_STATES[state]
            return f"  {name}: {mark} {screen.paint(words, 'dim')}"
        no = screen.paint("✗" if screen.fancy else "no", "bad")
        if layer["layer"] == "L3":
            return f"  {name}: {no} (degraded mode){screen.dim(screen.dot + why) if why else ''}"
        return f"  {name}: {no} ({clean(why or state)})"
    if isinstance(position, dict):
        # Other programs write into the graph too, so any of it may be missing.
        keys = ("type", "phase_index", "phase", "initiative", "status", "milestone")
        said = {**position, "status": str(position.get("status", "")).replace("_", " ")}
        words = " ".join(str(said[key]) for key in keys if said.get(key))
        position = screen.dot.join([words, screen.age(position["updated"] or "")])
    yes = screen.paint("✓" if screen.fancy else "yes", "good")
    about = screen.dim(position or _LAYER_STATES.get(state, ""), layer["target"] or "")
    return f"  {name}: {yes} {about}"
