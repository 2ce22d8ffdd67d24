"""The resources of ``holdfast mcp``: a workflow, its briefing and its events, by address."""

from __future__ import annotations

from holdfast.core.briefing import quoted
from holdfast.errors import Refused
from holdfast.mcp.messages import NO_RESOURCE, Wrong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper

_BASE = "holdfast://workflow/"
_JSON, _TEXT = "application/json", "text/plain"
_KINDS = {
    "": (_JSON, "the whole workflow"),
    "/briefing": (_TEXT, "what a session that goes on must know"),
    "/log": (_JSON, "its events, oldest first"),
}
_MOST = 50
"""So many workflows are listed; the others have their addresses all the same."""

TEMPLATES: tuple[Fields, ...] = tuple(
    {
        "uriTemplate": f"{_BASE}{{id}}{end}",
        "name": f"workflow{end.replace('/', '-')}",
        "description": about,
        "mimeType": mime,
    }
    for end, (mime, about) in _KINDS.items()
)


def listed(keeper: Keeper) -> list[Fields]:
    """The resources of the active workflows, those first in which something happened last."""
    rows, _ = keeper.workflows()
    return [
        {
            "uri": f"{_BASE}{row['id']}{end}",
            "name": f"{row['id']}{end.replace('/', '-')}",
            "title": quoted(row["title"]) + end.replace("/", " · "),
            "mimeType": mime,
        }
        for row in rows[:_MOST]
        for end, (mime, _) in _KINDS.items()
    ]


def read(open_keeper: Callable[[], Keeper], uri: str) -> list[Fields]:
    name, slash, end = uri.removeprefix(_BASE).partition("/")
    kind = slash + end
    if not uri.startswith(_BASE) or not name or kind not in _KINDS:
        raise _nothing(uri, "there is no such address; see resources/templates/list")
    try:
        text = _text(open_keeper(), name, kind)
    except Refused as refused:
        raise _nothing(uri, refused.message) from None
    return [{"uri": uri, "mimeType": _KINDS[kind][0], "text": text}]


def _text(keeper: Keeper, name: str, kind: str) -> str:
    from holdfast.answers.json import workflow_view
    from holdfast.core import json_text

    if kind == "/briefing":
        return keeper.briefing(workflow=name)
    if kind == "/log":
        return json_text.dumps(keeper.log(workflow=name))
    receipt = keeper.show(workflow=name)
    return json_text.dumps(workflow_view(receipt.state, receipt.record))


def _nothing(uri: str, why: str) -> Wrong:
    return Wrong(NO_RESOURCE, f"Resource not found: {why}", {"uri": uri[:200]})
