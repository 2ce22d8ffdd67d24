"""The verb format: one record per worktree, camel case, a line of text as the context.

The document is enough to resume: type, position, phases with their times, TTL, violations. Phases
can be revisited. A document without phases has those of its type's recipe.
"""

from __future__ import annotations

from holdfast.core.json_text import md5_of
from holdfast.core.workflow import is_blocking
from holdfast.core.workflow.evidence import enforcement
from holdfast.formats import schema
from holdfast.formats.schema import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Origin, Violation, Workflow

DEFAULT_TTL = "24h"

_SHOWN = schema.EVERYWHERE | {
    "subject", "title", "status", "updated_at", "completed_at", "ttl", "phase", "phases",
    "violations",
}  # fmt: skip
_NESTED = ("enforcement",)
_PHASE = {
    "started_at": "startedAt", "completed_at": "completedAt",
    "startedAt": "started_at", "completedAt": "completed_at",
}  # fmt: skip
"""The names of a phase's fields, in both directions, so that no key hides another."""


def render(state: Workflow) -> tuple[Fields, Fields]:
    """Return the document, and the state that it cannot express."""
    rest = schema.rest_of(state, _SHOWN)
    rest["was"] = schema.rendered_position(state)
    document: Fields = {
        "type": state["recipe"]["name"].upper(),
        "phase": state["phase"],
        "status": state["status"],
        "startedAt": state["created_at"],
        "lastUpdated": state["updated_at"],
        "ttl": state["ttl"],
        "context": schema.shared_name(state, rest),
        "phases": [schema.renamed(phase, _PHASE) for phase in state["phases"]],
    }
    if state["violations"]:
        document["enforcement"] = enforcement(state["violations"])
        if document["enforcement"]["blocking"]:
            rest["blocks"] = True
    if "completed_at" in state:
        document["completedAt"] = state["completed_at"]
    if state["extra"]:
        schema.merge_extra(document, rest, state["extra"], _NESTED)
    return document, rest


def parse(document: Fields, rest: Fields, origin: Origin) -> Workflow:
    """Return the state of a document; raise ``Invalid`` if a field has no valid value."""
    if not document:
        raise Invalid([], "holds no workflow")
    kind = schema.named(document, "type", [])
    recipe = schema.known_recipe(rest)
    if recipe is None or recipe["name"].upper() != kind:
        recipe = schema.local_recipe(kind.lower(), "verb", origin)
    recipe, phase, phases = schema.parse_position(document, "phase", [], recipe, rest, names=_PHASE)
    context = schema.text(document, "context", [], "")
    parts: Fields = {
        **schema.title_and_subject(context, rest),
        **schema.times(document, "startedAt", "lastUpdated", [], origin),
        "status": schema.one_of(document, "status", [], schema.WORKFLOW_STATUSES, "in_progress"),
        "ttl": schema.duration(document, "ttl", [], DEFAULT_TTL),
        "phase": phase,
        "phases": phases,
        "violations": _violations(document, rest),
    }
    completed_at = schema.when(document, "completedAt", [], None)
    if completed_at is not None:
        parts["completed_at"] = completed_at
    digest = md5_of(context + "\n")[:8]  # as `echo CONTEXT | md5sum | cut -c1-8` prints it
    workflow_id = schema.workflow_id_of(rest, f"{kind}-{digest}")
    state = schema.compose(workflow_id, recipe, parts, rest, origin)
    rendered = render(state)[0]
    if document.get("enforcement") is not None:
        # Derived from the violations, so it must not survive them as an unknown field.
        rendered["enforcement"] = enforcement(state["violations"])
    state["extra"] = schema.unknown_fields(document, rest, rendered, _NESTED)
    return state


def _violations(document: Fields, rest: Fields) -> list[Violation]:
    """Return the violations of a record; if it says that they block, some of them do.

    What an earlier version of the record said, which is in ``rest``, is not what an editor says.
    """
    table = schema.table(document, "enforcement", [])
    violations = schema.violations(table, "violations", ["enforcement"])
    is_said = table.get("blocking") is True and "blocks" not in rest
    if not is_said or any(map(is_blocking, violations)):
        return violations
    summary = table.get("summary")
    details = summary if isinstance(summary, str) else "the record says that it is blocking"
    unnamed: Violation = {"code": "enforcement", "severity": "UNKNOWN", "details": details}
    return [{**violation, "blocking": True} for violation in violations or [unnamed]]
