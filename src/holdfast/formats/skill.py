"""The skill format: a state machine that scripts read and change with jq.

Scripts set ``current_phase`` without the statuses, or the other way round; both are interpreted.
``checkpoints`` are the gates, ``test_state`` the tests.
"""

from __future__ import annotations

from holdfast.core.json_text import Memo
from holdfast.formats.document import (
    EVERYWHERE,
    compose,
    fit_recipe,
    known_recipe,
    local_recipe,
    merge_extra,
    parse_position,
    rendered_position,
    rendered_statuses,
    rest_of,
    times,
    unknown_fields,
)
from holdfast.formats.schema import (
    REST_PATH,
    Invalid,
    both_ways,
    check_object,
    count,
    is_safe,
    named,
    one_of,
    renamed,
    rows,
    sanitised,
    stem,
    table,
    tables,
    tasks,
    text,
    when,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Origin, Recipe, Workflow

ACTIVE = ".claude/workflow-state/active/"
COMPLETED = ".claude/workflow-state/completed/"
VERSION = "1.0"
STATUSES = ("in_progress", "completed", "blocked", "abandoned")

_SHOWN = EVERYWHERE | {
    "id", "subject", "title", "status", "updated_at", "completed_at", "branch", "phase", "step",
    "cycle", "phases", "tasks", "gates", "context", "tests", "files", "history", "history_earlier",
}  # fmt: skip
_NESTED = ("_schema", "workflow", "state_machine")
_TASK = both_ways(id="index", commit="commit_sha", phases="tdd_phases")
_shown_tasks = Memo(lambda task: renamed(task, _TASK))
_TITLE = "feature_title"


def path(workflow_id: str, _created_at: str) -> str:
    """Return the record's path from the worktree's root."""
    return f"{ACTIVE}{workflow_id}.json"


def render(state: Workflow) -> tuple[Fields, Fields]:
    """Return the document, and the state that it cannot express."""
    rest = rest_of(state, _SHOWN)
    rest["was"] = rendered_position(state)
    document: Fields = {
        "_schema": {"version": VERSION, "skill": state["recipe"]["name"]},
        "workflow": _workflow(state, rest),
        "context": _context(state, rest),
        "state_machine": _machine(state),
    }
    if state["tasks"] or "task_phases" in state["recipe"]:
        document["tasks"] = _shown_tasks.of_all(state["tasks"])
    document["checkpoints"] = state["gates"]
    if state["tests"]:
        document["test_state"] = state["tests"]
    if state["files"]:
        document["files_modified"] = state["files"]
    if state["history_earlier"]:
        document["history_earlier"] = state["history_earlier"]
    document["history"] = state["history"]
    if state["extra"]:
        merge_extra(document, rest, state["extra"], _NESTED)
    return document, rest


def _workflow(state: Workflow, rest: Fields) -> Fields:
    status = state["status"]
    if status not in STATUSES:
        rest["status"] = status
    shown: Fields = {
        "id": state["id"],
        "status": status if status in STATUSES else "abandoned",
        "created_at": state["created_at"],
        "updated_at": state["updated_at"],
        "branch": state["branch"],
    }
    if "completed_at" in state:
        shown["completed_at"] = state["completed_at"]
    return shown


def _context(state: Workflow, rest: Fields) -> Fields:
    """Return the context with subject and title; put the values that they hide into ``rest``."""
    context = state["context"]
    key = _subject_key(state["recipe"])
    shown: Fields = {}
    if not _says(context, key, state["subject"]):
        shown[key] = state["subject"]
    if key == _TITLE:
        rest["title"] = state["title"]
    elif not _says(context, _TITLE, state["title"]):
        shown[_TITLE] = state["title"]
    if not shown:
        return context
    rest["under"] = {key: [context[key]] if key in context else [] for key in shown}
    return {**shown, **context, **shown}


def _subject_key(recipe: Recipe) -> str:
    return recipe.get("subject_key") or "feature_file"


def _says(context: Fields, key: str, name: str) -> bool:
    said = context.get(key)
    return said == name if isinstance(said, str) else said is None and not name


def _machine(state: Workflow) -> Fields:
    shown: Fields = {"current_phase": state["phase"]}
    if state["step"] is not None:
        shown["current_step"] = state["step"]
    if state["cycle"] != 1 or "cycles_at" in state["recipe"]:
        shown["cycle_count"] = state["cycle"]
    shown["phases"] = state["phases"]
    return shown


def parse(document: Fields, rest: Fields, origin: Origin) -> Workflow:
    """Return the state of a document; raise ``Invalid`` if a field has no valid value."""
    check_object(document, [])
    check_object(rest, REST_PATH)
    schema = table(document, "_schema", [])
    about = table(document, "workflow", [])
    machine = table(document, "state_machine", [])
    if not text(schema, "version", ["_schema"], VERSION).startswith("1"):
        why = f"must be {VERSION}: another version of Holdfast, or another tool, wrote it"
        raise Invalid(["_schema", "version"], why)
    skill = named(schema, "skill", ["_schema"])
    recipe = known_recipe(rest)
    if recipe is None or recipe["name"] != skill:
        recipe = local_recipe(skill, "skill", origin)
    phase, phases = parse_position(machine, "current_phase", ["state_machine"], recipe, rest)
    before = rendered_statuses(rest)
    if before is None or before.keys() != {entry["name"] for entry in phases}:
        recipe = fit_recipe(recipe, phases)
    parts: Fields = {
        **_identity(about, origin),
        **_names(document, rest, recipe),
        "status": _status(about, rest),
        "branch": text(about, "branch", ["workflow"], None),
        "phase": phase,
        "step": text(machine, "current_step", ["state_machine"], None),
        "cycle": count(machine, "cycle_count", ["state_machine"], None) or 1,
        "phases": phases,
        "tasks": tasks(document, "tasks", [], _TASK),
        "gates": tables(document, "checkpoints", []),
        "tests": table(document, "test_state", []),
        "files": rows(document, "files_modified", []),
        "history": rows(document, "history", []),
        "history_earlier": count(document, "history_earlier", [], None) or 0,
    }
    state = compose(parts["id"], recipe, parts, rest, origin)
    state["record"] = origin["path"].replace(COMPLETED, ACTIVE, 1)
    state["extra"] = unknown_fields(document, rest, render(state)[0], _NESTED)
    return state


def _identity(about: Fields, origin: Origin) -> Fields:
    workflow_id = text(about, "id", ["workflow"], None)
    if not is_safe(workflow_id):
        workflow_id = sanitised(stem(origin["path"]))
    fields = {"id": workflow_id, **times(about, "created_at", "updated_at", ["workflow"], origin)}
    completed_at = when(about, "completed_at", ["workflow"], None)
    return fields if completed_at is None else {**fields, "completed_at": completed_at}


def _status(about: Fields, rest: Fields) -> str:
    status: str = one_of(about, "status", ["workflow"], STATUSES, "in_progress")
    return "expired" if status == "abandoned" and rest.get("status") == "expired" else status


def _names(document: Fields, rest: Fields, recipe: Recipe) -> Fields:
    """Return subject, title, and the context without them."""
    context = dict(table(document, "context", []))
    key = _subject_key(recipe)
    names = {"subject": text(context, key, ["context"], None) or "", "context": context}
    if key != _TITLE:
        names["title"] = text(context, _TITLE, ["context"], None) or ""
    for name, held in table(rest, "under", REST_PATH).items():
        context.pop(name, None)
        if isinstance(held, list) and held:
            context[name] = held[0]
    return names
