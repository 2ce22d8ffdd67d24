"""What the documents of all formats have in common: leftover state, unknown fields, the position.

``rest`` is the state that a document cannot express: the difference between the state and a blank
workflow of the same recipe, without what the document shows; a future field of the aggregate is in
it automatically. Formats add what they need to detect edits: ``was``, ``under``, ``units``, and in
``extra`` the unknown fields that a known field hides.

A script that sets the current phase does not update the statuses, or the other way round. ``rest``
has the position that was rendered (``was``), so that an edited value can be told from an old one.
"""

from __future__ import annotations

from holdfast.core.record_formats import FORMATS
from holdfast.core.workflow.state import blank, find_phase, pending_phase
from holdfast.formats.schema import (
    REST_PATH,
    SAME,
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
    from collections.abc import Collection, Mapping

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

    Position = tuple[str | None, list[Phase]]

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


_DROPPED_FIELDS = {
    "pending": ("started_at", "completed_at", "approved", "reason"),
    "in_progress": ("completed_at", "reason"),
}
"""Fields that a phase loses when it gets this status."""


def index_to_show(current: str | None, listed: list[Phase]) -> int:
    """Return the index of the phase to show: the current one, else the next, else the last."""
    following = len(listed) - 1
    for index in range(len(listed) - 1, -1, -1):
        if listed[index]["name"] == current:
            return index
        if listed[index]["status"] == "pending":
            following = index
    return following


def position_in_rest(rest: Fields, recipe: Recipe) -> Position:
    """Return the position that was rendered, if ``rest`` has all of it."""
    if "phases" in rest:
        listed = phases(rest, "phases", REST_PATH)
    else:
        listed = [pending_phase(phase) for phase in recipe["phases"]]
    current = text(rest, "phase", REST_PATH, None)
    if current is not None and all(phase["name"] != current for phase in listed):
        raise Invalid([*REST_PATH, "phase"], "is the name of no phase")
    return current, listed


def rendered_position(state: Workflow) -> Fields:
    """Return the position as ``was``, from which a later parse detects edits."""
    statuses = {phase["name"]: phase["status"] for phase in state["phases"]}
    return {"phase": state["phase"], "statuses": statuses}


def rendered_statuses(rest: Fields) -> dict[str, str] | None:
    """Return the statuses that were rendered; ``None`` for another tool's document."""
    if "was" not in rest:
        return None
    return table(table(rest, "was", REST_PATH), "statuses", [*REST_PATH, "was"])


def parse_position(
    doc: Fields,
    key: str,
    path: Path,
    recipe: Recipe,
    rest: Fields,
    *,
    names: Mapping[str, str] = SAME,
) -> Position:
    """Return the position in a document that lists its phases, the current one under ``key``."""
    listed = phases(doc, "phases", path, names)
    current = None if doc.get(key) is None else named(doc, key, path)
    before = rendered_statuses(rest)
    if not listed and before is None:
        return current, complete_until(
            [pending_phase(phase) for phase in recipe["phases"]], current
        )
    if current is not None and all(phase["name"] != current for phase in listed):
        raise Invalid([*path, key], "is the name of no phase")
    if key not in doc:
        begun = [phase["name"] for phase in listed if phase["status"] == "in_progress"]
        return (begun[0] if begun else None), listed
    if before is None:
        return current, _catch_up(listed, current)
    was = text(table(rest, "was", REST_PATH), "phase", [*REST_PATH, "was"], None)
    return _merge_edit(listed, current, was, before)


def _catch_up(listed: list[Phase], current: str | None) -> list[Phase]:
    """Return another tool's phases, whose statuses may lag behind its current phase."""
    statuses = {phase["name"]: phase["status"] for phase in listed}
    status = statuses.pop(current or "", "in_progress")
    lags = status == "pending" or (status == "completed" and "in_progress" in statuses.values())
    return move_to(listed, current, statuses.keys() | {current}) if current and lags else listed


def _merge_edit(
    listed: list[Phase], current: str | None, was: str | None, before: dict[str, str]
) -> Position:
    """Return the position of an edited record: edited statuses stay, the others follow the move."""
    changed = [p["name"] for p in listed if p["status"] != before.get(p["name"], "pending")]
    if current == was:
        begun = [
            phase["name"]
            for phase in listed
            if phase["status"] == "in_progress" and phase["name"] in changed
            if phase["name"] != current
        ]
        if len(begun) != 1:
            return current, listed
        current = begun[0]
    if current is None:
        return None, listed
    following = {was, current}.difference(changed) if changed else {p["name"] for p in listed}
    return current, move_to(listed, current, following)


def move_to(listed: list[Phase], current: str, following: Collection[str | None]) -> list[Phase]:
    """Return the phases after a move to ``current``; only those in ``following`` change status."""
    target = [phase["name"] for phase in listed].index(current)
    after: list[Phase] = []
    for position, phase in enumerate(listed):
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
    """Return the edited state; in its next cycle if the edit went back to where cycles begin.

    A phase keeps only what the edit wrote: the fields of ``base`` belong to the last cycle.
    """
    current = edited["phase"]
    before = find_phase(base, current)
    is_back = current != base["phase"] and before is not None and before["status"] == "completed"
    if not is_back or edited["recipe"].get("cycles_at") != current:
        return edited
    begun = [_begun(phase, find_phase(base, phase["name"]), current) for phase in edited["phases"]]
    is_counted = edited["cycle"] != base["cycle"]
    return {**edited, "cycle": edited["cycle"] + (not is_counted), "phases": begun}


def _begun(phase: Phase, was: Phase | None, current: str | None) -> Phase:
    edited: Json = {
        key: value for key, value in phase.items() if was is None or was.get(key) != value
    }
    fresh: Json = {**pending_phase(phase), **edited}  # type: ignore[arg-type]
    return with_status(fresh, phase["status"] if phase["name"] == current else "pending")


def complete_until(listed: list[Phase], current: str | None) -> list[Phase]:
    """Return phases of which only the current one is known: those before it are completed."""
    if current is None:
        return listed
    names = [phase["name"] for phase in listed]
    if current not in names:
        names.append(current)
        listed = [*listed, {"name": current, "status": "pending"}]
    index = names.index(current)
    done = [with_status(phase, "completed") for phase in listed[:index]]
    return [*done, with_status(listed[index], "in_progress"), *listed[index + 1 :]]


def with_status(phase: Phase, status: str) -> Phase:
    gone = _DROPPED_FIELDS.get(status, ())
    changed: Json = {key: value for key, value in phase.items() if key not in gone}
    changed["status"] = status
    after: Phase = changed
    return after
