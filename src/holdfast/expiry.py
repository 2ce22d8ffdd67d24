"""What becomes of a workflow that has lain still for too long."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.shapes import Workflow
    from holdfast.engine import Engine


def expire(engine: Engine, state: Workflow) -> Workflow:
    """Ends it, and says how it comes back."""
    drafts = engine.decide(state, "expire_workflow", {})
    engine.note(
        f"Workflow state expired (inactive > {state['ttl']}): "
        f"holdfast resume {state['id']} brings it back"
    )
    return engine.commit(state["id"], state, drafts)[0]
