"""What the small aggregates have in common: records taken in, and lists that are bounded."""

from __future__ import annotations

from holdfast.core import diff

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.types import Command, Draft, Event


def _adopt_record(_state: Any, command: Command) -> list[Draft]:
    return [{"type": "record_adopted", "data": command["args"]}]


def _adopt_edit(_state: Any, command: Command) -> list[Draft]:
    return [{"type": "record_edited", "data": command["args"]}]


def _adopted(_state: Any, event: Event) -> Any:
    return event["data"]["state"]


def _edited(state: Any, event: Event) -> Any:
    return diff.apply(dict(state), event["data"]["changes"])


DECIDE: dict[str, Any] = {"adopt_record": _adopt_record, "adopt_edit": _adopt_edit}
EVOLVE: dict[str, Any] = {"record_adopted": _adopted, "record_edited": _edited}


def newest(state: Any, name: str, kept: int) -> Any:
    """The state with no more than the newest of a list; those that left it are counted."""
    overflow = max(0, len(state[name]) - kept)
    earlier = state[f"{name}_earlier"] + overflow
    return {**state, name: state[name][overflow:], f"{name}_earlier": earlier}
