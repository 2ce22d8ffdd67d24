"""Undo: find the caller's last change of a workflow, and record the difference back.

A change is a request with all its events. Whoever has the same session made it; a person, and
their scripts, have none. What nobody asked for is no change: a briefing that was delivered, reading
that was noticed, a session that was bound, an edit of a record that some command adopted, the work
of other machines that came in.
"""

from __future__ import annotations

from holdfast.core.workflow import OPENING, is_active
from holdfast.formats import is_workflow
from holdfast.keeper import questions, start
from holdfast.keeper.requests import fingerprint
from holdfast.storage.ledger import MERGED, SHARED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Event, Fields
    from holdfast.keeper.session import Receipt, Session
    from holdfast.keeper.store import Store

_NO_CHANGE = frozenset(
    (
        "briefing_delivered", "context_compacted", "reading_confirmed", "session_ended",
        "record_adopted", "record_edited", "record_cleaned", "workflow_expired", "loop_rebuilt",
        "change_undone", "stream_shared",
    )
)  # fmt: skip
_ENDINGS = ("workflow_completed", "workflow_abandoned")
_MAX_LOOKED_AT = 200
"""The number of events among which the caller's last one is searched, if no workflow is named."""


def undo(session: Session, *, workflow: str | None = None, id: str | None = None) -> Receipt:
    """Undo the caller's last change; raise ``Refused`` if it cannot be undone."""
    store = session.store
    if not store.ledger.exists():
        session.look(workflow)  # It raises ``Refused``, or there is a record to adopt.
    with session.transaction() as tx:
        receipt = session.repeat(tx, id, workflow, fingerprint("undo_change", {}))
        if receipt is None:
            stream = _just_ended(session) if workflow is None else None
            if stream is None:
                stream = session.select(tx, workflow)
            state = tx.load(stream)
            command = "undo_change", _last_change(store, stream)
            drafts = tx.decide(stream, *command)
            session.check_lease(tx, stream)
            if not is_active(state):
                more = f", then holdfast undo -w {stream}"
                start.check_slot(session, tx, state["recipe"]["format"], stream, more)
            events = tx.append(stream, drafts, command, id=id)
            receipt = session.committed(tx, stream, events)
        event = next(store.ledger.events(receipt.state["id"], after=receipt.seqs[0] - 1))
        receipt.undone = {name: event["data"][name] for name in ("what", "back", "undoes")}
    questions.await_again(store, receipt.state)
    return receipt


def _is_own(store: Store, event: Event) -> bool:
    """Return whether the caller asked for the event's change."""
    if event["type"] in _NO_CHANGE or event["by"].get("session") != store.by.get("session"):
        return False
    if event["type"] == MERGED:
        return SHARED in event["by"]  # A conflict was settled; the rest is what others did.
    return event["type"] != "workflow_resumed" or "from" in event["data"]


def _just_ended(session: Session) -> str | None:
    """Return the workflow here that the caller ended last, if nothing of theirs came after it."""
    store = session.store
    for event in store.ledger.newest(limit=_MAX_LOOKED_AT):
        if not is_workflow(event["stream"]):
            continue
        if event["type"] == "change_undone" or _is_own(store, event):
            stored = store.ledger.stream(event["stream"])
            is_here = stored is not None and stored.row["worktree"] == session.workspace.name
            return event["stream"] if is_here and event["type"] in _ENDINGS else None
    return None


def _last_change(store: Store, stream: str) -> Fields:
    """Return the caller's last change that is not undone, as the arguments of ``undo_change``."""
    undone: list[int] = []
    events: list[Event] = []
    later: list[Event] = []
    for event in store.ledger.newest(stream):
        request = event["id"].partition(".")[0]
        if events and request != events[0]["id"].partition(".")[0]:
            break
        if events or (_is_own(store, event) and event["seq"] not in undone):
            events.insert(0, event)
        else:
            later.insert(0, event)
        if event["type"] == "change_undone":
            undone += event["data"].get("undoes", [])
        if event["type"] in OPENING:
            break
    is_whole = not events or events[0]["type"] in OPENING
    before = None if is_whole else store.state_at(stream, events[0]["seq"] - 1)
    return {"events": events, "later": later, "before": before}
