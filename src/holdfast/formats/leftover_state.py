"""State that a document cannot express (``rest``), and fields that Holdfast does not know
(``extra``).

``rest`` is the difference between the state and a blank workflow of the same recipe, without what
the document shows; a future field of the aggregate is in it automatically. Formats add what they
need to detect edits: ``was``, ``under``, ``units``, and in ``extra`` the unknown fields that a
known field hides.
"""

from __future__ import annotations

from holdfast.core.workflow.state import blank
from holdfast.formats import FORMATS
from holdfast.formats.schema import (
    REST_PATH,
    WORKFLOW_STATUSES,
    Invalid,
    count,
    duration,
    is_safe,
    label_or_null,
    named,
    one_of,
    phases,
    rows,
    sanitised,
    table,
    tables,
    tasks,
    text,
    text_or_null,
    texts,
    violations,
    when,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.core.types import (
        Fields,
        Format,
        Json,
        Origin,
        Phase,
        Recipe,
        RecipePhase,
        Workflow,
    )
    from holdfast.formats.schema import Check, Path

EVERYWHERE = frozenset(("recipe", "record", "worktree", "created_at", "extra"))
"""State that every document shows, or that follows from the path of the record."""

_NOT_STATE = EVERYWHERE | {"id", "was", "under", "units", "order"}
_NAMES = ("title", "subject")


def rest_of(state: Workflow, shown: Collection[str]) -> Fields:
    """Return the state without the ``shown`` fields and without those of a blank workflow."""
    initial: Json = blank(state["id"], state["recipe"], state["created_at"])
    rest: Fields = {"recipe": state["recipe"]}
    if "id" not in shown:
        rest["id"] = state["id"]
    for key, value in state.items():
        if key not in shown and (key not in initial or initial[key] != value):
            rest[key] = value
    return rest


def compose(
    workflow_id: str, recipe: Recipe, parts: Fields, rest: Fields, origin: Origin
) -> Workflow:
    """Return the state of a document: a blank one, then the rest, then the document's parts."""
    state: Json = blank(workflow_id, recipe, parts["created_at"])
    for key, value in rest.items():
        if key not in _NOT_STATE:
            check = _CHECKS.get(key)
            state[key] = check(rest, key, REST_PATH) if check else value
    state.update(parts)
    state["worktree"] = origin["worktree"]
    state["record"] = origin["path"]
    composed: Workflow = state
    return composed


def workflow_id_of(rest: Fields, otherwise: str) -> str:
    """Return the id in ``rest``, else the nearest safe name to ``otherwise``."""
    known: Json = rest.get("id")
    return str(known) if is_safe(known) else sanitised(otherwise)


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
    """Merge the unknown fields into the document; ``rest`` gets those that a known one hides."""
    hidden: Fields = {}
    for key, value in extra.items():
        if key not in document:
            document[key] = value
        elif key in nested and isinstance(value, dict) and value:
            known = document[key]
            document[key] = {**known, **{k: v for k, v in value.items() if k not in known}}
            below = {k: v for k, v in sorted(value.items()) if k in known}
            if below:
                hidden[key] = below
        else:
            hidden[key] = value
    if hidden:
        rest["extra"] = dict(sorted(hidden.items()))


def unknown_fields(
    document: Fields, rest: Fields, known: Fields, nested: Collection[str]
) -> Fields:
    """Return the fields of the document that a rendering of its state does not have."""
    extra: Fields = {}
    for key, value in document.items():
        if key not in known:
            extra[key] = value
        elif key in nested and isinstance(value, dict):
            below = {k: v for k, v in value.items() if k not in known[key]}
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
    named(recipe, "name", path)
    one_of(recipe, "format", path, FORMATS)
    seen: set[str] = set()
    declared = rows(recipe, "phases", path)
    for position, phase in enumerate(declared):
        below: Path = [*path, "phases", position]
        if named(phase, "name", below) in seen:
            raise Invalid([*below, "name"], "is the name of an earlier phase")
        seen.add(phase["name"])
        texts(phase, "steps", below, ())
        texts(phase, "next", below, ())
    duration(recipe, "ttl", path, None)
    for key in ("cycles_at", "subject_key", "mode"):
        text(recipe, key, path, "")
    texts(recipe, "task_phases", path, ())
    tables(recipe, "gates", path, {})
    table(recipe, "context", path, {})
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
        same: Json = {**phase, "name": names.get(phase["name"], phase["name"])}
        if "next" in same:
            same["next"] = [names.get(name, name) for name in same["next"]]
        declared.append(same)
    after: Json = {**recipe, "phases": declared}
    if "cycles_at" in after:
        after["cycles_at"] = names.get(after["cycles_at"], after["cycles_at"])
    return after  # type: ignore[no-any-return]


def fit_recipe(recipe: Recipe, listed: list[Phase]) -> Recipe:
    """Return the recipe with exactly these phases."""
    declared = {phase["name"]: phase for phase in recipe["phases"]}
    names = [phase["name"] for phase in listed]
    if names == list(declared):
        return recipe
    fitting = [_declaration(declared.get(phase["name"]), phase, names) for phase in listed]
    return {**recipe, "phases": fitting}


def _declaration(declared: RecipePhase | None, phase: Phase, names: list[str]) -> RecipePhase:
    if declared is None:
        new: RecipePhase = {"name": phase["name"]}
        if "steps" in phase:
            new["steps"] = phase["steps"]
        return new
    following = [name for name in declared.get("next", ()) if name in names]
    if following == declared.get("next", []):
        return declared
    kept: Json = {key: value for key, value in declared.items() if key != "next"}
    if following:
        kept["next"] = following
    fitting: RecipePhase = kept
    return fitting


def _session(doc: Fields, key: str, path: Path) -> Fields | None:
    if doc[key] is None:
        return None
    session = table(doc, key, path)
    text(session, "id", [*path, key])
    when(session, "at", [*path, key])
    count(session, "pid", [*path, key], 0)
    count(session, "born", [*path, key], 0)
    count(session, "seq", [*path, key], 0)
    return session


def _read(doc: Fields, key: str, path: Path) -> Fields:
    read = table(doc, key, path)
    for name in read:
        when(read, name, [*path, key])
    return read


def _initiative(doc: Fields, key: str, path: Path) -> Fields:
    initiative = table(doc, key, path)
    named(initiative, "name", [*path, key])
    text(initiative, "milestone", [*path, key], None)
    return initiative


def _status(doc: Fields, key: str, path: Path) -> Json:
    return one_of(doc, key, path, WORKFLOW_STATUSES)


_CHECKS: dict[str, Check] = {
    "subject": text,
    "title": text,
    "status": _status,
    "updated_at": when,
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
    "current_task": label_or_null,
    "gates": tables,
    "violations": violations,
    "required_reading": texts,
    "read": _read,
    "reminders": texts,
    "context": table,
    "tests": table,
    "files": rows,
    "commits": texts,
    "history": rows,
    "history_earlier": count,
    "initiative": _initiative,
}
