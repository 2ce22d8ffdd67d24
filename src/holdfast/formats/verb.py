"""The verb format: one slot per worktree, camel case, a line of text as the context.

The document is enough to resume: type, position, phases with their times, TTL, violations. Phases
can be revisited, and a document that lists none has those of its type's recipe.
"""

from __future__ import annotations

from holdfast.core.workflow.evidence import enforcement
from holdfast.formats import phase_fields
from holdfast.formats.leftover_state import (
    EVERYWHERE,
    both_names,
    composed,
    fitted,
    identity,
    one_name,
    put_back,
    recipe_here,
    remembered_recipe,
    rest_of,
    times,
    unknown,
)
from holdfast.formats.schema import (
    PLACE,
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
    """Where the record stands, from the worktree's root."""
    return ".claude/workflow-state.json"


def render(state: Workflow) -> tuple[Fields, Fields]:
    """The document, and the state that it cannot express."""
    rest = rest_of(state, _SHOWN)
    rest["was"] = phase_fields.remembered(state)
    document: Fields = {
        "type": state["recipe"]["name"].upper(),
        "phase": state["phase"],
        "status": state["status"],
        "startedAt": state["created_at"],
        "lastUpdated": state["updated_at"],
        "ttl": state["ttl"],
        "context": one_name(state, rest),
        "phases": [renamed(phase, _PHASE) for phase in state["phases"]],
    }
    if state["violations"]:
        document["enforcement"] = enforcement(state["violations"])
    if "completed_at" in state:
        document["completedAt"] = state["completed_at"]
    if state["extra"]:
        put_back(document, rest, state["extra"], _NESTED)
    return document, rest


def parse(document: Fields, rest: Fields, origin: Origin) -> Workflow:
    """The state of a document; ``Invalid`` where it makes no sense."""
    check_object(document, [])
    check_object(rest, PLACE)
    if not document:
        raise Invalid([], "holds no workflow")
    kind = named(document, "type", [])
    recipe = remembered_recipe(rest)
    if recipe is None or recipe["name"].upper() != kind:
        recipe = recipe_here(kind.lower(), "verb", origin)
    phase, phases = phase_fields.parsed(document, "phase", [], recipe, rest, names=_PHASE)
    before = phase_fields.statuses_before(rest)
    if before is None or before.keys() != {one["name"] for one in phases}:
        recipe = fitted(recipe, phases)
    context = text(document, "context", [], "")
    parts: Fields = {
        **both_names(context, rest),
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
    workflow_id = identity(rest, f"{kind}-{_digest(context)}")
    state = composed(workflow_id, recipe, parts, rest, origin)
    known = render(state)[0]
    if document.get("enforcement") is not None:
        # What is derived from the violations must not outlive them as an unknown field.
        known["enforcement"] = enforcement(state["violations"])
    state["extra"] = unknown(document, rest, known, _NESTED)
    return state


def _digest(context: str) -> str:
    """As ``echo CONTEXT | md5sum | cut -c1-8`` computes it."""
    try:
        from _md5 import md5  # type: ignore[import-not-found]
    except ImportError:  # an interpreter that has it only behind hashlib
        from hashlib import md5
    data = f"{context}\n".encode("utf-8", "surrogatepass")
    digest: str = md5(data, usedforsecurity=False).hexdigest()
    return digest[:8]
