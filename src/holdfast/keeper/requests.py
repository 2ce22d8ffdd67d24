"""Requests: what a caller hands in, and a request that it repeats under the same id.

A caller that does not know whether its request was recorded sends it again with the id it used. The
second request is answered like the first and records nothing. An id that belongs to a different
request is refused.
"""

from __future__ import annotations

from holdfast.core import json_text
from holdfast.errors import Fault, Refused
from holdfast.formats import is_workflow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypedDict

    from holdfast.core.types import Draft, Event, Fields
    from holdfast.keeper.store import Store

    class Target(TypedDict, total=False):
        """The workflow that a change is for, and the id of the request."""

        workflow: str | None
        """The workflow's id; the caller's own workflow by default."""
        id: str | None
        """The caller's id of this request: a repetition is answered, and records nothing."""

    class Choice(TypedDict, total=False):
        """Which events of the log are meant: those that have all of this."""

        grep: str | None
        """A text that is in the event's type or data, in capitals or not."""
        since: str | None
        """A date, a time, or an age such as ``24h``."""
        types: Sequence[str]
        """Types of events; ``task_*`` is all of tasks."""
        task: int | str | None
        """The task or unit that the event is about."""
        by: str | None
        """A surface, a session or the beginning of its id, or the name of a machine."""


MAX_ID_CHARACTERS = 64
_FINGERPRINT_DIGITS = 16
_OBSERVED = frozenset(
    (
        *("branch", "by", "evidence", "facts", "head", "looked_up", "new_context", "next_tasks"),
        *("next_title", "record", "session", "worktree"),
    )
)
"""Arguments that Holdfast found out itself. They may differ in a repetition; no other may."""


def fingerprint(kind: str, args: Fields) -> str:
    """Return a digest of a request, by which a repetition is recognised."""
    compared = {name: args[name] for name in sorted(args) if name not in _OBSERVED}
    return json_text.digest(json_text.dumps([kind, compared]).encode(errors="replace"))[
        :_FINGERPRINT_DIGITS
    ]


def find_repeat(
    store: Store,
    id: str,
    *,
    log: str | None = None,
    workflow: str | None = None,
    request_digest: str = "",
) -> list[Event]:
    """Return the events that an earlier request with this id recorded; an empty list for a new id.

    Raise ``Refused`` if the id is malformed or belongs to a different request. ``log`` is the
    stream of a log; without it the request is about a workflow, ``workflow`` if that is given.
    ``request_digest`` is the request's fingerprint; without it only the stream is compared.
    """
    if not id.replace("-", "").isalnum() or not id.isascii() or len(id) > MAX_ID_CHARACTERS:
        hint = f"use up to {MAX_ID_CHARACTERS} letters, digits and hyphens"
        raise Refused("invalid", f"{id[:80]!r} is not an id", hint)
    try:
        events = store.ledger.find_request(id)
    except Fault as fault:
        if fault.code != "archive_unreadable":
            raise
        store.note(f"whether {id} was recorded before cannot be told: {fault.message}")
        return []
    if not events:
        return []
    stream = events[0]["stream"]
    is_same = is_workflow(stream) if log is None else stream == log
    if not is_same or (workflow is not None and stream != workflow):
        raise _id_is_taken(id, events[0])
    refuse_other_request(events[0], id, request_digest)
    store.note(f"{id} was recorded before; nothing was recorded again")
    return events


def refuse_other_request(event: Event, id: str, request_digest: str) -> None:
    """Raise ``Refused`` if the event's id was given to a request with another fingerprint.

    An event whose id Holdfast made has none. Its caller learns that id if the outcome of the commit
    is unknown, and repeats the request with it: ``refuse_other_command``.
    """
    if request_digest and event["by"].get("asked", request_digest) != request_digest:
        raise _id_is_taken(id, event)


def refuse_other_command(events: list[Event], id: str, drafts: list[Draft], args: Fields) -> None:
    """Raise ``Refused`` if events without a fingerprint are not what a command makes.

    ``drafts`` are the events that the command would have made then. What Holdfast found out for
    itself may differ.
    """
    names = [name for name in args if name not in (*_OBSERVED, "commit")]
    recorded = [_content(event, names) for event in events]
    if not drafts or not all(_content(draft, names) in recorded for draft in drafts):
        raise _id_is_taken(id, events[0])


def _content(event: Event | Draft, names: list[str]) -> tuple[str, Fields]:
    data = event["data"]
    return event["type"], {name: data[name] for name in names if name in data}


def _id_is_taken(id: str, event: Event) -> Refused:
    message = (
        f"the id {id} is that of another command: event {event['seq']}, {event['type']} "
        f"of {event['stream']}"
    )
    hint = "repeat that command word for word, or give this one an id of its own"
    return Refused("invalid", message, hint)


def plain(fields: Fields) -> Fields:
    """Return free fields as JSON stores them; raise ``Refused`` if they are not JSON."""
    try:
        text = json_text.dumps(fields)
        stored: Fields = json_text.loads(text, strict=True, depth=json_text.MAX_INPUT_DEPTH)
    except (ValueError, TypeError, RecursionError) as error:
        raise Refused(
            "invalid", f"the fields are not JSON: {error}", "give text, numbers, true, false, null"
        ) from error
    return stored
