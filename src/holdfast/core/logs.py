"""Four append-only logs: interviews, delegations, learnings and the forge context.

Each ``Log`` describes one of them: which commands it takes, to which list an event appends, and how
many entries a list keeps. Pure, like the rest of the core. Older entries are counted in the state
and stay in the ledger.
"""

from __future__ import annotations

from holdfast.core import diff
from holdfast.core.refusal import Refusal, first_bad_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.core.types import Command, Draft, Event, Fields

    State = Any
    Decision = list[Draft] | Refusal
    Decider = Callable[[State, Command], Decision]

ADOPTIONS = {"adopt_record": "record_adopted", "adopt_edit": "record_edited"}
"""Commands that every log takes, and their events: a foreign record, an edit by hand."""

ADOPTED = "adopted"
"""The key of an entry that came with a record from elsewhere."""
REMEMBERED = ("learnings", "entries", "skips")
"""The lists whose entries the project's memory may show."""


class Log:
    """The description of one log."""

    def __init__(
        self,
        max_entries: dict[str, int],
        appends: dict[str, tuple[str, Fields]],
        commands: dict[str, Decider],
    ) -> None:
        self.max_entries = max_entries
        """The lists of the state, and the number of newest entries that each keeps."""
        self.appends = appends
        """Event types: the list that each appends to, and fields that its entries begin with."""
        self.commands = commands

    def blank(self) -> State:
        """Return the state of a log without entries."""
        state: Fields = {}
        for name in self.max_entries:
            state[name], state[f"{name}_earlier"] = [], 0
        return {**state, "extra": {}}

    def decide(self, state: State | None, command: Command) -> Decision:
        """Return the events of a command, or a refusal."""
        args = command["args"]
        if command["type"] == "adopt_record":
            args = {**args, "state": self._as_adopted(state or self.blank(), args["state"])}
        if command["type"] in ADOPTIONS:
            return [{"type": ADOPTIONS[command["type"]], "data": args}]
        return self.commands[command["type"]](state or self.blank(), command)

    def _as_adopted(self, state: State, adopted: State) -> State:
        """Return the state of a record that came from elsewhere, with its new entries marked.

        Their author does not speak for this person, so the project's memory leaves them out.
        """
        marked = {
            name: [
                entry if entry in state[name] else {**entry, ADOPTED: True}
                for entry in adopted[name]
            ]
            for name in REMEMBERED
            if name in self.max_entries
        }
        return {**adopted, **marked}

    def evolve(self, state: State | None, event: Event) -> State:
        """Return the state after an event."""
        state, data = state or self.blank(), event["data"]
        if event["type"] == "record_adopted":
            after = dict(data["state"])
        elif event["type"] in diff.SHARING:
            after = diff.merged(state, data)
        elif event["type"] == "record_edited":
            after = diff.apply(dict(state), data["changes"])
        else:
            name, fields = self.appends[event["type"]]
            entry = {**fields, **data, "timestamp": event["at"]}
            after = {**state, name: [*state[name], entry]}
        for name, most in self.max_entries.items():
            overflow = max(0, len(after[name]) - most)
            after[f"{name}_earlier"] = after[f"{name}_earlier"] + overflow
            after[name] = after[name][overflow:]
        return after


# Interviews: how well a skill understood its task

_RECORD_INTERVIEW = "holdfast interview record --skill SKILL --confidence 0.8 --questions 3"
_SKIP_INTERVIEW = "holdfast interview skip SKILL --reason TEXT"


def record_interview(_state: State, command: Command) -> Decision:
    args = command["args"]
    data: Fields = {
        "skill": args["skill"],
        "confidence": args["confidence"],
        "dimensions": args.get("dimensions", {}),
        "questions_asked": args.get("questions_asked", 0),
    }
    if bad := first_bad_text(skill=data["skill"], dimension=list(data["dimensions"])):
        return Refusal(bad.code, f"interview record: {bad.message}", _RECORD_INTERVIEW)
    scores = {"the confidence": data["confidence"], **data["dimensions"]}
    out_of_range = [name for name, score in scores.items() if not 0 <= score <= 1]
    why = f"{', '.join(out_of_range)} must be from 0 to 1" if out_of_range else ""
    if not why and data["questions_asked"] < 0:
        why = "the number of questions must not be negative"
    if why:
        return Refusal("invalid", f"interview record {data['skill']}: {why}", _RECORD_INTERVIEW)
    return [{"type": "interview_recorded", "data": data}]


