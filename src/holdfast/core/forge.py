"""The forge context: a plain log of what was found out, by key.

``decide`` and ``evolve`` are pure. The state keeps the newest ``KEPT`` and counts the rest.
"""

from __future__ import annotations

from holdfast.core import adopt_commands
from holdfast.core.refusal import Refusal
from holdfast.core.workflow.validation import first_bad_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log_types import Forge
    from holdfast.core.types import Command, Draft, Event

    Answer = list[Draft] | Refusal

KEPT = 200
ADD = "holdfast forge add KEY TEXT"


def decide(state: Forge | None, command: Command) -> list[Draft] | Refusal:
    """What happens when this is asked; what came before has no say in it."""
    return DECIDE[command["type"]](state, command)


def evolve(state: Forge | None, event: Event) -> Forge:
    """The log after this event."""
    after = EVOLVE[event["type"]](state or blank(), event)
    return adopt_commands.newest(after, "entries", KEPT)  # type: ignore[no-any-return]


def blank() -> Forge:
    return {"entries": [], "entries_earlier": 0, "extra": {}}


def add(_state: Forge | None, command: Command) -> Answer:
    key, text = command["args"]["key"], command["args"]["text"]
    bad = first_bad_text(key=key, text=text)
    if bad:
        return Refusal(bad.code, f"forge add: {bad.message}", ADD)
    return [{"type": "forge_noted", "data": {"key": key, "text": text}}]


def _noted(state: Forge, event: Event) -> Forge:
    entry = {**event["data"], "timestamp": event["at"]}
    return {**state, "entries": [*state["entries"], entry]}


DECIDE: dict[str, Callable[[Forge | None, Command], Answer]] = {
    "note_forge": add,
    **adopt_commands.DECIDE,
}
EVOLVE: dict[str, Callable[[Forge, Event], Forge]] = {
    "forge_noted": _noted,
    **adopt_commands.EVOLVE,
}
