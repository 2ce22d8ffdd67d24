"""Pages for people about what stands beside the workflows; stored text comes through ``clean``."""

from __future__ import annotations

from holdfast.cli.terminal_text import cells, clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from holdfast.cli.screen import Screen
    from holdfast.core.types import Fields

_BAR = 20
_SHOWN = 10


def lines(screen: Screen, data: Any) -> Iterator[str]:
    yield from _PAGES[data["page"]](screen, data)


def _noted(screen: Screen, data: Any) -> Iterator[str]:
    yield f"{screen.mark('completed')} {clean(data['said'])}"


def _violations(screen: Screen, data: Any) -> Iterator[str]:
    fields = data["fields"]
    for found in fields["violations"]:
        mark = screen.mark("blocked" if found["code"] in fields["blocking_codes"] else "pending")
        about = screen.paint(clean(found["details"]), "dim")
        yield f"{mark} {clean(found['code'])} {clean(found['severity'])}  {about}"
    if not fields["violations"]:
        yield "No violation is known."
    elif fields["blocking"]:
        yield screen.paint(f"  {clean(fields['summary'])}: the work is not handed over", "warn")


def _interviews(screen: Screen, data: Any) -> Iterator[str]:
    fields = data["fields"]
    found = fields["interviews"]
    if not found and not fields["skips"]:
        yield "No interview was recorded."
        yield screen.paint("  next: holdfast interview record --skill S --confidence 0.8", "dim")
        return
    for entry in found[-_SHOWN:]:
        yield _interview(screen, entry)
    for entry in fields["skips"][-_SHOWN:]:
        reason = screen.paint(clean(entry.get("reason", "")), "dim")
        yield f"{screen.mark('pending')} {clean(entry['skill'])} was not asked for  {reason}"
    hidden = max(0, len(found) - _SHOWN) + fields["interviews_earlier"]
    if hidden:
        yield screen.paint(f"  {hidden} earlier: holdfast log", "dim")


def _interview(screen: Screen, entry: Fields) -> str:
    score = entry.get("confidence")
    drawn = "" if score is None else f"  {bar(screen, score)} {score:.2f}"
    asked = entry.get("questions_asked")
    told = [f"{asked} questions"] if asked else []
    told += [f"{name} {value}" for name, value in (entry.get("dimensions") or {}).items()]
    about = screen.paint(clean(screen.dot().join(told)), "dim")
    return f"{screen.mark('completed')} {clean(entry['skill'])}{drawn}  {about}".rstrip()


def bar(screen: Screen, share: float, width: int = _BAR) -> str:
    full = round(max(0.0, min(1.0, share)) * width)
    on, off = ("█", "░") if screen.fancy else ("#", "-")
    return screen.paint(on * full, "good") + screen.paint(off * (width - full), "dim")


def _delegations(screen: Screen, data: Any) -> Iterator[str]:
    told = data["fields"]["summary"]
    if not data["fields"]["entries"]:
        yield "No delegation was recorded."
        yield screen.paint("  next: holdfast delegation record --agent A --outcome O", "dim")
        return
    widest = max([cells(clean(row["agent"])) for row in told["agents"]], default=0)
    for row in told["agents"]:
        name = clean(row["agent"]) + " " * (widest - cells(clean(row["agent"])))
        facts = [f"{row['count']} given", *_counted(row["outcomes"])]
        if row["median_ms"] is not None:
            facts.append(f"half within {_duration(row['median_ms'])}")
        facts += _counted(row["task_types"])
        about = screen.paint(clean(screen.dot().join(facts)), "dim")
        yield f"{screen.mark('completed')} {name}  {about}"
    yield from _pairs(screen, told["escalations"], "handed over", "from", "to")
    yield from _pairs(screen, told["overrides"], "people chose", "suggested", "chosen")
    yield from _pairs(screen, told["routings"], "people went", "suggested", "chosen")
    if data["fields"]["earlier"]:
        yield screen.paint(f"  {data['fields']['earlier']} earlier: holdfast log", "dim")


def _pairs(screen: Screen, rows: list[Fields], what: str, one: str, other: str) -> Iterator[str]:
    arrow = "→" if screen.fancy else "->"
    for row in rows:
        times = f"{row['count']} time{'s' if row['count'] != 1 else ''}"
        if "resolved" in row:
            times += f", {row['resolved']} resolved"
        about = screen.paint(clean(times), "dim")
        yield f"  {what}: {clean(row[one])} {arrow} {clean(row[other])}  {about}"


def _counted(found: dict[str, int]) -> list[str]:
    return [f"{count} {name}" for name, count in found.items()]


def _duration(ms: int) -> str:
    if ms < 1_000:
        return f"{ms} ms"
    return f"{ms / 1_000:.1f} s" if ms < 60_000 else f"{ms / 60_000:.1f} min"


def _forge(screen: Screen, data: Any) -> Iterator[str]:
    for entry in data["fields"]["entries"]:
        about = screen.paint(clean(entry.get("text", "")), "dim")
        yield f"{screen.mark('completed')} {clean(entry['key'])}  {about}"
    if not data["fields"]["entries"]:
        yield "The forge context is empty."


def _context(screen: Screen, data: Any) -> Iterator[str]:
    from holdfast.cli.context_page import context_page

    return context_page(screen, data)


def _initiatives(screen: Screen, data: Any) -> Iterator[str]:
    from holdfast.cli.initiative_page import initiative_page

    return initiative_page(screen, data)


def _memory(screen: Screen, data: Any) -> Iterator[str]:
    fields = data["fields"]
    ends: dict[str, list[str]] = {}
    for one in fields["relations"]:
        ends.setdefault(one["from"], []).append(f"{one['relationType']} {one['to']}")
    for entity in fields["entities"]:
        kind = screen.paint(clean(entity["entityType"]), "dim")
        yield f"{screen.paint(clean(entity['name']), 'strong')}  {kind}"
        for text in entity["observations"][:_SHOWN]:
            yield f"  {clean(text)}"
        hidden = len(entity["observations"]) - _SHOWN
        if hidden > 0:
            yield screen.paint(f"  and {hidden} more: --json", "dim")
        for text in ends.get(entity["name"], [])[:_SHOWN]:
            yield screen.paint(
                f"  → {clean(text)}" if screen.fancy else f"  -> {clean(text)}", "dim"
            )
    if not fields["entities"]:
        yield f"Nothing in {clean(fields['path'])} has all of these words."


_PAGES: dict[str, Callable[[Screen, Any], Iterator[str]]] = {
    "noted": _noted,
    "forge": _forge,
    "context": _context,
    "initiative": _initiatives,
    "violations": _violations,
    "interviews": _interviews,
    "delegations": _delegations,
    "memory": _memory,
}
