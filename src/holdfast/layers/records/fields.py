"""Reading the fields of a document that anyone may have edited.

The four formats parse through these checkers alone. A value of the wrong type, or a word outside
its vocabulary, raises ``Invalid`` with its place in the document; no other exception comes out.

Each checker takes the object, the key and the object's own path. Without a default the field must
be there; with ``None`` as the default it may be null as well.
"""

from __future__ import annotations

from holdfast.core.moment import duration_s, epoch_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from holdfast.core.shapes import Fields, Json, Phase, Task, Violation

    Path = list[str | int]
    Kind = type | tuple[type, ...]

WORKFLOW_STATUSES = ("in_progress", "blocked", "completed", "abandoned", "expired")
PHASE_STATUSES = ("pending", "in_progress", "completed", "blocked")
TASK_STATUSES = (
    "pending", "in_progress", "confirming", "verifying", "completed", "blocked", "timeout",
)  # fmt: skip
MAX_PHASES = 1_000

REQUIRED: Json = object()
SAME: Mapping[str, str] = {}
"""The renaming of a format that calls everything as the aggregate does."""

_CALLED: dict[Kind, str] = {
    str: "text",
    int: "a whole number",
    (int, str): "a number or text",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}
_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_MAX_ID = 80


class Invalid(Exception):
    """A field that makes no sense: ``path`` is its place in the document, ``why`` what is wrong."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{'.'.join(map(str, path)) or 'the document'}: {why}")
        self.path = path
        self.why = why


def text(doc: Fields, key: str, path: Path, default: Json = REQUIRED) -> Json:
    return _typed(doc, key, path, default, str)


def named(doc: Fields, key: str, path: Path) -> str:
    """Text that must say something."""
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
    """A duration, or null for one that never runs out."""
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
    """What a task is called: a number or a word."""
    return _typed(doc, key, path, default, (int, str))


def table(doc: Fields, key: str, path: Path, default: Json = None) -> Fields:
    """An object; unless another default is given, one that is null is empty too."""
    found: Fields = _typed(doc, key, path, default, dict) or {}
    return found


def tables(doc: Fields, key: str, path: Path, default: Json = None) -> dict[str, Fields]:
    """An object of objects."""
    found = table(doc, key, path, default)
    for name in found:
        _typed(found, name, [*path, key], REQUIRED, dict)
    return found


def rows(doc: Fields, key: str, path: Path) -> list[Fields]:
    """A list of objects; one that is null is empty."""
    return _items(doc, key, path, None, dict)


def texts(doc: Fields, key: str, path: Path, default: Json = None) -> list[str]:
    """A list of texts; unless another default is given, one that is null is empty too."""
    return _items(doc, key, path, default, str)


def check_object(document: Json, path: Path) -> None:
    if not isinstance(document, dict):
        raise Invalid(path, f"must be an object, not {_shown(document)}")


def _typed(doc: Fields, key: str, path: Path, default: Json, kind: Kind) -> Json:
    value = doc.get(key, default)
    if value is REQUIRED:
        raise Invalid([*path, key], "is missing")
    if value is default or _is(value, kind):
        return value
    raise Invalid([*path, key], f"must be {_CALLED[kind]}, not {_shown(value)}")


def _items(doc: Fields, key: str, path: Path, default: Json, kind: Kind) -> list[Json]:
    found: list[Json] = _typed(doc, key, path, default, list) or []
    for position, value in enumerate(found):
        if not _is(value, kind):
            raise Invalid([*path, key, position], f"must be {_CALLED[kind]}, not {_shown(value)}")
    return found


def _is(value: Json, kind: Kind) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _shown(value: Json) -> str:
    """A wrong value in a few words; a long one would hide what is wrong with it."""
    if isinstance(value, str):
        return repr(value[:40])
    return "null" if value is None else _CALLED.get(type(value), "a number")


def renamed(entry: Json, names: Mapping[str, str]) -> Json:
    """The entry with its keys renamed both ways, so that no key can hide another."""
    return {names.get(key, key): value for key, value in entry.items()}


def both_ways(**names: str) -> dict[str, str]:
    """A renaming that undoes itself."""
    return {**names, **{theirs: ours for ours, theirs in names.items()}}


def phases(doc: Fields, key: str, path: Path, names: Mapping[str, str] = SAME) -> list[Phase]:
    """The phases of a record; ``names`` is what its format calls the aggregate's fields."""
    entries = rows(doc, key, path)
    if len(entries) > MAX_PHASES:
        raise Invalid([*path, key], f"must be {MAX_PHASES:,} at most")
    seen: set[str] = set()
    for position, entry in enumerate(entries):
        place: Path = [*path, key, position]
        _check_phase(entry, place, names)
        if entry["name"] in seen:
            raise Invalid([*place, "name"], "is the name of an earlier phase")
        seen.add(entry["name"])
    listed: Json = [{"status": "pending", **renamed(entry, names)} for entry in entries]
    found: list[Phase] = listed
    return found


