"""Edits of a state as data: what changed between two states, whether two sets of changes get in
each other's way, and how they are applied.

A change is ``[path, was, now]``. Lists are compared by position; what was added at the end of one
is a change of its own, whose path ends in ``+``. A value that was not there, or is no longer
there, is the marker below, since JSON has no word for it; a value that looks like the marker is
wrapped.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Change, Fields, Json

ADDED = "+"
_MARK = "_absent"
ABSENT: Fields = {_MARK: True}
"""Stands for "no value here" in ``was`` and ``now``."""

_BOTH_MAY_ADD = (
    "history", "files", "commits", "reminders", "required_reading", "interviews", "skips",
    "entries",
)  # fmt: skip
"""Lists to which two writers may add at the same time without meaning the same place."""


def diff(old: Fields, new: Fields) -> list[Change]:
    """The changes that make ``new`` of ``old``."""
    changes: list[Change] = []
    _diff_dicts([], old, new, changes)
    return changes


def _diff(path: list[str | int], old: Json, new: Json, changes: list[Change]) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        _diff_dicts(path, old, new, changes)
    elif isinstance(old, list) and isinstance(new, list) and len(new) >= len(old):
        for position, (before, after) in enumerate(zip(old, new, strict=False)):
            _diff([*path, position], before, after, changes)
        if len(new) > len(old):
            changes.append([[*path, ADDED], ABSENT, new[len(old) :]])
    elif old != new or isinstance(old, bool) != isinstance(new, bool):
        changes.append([path, _wrapped(old), _wrapped(new)])


def _diff_dicts(path: list[str | int], old: Fields, new: Fields, changes: list[Change]) -> None:
    for key in old:
        if key not in new:
            changes.append([[*path, key], _wrapped(old[key]), ABSENT])
        else:
            _diff([*path, key], old[key], new[key], changes)
    changes.extend([[*path, key], ABSENT, _wrapped(new[key])] for key in new if key not in old)


def _wrapped(value: Json) -> Json:
    is_like_mark = isinstance(value, dict) and list(value) == [_MARK]
    return {_MARK: [value[_MARK]]} if is_like_mark else value


def _unwrapped(value: Json) -> Json:
    is_wrapped = isinstance(value, dict) and list(value) == [_MARK] and value != ABSENT
    return {_MARK: value[_MARK][0]} if is_wrapped else value


def changes_in(data: Fields) -> list[Change]:
    """The changes that an event tells; none when what it tells are none."""
    found = data.get("changes")
    if not isinstance(found, list):
        return []
    return [one for one in found if isinstance(one, list) and len(one) == 3 and one[0]]


def apply(state: Fields, changes: list[Change]) -> Fields:
    """The state with the changes made; ``state`` itself stays as it is."""
    for path, _, now in changes:
        state = _with(state, path, now)
    return state


def _with(value: Json, path: list[str | int], now: Json) -> Json:
    if not path:
        return _unwrapped(now)
    key, below = path[0], path[1:]
    if isinstance(value, list):
        if key == ADDED:
            return [*value, *now]
        if not isinstance(key, int) or key >= len(value):
            return value
        return [*value[:key], _with(value[key], below, now), *value[key + 1 :]]
    if not isinstance(value, dict):
        return value
    if not below and now == ABSENT:
        return {name: inner for name, inner in value.items() if name != key}
    if below == [ADDED] and key not in value:
        return {**value, key: list(now)}
    return {**value, key: _with(value.get(key, {}), below, now)}


def conflicts(ours: list[Change], theirs: list[Change]) -> list[list[str | int]]:
    """The paths of ``theirs`` that ``ours`` changed as well, differently."""
    return [
        change[0]
        for change in theirs
        if any(_overlap(own[0], change[0]) and not _is_same(own, change) for own in ours)
    ]


def beyond(ours: list[Change], theirs: list[Change]) -> list[Change]:
    """Those of ``theirs`` that ``ours`` did not make as well."""
    return [change for change in theirs if not any(_is_same(own, change) for own in ours)]


def _is_same(one: Change, other: Change) -> bool:
    """Whether two changes of the same state set the same value at the same place."""
    if one[0] != other[0]:
        return False
    difference: list[Change] = []
    _diff([], one[2], other[2], difference)
    return not difference


def _overlap(one: list[str | int], other: list[str | int]) -> bool:
    if one == other and one[-1] == ADDED and one[0] in _BOTH_MAY_ADD:
        return False
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def path_text(path: list[str | int]) -> str:
    """``phases[2].status`` for people."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")
