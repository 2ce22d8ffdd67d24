"""``holdfast context``: all that is going on here, and which layers know of it."""

from __future__ import annotations

from holdfast.answers.text import clean
from holdfast.cli.answer import page
from holdfast.cli.grammar import command
from holdfast.initiatives.initiatives import Initiatives
from holdfast.keeper.initiative_link import initiative_view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.answer import Answer
    from holdfast.cli.screen import Screen
    from holdfast.cli.types import Arguments
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper

_MAX_LEARNINGS, _MAX_AGENTS = 5, 4
_ROW = (
    "id", "recipe", "title", "status", "phase", "phase_index", "phase_total", "tasks_done",
    "tasks_total", "branch", "worktree", "updated_at",
)  # fmt: skip
_LABEL_COLUMNS = 13
_LAYER_NAMES = {"L1": "File state", "L2": "Auto-memory", "L3": "MCP Memory"}


@command(
    "context",
    "show all that is going on here, and which layers know of it",
    examples=("holdfast context", "holdfast context --json"),
)
def context(keeper: Keeper, _args: Arguments) -> Answer:
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
        "workflows": [{name: row[name] for name in _ROW} for row in rows],
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
        about = screen.paint(clean(screen.dot().join(facts)), "dim")
        yield f"{mark} {clean(row['recipe']).upper()}  {title}  {about}"
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
    return screen.dot().join(facts)


def _interview(screen: Screen, interview: Fields | None) -> str:
    if interview is None:
        return "none"
    facts = [clean(interview["skill"])]
    if interview.get("confidence") is not None:
        facts.append(f"confidence {interview['confidence']}")
    if interview.get("timestamp"):
        facts.append(screen.age(interview["timestamp"]))
    return screen.dot().join(facts)


def _delegations(screen: Screen, summary: Fields | None) -> str:
    if summary is None:
        return "none"
    agents = sorted(summary["agents"], key=lambda row: -int(row["count"]))
    facts = [f"{clean(row['agent'])} {row['count']}" for row in agents[:_MAX_AGENTS]]
    if summary["escalations"]:
        facts.append(f"{sum(row['count'] for row in summary['escalations'])} handed over")
    return screen.dot().join(facts)


def _layer(screen: Screen, layer: Fields) -> str:
    """Return ``MCP Memory: ✗ (degraded mode)``, or the layer's file and what it says."""
    name = _LAYER_NAMES[layer["layer"]]
    glyph = ("✓", "✗") if screen.fancy else ("yes", "no")
    if not layer["available"]:
        why = "(degraded mode)" if layer["layer"] == "L3" else f"({clean(_missing(layer))})"
        if layer["layer"] == "L3" and layer.get("why"):
            why += screen.paint(f"{screen.dot()}{clean(layer['why'])}", "dim")
        return f"  {name}: {screen.paint(glyph[1], 'bad')} {why}"
    position = layer["position"]
    if isinstance(position, dict):
        # Other programs write into the graph too, so any of it may be missing.
        names = ("type", "phase_index", "phase")
        named = " ".join(position[name] for name in names if position[name])
        position = screen.dot().join([named, screen.age(position["updated"] or "")])
    about = screen.dot().join([clean(text) for text in (position, layer["target"]) if text])
    return f"  {name}: {screen.paint(glyph[0], 'good')} {screen.paint(about, 'dim')}"


def _missing(layer: Fields) -> str:
    if layer.get("why"):
        return str(layer["why"])
    if layer["layer"] == "L1":
        return "no record of an active workflow"
    return "off" if layer["target"] is None else "nothing of ours is in it"