def _check_phase(entry: Fields, place: Path, names: Mapping[str, str]) -> None:
    named(entry, "name", place)
    one_of(entry, "status", place, PHASE_STATUSES, "pending")
    for time in ("started_at", "completed_at"):
        when(entry, names.get(time, time), place, None)
    flag(entry, "approved", place, None)
    text(entry, "reason", place, None)
    texts(entry, "steps", place, ())


def tasks(doc: Fields, key: str, path: Path, names: Mapping[str, str] = SAME) -> list[Task]:
    """The tasks of a record; one without an id goes by its position."""
    own = names.get("id", "id")
    found: list[Json] = []
    seen: set[str] = set()
    for number, entry in enumerate(rows(doc, key, path), 1):
        place: Path = [*path, key, number - 1]
        task_id = label(entry, own, place, number)
        check_task(entry, place, names)
        if str(task_id) in seen:
            raise Invalid([*place, own], "is that of an earlier task")
        seen.add(str(task_id))
        defaults = {"id": task_id, "description": "", "status": "pending"}
        found.append({**defaults, **renamed(entry, names)})
    return found


def check_task(
    entry: Fields,
    place: Path,
    names: Mapping[str, str] = SAME,
    statuses: Collection[str] = TASK_STATUSES,
) -> None:
    """Everything of a task but its id."""
    text(entry, "description", place, "")
    one_of(entry, "status", place, statuses, "pending")
    text(entry, names.get("commit", "commit"), place, None)
    text(entry, "reason", place, None)
    sub_phases = names.get("phases", "phases")
    statuses_of = table(entry, sub_phases, place, {})
    for name in statuses_of:
        one_of(statuses_of, name, [*place, sub_phases], PHASE_STATUSES)
    _items(entry, "depends", place, (), (int, str))
    for time in ("started_at", "completed_at"):
        when(entry, time, place, None)
    for number in ("iterations_used", "confirmations_used", "max_iterations"):
        count(entry, number, place, 0)
    flag(entry, "verification_passed", place, None)


def violations(doc: Fields, key: str, path: Path) -> list[Violation]:
    found: list[Violation] = []
    for position, entry in enumerate(rows(doc, key, path)):
        place: Path = [*path, key, position]
        named(entry, "code", place)
        named(entry, "severity", place)
        text(entry, "details", place, "")
        found.append({"details": "", **entry})  # type: ignore[typeddict-item]
    return found


def is_safe(name: object) -> bool:
    """Whether a name can be an id, and so a part of a path."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= _MAX_ID
        and name[0] not in "._-"
        and _ID_CHARACTERS.issuperset(name)
    )


def sanitised(name: str) -> str:
    """The safe name that comes nearest."""
    plain = "".join(c if c in _ID_CHARACTERS else "-" for c in name.lower())
    joined = "-".join(part for part in plain.split("-") if part)
    return joined.lstrip("._-")[:_MAX_ID].rstrip("-") or "workflow"


def stem(path: str) -> str:
    """A file's name without its folders and its suffix."""
    return path.rpartition("/")[2].removesuffix(".json")


def folder(path: str) -> str:
    """The name of the folder that a file lies in; without one, the file's own."""
    return path.rpartition("/")[0].rpartition("/")[2] or stem(path)
