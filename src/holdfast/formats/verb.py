"""The verb format: one record per worktree, camel case, a line of text as the context.

The document is enough to resume: type, position, phases with their times, TTL, violations. Phases
can be revisited. A document without phases has those of its type's recipe.
"""

from __future__ import annotations

from holdfast.core.json_text import md5_of
from holdfast.core.workflow.evidence import enforcement
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
    shared_name,
    times,
    title_and_subject,
    unknown_fields,
    workflow_id_of,
)
from holdfast.formats.schema import (
    REST_PATH,
    WORKFLOW_STATUSES,
    Invalid,
    both_ways,
    check_object,
    duration,
    named,
    one_of,
    renamed,
    table,
    text,
    violations,
    when,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Origin, Workflow

DEFAULT_TTL = "24h"

_SHOWN = EVERYWHERE | {
    "subject", "title", "status", "updated_at", "completed_at", "ttl", "phase", "phases",
    "violations",
}  # fmt: skip
_NESTED = ("enforcement",)
_PHASE = both_ways(started_at="startedAt", completed_at="completedAt")


def path(_workflow_id: str, _created_at: str) -> str:
    """Return the record's path from the worktree's root."""
    return ".claude/workflow-state.json"


def render(state: Workflow) -> tuple[Fields, Fields]:
    """Return the document, and the state that it cannot express."""
    rest = rest_of(state, _SHOWN)
    rest["was"] = rendered_position(state)
    document: Fields = {
        "type": state["recipe"]["name"].upper(),
        "phase": state["phase"],
        "status": state["status"],
        "startedAt": state["created_at"],
        "lastUpdated": state["updated_at"],
        "ttl": state["ttl"],
        "context": shared_name(state, rest),
        "phases": [renamed(phase, _PHASE) for phase in state["phases"]],
    }
    if state["violations"]:
        document["enforcement"] = enforcement(state["violations"])
    if "completed_at" in state:
        document["completedAt"] = state["completed_at"]
    if state["extra"]:
        merge_extra(document, rest, state["extra"], _NESTED)
    return document, rest


def parse(document: Fields, rest: Fields, origin: Origin) -> Workflow:
    """Return the state of a document; raise ``Invalid`` if a field has no valid value."""
    check_object(document, [])
    check_object(rest, REST_PATH)
    if not document:
        raise Invalid([], "holds no workflow")
    kind = named(document, "type", [])
    recipe = known_recipe(rest)
    if recipe is None or recipe["name"].upper() != kind:
        recipe = local_recipe(kind.lower(), "verb", origin)
    phase, phases = parse_position(document, "phase", [], recipe, rest, names=_PHASE)
    before = rendered_statuses(rest)
    if before is None or before.keys() != {entry["name"] for entry in phases}:
        recipe = fit_recipe(recipe, phases)
    context = text(document, "context", [], "")
    parts: Fields = {
        **title_and_subject(context, rest),
        **times(document, "startedAt", "lastUpdated", [], origin),
        "status": one_of(document, "status", [], WORKFLOW_STATUSES, "in_progress"),
        "ttl": duration(document, "ttl", [], DEFAULT_TTL),
        "phase": phase,
        "phases": phases,
        "violations": violations(table(document, "enforcement", []), "violations", ["enforcement"]),
    }
    completed_at = when(document, "completedAt", [], None)
    if completed_at is not None:
        parts["completed_at"] = completed_at
    digest = md5_of(context + "\n")[:8]  # as `echo CONTEXT | md5sum | cut -c1-8` prints it
    workflow_id = workflow_id_of(rest, f"{kind}-{digest}")
    state = compose(workflow_id, recipe, parts, rest, origin)
    known = render(state)[0]
    if document.get("enforcement") is not None:
        # Derived from the violations, so it must not survive them as an unknown field.
        known["enforcement"] = enforcement(state["violations"])
    state["extra"] = unknown_fields(document, rest, known, _NESTED)
    return state
