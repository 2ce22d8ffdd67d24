"""An event in a few words, for every surface that lists events."""

from __future__ import annotations

from holdfast.core import json_text
from holdfast.core.diff import MERGED, path_text
from holdfast.core.visible import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Event, Fields, Json

COMMIT_CHARS = 12
"""The number of characters of a commit that a list has."""
_NOT_SHOWN_OF_START = ("record", "ttl", "base")


def event_text(event: Event) -> str:
    """Return what people want to know of an event, cleaned; the JSON has all of it."""
    data: Fields = event["data"]
    if event["type"] == MERGED:
        return clean(_merged_text(event))
    fields: Fields = {}
    for name, value in data.items():
        if name in ("fields", "values", "tests") and isinstance(value, dict):
            fields |= value
        elif value not in (None, "", [], {}):
            fields |= _summary(name, value)
    if "recipe" in data:
        fields = {name: value for name, value in fields.items() if name not in _NOT_SHOWN_OF_START}
        if fields.get("subject") == fields.get("title"):
            fields.pop("subject", None)
    texts = {k: v if isinstance(v, str) else json_text.dumps(v) for k, v in fields.items()}
    return clean(" ".join([f"{name}={text}" for name, text in texts.items()]))


def _merged_text(event: Event) -> str:
    """Return what was done on other machines: ``laptop: remind Keep it; desk: …``."""
    from holdfast.core.event_text import merged_causes
    from holdfast.core.sharing import in_words

    try:
        causes = merged_causes(event)
        return "; ".join([f"{c['by']['name']}: {in_words(c['type'], c['args'])}" for c in causes])
    except (LookupError, TypeError, AttributeError):
        return ""


def _summary(name: str, value: Json) -> Fields:
    """Return a large value in a few words, or as it is if it has another form than expected."""
    try:
        match name:
            case "recipe":
                return {"recipe": value["name"]}
            case "session" if isinstance(value, dict):
                return {"session": value["id"]}
            case "commit":
                return {"commit": str(value)[:COMMIT_CHARS]}
            case "changes":
                return {"changed": ", ".join([path_text(change[0]) for change in value])}
            case "state" if "all" in value:
                return {"initiatives": ", ".join(value["all"]), "current": value["current"]}
            case "state" if "milestones" in value:
                return {"status": value["status"], "milestone": value["current_milestone"]}
            case "state":
                return {"recipe": value["recipe"]["name"], "title": value["title"]}
    except (LookupError, TypeError, AttributeError):
        pass
    return {name: value}
