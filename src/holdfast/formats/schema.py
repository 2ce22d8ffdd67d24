"""The common ground of all formats: fields, leftover state, and the position in a document.

*Fields.* A document is read through the functions below alone. A value of the wrong type, or a word
outside its vocabulary, raises ``Invalid`` with its path in the document; no other exception is
raised. Each function takes the object, the key and the object's own path. Without a default the
field is required; with ``None`` as the default it may be null as well.

*Leftover state.* ``rest`` is the state that a document cannot express: the difference between the
state and a blank workflow of the same recipe, without what the document shows; a future field of
the aggregate is in it automatically. Formats add what they need to detect edits: ``was``,
``under``, ``units``, and in ``extra`` the unknown fields that a known field hides.

*Position.* A script that sets the current phase does not update the statuses, or the other way
round. ``was`` is the position that was rendered; comparing it with the document shows what was
edited.
"""

from __future__ import annotations

from holdfast.core.record_formats import FORMATS
from holdfast.core.time import duration_s, epoch_ms
from holdfast.core.workflow import blank, find_phase, pending_phase
from holdfast.core.workflow.edits import among
from holdfast.core.workflow.pool import MAX_NAMES, is_name
from holdfast.core.workflow.questions import ANSWERED, MAX_QUESTIONS
from holdfast.core.workflow.questions import STATUSES as QUESTION_STATUSES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from holdfast.core.types import (
        Fields,
        Format,
        Json,
        Origin,
        Phase,
        Recipe,
        RecipePhase,
        Task,
        Violation,
        Workflow,
    )

    Path = list[str | int]
    Kind = type | tuple[type, ...]
    Check = Callable[[Fields, str, Path], Json]
    Checks = Mapping[str, Check]
    Position = tuple[str | None, list[Phase]]

WORKFLOW_STATUSES = ("in_progress", "blocked", "completed", "abandoned", "expired")
PHASE_STATUSES = ("pending", "in_progress", "completed", "blocked", "skipped")
TASK_STATUSES = (
    "pending", "in_progress", "confirming", "verifying", "completed", "blocked", "timeout",
)  # fmt: skip
MAX_PHASES = 1_000
MAX_COUNT = 2**63 - 1
"""The largest integer that a column of the ledger can have."""

REST_PATH: Path = ["_holdfast", "rest"]
"""The path of the state that a document cannot express."""
EVERYWHERE = frozenset(("recipe", "record", "worktree", "created_at", "extra"))
"""State that every document shows, or that follows from the path of the record."""

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
_NOT_STATE = EVERYWHERE | {"id", "was", "under", "units", "order", "blocks"}
_NAMES = ("title", "subject")
_DROPPED_FIELDS = {
    "pending": ("started_at", "completed_at", "approved", "claimed", "reason"),
    "in_progress": ("completed_at", "claimed", "reason"),
}
"""Fields that a phase loses when it gets this status."""


