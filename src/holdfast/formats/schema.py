"""Checked access to the fields of a document that anyone may have edited.

All formats parse through these functions alone. A value of the wrong type, or a word outside its
vocabulary, raises ``Invalid`` with its path in the document; no other exception is raised.

Each function takes the object, the key and the object's own path. Without a default the field is
required; with ``None`` as the default it may be null as well.
"""

from __future__ import annotations

from holdfast.core.time import duration_s, epoch_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from holdfast.core.types import Fields, Json, Phase, Task, Violation

    Path = list[str | int]
    Kind = type | tuple[type, ...]
    Check = Callable[[Fields, str, Path], Json]

WORKFLOW_STATUSES = ("in_progress", "blocked", "completed", "abandoned", "expired")
PHASE_STATUSES = ("pending", "in_progress", "completed", "blocked")
TASK_STATUSES = (
    "pending", "in_progress", "confirming", "verifying", "completed", "blocked", "timeout",
)  # fmt: skip
MAX_PHASES = 1_000

REST_PATH: Path = ["_holdfast", "rest"]
"""The path of the state that a document cannot express."""

REQUIRED: Json = object()
SAME: Mapping[str, str] = {}
"""The renaming of a format with the aggregate's own names."""

_TYPE_NAMES: dict[Kind, str] = {
    str: "text",
    int: "a whole number",
    (int, str): "a number or text",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}
_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_MAX_ID_CHARACTERS = 80


class Invalid(Exception):
    """A field without a valid value: ``path`` is its path in the document, ``why`` the reason."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{'.'.join(map(str, path)) or 'the document'}: {why}")
        self.path = path
        self.why = why


def text(doc: Fields, key: str, path: Path, default: Json = REQUIRED) -> Json:
    return _typed(doc, key, path, default, str)


def named(doc: Fields, key: str, path: Path) -> str:
    """Return a text that is not blank."""
    name: str = text(doc, key, path)
    if not name.strip():
        raise Invalid([*path, key], "must not be empty")
    return name


def when(doc: Fields, key: str, path: Path, default: Json = REQUIRED) -> Json:
    value = text(doc, key, path, default)
    if value is not default and epoch_ms(value) is None:
        raise Invalid([*path, key], "must be a time such as 2026-03-09T17:00:00Z")
    return value


def duration(doc: Fields, key: str, path: Path, default: Json = REQUIRED) -> Json:
    """Return a duration, or ``None`` for one that never ends."""
    if key in doc and doc[key] is None:
        return None
    value = text(doc, key, path, default)
    if value is not default and duration_s(value) is None:
        raise Invalid([*path, key], "must be a duration such as 90m, 24h or 7d")
    return value


def one_of(
    doc: Fields, key: str, path: Path, words: Collection[str], default: Json = REQUIRED
) -> Json:
    value = text(doc, key, path, default)
    if value is not default and value not in words:
        raise Invalid([*path, key], f"must be one of {', '.join(words)}")
    return value


def count(doc: Fields, key: str, path: Path, default: Json = REQUIRED) -> Json:
    value = _typed(doc, key, path, default, int)
    if value is not default and value < 0:
        raise Invalid([*path, key], "must not be negative")
    return value


def flag(doc: Fields, key: str, path: Path, default: Json = REQUIRED) -> Json:
    return _typed(doc, key, path, default, bool)


def label(doc: Fields, key: str, path: Path, default: Json = REQUIRED) -> Json:
    """Return the id of a task: a number or a text."""
    return _typed(doc, key, path, default, (int, str))


def table(doc: Fields, key: str, path: Path, default: Json = None) -> Fields:
    """Return an object; by default, null is an empty one."""
    value: Fields = _typed(doc, key, path, default, dict) or {}
    return value


def tables(doc: Fields, key: str, path: Path, default: Json = None) -> dict[str, Fields]:
    """Return an object of objects."""
    value = table(doc, key, path, default)
    for name in value:
        _typed(value, name, [*path, key], REQUIRED, dict)
    return value


def rows(doc: Fields, key: str, path: Path) -> list[Fields]:
    """Return a list of objects; null is an empty one."""
    return _items(doc, key, path, None, dict)


def texts(doc: Fields, key: str, path: Path, default: Json = None) -> list[str]:
    """Return a list of texts; by default, null is an empty one."""
    return _items(doc, key, path, default, str)


def check_object(document: Json, path: Path) -> None:
    if not isinstance(document, dict):
        raise Invalid(path, f"must be an object, not {_describe(document)}")


def _typed(doc: Fields, key: str, path: Path, default: Json, kind: Kind) -> Json:
    value = doc.get(key, default)
    if value is REQUIRED:
        raise Invalid([*path, key], "is missing")
    if value is default or _is(value, kind):
        return value
    raise Invalid([*path, key], f"must be {_TYPE_NAMES[kind]}, not {_describe(value)}")


def _items(doc: Fields, key: str, path: Path, default: Json, kind: Kind) -> list[Json]:
    items: list[Json] = _typed(doc, key, path, default, list) or []
    for position, value in enumerate(items):
        if not _is(value, kind):
            raise Invalid(
                [*path, key, position], f"must be {_TYPE_NAMES[kind]}, not {_describe(value)}"
            )
    return items


def _is(value: Json, kind: Kind) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _describe(value: Json) -> str:
    """Describe an invalid value in a few words."""
    if isinstance(value, str):
        return repr(value[:40])
    return "null" if value is None else _TYPE_NAMES.get(type(value), "a number")


def text_or_null(doc: Fields, key: str, path: Path) -> Json:
    return text(doc, key, path, None)


def label_or_null(doc: Fields, key: str, path: Path) -> Json:
    return label(doc, key, path, None)


def _flag_or_null(doc: Fields, key: str, path: Path) -> Json:
    return flag(doc, key, path, None)


def _phase_status(doc: Fields, key: str, path: Path) -> Json:
    return one_of(doc, key, path, PHASE_STATUSES)


def _task_status(doc: Fields, key: str, path: Path) -> Json:
    return one_of(doc, key, path, TASK_STATUSES)


def _steps(doc: Fields, key: str, path: Path) -> Json:
    return texts(doc, key, path, REQUIRED)


def _depends(doc: Fields, key: str, path: Path) -> Json:
    return _items(doc, key, path, REQUIRED, (int, str))


def _sub_phases(doc: Fields, key: str, path: Path) -> None:
    statuses = table(doc, key, path, REQUIRED)
    for name in statuses:
        _phase_status(statuses, name, [*path, key])


PHASE: dict[str, Check] = {
    "name": named,
    "status": _phase_status,
    "started_at": text_or_null,
    "completed_at": text_or_null,
    "approved": _flag_or_null,
    "reason": text_or_null,
    "steps": _steps,
}
TASK: dict[str, Check] = {
    "description": text,
    "status": _task_status,
    "commit": text_or_null,
    "reason": text_or_null,
    "phases": _sub_phases,
    "depends": _depends,
    "started_at": text_or_null,
    "completed_at": text_or_null,
    "iterations_used": count,
    "confirmations_used": count,
    "verification_passed": _flag_or_null,
    "max_iterations": count,
}


def check_entry(
    entry: Fields, entry_path: Path, checks: Mapping[str, Check], names: Mapping[str, str] = SAME
) -> None:
    """Check the known fields of an entry."""
    for key in entry:
        check = checks.get(names.get(key, key))
        if check is not None:
            check(entry, key, entry_path)


def renamed(entry: Json, names: Mapping[str, str]) -> Json:
    """Return the entry with its keys renamed in both directions, so that no key hides another."""
    return {names.get(key, key): value for key, value in entry.items()}


def both_ways(**names: str) -> dict[str, str]:
    """Return a renaming that is its own inverse."""
    return {**names, **{theirs: ours for ours, theirs in names.items()}}


def phases(doc: Fields, key: str, path: Path, names: Mapping[str, str] = SAME) -> list[Phase]:
    """Return the phases of a record; ``names`` renames the aggregate's fields."""
    entries: list[Json] = []
    seen: set[str] = set()
    for position, entry in enumerate(rows(doc, key, path)):
        entry_path: Path = [*path, key, position]
        name = named(entry, "name", entry_path)
        check_entry(entry, entry_path, PHASE, names)
        if name in seen:
            raise Invalid([*entry_path, "name"], "is the name of an earlier phase")
        seen.add(name)
        entries.append(renamed(entry, names))
        entries[-1].setdefault("status", "pending")
    if len(entries) > MAX_PHASES:
        raise Invalid([*path, key], f"must be {MAX_PHASES:,} at most")
    return entries