def skip_interview(_state: State, command: Command) -> Decision:
    skill, reason = command["args"]["skill"], command["args"]["reason"]
    if bad := first_bad_text(skill=skill, reason=reason):
        return Refusal(bad.code, f"interview skip: {bad.message}", _SKIP_INTERVIEW)
    return [{"type": "interview_skipped", "data": {"skill": skill, "reason": reason}}]


# Delegations: the task of each agent, its result, and a person's overrides

DELEGATION_FIELDS = {
    "delegation": ("agent", "model", "task_type", "complexity", "outcome", "duration_ms"),
    "escalation": ("from", "to", "reason", "resolved"),
    "outcome": ("from", "to", "reason", "resolved"),
    "override": ("suggested", "chosen"),
    "routing": ("suggested", "chosen", "intent"),
}
"""The fields of an entry by its kind, besides ``kind`` and ``timestamp``. An ``outcome`` is that of
an earlier escalation."""
_DELEGATION_COMMANDS = {
    "record_delegation": (
        "delegation_recorded", "delegation", "record --agent A --outcome O --duration-ms N",
    ),
    "escalate_delegation": (
        "delegation_escalated", "escalation", "escalate --from A --to B --reason TEXT",
    ),
    "override_delegation": (
        "delegation_overridden", "override", "override --suggested A --chosen B",
    ),
    "correct_routing": (
        "routing_corrected", "routing", "routing --suggested W --chosen W --intent TEXT",
    ),
}  # fmt: skip
"""Commands: the event that each makes, the kind of the entry, and the command line."""
_RESOLVE = "holdfast delegation resolve yes"


def record_delegation(_state: State, command: Command) -> Decision:
    """Decide on any of the four commands of the delegation log."""
    event_type, kind, usage = _DELEGATION_COMMANDS[command["type"]]
    args = command["args"]
    data = {name: args[name] for name in DELEGATION_FIELDS[kind] if name in args}
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


def resolve_escalation(state: State, command: Command) -> Decision:
    """Record the outcome of the newest escalation that has none; ``from`` and ``to`` choose it."""
    args = command["args"]
    chosen = {key: args[key] for key in ("from", "to") if args.get(key) is not None}
    for entry in reversed(_with_outcomes(state["entries"])):
        if "resolved" not in entry and all(entry[key] == chosen[key] for key in chosen):
            data = {key: entry[key] for key in ("from", "to")}
            reason = args.get("reason") or entry.get("reason")
            data |= {"reason": reason} if reason else {}
            if bad := first_bad_text(**data):
                return Refusal("invalid", f"delegation resolve: {bad.message}", _RESOLVE)
            data["resolved"] = args["resolved"]
            return [{"type": "escalation_resolved", "data": data}]
    between = "".join(f" {key} {str(name)[:40]!r}" for key, name in chosen.items())
    why = f"delegation resolve: no escalation{between} waits for its outcome"
    return Refusal("not_found", why, "holdfast delegation list")


def _with_outcomes(entries: list[Fields]) -> list[Fields]:
    """Return the escalations; those whose outcome was recorded later have it as ``resolved``."""
    escalations: list[Fields] = []
    for entry in entries:
        if entry.get("kind") == "escalation":
            escalations.append(entry)
        elif entry.get("kind") == "outcome":
            for number in range(len(escalations) - 1, -1, -1):
                waiting = escalations[number]
                is_same = (waiting["from"], waiting["to"]) == (entry["from"], entry["to"])
                if is_same and "resolved" not in waiting:
                    escalations[number] = {**waiting, "resolved": entry.get("resolved")}
                    break
    return escalations