class Invalid(Exception):
    """A field without a valid value: ``path`` is its path in the document, ``why`` the reason."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{'.'.join(map(str, path)) or 'the document'}: {why}")
        self.path = path
        self.why = why


# Fields


def _typed(doc: Fields, key: str, path: Path, default: Json, kind: Kind) -> Json:
    value = doc.get(key, default)
    if value is REQUIRED:
        raise Invalid([*path, key], "is missing")
    if value is not default:
        _check_type(value, kind, path, key)
    return value


def _check_type(value: Json, kind: Kind, path: Path, *below: str | int) -> None:
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return
    actual = "null" if value is None else _TYPE_NAMES.get(type(value), "a number")
    actual = repr(value[:40]) if isinstance(value, str) else actual
    raise Invalid([*path, *below], f"must be {_TYPE_NAMES[kind]}, not {actual}")


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
    if value is not default and value > MAX_COUNT:
        raise Invalid([*path, key], f"must be {MAX_COUNT:,} at most")
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
    for name, inner in value.items():
        _check_type(inner, dict, path, key, name)
    return value


def _items(doc: Fields, key: str, path: Path, default: Json, kind: Kind) -> list[Json]:
    items: list[Json] = _typed(doc, key, path, default, list) or []
    for position, value in enumerate(items):
        _check_type(value, kind, path, key, position)
    return items


def rows(doc: Fields, key: str, path: Path) -> list[Fields]:
    """Return a list of objects; null is an empty one."""
    return _items(doc, key, path, None, dict)


def texts(doc: Fields, key: str, path: Path, default: Json = None) -> list[str]:
    """Return a list of texts; by default, null is an empty one."""
    return _items(doc, key, path, default, str)


# Checks of entries, by field


def optional(check: Callable[[Fields, str, Path, Json], Json], default: Json = None) -> Check:
    """Return a check of a field that may be missing; without a default, it may be null as well."""
    return lambda doc, key, path: check(doc, key, path, default)


def word_in(words: Collection[str], default: Json = REQUIRED) -> Check:
    """Return a check of a word of this vocabulary."""
    return lambda doc, key, path: one_of(doc, key, path, words, default)


def values_of(check: Check, default: Json = REQUIRED) -> Check:
    """Return a check of an object whose values all pass a check."""

    def check_values(doc: Fields, key: str, path: Path) -> Fields:
        values = table(doc, key, path, default)
        for name in values:
            check(values, name, [*path, key])
        return values

    return check_values


def check_fields(entry: Fields, entry_path: Path, checks: Checks) -> Fields:
    """Return the entry; raise ``Invalid`` unless all these fields of it pass their check."""
    for key, check in checks.items():
        check(entry, key, entry_path)
    return entry


def check_known_fields(
    entry: Fields, entry_path: Path, checks: Checks, names: Mapping[str, str] = SAME
) -> None:
    """Raise ``Invalid`` unless the fields that an entry has pass their check."""
    for key in entry:
        check = checks.get(names.get(key, key))
        if check is not None:
            check(entry, key, entry_path)


text_or_null = optional(text)

PHASE: Checks = {
    "name": named,
    "status": word_in(PHASE_STATUSES),
    "started_at": text_or_null,
    "completed_at": text_or_null,
    "approved": optional(flag),
    "claimed": optional(flag),
    "reason": text_or_null,
    "steps": lambda doc, key, path: texts(doc, key, path, REQUIRED),
}
TASK: Checks = {
    "description": text,
    "status": word_in(TASK_STATUSES),
    "commit": text_or_null,
    "commits": lambda doc, key, path: texts(doc, key, path, REQUIRED),
    "reason": text_or_null,
    "phases": values_of(word_in(PHASE_STATUSES)),
    "depends": lambda doc, key, path: _items(doc, key, path, REQUIRED, (int, str)),
    "started_at": text_or_null,
    "completed_at": text_or_null,
    "iterations_used": count,
    "confirmations_used": count,
    "claimed": optional(flag),
    "verification_passed": optional(flag),
    "verification_run": table,
    "max_iterations": count,
}


def renamed(entry: Json, names: Mapping[str, str]) -> Json:
    """Return the entry with its keys renamed."""
    return {names.get(key, key): value for key, value in entry.items()}


def phases(doc: Fields, key: str, path: Path, names: Mapping[str, str] = SAME) -> list[Phase]:
    """Return the phases of a record; ``names`` renames the aggregate's fields."""
    entries: list[Json] = []
    used_names: set[str] = set()
    for position, entry in enumerate(rows(doc, key, path)):
        entry_path: Path = [*path, key, position]
        name = named(entry, "name", entry_path)
        check_known_fields(entry, entry_path, PHASE, names)
        if name in used_names:
            raise Invalid([*entry_path, "name"], "is the name of an earlier phase")
        used_names.add(name)
        entries.append(renamed(entry, names))
        entries[-1].setdefault("status", "pending")
    if len(entries) > MAX_PHASES:
        raise Invalid([*path, key], f"must be {MAX_PHASES:,} at most")
    return entries


def tasks(doc: Fields, key: str, path: Path, names: Mapping[str, str] = SAME) -> list[Task]:
    """Return the tasks of a record; one without an id gets its position."""
    own = names.get("id", "id")
    entries: list[Json] = []
    used_ids: set[str] = set()
    for position, entry in enumerate(rows(doc, key, path)):
        entry_path: Path = [*path, key, position]
        task_id = label(entry, own, entry_path, position + 1)
        check_known_fields(entry, entry_path, TASK, names)
        if str(task_id) in used_ids:
            raise Invalid([*entry_path, own], "is that of an earlier task")
        used_ids.add(str(task_id))
        task = renamed(entry, names)
        for field, default in (("id", task_id), ("description", ""), ("status", "pending")):
            task.setdefault(field, default)
        entries.append(task)
    return entries


