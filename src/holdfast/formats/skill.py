"""The skill format: a state machine that scripts read and change with jq.

Scripts set ``current_phase`` without the statuses, or the other way round; both are interpreted.
``checkpoints`` are the gates, ``test_state`` the tests.
"""

from __future__ import annotations

from holdfast.core.json_text import MAX_KEPT
from holdfast.core.workflow import find_phase
from holdfast.formats import schema
from holdfast.formats.schema import REST_PATH, Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Json, Origin, Phase, Recipe, Task, Workflow

ACTIVE = ".claude/workflow-state/active/"
COMPLETED = ".claude/workflow-state/completed/"
VERSION = "1.0"
STATUSES = ("in_progress", "completed", "blocked", "abandoned")

_SHOWN = schema.EVERYWHERE | {
    "id", "subject", "title", "status", "updated_at", "completed_at", "branch", "phase", "step",
    "cycle", "phases", "tasks", "gates", "context", "tests", "files", "history", "history_earlier",
}  # fmt: skip
_NESTED = ("_schema", "workflow", "state_machine")
_TASK = {
    "id": "index", "commit": "commit_sha", "phases": "tdd_phases",
    "index": "id", "commit_sha": "commit", "tdd_phases": "phases",
}  # fmt: skip
"""The names of a task's fields, in both directions, so that no key hides another."""
_shown_tasks: dict[int, tuple[Task, Fields]] = {}
"""Rendered tasks by ``id()``. Rendering a task to the same object lets its text be reused."""
_PROGRESS = "progress"
_SUBJECT, _TITLE = "feature_file", "feature_title"
"""The keys of subject and title in the context, unless the recipe has another for the subject."""


def render(state: Workflow) -> tuple[Fields, Fields]:
    """Return the document, and the state that it cannot express."""
    recipe, status = state["recipe"], state["status"]
    rest = schema.rest_of(state, _SHOWN)
    rest["was"] = schema.rendered_position(state)
    if status not in STATUSES:
        rest["status"] = status
    about: Fields = {
        "id": state["id"],
        "status": status if status in STATUSES else "abandoned",
        "created_at": state["created_at"],
        "updated_at": state["updated_at"],
        "branch": state["branch"],
    }
    if "completed_at" in state:
        about["completed_at"] = state["completed_at"]
    machine: Fields = {"current_phase": state["phase"]}
    if state["step"] is not None:
        machine["current_step"] = state["step"]
    if state["cycle"] != 1 or "cycles_at" in recipe:
        machine["cycle_count"] = state["cycle"]
    machine["phases"] = _shown_phases(state, rest)
    document: Fields = {
        "_schema": {"version": VERSION, "skill": recipe["name"]},
        "workflow": about,
        "context": _render_context(state, rest),
        "state_machine": machine,
    }
    if state["tasks"] or "task_phases" in recipe:
        document["tasks"] = [_shown_task(task) for task in state["tasks"]]
    document["checkpoints"] = state["gates"]
    if state["tests"]:
        document["test_state"] = state["tests"]
    if state["files"]:
        document["files_modified"] = state["files"]
    if state["history_earlier"]:
        document["history_earlier"] = state["history_earlier"]
    document["history"] = state["history"]
    if state["extra"]:
        schema.merge_extra(document, rest, state["extra"], _NESTED)
    return document, rest


def _shown_phases(state: Workflow, rest: Fields) -> list[Phase]:
    """Return the phases, the one of the tasks with its ``progress``: ``5/7``.

    ``was`` in ``rest`` names that phase: its progress is no part of the state.
    """
    tasks, phases = state["tasks"], state["phases"]
    declared = [p["name"] for p in state["recipe"]["phases"] if "tasks" in p.get("needs", ())]
    phase = find_phase(state, declared[0] if declared else state["phase"])
    if not tasks or phase is None or phase["status"] == "pending" or _PROGRESS in phase:
        return phases
    rest["was"][_PROGRESS] = phase["name"]
    done = sum(task["status"] == "completed" for task in tasks)
    shown: Json = {**phase, _PROGRESS: f"{done}/{len(tasks)}"}
    return [shown if other is phase else other for other in phases]


