"""Delegations: which agent was given what, how that went, and when a person knew better.

``decide`` and ``evolve`` are pure. The state keeps the newest ``KEPT`` entries and counts the rest.
"""

from __future__ import annotations

from holdfast.core import adopt_commands
from holdfast.core.refusal import Refusal
from holdfast.core.workflow.validation import first_bad_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log_types import Delegation, DelegationEntry
    from holdfast.core.types import Command, Draft, Event, Fields

    Answer = list[Draft] | Refusal

KEPT = 200
FIELDS = {
    "delegation": ("agent", "model", "task_type", "complexity", "outcome", "duration_ms"),
    "escalation": ("from", "to", "reason", "resolved"),
    "override": ("suggested", "chosen"),
    "routing": ("suggested", "chosen", "intent"),
}
"""What an entry of each kind holds, besides its ``kind`` and ``timestamp``."""
KINDS = {
    "delegation_recorded": "delegation",
    "delegation_escalated": "escalation",
    "delegation_overridden": "override",
    "routing_corrected": "routing",
}
COMMANDS = {
    "record_delegation": ("delegation_recorded", "record --agent A --outcome O --duration-ms N"),
    "escalate_delegation": ("delegation_escalated", "escalate --from A --to B --reason TEXT"),
    "override_delegation": ("delegation_overridden", "override --suggested A --chosen B"),
    "correct_routing": ("routing_corrected", "routing --suggested W --chosen W --intent TEXT"),
}
"""The event that each command makes, and how to ask for it on the command line."""


def decide(state: Delegation | None, command: Command) -> list[Draft] | Refusal:
    """What happens when this is asked; what came before has no say in it."""
    return DECIDE[command["type"]](state, command)


def evolve(state: Delegation | None, event: Event) -> Delegation:
    """The log after this event."""
    after = EVOLVE[event["type"]](state or blank(), event)
    return adopt_commands.newest(after, "entries", KEPT)  # type: ignore[no-any-return]


def blank() -> Delegation:
    return {"entries": [], "entries_earlier": 0, "extra": {}}


def note(_state: Delegation | None, command: Command) -> Answer:
    """One more entry of the log, whatever its kind."""
    event_type, usage = COMMANDS[command["type"]]
    names = FIELDS[KINDS[event_type]]
    data = {name: command["args"][name] for name in names if name in command["args"]}
    bad = first_bad_text(**{name: text for name, text in data.items() if isinstance(text, str)})
    why = bad.message if bad else None
    if data.get("duration_ms", 0) < 0:
        why = "the duration must not be negative"
    elif "to" in data and data["from"] == data["to"]:
        why = f"{data['to']!r} cannot take over from itself"
    elif "chosen" in data and data["suggested"] == data["chosen"]:
        why = f"{data['chosen']!r} was suggested and chosen, so nothing was corrected"
    if why:
        tried = f"delegation {usage.partition(' ')[0]}"
        return Refusal("invalid", f"{tried}: {why}", f"holdfast delegation {usage}")
    return [{"type": event_type, "data": data}]


def _noted(state: Delegation, event: Event) -> Delegation:
    kind = KINDS[event["type"]]
    named = {} if kind == "delegation" else {"kind": kind}
    entry = {**named, **event["data"], "timestamp": event["at"]}
    return {**state, "entries": [*state["entries"], entry]}


def summary(entries: list[DelegationEntry]) -> Fields:
    """What can be learned from entries: how each agent does, who takes over, what people prefer."""
    kinds: dict[str, list[DelegationEntry]] = {}
    for entry in entries:
        kinds.setdefault(entry.get("kind", "delegation"), []).append(entry)
    given = kinds.get("delegation", [])
    agents = dict.fromkeys(entry["agent"] for entry in given)
    return {
        "agents": [_agent(name, [e for e in given if e["agent"] == name]) for name in agents],
        "escalations": _pairs(kinds.get("escalation", []), "from", "to"),
        "overrides": _pairs(kinds.get("override", []), "suggested", "chosen"),
        "routings": _pairs(kinds.get("routing", []), "suggested", "chosen"),
    }


def _agent(name: str, given: list[DelegationEntry]) -> Fields:
    """How often, how it ended, and how long the one in the middle took."""
    times = sorted(entry["duration_ms"] for entry in given if "duration_ms" in entry)
    return {
        "agent": name,
        "count": len(given),
        "outcomes": _counted([entry["outcome"] for entry in given if "outcome" in entry]),
        "task_types": _counted([entry["task_type"] for entry in given if "task_type" in entry]),
        "median_ms": times[len(times) // 2] if times else None,
    }


def _pairs(entries: list[DelegationEntry], one: str, other: str) -> list[Fields]:
    """How often each went from the one to the other, and how often that was resolved."""
    found: dict[tuple[str, str], list[DelegationEntry]] = {}
    for entry in entries:
        found.setdefault((entry[one], entry[other]), []).append(entry)
    rows: list[Fields] = []
    for (first, second), same in found.items():
        row: Fields = {one: first, other: second, "count": len(same)}
        told = [entry["resolved"] for entry in same if "resolved" in entry]
        if told:
            row["resolved"] = sum(told)
            row["unresolved"] = len(told) - sum(told)
        rows.append(row)
    return sorted(rows, key=lambda row: -int(row["count"]))


def _counted(words: list[str]) -> dict[str, int]:
    return {word: words.count(word) for word in sorted(set(words), key=lambda w: -words.count(w))}


DECIDE: dict[str, Callable[[Delegation | None, Command], Answer]] = {
    **dict.fromkeys(COMMANDS, note),
    **adopt_commands.DECIDE,
}
EVOLVE: dict[str, Callable[[Delegation, Event], Delegation]] = {
    **dict.fromkeys(KINDS, _noted),
    **adopt_commands.EVOLVE,
}