def violations(doc: Fields, key: str, path: Path) -> list[Violation]:
    entries: list[Json] = list(rows(doc, key, path))
    for position, entry in enumerate(entries):
        check_fields(entry, [*path, key, position], _VIOLATION)
        if "details" not in entry:
            entries[position] = {**entry, "details": ""}
    return entries


_VIOLATION: Checks = {
    "code": named,
    "severity": named,
    "details": optional(text, ""),
    "blocking": optional(flag, default=False),
}
_SESSION: Checks = {
    "id": text,
    "at": when,
    "pid": optional(count, 0),
    "born": optional(count, 0),
    "seq": optional(count, 0),
}
_INITIATIVE: Checks = {"name": named, "milestone": text_or_null}
_RECIPE: Checks = {
    "name": named,
    "format": word_in(FORMATS),
    "ttl": optional(duration),
    "cycles_at": optional(text, ""),
    "subject_key": optional(text, ""),
    "mode": optional(text, ""),
    "differs": optional(text, ""),
    "task_phases": optional(texts, ()),
    "gates": optional(tables, {}),
    "context": optional(table, {}),
}
_RECIPE_PHASE: Checks = {"name": named, "steps": optional(texts, ()), "next": optional(texts, ())}


def _session(doc: Fields, key: str, path: Path) -> Fields | None:
    is_bound = doc[key] is not None
    return check_fields(table(doc, key, path), [*path, key], _SESSION) if is_bound else None


def _initiative(doc: Fields, key: str, path: Path) -> Fields:
    return check_fields(table(doc, key, path), [*path, key], _INITIATIVE)


def _names(doc: Fields, key: str, path: Path) -> list[str]:
    """Return the labels of a workflow, or the workflows that it comes after."""
    names = texts(doc, key, path, REQUIRED)
    if len(names) > MAX_NAMES:
        raise Invalid([*path, key], f"must be {MAX_NAMES} at most")
    for position, name in enumerate(names):
        if not is_name(name):
            raise Invalid([*path, key, position], "must be one word of up to 80 characters")
    return names


def _caller(doc: Fields, key: str, path: Path) -> Fields:
    """Return who asked or answered: the surface, and the session if there was one."""
    return check_fields(table(doc, key, path), [*path, key], _CALLER)


_CALLER: Checks = {"surface": optional(text, ""), "session": optional(text, "")}
_QUESTION: Checks = {
    "id": count,
    "text": named,
    "choices": optional(texts, ()),
    "blocking": optional(flag, default=False),
    "asked_at": when,
    "by": _caller,
    "status": word_in(QUESTION_STATUSES),
}
_ANSWER: Checks = {"answer": named, "answered_at": when, "answered_by": _caller}


def questions(doc: Fields, key: str, path: Path) -> list[Fields]:
    """Return the questions of a record. One that was answered has its answer, time and caller."""
    entries = rows(doc, key, path)
    if len(entries) > MAX_QUESTIONS:
        raise Invalid([*path, key], f"must be {MAX_QUESTIONS} at most")
    for position, entry in enumerate(entries):
        checks = {**_QUESTION, **_ANSWER} if entry.get("status") == ANSWERED else _QUESTION
        check_fields(entry, [*path, key, position], checks)
    return entries


_WORKFLOW: Checks = {
    "subject": text,
    "title": text,
    "status": word_in(WORKFLOW_STATUSES),
    "updated_at": when,
    "adopted_at": when,
    "notes_file": text,
    "completed_at": when,
    "outcome": text,
    "reason": text,
    "branch": text_or_null,
    "session": _session,
    "ttl": duration,
    "phase": text_or_null,
    "step": text_or_null,
    "cycle": count,
    "phases": phases,
    "tasks": tasks,
    "current_task": optional(label),
    "last_task": count,
    "removed_tasks": texts,
    "gates": tables,
    "violations": violations,
    "required_reading": texts,
    "read": values_of(when, None),
    "reminders": texts,
    "context": table,
    "tests": table,
    "files": rows,
    "commits": texts,
    "history": rows,
    "history_earlier": count,
    "initiative": _initiative,
    "labels": _names,
    "after": _names,
    "questions": questions,
}


