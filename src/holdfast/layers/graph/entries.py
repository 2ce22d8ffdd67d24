"""Read what a memory graph tells of interviews, delegations, learnings and the forge context.

This is the way back from ``projection``: observations as other programs may have written them too,
into entries of the logs. What does not read like one of these sentences is left out.
"""

from __future__ import annotations

import re

from holdfast.core import json_text
from holdfast.core.logs import LEARNING_KINDS
from holdfast.core.other_layers import observed_values
from holdfast.core.refusal import bad_text
from holdfast.core.time import epoch_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.layers.graph import Entity

    Found = dict[str, dict[str, list[Fields]]]
    """Entries by the name of the log and of its list, oldest first."""

NAMES = ("interview-state", "delegation-log", "learnings", "forge-context")
_AT = r"(?: at (?P<timestamp>\S+))?"
_SENTENCES = {
    "delegation": re.compile(
        r"delegation: (?P<agent>.+) \((?P<model>[^()]*)\) for (?P<task_type>.*?) "
        rf"\[(?P<complexity>.*?)\] -> (?P<outcome>.*) \((?P<duration_ms>\w+?)ms\){_AT}"
    ),
    "outcome": re.compile(
        r"escalation_outcome: (?P<from>.+?) -> (?P<to>.+?), resolved: (?P<resolved>true|false), "
        rf"reason: (?P<reason>.*?){_AT}"
    ),
    "escalation": re.compile(r"escalated: (?P<from>.+?) -> (?P<to>.+?), reason: (?P<reason>.*)"),
    "override": re.compile(
        r"user_override: suggested (?P<suggested>.+?), user chose (?P<chosen>.+)"
    ),
    "routing": re.compile(
        r"routing_correction: suggested (?P<suggested>.+?), user chose (?P<chosen>.+?) "
        rf"for (?P<intent>.+?){_AT}"
    ),
    "skip": re.compile(rf"interview_skip: (?P<skill>.+?), user said: (?P<reason>.+?){_AT}"),
}
_UNKNOWN = "unknown"
_MAX_ENTRIES = 200
_MAX_CHARACTERS = 2_000


def read_entries(entities: list[Entity]) -> Found:
    """Return the entries that these entities tell of."""
    found: Found = {
        "interview": {"interviews": [], "skips": []},
        "delegation": {"entries": []},
        "learning": {"learnings": []},
        "forge": {"entries": []},
    }
    for entity in entities:
        texts = [text for text in entity["observations"] if bad_text("text", text) is None]
        texts = [text for text in texts if len(text) <= _MAX_CHARACTERS][-_MAX_ENTRIES:]
        if entity["name"] == "learnings":
            found["learning"]["learnings"] += map(_learning, texts)
        elif entity["name"] == "forge-context":
            pairs = [text.partition(": ") for text in texts]
            found["forge"]["entries"] += [{"key": key, "text": text} for key, _, text in pairs]
        elif entity["name"] == "interview-state":
            found["interview"]["interviews"] += _interview(observed_values(texts))
        elif entity["name"] == "delegation-log":
            for text in texts:
                kind, entry = _delegation(text)
                if kind == "skip":
                    found["interview"]["skips"].append(entry)
                elif kind:
                    found["delegation"]["entries"].append(entry)
    return found


def _learning(text: str) -> Fields:
    kind, colon, rest = text.partition(": ")
    is_kind = bool(colon) and kind in LEARNING_KINDS
    return {"text": rest, "kind": kind} if is_kind else {"text": text}


def _interview(values: dict[str, str]) -> list[Fields]:
    if not values.get("skill"):
        return []
    entry: Fields = {"skill": values["skill"]}
    for name, key in (("confidence", "confidence"), ("dimensions", "dimensions")):
        try:
            value = json_text.loads(values.get(key, "").encode())
        except json_text.BadJson:
            continue
        if isinstance(value, dict if name == "dimensions" else int | float):
            entry[name] = value
    asked = values.get("questions_asked", "")
    entry |= {"questions_asked": int(asked)} if asked.isdecimal() and len(asked) < 10 else {}
    return [_timed(entry, values.get("timestamp"))]


def _delegation(text: str) -> tuple[str, Fields]:
    """Return the kind of a sentence, and its entry; an empty kind if it is none of them."""
    for kind, sentence in _SENTENCES.items():
        match = sentence.fullmatch(text)
        if match is None:
            continue
        entry: Fields = {} if kind in ("delegation", "skip") else {"kind": kind}
        for name, value in match.groupdict().items():
            if name == "duration_ms":
                entry |= {name: int(value)} if value.isdecimal() and len(value) < 10 else {}
            elif name == "resolved":
                entry[name] = value == "true"
            elif name != "timestamp" and value != _UNKNOWN:
                entry[name] = value
        return kind, _timed(entry, match.groupdict().get("timestamp"))
    return "", {}


def _timed(entry: Fields, timestamp: str | None) -> Fields:
    is_time = timestamp is not None and epoch_ms(timestamp) is not None
    return {**entry, "timestamp": timestamp} if is_time else entry


def with_entries(state: Fields, found: dict[str, list[Fields]]) -> Fields:
    """Return the state of a log with the entries that it lacks, before its own."""
    after = dict(state)
    for name, entries in found.items():
        known = [_without_time(entry) for entry in state[name]]
        missing = [entry for entry in entries if _without_time(entry) not in known]
        if missing:
            after[name] = [*missing, *state[name]]
    return after


def _without_time(entry: Fields) -> Fields:
    left_out = ("timestamp", "adopted", "section")
    return {key: value for key, value in entry.items() if key not in left_out}
