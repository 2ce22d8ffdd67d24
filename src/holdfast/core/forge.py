"""The forge context: a plain log of what was found out, by key.

``decide`` and ``evolve`` are pure. The state keeps the newest ``KEPT`` and counts the rest.
"""

from __future__ import annotations

from holdfast.core import edits
from holdfast.core.refusal import Refusal
from holdfast.core.workflow.texts import first_bad_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.shapes import Command, Draft, Event
    from holdfast.core.small_shapes import Forge

    Answer = list[Draft] | Refusal

KEPT = 200
ADD = "holdfast forge add KEY TEXT"


def decide(_state: Forge | None, command: Command) -> list[Draft] | Refusal:
    """What happens when this is asked; what came before has no say in it."""
    return DECIDE[command["type"]](command)


def evolve(state: Forge | None, event: Event) -> Forge:
    """The log after this event."""
    after = EVOLVE[event["type"]](state or blank(), event)
    overflow = max(0, len(after["entries"]) - KEPT)
    earlier = after["entries_earlier"] + overflow
    return {**after, "entries": after["entries"][overflow:], "entries_earlier": earlier}


def blank() -> Forge:
    return {"entries": [], "entries_earlier": 0, "extra": {}}


def add(command: Command) -> Answer:
    key, text = command["args"]["key"], command["args"]["text"]
    bad = first_bad_text(key=key, text=text)
    if bad:
        return Refusal(bad.code, f"forge add: {bad.message}", ADD)
    return [{"type": "forge_noted", "data": {"key": key, "text": text}}]


def _noted(state: Forge, event: Event) -> Forge:
    entry = {**event["data"], "timestamp": event["at"]}
    return {**state, "entries": [*state["entries"], entry]}


def adopt_record(command: Command) -> Answer:
    return [{"type": "record_adopted", "data": command["args"]}]


def _adopted(_state: Forge, event: Event) -> Forge:
    adopted: Forge = event["data"]["state"]
    return adopted


def adopt_edit(command: Command) -> Answer:
    return [{"type": "record_edited", "data": command["args"]}]


def _edited(state: Forge, event: Event) -> Forge:
    return edits.apply(dict(state), event["data"]["changes"])  # type: ignore[return-value]


DECIDE: dict[str, Callable[[Command], Answer]] = {
    "note_forge": add,
    "adopt_record": adopt_record,
    "adopt_edit": adopt_edit,
}
EVOLVE: dict[str, Callable[[Forge, Event], Forge]] = {
    "forge_noted": _noted,
    "record_adopted": _adopted,
    "record_edited": _edited,
}
