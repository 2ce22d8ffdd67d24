"""The loop format: units of work in bounded iterations, under a lifecycle.

The units are the aggregate's tasks: ``tasks`` T1… in development, ``phases`` R1… in knowledge mode.
The document's ``phase`` is the lifecycle, the aggregate's phases. The units are described in
Markdown beside the record, so the descriptions are in ``rest`` here.
"""

from __future__ import annotations

from holdfast.core.workflow import pending_phase
from holdfast.core.workflow.tasks import DECLARED, is_circular
from holdfast.formats import schema
from holdfast.formats.schema import REST_PATH, Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Json, Origin, Phase, Recipe, Task, Workflow
    from holdfast.formats.schema import Position

LIFECYCLE = ("discover", "plan", "execute", "verify", "deliver", "complete")
UNITS = {"development": ("tasks", "current_task"), "knowledge": ("phases", "current_phase")}
"""The document's keys of the units and of the current unit, by mode."""

_SHOWN = schema.EVERYWHERE | {
    "subject", "title", "updated_at", "tasks", "current_task", "context", "commits",
}  # fmt: skip
_WORDS = {word: word for word in schema.TASK_STATUSES} | {"completed": "done"}
_STATUS = {word: status for status, word in _WORDS.items()}
_IN_MARKDOWN = (
    "description", "criteria", "files", "output", "model", "verify", "remaining", "blockers",
    "verification_run",
)  # fmt: skip
_BEGUN = "iteration_begun"
"""The number of an iteration that was begun but not recorded."""
_UNIT = {**schema.TASK, "status": schema.word_in(_STATUS)}


def render(state: Workflow) -> tuple[Fields, Fields]:
    """Return the document, and the state that it cannot express."""
    rest = schema.rest_of(state, _SHOWN)
    mode = _mode(state["recipe"])
    units_key, current_key = UNITS[mode]
    document: Fields = {"task": state["title"], "slug": state["subject"], "mode": mode}
    context = dict(state["context"])
    if isinstance(context.get("domain"), str):
        document["domain"] = context.pop("domain")
    if context:
        rest["context"] = context
    document["created"] = state["created_at"]
    document["updated"] = state["updated_at"]
    document["phase"] = _shown_phase(state["phase"], state["phases"])
    units = _units(state["tasks"], rest)
    current = state.get("current_task")
    if "current_task" in state:
        document[current_key] = None if current is None else str(current)
    # The iteration that was begun, else the last one used.
    unit = units.get(str(current), {})
    begun, used = unit.get(_BEGUN), unit.get("iterations_used")
    if type(begun) is int and begun > (used or 0):
        document["current_iteration"] = unit.pop(_BEGUN)
    elif used is not None:
        document["current_iteration"] = used
    document[units_key] = units
    if state["commits"] or mode == "development":
        document["commits"] = state["commits"]
    if state["extra"]:
        schema.merge_extra(document, rest, state["extra"], ())
    return document, rest


def _mode(recipe: Recipe) -> str:
    return "knowledge" if recipe.get("mode") == "knowledge" else "development"


def _shown_phase(current: str | None, phases: list[Phase]) -> str | None:
    return phases[schema.index_to_show(current, phases)]["name"] if phases else None


def _units(tasks: list[Task], rest: Fields) -> dict[str, Fields]:
    units: dict[str, Fields] = {}
    hidden: dict[str, Fields] = {}
    for task in tasks:
        entry: Json = {**task}
        name = str(entry.pop("id"))
        below = {key: entry.pop(key) for key in _IN_MARKDOWN if key in entry}
        if name != task["id"]:
            below["id"] = task["id"]
        if below != {"description": ""}:
            hidden[name] = below
        entry["status"] = _WORDS[entry["status"]]
        if _BEGUN in entry:
            # It comes last, as after parsing, so that equal states make equal bytes.
            entry[_BEGUN] = entry.pop(_BEGUN)
        units[name] = entry
    if hidden:
        rest["units"] = hidden
    if list(units) != sorted(units, key=_counted):
        rest["order"] = list(units)
    return units


def _counted(name: str) -> tuple[int, str]:
    """Return a sort key with which T2 comes before T10."""
    number = name.lstrip("TR")
    return (int(number) if number.isdecimal() else 0, name)


def parse(document: Fields, rest: Fields, origin: Origin) -> Workflow:
    """Return the state of a document; raise ``Invalid`` if a field has no valid value."""
    mode = schema.one_of(document, "mode", [], UNITS)
    recipe, phase, phases, is_ended = _lifecycle(document, rest, origin, mode)
    slug = schema.text(document, "slug", [], None)
    subject = schema.folder(origin["path"]) if slug is None else slug
    title = schema.text(document, "task", [], None)
    context = (
        schema.table(rest, "context", REST_PATH) if "recipe" in rest else recipe.get("context", {})
    )
    domain = schema.text(document, "domain", [], None)
    parts: Fields = {
        **schema.times(document, "created", "updated", [], origin),
        **({"status": "completed"} if is_ended else {}),
        "subject": subject,
        "title": subject if title is None else title,
        "phase": phase,
        "phases": phases,
        **_tasks(document, rest, mode),
        "context": context if domain is None else {**context, "domain": domain},
        "commits": schema.texts(document, "commits", []),
    }
    state = schema.compose(schema.workflow_id_of(rest, subject), recipe, parts, rest, origin)
    state["extra"] = schema.unknown_fields(document, rest, render(state)[0], ())
    return state


