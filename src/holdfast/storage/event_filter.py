"""Choose events by text, time, type, task and author: in SQL first, then exactly.

The conditions in SQL are cheap and never leave out an event that is meant. They may let others
through, so each event that they leave is read and compared.
"""

from __future__ import annotations

from holdfast.core.event_text import merged_causes, text_of
from holdfast.core.json_text import dumps
from holdfast.storage.ledger import MERGED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.types import Event

_AS_STORED = frozenset("abcdefghijklmnopqrstuvwxyz0123456789 ._:/@+,;()!?-")
"""Characters that are the same in an event's text and in the JSON that the ledger has of it."""
_MAX_PATTERN_CHARS = 10_000
"""SQLite refuses a pattern of more than 50,000 bytes; a longer text is only compared exactly."""


class EventFilter:
    """The events that have all of what is asked for; what is empty asks for nothing."""

    def __init__(
        self, *, grep: str = "", since: str = "", types: Sequence[str] = (),
        task: int | str | None = None, by: str = "", own_machine: str = "",
    ) -> None:  # fmt: skip
        """``since`` is a time as events have it; ``own_machine`` is this replica's name."""
        self._grep = grep.casefold()
        self._since = since
        self._types = list(types)
        self._task = None if task is None else str(task)
        self._by = by
        self._is_own_machine = bool(by) and by == own_machine

    def conditions(self) -> tuple[list[str], list[object]]:
        """Return conditions of a query on ``events``, and their values."""
        where: list[str] = []
        values: list[object] = []
        if self._since:
            where.append("at >= ?")
            values.append(self._since)
        if self._types:
            where.append(f"type IN ({', '.join('?' * len(self._types))})")
            values += self._types
        if self._task is not None:
            forms = [f'"task":{dumps(self._task)}']
            forms += [f'"task":{self._task}'] if self._task.isdecimal() else []
            where.append(f"({' OR '.join(['instr(data, ?)'] * len(forms))})")
            values += forms
        if self._by and not self._is_own_machine:
            where.append("(instr(by, ?) OR (type = ? AND instr(data, ?)))")
            stored = dumps(self._by)[1:-1]
            values += [stored, MERGED, stored]
        if 0 < len(self._grep) <= _MAX_PATTERN_CHARS and set(self._grep) <= _AS_STORED:
            where.append(r"(data LIKE ? ESCAPE '\' OR type LIKE ? ESCAPE '\')")
            escaped = self._grep.replace("_", r"\_")
            values += [f"%{escaped}%"] * 2
        return where, values

    def has(self, event: Event) -> bool:
        """Return whether an event is among those that are asked for."""
        return (
            event["at"] >= self._since
            and (not self._types or event["type"] in self._types)
            and (self._task is None or self._task in _tasks_of(event))
            and (not self._by or self._is_by(event))
            and (not self._grep or self._is_in(event))
        )

    def _is_in(self, event: Event) -> bool:
        return self._grep in event["type"] or self._grep in text_of(event).casefold()

    def _is_by(self, event: Event) -> bool:
        """Return whether the author of an event has the name: a surface, a session or a machine."""
        if self._is_own_machine and event["type"] != MERGED:
            return True
        by = event["by"]
        names = [by.get("surface"), *(cause["by"].get("name") for cause in merged_causes(event))]
        return self._by in names or str(by.get("session", "")).startswith(self._by)


def _tasks_of(event: Event) -> set[str]:
    """Return the tasks that an event is about, also those in commands of other machines."""
    tasks = [event["data"].get("task")]
    tasks += [cause["args"].get("task") for cause in merged_causes(event)]
    return {str(task) for task in tasks if isinstance(task, (int, str))}