def summarize_delegations(entries: list[Fields]) -> Fields:
    """Return how each agent did, who took over from whom, and what people chose instead."""
    kinds: dict[str, list[Fields]] = {kind: [] for kind in DELEGATION_FIELDS}
    for entry in entries:
        kinds.setdefault(entry.get("kind", "delegation"), []).append(entry)
    agents: dict[str, list[Fields]] = {}
    for entry in kinds["delegation"]:
        agents.setdefault(entry["agent"], []).append(entry)
    rows = []
    for name, own in agents.items():
        times_ms = sorted(entry["duration_ms"] for entry in own if "duration_ms" in entry)
        rows.append({
            "agent": name,
            "count": len(own),
            "outcomes": _count_words([entry["outcome"] for entry in own if "outcome" in entry]),
            "task_types": _count_words([e["task_type"] for e in own if "task_type" in e]),
            "median_ms": times_ms[len(times_ms) // 2] if times_ms else None,
        })  # fmt: skip
    return {
        "agents": rows,
        "escalations": _count_pairs(_with_outcomes(entries), "from", "to"),
        "overrides": _count_pairs(kinds["override"], "suggested", "chosen"),
        "routings": _count_pairs(kinds["routing"], "suggested", "chosen"),
    }


def _count_pairs(entries: list[Fields], source: str, target: str) -> list[Fields]:
    """Count how often each pair occurs and how often it was resolved, most frequent first."""
    pairs: dict[tuple[str, str], list[Fields]] = {}
    for entry in entries:
        pairs.setdefault((entry[source], entry[target]), []).append(entry)
    rows: list[Fields] = []
    for (first, second), members in pairs.items():
        row: Fields = {source: first, target: second, "count": len(members)}
        resolved = [e["resolved"] for e in members if e.get("resolved") is not None]
        if resolved:
            row["resolved"] = sum(resolved)
            row["unresolved"] = len(resolved) - sum(resolved)
        rows.append(row)
    return sorted(rows, key=lambda row: -int(row["count"]))


def _count_words(words: list[str]) -> dict[str, int]:
    """Return how often each word is there, the most frequent first, else in their order."""
    counts = {word: words.count(word) for word in words}
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


# Learnings: lessons that outlive their workflow

LEARNING_KINDS = ("pattern", "preference", "insight")
DEFAULT_SECTION = "Learnings"
INITIATIVE_SECTION = "Initiative Patterns"
"""The heading under which an entry must have a kind."""
_REMEMBER = "holdfast remember TEXT --kind pattern"


def remember(state: State, command: Command) -> Decision:
    """Record a learning. Return no event if the log has the text under that heading already."""
    args = command["args"]
    text, kind, section = args["text"], args.get("kind"), args.get("section") or DEFAULT_SECTION
    bad = first_bad_text(text=text, section=section)
    kinds = ", ".join(LEARNING_KINDS)
    why = bad.message if bad else None
    if why is None and kind is not None and kind not in LEARNING_KINDS:
        why = f"{str(kind)[:40]!r} is not a kind; the kinds are {kinds}"
    if why is None and kind is None and section == INITIATIVE_SECTION:
        why = f"under {INITIATIVE_SECTION} stands a {kinds} only: say which with --kind"
    if why is None and (len(text.splitlines()) > 1 or len(section.splitlines()) > 1):
        why = "a learning is one line"
    if why:
        return Refusal("invalid", f"remember: {why}", _REMEMBER)
    words = (text.casefold().split(), section)
    for entry in state["learnings"]:
        if words == (entry["text"].casefold().split(), entry.get("section", DEFAULT_SECTION)):
            return []
    data = {"text": text, "section": section, **({"kind": kind} if kind else {})}
    return [{"type": "learning_recorded", "data": data}]


# The forge context: findings, by key


def note_forge(_state: State, command: Command) -> Decision:
    key, text = command["args"]["key"], command["args"]["text"]
    if bad := first_bad_text(key=key, text=text):
        return Refusal(bad.code, f"forge add: {bad.message}", "holdfast forge add KEY TEXT")
    return [{"type": "forge_noted", "data": {"key": key, "text": text}}]


LOGS = {
    "interview": Log(
        {"interviews": 50, "skips": 50},
        {"interview_recorded": ("interviews", {}), "interview_skipped": ("skips", {})},
        {"record_interview": record_interview, "skip_interview": skip_interview},
    ),
    "delegation": Log(
        {"entries": 200},
        {
            event_type: ("entries", {} if kind == "delegation" else {"kind": kind})
            for event_type, kind, _ in _DELEGATION_COMMANDS.values()
        }
        | {"escalation_resolved": ("entries", {"kind": "outcome"})},
        {
            **dict.fromkeys(_DELEGATION_COMMANDS, record_delegation),
            "resolve_escalation": resolve_escalation,
        },
    ),
    "learning": Log(
        {"learnings": 200},
        {"learning_recorded": ("learnings", {})},
        {"remember": remember},
    ),
    "forge": Log({"entries": 200}, {"forge_noted": ("entries", {})}, {"note_forge": note_forge}),
}