def _without_progress(document: Fields, rest: Fields) -> Fields:
    """Return the document's state machine without the progress that follows from the tasks."""
    machine = schema.table(document, "state_machine", [])
    was, phases = rest.get("was"), machine.get("phases")
    own = was.get(_PROGRESS) if isinstance(was, dict) else None
    if not document.get("tasks") or not isinstance(phases, list) or (was and own is None):
        return machine
    kept = [
        {key: value for key, value in phase.items() if key != _PROGRESS}
        if isinstance(phase, dict) and (own is None or phase.get("name") == own)
        else phase
        for phase in phases
    ]
    return {**machine, "phases": kept}


def _shown_task(task: Task) -> Fields:
    entry = _shown_tasks.get(id(task))
    if entry is None:
        if len(_shown_tasks) >= MAX_KEPT:
            _shown_tasks.clear()
        entry = _shown_tasks[id(task)] = (task, schema.renamed(task, _TASK))
    return entry[1]


def _render_context(state: Workflow, rest: Fields) -> Fields:
    """Return the context with subject and title; put the values that they hide into ``rest``."""
    context = state["context"]
    key = state["recipe"].get("subject_key") or _SUBJECT
    names = {key: state["subject"]}
    if key == _TITLE:
        rest["title"] = state["title"]
    else:
        names[_TITLE] = state["title"]
    # A name that the context has already, or that is empty and missing there, is not repeated.
    shown_names = {
        key: name
        for key, name in names.items()
        if context.get(key) != name and (name or context.get(key) is not None)
    }
    if not shown_names:
        return context
    rest["under"] = {key: [context[key]] if key in context else [] for key in shown_names}
    return {**shown_names, **context, **shown_names}


def parse(document: Fields, rest: Fields, origin: Origin) -> Workflow:
    """Return the state of a document; raise ``Invalid`` if a field has no valid value."""
    header = schema.table(document, "_schema", [])
    about = schema.table(document, "workflow", [])
    machine = _without_progress(document, rest)
    if schema.text(header, "version", ["_schema"], VERSION).partition(".")[0] != "1":
        why = f"must be {VERSION}: another version of Holdfast, or another tool, wrote it"
        raise Invalid(["_schema", "version"], why)
    skill = schema.named(header, "skill", ["_schema"])
    recipe = schema.known_recipe(rest)
    if recipe is None or recipe["name"] != skill:
        recipe = schema.local_recipe(skill, "skill", origin)
    recipe, phase, phases = schema.parse_position(
        machine, "current_phase", ["state_machine"], recipe, rest
    )
    schema.text(about, "id", ["workflow"], None)
    workflow_id = schema.workflow_id_of(about, schema.stem(origin["path"]))
    status = schema.one_of(about, "status", ["workflow"], STATUSES, "in_progress")
    if status == "abandoned" and rest.get("status") == "expired":
        status = "expired"
    parts: Fields = {
        **schema.times(about, "created_at", "updated_at", ["workflow"], origin),
        **_parse_context(document, rest, recipe),
        "status": status,
        "branch": schema.text(about, "branch", ["workflow"], None),
        "phase": phase,
        "step": schema.text(machine, "current_step", ["state_machine"], None),
        "cycle": schema.count(machine, "cycle_count", ["state_machine"], None) or 1,
        "phases": phases,
        "tasks": schema.tasks(document, "tasks", [], _TASK),
        "gates": schema.tables(document, "checkpoints", []),
        "tests": schema.table(document, "test_state", []),
        "files": schema.rows(document, "files_modified", []),
        "history": schema.rows(document, "history", []),
        "history_earlier": schema.count(document, "history_earlier", [], None) or 0,
    }
    completed_at = schema.when(about, "completed_at", ["workflow"], None)
    if completed_at is not None:
        parts["completed_at"] = completed_at
    state = schema.compose(workflow_id, recipe, parts, rest, origin)
    state["record"] = origin["path"].replace(COMPLETED, ACTIVE, 1)
    state["extra"] = schema.unknown_fields(document, rest, render(state)[0], _NESTED)
    return state


def _parse_context(document: Fields, rest: Fields, recipe: Recipe) -> Fields:
    """Return subject, title, and the context without them."""
    context = dict(schema.table(document, "context", []))
    key = recipe.get("subject_key") or _SUBJECT
    names = {"subject": schema.text(context, key, ["context"], None) or "", "context": context}
    if key != _TITLE:
        names["title"] = schema.text(context, _TITLE, ["context"], None) or ""
    for name, hidden in schema.table(rest, "under", REST_PATH).items():
        context.pop(name, None)
        if isinstance(hidden, list) and hidden:
            context[name] = hidden[0]
    return names