def check_edit(base: Workflow, edited: Workflow) -> None:
    """Raise ``Invalid`` if an edit changes what only commands may.

    A unit is declared done, confirmed and verified by commands, which the log records. A unit that
    waits for itself or for an unknown unit would never be due.
    """
    units_key = UNITS[_mode(edited["recipe"])][0]
    before = {str(task["id"]): task for task in base["tasks"]}
    names = {str(task["id"]) for task in edited["tasks"]}
    for task in edited["tasks"]:
        name = str(task["id"])
        was = before.get(name, _NEW)
        if task["status"] in DECLARED and task["status"] != was["status"]:
            commands = "loop iterate, loop confirm and loop verify"
            raise Invalid([units_key, name, "status"], f"gets there by {commands} only")
        if task.get("verification_run") != was.get("verification_run"):
            raise Invalid([units_key, name, "verification_run"], "is what loop verify --run saw")
        depends = [str(other) for other in task.get("depends", [])]
        if depends == [str(other) for other in was.get("depends", [])]:
            continue
        if not names.issuperset(depends) or is_circular(edited, name, depends):
            raise Invalid(
                [units_key, name, "depends"], "must name other units, and go in no circle"
            )


_NEW: Task = {"id": "", "description": "", "status": "pending"}


def _lifecycle(
    document: Fields, rest: Fields, origin: Origin, mode: str
) -> tuple[Recipe, str | None, list[Phase], bool]:
    """Return the recipe, the position of the loop in it, and whether an editor ended the loop.

    An editor does so by setting the last phase.
    """
    remembered = schema.known_recipe(rest)
    recipe = remembered
    if recipe is None or _mode(recipe) != mode:
        recipe = {**schema.local_recipe(f"loop-{mode}", "loop", origin), "mode": mode}
    if not recipe["phases"] and remembered is None:
        recipe = {**recipe, "phases": [{"name": name} for name in LIFECYCLE]}
    stated: str | None = schema.text(document, "phase", [], None)
    is_ended = stated == LIFECYCLE[-1]
    if remembered is None:
        before = [pending_phase(phase) for phase in recipe["phases"]]
        phase, phases = stated, schema.complete_until(before, _known_phase(stated, before))
    else:
        was, before = schema.position_in_rest(rest, remembered)
        is_ended = is_ended and _shown_phase(was, before) != LIFECYCLE[-1]
        phase, phases = _apply_edit(stated, was, before)
    if recipe is not remembered or len(phases) != len(before):
        recipe = schema.fit_recipe(recipe, phases)
    return recipe, phase, phases, is_ended


def _known_phase(stated: str | None, phases: list[Phase]) -> str | None:
    names = [phase["name"] for phase in phases]
    if stated is not None and stated not in names and stated not in LIFECYCLE:
        raise Invalid(["phase"], f"must be one of {', '.join(names or LIFECYCLE)}")
    return stated


def _apply_edit(stated: str | None, was: str | None, before: list[Phase]) -> Position:
    if stated == _shown_phase(was, before):
        return was, before
    stated = _known_phase(stated, before)
    if stated is None:
        return None, before
    names = [phase["name"] for phase in before]
    if stated not in names:
        names.append(stated)
        before = [*before, {"name": stated, "status": "pending"}]
    return stated, schema.move_to(before, stated, names)


def _tasks(document: Fields, rest: Fields, mode: str) -> Fields:
    """Return the units as tasks, and the current one."""
    units_key, current_key = UNITS[mode]
    hidden = schema.tables(rest, "units", REST_PATH)
    units = schema.tables(document, units_key, [])
    if "recipe" in rest:  # the rendered order; another tool's units stay as they are
        order = schema.texts(rest, "order", REST_PATH)
        names = [name for name in order if name in units]
        names += sorted(units.keys() - set(order), key=_counted)
        units = {name: units[name] for name in names}
    tasks = {
        name: _task(name, unit, hidden.get(name, {}), units_key) for name, unit in units.items()
    }
    fields: Fields = {"tasks": list(tasks.values())}
    iteration = schema.count(document, "current_iteration", [], None)
    current = schema.text(document, current_key, [], None)
    if current is not None and current not in tasks:
        raise Invalid([current_key], f"must be one of {units_key}")
    if current is not None:
        task = tasks[current]
        fields["current_task"] = task["id"]
        if iteration is not None and iteration > task.get("iterations_used", 0):
            task[_BEGUN] = iteration
    elif current_key in document:
        fields["current_task"] = None
    return fields


def _task(name: str, unit: Fields, hidden: Fields, units_key: str) -> Fields:
    schema.check_known_fields(unit, [units_key, name], _UNIT)
    schema.text(hidden, "description", [*REST_PATH, "units", name], "")
    schema.table(hidden, "verification_run", [*REST_PATH, "units", name])
    task_id = schema.label(hidden, "id", [*REST_PATH, "units", name], name)
    if not name or str(unit.get("id", name)) != name or str(task_id) != name:
        raise Invalid([units_key, name], "must have an id that is the same as its key")
    status = _STATUS[unit.get("status", "pending")]
    about = {key: hidden[key] for key in _IN_MARKDOWN if key in hidden}
    return {"description": "", **about, **unit, "id": task_id, "status": status}