# Ids and names


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


# Leftover state


def rest_of(state: Workflow, shown_fields: Collection[str]) -> Fields:
    """Return the state without the ``shown_fields`` and without those of a blank workflow."""
    initial: Json = blank(state["id"], state["recipe"], state["created_at"])
    rest: Fields = {"recipe": state["recipe"]}
    if "id" not in shown_fields:
        rest["id"] = state["id"]
    for key, value in state.items():
        if key not in shown_fields and (key not in initial or initial[key] != value):
            rest[key] = value
    return rest


def compose(
    workflow_id: str, recipe: Recipe, parts: Fields, rest: Fields, origin: Origin
) -> Workflow:
    """Return the state of a document: a blank one, then the rest, then the document's parts."""
    state: Json = blank(workflow_id, recipe, parts["created_at"])
    for key, value in rest.items():
        if key not in _NOT_STATE:
            check = _WORKFLOW.get(key)
            state[key] = check(rest, key, REST_PATH) if check else value
    state.update(parts)
    state["worktree"] = origin["worktree"]
    state["record"] = origin["path"]
    composed: Workflow = state
    return composed


def workflow_id_of(rest: Fields, otherwise: str) -> str:
    """Return the id in ``rest``, else the nearest safe name to ``otherwise``."""
    workflow_id: Json = rest.get("id")
    return str(workflow_id) if is_safe(workflow_id) else sanitised(otherwise)


def times(doc: Fields, created: str, updated: str, path: Path, origin: Origin) -> Fields:
    """Return the times of creation and change, as far as the document has them."""
    changed = when(doc, updated, path, None)
    begun = when(doc, created, path, None) or changed or origin["at"]
    return {"created_at": begun, "updated_at": changed or begun}


def shared_name(state: Workflow, rest: Fields) -> str:
    """Return the one name that a document shows; ``rest`` gets title or subject if it differs."""
    name = state["title"] or state["subject"]
    for key in _NAMES:
        if state[key] != name:  # type: ignore[literal-required]
            rest[key] = state[key]  # type: ignore[literal-required]
    return name


def title_and_subject(name: str, rest: Fields) -> Fields:
    """Return title and subject from a document's one name, without those in ``rest``."""
    return {key: name for key in _NAMES if key not in rest}


def merge_extra(document: Fields, rest: Fields, extra: Fields, nested: Collection[str]) -> None:
    """Merge the unknown fields into the document; ``rest`` gets those that a known field hides."""
    hidden: Fields = {}
    for key, value in extra.items():
        if key not in document:
            document[key] = value
        elif key in nested and isinstance(value, dict) and value:
            fields = document[key]
            document[key] = {**fields, **{k: v for k, v in value.items() if k not in fields}}
            below = {k: v for k, v in sorted(value.items()) if k in fields}
            if below:
                hidden[key] = below
        else:
            hidden[key] = value
    if hidden:
        rest["extra"] = dict(sorted(hidden.items()))


def unknown_fields(
    document: Fields, rest: Fields, rendered: Fields, nested: Collection[str]
) -> Fields:
    """Return the fields of the document that a rendering of its state does not have."""
    extra: Fields = {}
    for key, value in document.items():
        if key not in rendered:
            extra[key] = value
        elif key in nested and isinstance(value, dict):
            below = {k: v for k, v in value.items() if k not in rendered[key]}
            if below:
                extra[key] = below
    for key, value in table(rest, "extra", REST_PATH).items():
        if key in nested and isinstance(value, dict) and isinstance(extra.get(key), dict):
            extra[key] = {**value, **extra[key]}
        else:
            extra.setdefault(key, value)
    return extra


