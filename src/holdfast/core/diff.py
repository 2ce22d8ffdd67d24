"""Changes between two states as data: make them, find conflicts, apply them.

A change is ``[path, was, now]``. Lists are compared by position; items added at the end of a list
are one change whose path ends in ``+``. ``ABSENT`` marks a value that did not exist or no longer
does, because JSON has no word for that; a value that looks like the marker is escaped.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Change, Fields, Json

ADDED = "+"
_MARKER = "_absent"
ABSENT: Fields = {_MARKER: True}
"""The marker in ``was`` and ``now`` for no value."""

MERGED = "events_merged"
"""The event of every kind of stream that takes in shared events of other replicas."""
SHARING = (MERGED, "stream_shared")
"""The events of every kind of stream that come from sharing it; by the second one it begins."""
_BOTH_MAY_ADD = (
    "history", "files", "commits", "reminders", "required_reading", "interviews", "skips",
    "entries",
)  # fmt: skip
"""Lists to which two writers may add at the same time without a conflict."""


def diff(old: Fields, new: Fields) -> list[Change]:
    """Return the changes that turn ``old`` into ``new``."""
    changes: list[Change] = []
    _diff([], old, new, changes)
    return changes


def _diff(path: list[str | int], old: Json, new: Json, changes: list[Change]) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            if key not in new:
                changes.append([[*path, key], _escape_marker(old[key]), ABSENT])
            else:
                _diff([*path, key], old[key], new[key], changes)
        changes.extend(
            [[*path, key], ABSENT, _escape_marker(new[key])] for key in new if key not in old
        )
    elif isinstance(old, list) and isinstance(new, list) and len(new) >= len(old):
        for position, (before, after) in enumerate(zip(old, new, strict=False)):
            _diff([*path, position], before, after, changes)
        if len(new) > len(old):
            changes.append([[*path, ADDED], ABSENT, new[len(old) :]])
    elif old != new or isinstance(old, bool) != isinstance(new, bool):
        changes.append([path, _escape_marker(old), _escape_marker(new)])


def _escape_marker(value: Json) -> Json:
    is_like_marker = isinstance(value, dict) and list(value) == [_MARKER]
    return {_MARKER: [value[_MARKER]]} if is_like_marker else value


def changes_in(data: Fields) -> list[Change]:
    """Return the well-formed changes in the data of an event."""
    changes = data.get("changes")
    if not isinstance(changes, list):
        return []
    return [entry for entry in changes if isinstance(entry, list) and len(entry) == 3 and entry[0]]


def apply(state: Fields, changes: list[Change]) -> Fields:
    """Return the state with the changes applied; ``state`` itself is not modified."""
    for path, _, now in changes:
        state = _set_path(state, path, now)
    return state


def merged(state: Json, data: Fields) -> Json:
    """Return the state of any stream after one of the events ``SHARING``."""
    if "state" in data:
        return data["state"]
    return apply(state, data["changes"]) if "changes" in data else state


def _set_path(value: Json, path: list[str | int], now: Json) -> Json:
    if not path:
        is_escaped = isinstance(now, dict) and list(now) == [_MARKER] and now != ABSENT
        return {_MARKER: now[_MARKER][0]} if is_escaped else now
    key, below = path[0], path[1:]
    if isinstance(value, list):
        if key == ADDED:
            return [*value, *now]
        if not isinstance(key, int) or key >= len(value):
            return value
        return [*value[:key], _set_path(value[key], below, now), *value[key + 1 :]]
    if not isinstance(value, dict):
        return value
    if not below and now == ABSENT:
        return {name: inner for name, inner in value.items() if name != key}
    if below == [ADDED] and key not in value:
        return {**value, key: list(now)}
    return {**value, key: _set_path(value.get(key, {}), below, now)}


def conflicts(ours: list[Change], theirs: list[Change]) -> list[list[str | int]]:
    """Return the paths of ``theirs`` that ``ours`` changed to something else."""
    return [
        change[0]
        for change in theirs
        if any(_overlap(own[0], change[0]) and not _is_same(own, change) for own in ours)
    ]


def not_yet_applied(ours: list[Change], theirs: list[Change]) -> list[Change]:
    """Return the changes of ``theirs`` that ``ours`` does not have."""
    return [change for change in theirs if not any(_is_same(own, change) for own in ours)]


def _is_same(change: Change, other: Change) -> bool:
    """Return whether two changes set the same value at the same path."""
    if change[0] != other[0]:
        return False
    return not diff(change[2], other[2])


def _overlap(path: list[str | int], other: list[str | int]) -> bool:
    """Return whether one path is the other or leads to it."""
    if path == other and path[-1] == ADDED and path[0] in _BOTH_MAY_ADD:
        return False
    shorter = min(len(path), len(other))
    return path[:shorter] == other[:shorter]


def path_text(path: list[str | int]) -> str:
    """Return a path for people, such as ``phases[2].status``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")
