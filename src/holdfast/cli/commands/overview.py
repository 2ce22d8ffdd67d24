"""``holdfast`` alone: what is going on here, and the commands that are likely next.

It only looks, so it can be typed anywhere at any time; a folder without anything stays so.
"""

from __future__ import annotations

import os

from holdfast.adopt.unknown_records import announcement
from holdfast.cli.terminal_text import cells, clean, padded
from holdfast.core.next_step import next_step
from holdfast.core.refusal import word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.cli.screen import Screen
    from holdfast.cli.shapes import Answer, Arguments
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper
    from holdfast.keeper.overview import Overview
    from holdfast.workspace.location import Workspace

    Next = tuple[str, str]
    """A command, and what it is for."""

_MANY = 8
_THREE = 3
_ROOM = 30
"""So many columns are wanted beside the commands."""
_WATCH = ("holdfast watch", "see it move")
_START = ("holdfast start RECIPE SUBJECT", "open a workflow, such as: start dev docs/login.md")
_DEMO = ("holdfast demo", "watch a workflow survive a kill")
_RECIPES = ("holdfast recipes", "what a workflow can be opened from")


def here(keeper: Keeper, args: Arguments) -> Answer:
    found = keeper.overview()
    wanted = args["workflow"]
    if wanted is not None:
        found.mine = wanted if wanted in found.states else keeper.show(workflow=wanted).state["id"]
    workspace = keeper.workspace
    following = _following(found, workspace, wanted)
    data = {
        "folder": workspace.root,
        "git": workspace.git is not None,
        "branch": workspace.branch(),
        "workflows": found.rows,
        "unopened": found.unopened,
        "mine": found.mine,
        "initiative": found.initiative,
        "damage": found.damage,
        "next": [{"command": command, "about": about} for command, about in following[:_THREE]],
        "notes": [*_told(found), *_unwritable(found, workspace), *keeper.noticed()],
    }
    return {"kind": "here", "data": data}


def _told(found: Overview) -> list[str]:
    """Records that are not taken in yet, and why none of the active workflows is the caller's,
    where the table does not show it.
    """
    if found.strangers:
        return [announcement(state) for state in found.strangers[:_THREE]]
    is_seen = found.why is None or found.why.code == "ambiguous" or not found.rows
    return [] if is_seen or found.mine or found.why is None else [found.why.message]


def _unwritable(found: Overview, workspace: Workspace) -> list[str]:
    if not found.unwritable:
        return []
    way = f"make {found.unwritable} writable"
    if found.unwritable == workspace.home:
        from holdfast.storage.database import ways_to_write

        way = ways_to_write(workspace.home)
    return [f"nothing can be written here: {way}"]


def _following(found: Overview, workspace: Workspace, aimed: str | None) -> list[Next]:
    if found.unwritable:
        return _looking(found)
    at_work = [*_switch(found, workspace), *_at_work(found, aimed=aimed)]
    return _trouble(found) or at_work or _idle(found)


def _looking(found: Overview) -> list[Next]:
    """What can be done where nothing can be written."""
    doctor = ("holdfast doctor", "what is wrong here, and what mends it")
    row = _meant(found)
    if row is None:
        return [doctor, _RECIPES, _DEMO]
    return [(f"holdfast show {word(row['id'])}", "all about it"), doctor, _WATCH]


def _trouble(found: Overview) -> list[Next]:
    if not found.damage:
        return []
    return [
        ("holdfast verify", "all that is damaged, line by line"),
        ("holdfast repair", "put it aside and rebuild the rest; nothing is deleted"),
        ("holdfast status", "the workflows that can be read"),
    ]


def _meant(found: Overview) -> Fields | None:
    """The row of the caller's workflow, else of the newest that could be."""
    could_be: Any = [found.mine]
    if found.mine is None and found.why is not None:
        could_be = found.why.details["candidates"]
    rows = [row for row in found.rows if row["id"] in could_be]
    return next(iter([*rows, *found.rows]), None)


def _switch(found: Overview, workspace: Workspace) -> list[Next]:
    """The way to the branch of the workflow, where another one is checked out."""
    row = _meant(found)
    if row is None or workspace.git is None or row["worktree"] != workspace.name:
        return []
    if row["floating"] or row["branch"] in (None, workspace.branch()):
        return []
    if not workspace.can_switch(row["branch"]):
        return []
    return [(f"git switch {word(row['branch'])}", f"the branch that {row['id']} is for")]


def _at_work(found: Overview, aimed: str | None) -> list[Next]:
    """What goes on: with the caller's workflow, else with one of those that are active."""
    if not found.rows:
        return []
    goal = _goal(found)[:1]
    state = found.states.get(found.mine or "")
    if state is None:
        newest = word((_meant(found) or found.rows[0])["id"])
        take = (f"holdfast resume {newest}", "take this one up: its briefing")
        return [take, (f"holdfast show {newest}", "all about it"), *goal, _WATCH]
    about, words = next_step(state, is_named=aimed is not None) or ("", ["show", state["id"]])
    step = " ".join(["holdfast", *[word(each) for each in words]])
    resume = "holdfast resume" + (f" {word(state['id'])}" if aimed else "")
    return [(step, about), (resume, "the briefing, in a new session"), *goal, _WATCH]


def _idle(found: Overview) -> list[Next]:
    """What can be begun, or brought back."""
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


def here_lines(screen: Screen, data: Any) -> Iterator[str]:
    place = [screen.paint(clean(os.path.basename(data["folder"]) or data["folder"]), "strong")]
    place.append(clean(f"branch {data['branch']}") if data["branch"] else _no_branch(data))
    yield screen.dot().join(place)
    yield from _table(screen, data["workflows"], data["unopened"])
    if data["initiative"] is not None:
        yield from _initiative(screen, data["initiative"])
    for line in data["damage"]:
        yield f"{screen.mark('blocked')} {clean(line)}"
    yield ""
    yield from _next_lines(screen, data["next"])


def _next_lines(screen: Screen, rows: list[Fields]) -> Iterator[str]:
    """The commands below each other; where that is too wide, what each is for stands below it."""
    widest = max([cells(clean(row["command"])) for row in rows])
    is_wide = screen.width is None or screen.width - widest >= _ROOM
    for row in rows:
        command, about = clean(row["command"]), clean(row["about"])
        if is_wide:
            about = screen.fitted(about, widest + 5)
            yield f"  {padded(command, widest)}   {screen.paint(about, 'dim')}".rstrip()
        else:
            yield f"  {command}"
            yield screen.paint(f"      {screen.fitted(about, 6)}", "dim")


def _no_branch(data: Any) -> str:
    return "no branch" if data["git"] else "not a git repository"


def _table(screen: Screen, rows: list[Fields], unopened: int) -> Iterator[str]:
    from holdfast.cli.panels import status_table

    if not rows:
        yield "No workflow is active here."
        return
    yield from status_table(screen, rows[:_MANY])
    more = max(0, len(rows) - _MANY) + unopened
    if more:
        yield screen.paint(f"  and {more} more: holdfast status", "dim")


def _initiative(screen: Screen, one: Fields) -> Iterator[str]:
    facts = [f"initiative {one['name']}", one["status"].replace("_", " ")]
    if one["current_milestone"]:
        facts.append(f"current {one['current_milestone']}")
    facts.append(f"milestones {one['completed']}/{one['total']}")
    mark = screen.mark("blocked" if one["status"] == "blocked" else "in_progress")
    yield f"{mark} {clean(screen.dot().join(facts))}"