def known_recipe(rest: Fields) -> Recipe | None:
    """Return the recipe in ``rest``; ``None`` for another tool's document."""
    if "recipe" not in rest:
        return None
    recipe: Json = table(rest, "recipe", REST_PATH)
    path: Path = [*REST_PATH, "recipe"]
    check_fields(recipe, path, _RECIPE)
    names: set[str] = set()
    declared = rows(recipe, "phases", path)
    for position, phase in enumerate(declared):
        below: Path = [*path, "phases", position]
        check_fields(phase, below, _RECIPE_PHASE)
        if phase["name"] in names:
            raise Invalid([*below, "name"], "is the name of an earlier phase")
        names.add(phase["name"])
    recipe = {**recipe, "phases": declared}
    checked: Recipe = recipe
    return checked


def local_recipe(name: str, record_format: Format, origin: Origin) -> Recipe:
    """Return this workspace's recipe of that name, or an empty one."""
    local = origin["recipe"](name) or {"name": name, "phases": []}
    recipe: Recipe = {**local, "format": record_format}  # type: ignore[typeddict-item]
    return recipe


def rename_phases(recipe: Recipe, names: dict[str, str]) -> Recipe:
    """Return the recipe with some phases renamed."""
    if not names:
        return recipe
    declared: Json = []
    for phase in recipe["phases"]:
        renamed_phase: Json = {**phase, "name": names.get(phase["name"], phase["name"])}
        if "next" in renamed_phase:
            renamed_phase["next"] = [names.get(name, name) for name in renamed_phase["next"]]
        declared.append(renamed_phase)
    after: Json = {**recipe, "phases": declared}
    if "cycles_at" in after:
        after["cycles_at"] = names.get(after["cycles_at"], after["cycles_at"])
    return after  # type: ignore[no-any-return]


def fit_recipe(recipe: Recipe, phase_list: list[Phase]) -> Recipe:
    """Return the recipe with exactly these phases."""
    declared = {phase["name"]: phase for phase in recipe["phases"]}
    names = [phase["name"] for phase in phase_list]
    if names == list(declared):
        return recipe
    fitting = [_declaration(declared.get(phase["name"]), phase, names) for phase in phase_list]
    return {**recipe, "phases": fitting}


def _declaration(declared: RecipePhase | None, phase: Phase, names: list[str]) -> RecipePhase:
    if declared is None:
        new: RecipePhase = {"name": phase["name"]}
        if "steps" in phase:
            new["steps"] = phase["steps"]
        return new
    return among(declared, set(names))


# Position


def index_to_show(current: str | None, phase_list: list[Phase]) -> int:
    """Return the index of the phase to show: the current one, else the next, else the last."""
    following = len(phase_list) - 1
    for index in range(len(phase_list) - 1, -1, -1):
        if phase_list[index]["name"] == current:
            return index
        if phase_list[index]["status"] == "pending":
            following = index
    return following


def position_in_rest(rest: Fields, recipe: Recipe) -> Position:
    """Return the position that was rendered, if ``rest`` has all of it."""
    if "phases" in rest:
        phase_list = phases(rest, "phases", REST_PATH)
    else:
        phase_list = [pending_phase(phase) for phase in recipe["phases"]]
    current = text(rest, "phase", REST_PATH, None)
    if current is not None and all(phase["name"] != current for phase in phase_list):
        raise Invalid([*REST_PATH, "phase"], "is the name of no phase")
    return current, phase_list


def rendered_position(state: Workflow) -> Fields:
    """Return the position as ``was``, from which a later parse detects edits."""
    statuses = {phase["name"]: phase["status"] for phase in state["phases"]}
    return {"phase": state["phase"], "statuses": statuses}


def parse_position(
    doc: Fields,
    key: str,
    path: Path,
    recipe: Recipe,
    rest: Fields,
    *,
    names: Mapping[str, str] = SAME,
) -> tuple[Recipe, str | None, list[Phase]]:
    """Return the position in a document that lists its phases, the current one under ``key``.

    The recipe is returned with the phases of the document.
    """
    phase_list = phases(doc, "phases", path, names)
    current = None if doc.get(key) is None else named(doc, key, path)
    was_path: Path = [*REST_PATH, "was"]
    was = table(rest, "was", REST_PATH) if "was" in rest else None
    before = None if was is None else table(was, "statuses", was_path)
    if not phase_list and before is None:
        pending = [pending_phase(phase) for phase in recipe["phases"]]
        phase_list = complete_until(pending, current)
    elif current is not None and all(phase["name"] != current for phase in phase_list):
        raise Invalid([*path, key], "is the name of no phase")
    elif key not in doc:
        begun = (phase["name"] for phase in phase_list if phase["status"] == "in_progress")
        current = next(begun, None)
    elif was is None or before is None:
        phase_list = _catch_up(phase_list, current)
    else:
        current, phase_list = _merge_edit(
            phase_list, current, text(was, "phase", was_path, None), before
        )
    if before is None or before.keys() != {phase["name"] for phase in phase_list}:
        recipe = fit_recipe(recipe, phase_list)
    return recipe, current, phase_list


