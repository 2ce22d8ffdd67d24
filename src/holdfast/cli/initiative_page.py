"""The page of an initiative: what was done, its milestones as a table, what belongs to it."""

from __future__ import annotations

from holdfast.cli.pages import bar
from holdfast.cli.terminal_text import cells, clean, padded, shortened
from holdfast.core.initiative import CREATE
from holdfast.core.refusal import word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.cli.screen import Screen
    from holdfast.core.types import Fields

_TITLE, _SHORTEST = 60, 12
_BAR, _SHORT_BAR, _NARROW = 20, 10, 80
_COUNTED = 7
"""Columns for how many tasks are done."""


def initiative_page(screen: Screen, data: Any) -> Iterator[str]:
    fields = data["fields"]
    one = fields["initiative"]
    if "said" in data:
        about = f"  {screen.paint(_position(screen, one), 'dim')}" if one else ""
        yield f"{screen.mark('completed')} {clean(data['said'])}{about}"
        if one:
            yield f"  next: {clean(one['next'])}"
        return
    if one is None:
        yield "No initiative is known here."
        yield from _elsewhere(screen, fields)
        if not fields["recoverable"]:
            yield screen.paint(f"  next: {CREATE}", "dim")
        return
    yield f"{_mark(screen, one['status'])} {screen.paint(clean(one['name']), 'strong')}  " + (
        screen.paint(_position(screen, one), "dim")
    )
    if one.get("reason"):
        yield "  " + screen.paint(f"blocked: {clean(one['reason'])}", "warn")
    yield ""
    yield from _table(screen, one)
    yield from _workflows(screen, fields["workflows"])
    yield from _files(screen, fields)
    yield from _elsewhere(screen, fields)
    yield ""
    yield f"  next: {clean(one['next'])}"


def _position(screen: Screen, one: Fields) -> str:
    facts = [one["status"].replace("_", " "), f"milestones {one['completed']}/{one['total']}"]
    if one["current_milestone"] and one["status"] not in ("completed", "archived"):
        facts.insert(1, f"current {one['current_milestone']}")
    return clean(screen.dot().join([*facts, screen.age(one["updated_at"])]))


def _mark(screen: Screen, status: str) -> str:
    known = {"created": "pending", "archived": "completed"}
    return screen.mark(known.get(status, status))


def _table(screen: Screen, one: Fields) -> Iterator[str]:
    widest = max([cells(clean(each["id"])) for each in one["milestones"]], default=0)
    length = _BAR if (screen.width or _NARROW) >= _NARROW else _SHORT_BAR
    longest = _TITLE
    if screen.width is not None:
        free = screen.width - (widest + length + _COUNTED + 8)
        longest = max(_SHORTEST, min(_TITLE, free))
    titles = [shortened(clean(each["title"]), longest) for each in one["milestones"]]
    room = max([cells(title) for title in titles], default=0)
    for each, title in zip(one["milestones"], titles, strict=True):
        done = sum(task["done"] for task in each["tasks"])
        total = len(each["tasks"])
        is_completed = each["status"] == "completed"
        share = 1.0 if is_completed else (done / total if total else 0.0)
        counted = f"{done}/{total}" if total else ("done" if is_completed else "")
        is_current = each["id"] == one["current_milestone"] and not is_completed
        name = padded(clean(each["id"]), widest)
        yield (
            f"  {screen.mark(each['status'])} "
            f"{screen.paint(name, 'strong') if is_current else name}  {padded(title, room)}  "
            f"{bar(screen, share, length)} {counted}"
        ).rstrip()
        if is_current:
            for task in each["tasks"]:
                mark = screen.mark("completed" if task["done"] else "pending")
                yield f"      {mark} {clean(task['text'])}"


def _workflows(screen: Screen, rows: list[Fields]) -> Iterator[str]:
    if rows:
        yield ""
        yield "  " + screen.paint("Workflows", "strong")
    for row in rows:
        facts = [row["milestone"] or "", row["status"].replace("_", " ")]
        if row["phase"] and row["status"] in ("in_progress", "blocked"):
            facts.append(f"phase {row['phase_index']}/{row['phase_total']} {row['phase']}")
        about = screen.paint(clean(screen.dot().join([fact for fact in facts if fact])), "dim")
        known = {"abandoned": "pending", "expired": "pending"}
        mark = screen.mark(known.get(str(row["status"])) or str(row["status"]))
        yield f"  {mark} {clean(row['id'])}  {clean(row['title'])}  {about}"


def _files(screen: Screen, fields: Fields) -> Iterator[str]:
    places = [place for place in (fields["status_file"], *fields["pages"]) if place]
    if places:
        yield ""
        yield "  " + screen.paint("Files", "strong")
    for place in places:
        yield "  " + screen.paint(clean(place), "dim")
    for text in fields["disagreements"]:
        yield "  " + screen.paint(clean(text), "warn")


def _elsewhere(screen: Screen, fields: Fields) -> Iterator[str]:
    if fields["others"]:
        yield ""
        yield "  " + screen.paint("Other initiatives", "strong")
    for other in fields["others"]:
        about = screen.paint(other["status"].replace("_", " "), "dim")
        yield f"  {_mark(screen, other['status'])} {clean(other['name'])}  {about}"
    if fields["recoverable"]:
        yield ""
        yield "  " + screen.paint("Found in the milestone files", "strong")
    for folder in fields["recoverable"]:
        yield f"  {clean(folder)}: holdfast initiative recover {clean(word(folder))}"
