"""The words of a client: what a hook prints to be heard."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields


def context(event: str, text: str) -> Fields:
    """Text that the client puts before the model."""
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def denied(event: str, why: str) -> Fields:
    """A tool that may not be used now."""
    if event == "BeforeTool":
        return {"decision": "deny", "reason": why}
    decision = {"permissionDecision": "deny", "permissionDecisionReason": why}
    return {"hookSpecificOutput": {"hookEventName": event, **decision}}


def blocked(why: str) -> Fields:
    """An end that is not one yet."""
    return {"decision": "block", "reason": why}
