"""What a document cannot express, kept in ``rest``, and what Holdfast does not know, in ``extra``.

``rest`` is the difference between the state and a blank workflow of the same recipe, without what
the document shows; a field that the aggregate gets one day is in it by itself. Formats add what
they need to tell an edit from what they rendered: ``was``, ``under``, ``units``, and in ``extra``
those unknown fields whose place a known one has taken.
"""

from __future__ import annotations

from holdfast.core.workflow.state import blank
from holdfast.formats import FORMATS
from holdfast.formats.schema import (
    PLACE,
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
"""State that every document shows, or that the place where it stands tells."""

_NOT_STATE = EVERYWHERE | {"id", "was", "under", "units", "order"}
_NAMES = ("title", "subject")


def rest_of(state: Workflow, shown: Collection[str]) -> Fields:
    """The state without what is ``shown`` and without what is as it was at the beginning."""
    begun: Json = blank(state["id"], state["recipe"], state["created_at"])
    rest: Fields = {"recipe": state["recipe"]}
    if "id" not in shown:
        rest["id"] = state["id"]
    for key, value in state.items():
        if key not in shown and (key not in begun or begun[key] != value):
            rest[key] = value
    return rest


def composed(
    workflow_id: str, recipe: Recipe, parts: Fields, rest: Fields, origin: Origin
) -> Workflow:
    """The state of a document: a blank one, then what ``rest`` keeps, then what is shown."""
    state: Json = blank(workflow_id, recipe, parts["created_at"])
    for key, value in rest.items():
        if key not in _NOT_STATE:
            check = _CHECKS.get(key)
            state[key] = check(rest, key, PLACE) if check else value
    state.update(parts)
    state["worktree"] = origin["worktree"]
    state["record"] = origin["path"]
    composed_state: Workflow = state
    return composed_state


def identity(rest: Fields, otherwise: str) -> str:
    """The id that was remembered, else the safe name nearest to what the document is called."""
    remembered: Json = rest.get("id")
    return str(remembered) if is_safe(remembered) else sanitised(otherwise)


def times(doc: Fields, created: str, updated: str, path: Path, origin: Origin) -> Fields:
    """When it was created and changed, as far as the document tells."""
    changed = when(doc, updated, path, None)
    begun = when(doc, created, path, None) or changed or origin["at"]
    return {"created_at": begun, "updated_at": changed or begun}


def one_name(state: Workflow, rest: Fields) -> str:
    """Title and subject where a document has room for one name; ``rest`` gets the other."""
    name = state["title"] or state["subject"]
    for key in _NAMES:
        if state[key] != name:  # type: ignore[literal-required]
            rest[key] = state[key]  # type: ignore[literal-required]
    return name


def both_names(name: str, rest: Fields) -> Fields:
    return {key: name for key in _NAMES if key not in rest}


def put_back(document: Fields, rest: Fields, extra: Fields, nested: Collection[str]) -> None:
    """Merges the unknown fields into the document where their place is free."""
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


def unknown(document: Fields, rest: Fields, known: Fields, nested: Collection[str]) -> Fields:
    """The fields of the document that a rendering of its state does not show."""
    extra: Fields = {}
    for key, value in document.items():
        if key not in known:
            extra[key] = value
        elif key in nested and isinstance(value, dict):
            below = {k: v for k, v in value.items() if k not in known[key]}
            if below:
                extra[key] = below
    for key, value in table(rest, "extra", PLACE).items():
        if key in nested and isinstance(value, dict) and isinstance(extra.get(key), dict):
            extra[key] = {**value, **extra[key]}
        else:
            extra.setdefault(key, value)
    return extra


def remembered_recipe(rest: Fields) -> Recipe | None:
    """The recipe that the workflow was opened from; ``None`` for a document of someone else."""
    if "recipe" not in rest:
        return None
    found: Json = table(rest, "recipe", PLACE)
    place: Path = [*PLACE, "recipe"]
    named(found, "name", place)
    one_of(found, "format", place, FORMATS)
    seen: set[str] = set()
    declared = rows(found, "phases", place)
    for position, phase in enumerate(declared):
        below: Path = [*place, "phases", position]
        if named(phase, "name", below) in seen:
            raise Invalid([*below, "name"], "is the name of an earlier phase")
        seen.add(phase["name"])
        texts(phase, "steps", below, ())
        texts(phase, "next", below, ())
    duration(found, "ttl", place, None)
    for key in ("cycles_at", "subject_key", "mode"):
        text(found, key, place, "")
    texts(found, "task_phases", place, ())
    tables(found, "gates", place, {})
    table(found, "context", place, {})
    found = {**found, "phases": declared}
    recipe: Recipe = found
    return recipe


def recipe_here(name: str, record_format: Format, origin: Origin) -> Recipe:
    """The recipe of that name in this place; where there is none, one that says nothing."""
    found = origin["recipe"](name) or {"name": name, "phases": []}
    recipe: Recipe = {**found, "format": record_format}  # type: ignore[typeddict-item]
    return recipe


def relabelled(recipe: Recipe, names: dict[str, str]) -> Recipe:
    """The recipe with some of its phases called by new names; what it declares of them stays."""
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


def fitted(recipe: Recipe, listed: list[Phase]) -> Recipe:
    """The recipe with exactly these phases."""
    declared = {phase["name"]: phase for phase in recipe["phases"]}
    names = [phase["name"] for phase in listed]
    if names == list(declared):
        return recipe
    fitting = [_declaration(declared.get(phase["name"]), phase, names) for phase in listed]
    return {**recipe, "phases": fitting}


def _declaration(declared: RecipePhase | None, phase: Phase, names: list[str]) -> RecipePhase:
    if declared is None:
        made: RecipePhase = {"name": phase["name"]}
        if "steps" in phase:
            made["steps"] = phase["steps"]
        return made
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
    found = table(doc, key, path)
    for name in found:
        when(found, name, [*path, key])
    return found


def _initiative(doc: Fields, key: str, path: Path) -> Fields:
    found = table(doc, key, path)
    named(found, "name", [*path, key])
    text(found, "milestone", [*path, key], None)
    return found


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