def _catch_up(phase_list: list[Phase], current: str | None) -> list[Phase]:
    """Return another tool's phases, whose statuses may lag behind its current phase."""
    statuses = {phase["name"]: phase["status"] for phase in phase_list}
    status = statuses.pop(current or "", "in_progress")
    lags = status == "pending" or (status == "completed" and "in_progress" in statuses.values())
    return (
        move_to(phase_list, current, statuses.keys() | {current})
        if current and lags
        else phase_list
    )


def _merge_edit(
    phase_list: list[Phase], current: str | None, was: str | None, before: dict[str, str]
) -> Position:
    """Return the position of an edited record: edited statuses stay, the others follow the move."""
    changed = [p["name"] for p in phase_list if p["status"] != before.get(p["name"], "pending")]
    if current == was:
        begun = [
            phase["name"]
            for phase in phase_list
            if phase["status"] == "in_progress" and phase["name"] in changed
            if phase["name"] != current
        ]
        if len(begun) != 1:
            return current, phase_list
        current = begun[0]
    if current is None:
        return None, phase_list
    following = {was, current}.difference(changed) if changed else {p["name"] for p in phase_list}
    return current, move_to(phase_list, current, following)


def move_to(
    phase_list: list[Phase], current: str, following: Collection[str | None]
) -> list[Phase]:
    """Return the phases after a move to ``current``; only those in ``following`` change status."""
    target = [phase["name"] for phase in phase_list].index(current)
    after: list[Phase] = []
    for position, phase in enumerate(phase_list):
        status = phase["status"]
        if phase["name"] not in following:
            after.append(phase)
        elif position == target:
            after.append(with_status(phase, "in_progress"))
        elif position < target and status == "in_progress":
            after.append(with_status(phase, "completed"))
        elif position > target and status != "pending":
            after.append(with_status(phase, "pending"))
        else:
            after.append(phase)
    return after


def next_cycle(base: Workflow, edited: Workflow) -> Workflow:
    """Return the edited state; in its next cycle if the edit moved back to the start of a cycle.

    A phase keeps only what the edit wrote: the fields of ``base`` belong to the last cycle.
    """
    current = edited["phase"]
    before = find_phase(base, current)
    is_back = current != base["phase"] and before is not None and before["status"] == "completed"
    if not is_back or edited["recipe"].get("cycles_at") != current:
        return edited
    begun: list[Phase] = []
    for phase in edited["phases"]:
        was = find_phase(base, phase["name"])
        new: Json = {k: v for k, v in phase.items() if was is None or was.get(k) != v}
        fresh: Json = {**pending_phase(phase), **new}  # type: ignore[arg-type]
        begun.append(with_status(fresh, phase["status"] if phase["name"] == current else "pending"))
    is_counted = edited["cycle"] != base["cycle"]
    return {**edited, "cycle": edited["cycle"] + (not is_counted), "phases": begun}


def complete_until(phase_list: list[Phase], current: str | None) -> list[Phase]:
    """Return the phases with ``current`` in progress and all earlier ones completed."""
    if current is None:
        return phase_list
    names = [phase["name"] for phase in phase_list]
    if current not in names:
        names.append(current)
        phase_list = [*phase_list, {"name": current, "status": "pending"}]
    index = names.index(current)
    done = [with_status(phase, "completed") for phase in phase_list[:index]]
    return [*done, with_status(phase_list[index], "in_progress"), *phase_list[index + 1 :]]


def with_status(phase: Phase, status: str) -> Phase:
    dropped = _DROPPED_FIELDS.get(status, ())
    changed: Json = {key: value for key, value in phase.items() if key not in dropped}
    changed["status"] = status
    after: Phase = changed
    return after
