"""The page of ``holdfast context``: the work first, then what was learned, then the layers."""

from __future__ import annotations

from holdfast.cli.terminal_text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.cli.screen import Screen
    from holdfast.core.types import Fields

_LABEL = 13
_NAMES = {"L1": "File state", "L2": "Auto-memory", "L3": "MCP Memory"}


def context_page(screen: Screen, data: Any) -> Iterator[str]:
    fields = data["fields"]
    yield from _work(screen, fields["workflows"])
    yield _line(screen, "Initiative", _initiative(screen, fields["initiative"]))
    yield _line(screen, "Interview", _interview(screen, fields["interview"]))
    yield _line(screen, "Delegations", _delegations(screen, fields["delegations"]))
    learnings = [clean(entry["text"]) for entry in fields["learnings"]]
    yield _line(screen, "Learnings", learnings[0] if learnings else "none")
    for text in learnings[1:]:
        yield " " * (_LABEL + 2) + screen.paint(text, "dim")
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
        about = screen.paint(clean(screen.dot().join(facts)), "dim")
        yield f"{mark} {clean(row['recipe']).upper()}  {title}  {about}"
    if not rows:
        yield "No workflow is active here."
    yield ""


def _line(screen: Screen, label: str, text: str) -> str:
    return f"  {label:{_LABEL}}" + screen.paint(text, "dim")


def _initiative(screen: Screen, found: Fields | None) -> str:
    if found is None:
        return "none"
    facts = [clean(found["name"]), found["status"].replace("_", " ")]
    if found["current_milestone"] and found["status"] not in ("completed", "archived"):
        facts.append(clean(found["current_milestone"]))
    facts.append(f"milestones {found['completed']}/{found['total']}")
    facts.append(screen.age(found["updated_at"]))
    return screen.dot().join(facts)


def _interview(screen: Screen, found: Fields | None) -> str:
    if found is None:
        return "none"
    facts = [clean(found["skill"])]
    if found.get("confidence") is not None:
        facts.append(f"confidence {found['confidence']}")
    if found.get("timestamp"):
        facts.append(screen.age(found["timestamp"]))
    return screen.dot().join(facts)


def _delegations(screen: Screen, found: Fields | None) -> str:
    if found is None:
        return "none"
    agents = sorted(found["agents"], key=lambda row: -int(row["count"]))
    facts = [f"{clean(row['agent'])} {row['count']}" for row in agents[:4]]
    if found["escalations"]:
        facts.append(f"{sum(row['count'] for row in found['escalations'])} handed over")
    return screen.dot().join(facts)


def _layer(screen: Screen, layer: Fields) -> str:
    """``MCP Memory: ✗ (degraded mode)``, or where the layer is and what it says."""
    name = _NAMES[layer["layer"]]
    glyph = ("✓", "✗") if screen.fancy else ("yes", "no")
    if not layer["available"]:
        why = "(degraded mode)" if layer["layer"] == "L3" else f"({clean(_missing(layer))})"
        if layer["layer"] == "L3" and layer.get("why"):
            why += screen.paint(f"{screen.dot()}{clean(layer['why'])}", "dim")
        return f"  {name}: {screen.paint(glyph[1], 'bad')} {why}"
    said = layer["position"]
    if isinstance(said, dict):
        # Anybody can write into a graph, so any of it may be missing.
        named = " ".join(said[one] for one in ("type", "phase_index", "phase") if said[one])
        said = screen.dot().join([named, screen.age(said["updated"] or "")])
    about = screen.dot().join([clean(text) for text in (said, layer["target"]) if text])
    return f"  {name}: {screen.paint(glyph[0], 'good')} {screen.paint(about, 'dim')}"


def _missing(layer: Fields) -> str:
    if layer.get("why"):
        return str(layer["why"])
    if layer["layer"] == "L1":
        return "no record of an active workflow"
    return "off" if layer["target"] is None else "nothing of ours is in it"
