"""The record of delegations, ``.claude/delegation-log.json``: a list, oldest first.

An entry without a ``kind`` is a delegation; escalations, overrides and corrected routings have one.
"""

from __future__ import annotations

from holdfast.core.delegation import FIELDS
from holdfast.formats.schema import (
    PLACE,
    check_object,
    count,
    flag,
    named,
    one_of,
    rows,
    text,
    when,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.log_types import Delegation
    from holdfast.core.types import Fields, Origin
    from holdfast.formats.schema import Path


_NEEDED = {
    "delegation": ("agent",),
    "escalation": ("from", "to"),
    "override": ("suggested", "chosen"),
    "routing": ("suggested", "chosen"),
}
_CHECKS = {"duration_ms": count, "resolved": flag}


def path() -> str:
    """Where the record stands, from the worktree's root."""
    return ".claude/delegation-log.json"


def render(state: Delegation) -> tuple[Fields, Fields]:
    """The document, and the rest of the state."""
    return (
        {"delegations": state["entries"], **state["extra"]},
        {"entries_earlier": state["entries_earlier"]},
    )


def parse(document: Fields, rest: Fields, _origin: Origin) -> Delegation:
    """The state; ``Invalid`` when the document makes no sense."""
    check_object(document, [])
    check_object(rest, PLACE)
    entries = rows(document, "delegations", [])
    for position, entry in enumerate(entries):
        _check(entry, ["delegations", position])
    return {
        "entries": entries,
        "entries_earlier": count(rest, "entries_earlier", PLACE, 0),
        "extra": {key: value for key, value in document.items() if key != "delegations"},
    }


def _check(entry: Fields, place: Path) -> None:
    kind = one_of(entry, "kind", place, FIELDS, "delegation")
    for name in FIELDS[kind]:
        if name in _NEEDED[kind]:
            named(entry, name, place)
        else:
            _CHECKS.get(name, text)(entry, name, place, None)
    when(entry, "timestamp", place, None)