def tasks(doc: Fields, key: str, path: Path, names: Mapping[str, str] = SAME) -> list[Task]:
    """Return the tasks of a record; one without an id gets its position."""
    own = names.get("id", "id")
    entries: list[Json] = []
    seen: set[str] = set()
    for position, entry in enumerate(rows(doc, key, path)):
        entry_path: Path = [*path, key, position]
        task_id = label(entry, own, entry_path, position + 1)
        check_entry(entry, entry_path, TASK, names)
        if str(task_id) in seen:
            raise Invalid([*entry_path, own], "is that of an earlier task")
        seen.add(str(task_id))
        task = renamed(entry, names)
        for field, default in (("id", task_id), ("description", ""), ("status", "pending")):
            task.setdefault(field, default)
        entries.append(task)
    return entries


def violations(doc: Fields, key: str, path: Path) -> list[Violation]:
    entries: list[Json] = []
    for position, entry in enumerate(rows(doc, key, path)):
        entry_path: Path = [*path, key, position]
        named(entry, "code", entry_path)
        named(entry, "severity", entry_path)
        text(entry, "details", entry_path, "")
        entries.append(entry if "details" in entry else {**entry, "details": ""})
    return entries


def is_safe(name: object) -> bool:
    """Return whether a name can be an id, and so a part of a path."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= _MAX_ID_CHARACTERS
        and name[0] not in "._-"
        and _ID_CHARACTERS.issuperset(name)
    )


def sanitised(name: str) -> str:
    """Return the nearest safe name."""
    plain = "".join(c if c in _ID_CHARACTERS else "-" for c in name.lower())
    joined = "-".join(part for part in plain.split("-") if part)
    return joined.lstrip("._-")[:_MAX_ID_CHARACTERS].rstrip("-") or "workflow"


def stem(path: str) -> str:
    """Return a file's name without its folders and suffix."""
    return path.rpartition("/")[2].removesuffix(".json")


def folder(path: str) -> str:
    """Return the name of a file's folder; without one, of the file."""
    return path.rpartition("/")[0].rpartition("/")[2] or stem(path)
