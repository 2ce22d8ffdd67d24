"""Render the results of tools: fields for programs, and text for models."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields


def tool_result(fields: Fields) -> Fields:
    """Return the result of a tool of workflows; its text is the briefing, if there is one."""
    from holdfast.core import json_text

    text = fields.get("briefing") or json_text.line_of(fields)
    result = {**text_result(text), "structuredContent": fields}
    return result if fields["ok"] else {**result, "isError": True}


def tool_failure(error: Exception, arguments: Fields) -> Fields:
    """Return the result of a call that failed: what the command line would say."""
    workflow = arguments.get("workflow")
    fields = failure_fields(error, workflow if isinstance(workflow, str) else None)
    text = f"{fields['code']}: {fields['message']}"
    if fields["hint"]:
        text += f"\nnext: {fields['hint']}"
    content = {"ok": False, "error": fields}
    return {**text_result(text), "structuredContent": content, "isError": True}


def failure_fields(error: Exception, workflow: str | None = None) -> Fields:
    """Return code, message and hint; ``workflow`` is the one that the caller named."""
    from holdfast.answers.failure import failure_fields

    fields: Fields = failure_fields(error, workflow)
    return fields


def text_result(text: str) -> Fields:
    return {"content": [{"type": "text", "text": text}]}
