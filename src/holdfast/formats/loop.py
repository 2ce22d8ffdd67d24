"""The loop format: units of work in bounded iterations, under a lifecycle.

The units are the aggregate's tasks: ``tasks`` T1… in development, ``phases`` R1… in knowledge
mode. The document's ``phase`` is the lifecycle, the aggregate's phases. What the units are about
stands in Markdown beside the record, so here it is in ``rest``.
"""

from __future__ import annotations

from holdfast.core.workflow.state import pending_phase
from holdfast.formats.leftover_state import (
    EVERYWHERE,
    composed,
    fitted,
    identity,
    put_back,
    recipe_here,
    remembered_recipe,
    rest_of,
    times,
    unknown,
)
from holdfast.formats.phase_fields import kept_in, moved, place_of, reached
from holdfast.formats.schema import (
    PLACE,
    TASK,
    TASK_STATUSES,
    Invalid,
    check_entry,
    check_object,
    count,
    folder,
    label,
    one_of,
    table,
    tables,
    text,
    texts,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Json, Origin, Phase, Recipe, Task, Workflow
    from holdfast.formats.phase_fields import Position
    from holdfast.formats.schema import Path

LIFECYCLE = ("discover", "plan", "execute", "verify", "deliver", "complete")
UNITS = {"development": ("tasks", "current_task"), "knowledge": ("phases", "current_phase")}
"""By mode: what the document calls its units, and the current one."""

_SHOWN = EVERYWHERE | {
    "subject", "title", "updated_at", "tasks", "current_task", "context", "commits",
}  # fmt: skip
_WORDS = {word: word for word in TASK_STATUSES} | {"completed": "done"}
_STATUS = {word: status for status, word in _WORDS.items()}
_IN_MARKDOWN = (
    "description", "criteria", "files", "output", "model", "verify", "remaining", "blockers",
)  # fmt: skip
_BEGUN = "iteration_begun"
"""The number of an iteration that was begun and is not yet counted as used."""


def _unit_status(doc: Fields, key: str, path: Path) -> Json:
    return one_of(doc, key, path, _STATUS)


_UNIT = {**TASK, "status": _unit_status}


def path(workflow_id: str, _created_at: str) -> str:
    """Where the record stands, from the worktree's root."""
    return f".claude/iterative/{workflow_id}/state.json"


def render(state: Workflow) -> tuple[Fields, Fields]:
    """The document, and the state that it cannot express."""
    rest = rest_of(state, _SHOWN)
    mode = _mode(state["recipe"])
    units_key, current_key = UNITS[mode]
    document: Fields = {"task": state["title"], "slug": state["subject"], "mode": mode}
    document.update(_domain(state["context"], rest))
    document["created"] = state["created_at"]
    document["updated"] = state["updated_at"]
    document["phase"] = _shown(state["phase"], state["phases"])
    units = _units(state["tasks"], rest)
    current = state.get("current_task")
    if "current_task" in state:
        document[current_key] = None if current is None else str(current)
    document.update(_iteration(units.get(str(current), {})))
    document[units_key] = units
    if state["commits"] or mode == "development":
        document["commits"] = state["commits"]
    if state["extra"]:
        put_back(document, rest, state["extra"], ())
    return document, rest


def _mode(recipe: Recipe) -> str:
    return "knowledge" if recipe.get("mode") == "knowledge" else "development"


def _shown(current: str | None, listed: list[Phase]) -> str | None:
    return listed[place_of(current, listed)]["name"] if listed else None


def _domain(context: Fields, rest: Fields) -> Fields:
    """The domain, which is shown; ``rest`` gets the other context."""
    shown = {"domain": context["domain"]} if isinstance(context.get("domain"), str) else {}
    hidden = {key: value for key, value in context.items() if key not in shown}
    if hidden:
        rest["context"] = hidden
    return shown


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
            # It comes last, as it does after parsing: the same state makes the same bytes.
            entry[_BEGUN] = entry.pop(_BEGUN)
        units[name] = entry
    if hidden:
        rest["units"] = hidden
    if list(units) != sorted(units, key=_counted):
        rest["order"] = list(units)
    return units


def _counted(name: str) -> tuple[int, str]:
    """T2 comes before T10, whatever order a tool has written them in."""
    number = name.lstrip("TR")
    return (int(number) if number.isdecimal() else 0, name)


def _iteration(unit: Fields) -> Fields:
    """The current unit's iteration: the one that was begun, else the last that was used."""
    begun, used = unit.get(_BEGUN), unit.get("iterations_used")
    if type(begun) is int and begun > (used or 0):
        return {"current_iteration": unit.pop(_BEGUN)}
    return {} if used is None else {"current_iteration": used}


def parse(document: Fields, rest: Fields, origin: Origin) -> Workflow:
    """The state of a document; ``Invalid`` where it makes no sense."""
    check_object(document, [])
    check_object(rest, PLACE)
    mode = one_of(document, "mode", [], UNITS)
    recipe, phase, listed = _lifecycle(document, rest, origin, mode)
    slug = text(document, "slug", [], None)
    subject = folder(origin["path"]) if slug is None else slug
    title = text(document, "task", [], None)
    context = table(rest, "context", PLACE) if "recipe" in rest else recipe.get("context", {})
    domain = text(document, "domain", [], None)
    parts: Fields = {
        **times(document, "created", "updated", [], origin),
        **({"status": "completed"} if _is_ended(document, rest) else {}),
        "subject": subject,
        "title": subject if title is None else title,
        "phase": phase,
        "phases": listed,
        **_tasks(document, rest, mode),
        "context": context if domain is None else {**context, "domain": domain},
        "commits": texts(document, "commits", []),
    }
    state = composed(identity(rest, subject), recipe, parts, rest, origin)
    state["extra"] = unknown(document, rest, render(state)[0], ())
    return state


def check_edit(base: Workflow, edited: Workflow) -> None:
    """Whether a record that somebody edited leaves to commands what is theirs.

    A unit is declared done, confirmed and verified by its commands, which the log tells of. What
    waits for itself or for nobody's unit would never get its turn.
    """
    from holdfast.core.workflow.units import DECLARED, is_circular

    units_key = UNITS[_mode(edited["recipe"])][0]
    before = {str(task["id"]): task for task in base["tasks"]}
    names = {str(task["id"]) for task in edited["tasks"]}
    for task in edited["tasks"]:
        name = str(task["id"])
        was = before.get(name, _NEW)
        if task["status"] in DECLARED and task["status"] != was["status"]:
            commands = "loop iterate, loop confirm and loop verify"
            raise Invalid([units_key, name, "status"], f"gets there by {commands} only")
        depends = [str(one) for one in task.get("depends", [])]
        if depends == [str(one) for one in was.get("depends", [])]:
            continue
        if not names.issuperset(depends) or is_circular(edited, name, depends):
            raise Invalid(
                [units_key, name, "depends"], "must name other units, and go in no circle"
            )


_NEW: Task = {"id": "", "description": "", "status": "pending"}


def _lifecycle(
    document: Fields, rest: Fields, origin: Origin, mode: str
) -> tuple[Recipe, str | None, list[Phase]]:
    """The recipe, and where in it the document says that the loop stands."""
    remembered = remembered_recipe(rest)
    recipe = remembered
    if recipe is None or _mode(recipe) != mode:
        recipe = {**recipe_here(f"loop-{mode}", "loop", origin), "mode": mode}
    if not recipe["phases"] and remembered is None:
        recipe = {**recipe, "phases": [{"name": name} for name in LIFECYCLE]}
    said: str | None = text(document, "phase", [], None)
    if remembered is None:
        before = [pending_phase(phase) for phase in recipe["phases"]]
        phase, listed = said, reached(before, _known(said, before))
    else:
        was, before = kept_in(rest, remembered)
        phase, listed = _moved(said, was, before)
    if recipe is not remembered or len(listed) != len(before):
        recipe = fitted(recipe, listed)
    return recipe, phase, listed


def _is_ended(document: Fields, rest: Fields) -> bool:
    """Whether somebody set the last word of the lifecycle by hand: that completes the loop."""
    if document.get("phase") != LIFECYCLE[-1]:
        return False
    remembered = remembered_recipe(rest)
    return remembered is None or _shown(*kept_in(rest, remembered)) != LIFECYCLE[-1]


def _known(said: str | None, listed: list[Phase]) -> str | None:
    names = [phase["name"] for phase in listed]
    if said is not None and said not in names and said not in LIFECYCLE:
        raise Invalid(["phase"], f"must be one of {', '.join(names or LIFECYCLE)}")
    return said


def _moved(said: str | None, was: str | None, before: list[Phase]) -> Position:
    if said == _shown(was, before):
        return was, before
    said = _known(said, before)
    if said is None:
        return None, before
    names = [phase["name"] for phase in before]
    if said not in names:
        names.append(said)
        before = [*before, {"name": said, "status": "pending"}]
    return said, moved(before, said, names)


def _tasks(document: Fields, rest: Fields, mode: str) -> Fields:
    """The units as tasks, and which of them is the current one."""
    units_key, current_key = UNITS[mode]
    hidden = tables(rest, "units", PLACE)
    units = _ordered(tables(document, units_key, []), rest)
    tasks = {
        name: _task(name, unit, hidden.get(name, {}), units_key) for name, unit in units.items()
    }
    found: Fields = {"tasks": list(tasks.values())}
    iteration = count(document, "current_iteration", [], None)
    current = text(document, current_key, [], None)
    if current is not None and current not in tasks:
        raise Invalid([current_key], f"must be one of {units_key}")
    if current is not None:
        task = tasks[current]
        found["current_task"] = task["id"]
        if iteration is not None and iteration > task.get("iterations_used", 0):
            task[_BEGUN] = iteration
    elif current_key in document:
        found["current_task"] = None
    return found


def _ordered(units: dict[str, Fields], rest: Fields) -> dict[str, Fields]:
    """The units in the order in which they were rendered; another tool's, as they stand there."""
    if "recipe" not in rest:
        return units
    order = texts(rest, "order", PLACE)
    names = [name for name in order if name in units]
    names += sorted(units.keys() - set(order), key=_counted)
    return {name: units[name] for name in names}


def _task(name: str, unit: Fields, hidden: Fields, units_key: str) -> Fields:
    check_entry(unit, [units_key, name], _UNIT)
    text(hidden, "description", [*PLACE, "units", name], "")
    task_id = label(hidden, "id", [*PLACE, "units", name], name)
    if not name or str(unit.get("id", name)) != name or str(task_id) != name:
        raise Invalid([units_key, name], "must have an id, and the same within")
    status = _STATUS[unit.get("status", "pending")]
    about = {key: hidden[key] for key in _IN_MARKDOWN if key in hidden}
    return {"description": "", **about, **unit, "id": task_id, "status": status}
