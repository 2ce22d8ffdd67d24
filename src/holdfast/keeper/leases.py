"""Leases of workflows: who took one from the pool, until when, and what that forbids to others.

A lease is for a session. While it runs, changes by other agents are refused; a person is not held
up by it. Every change of its holder past half of its time renews it, in the same transaction. One
that ran out belongs to its holder until somebody takes the work.

A lease that a hub gave (``is_hub``) is renewed at the hub, in the background. What its holder
records meanwhile carries its epoch, by which the hub knows whether it was lost.

A small file beside the ledger tells the hooks of a session, with a single ``stat``, that it holds a
lease, and when that is to be renewed.
"""

from __future__ import annotations

import os

from holdfast.core.refusal import shell_word
from holdfast.core.time import iso
from holdfast.errors import Refused
from holdfast.storage import LOST, POOL
from holdfast.storage.leases import Leases
from holdfast.system.detached import start_detached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.refusal import Refusal
    from holdfast.core.types import Fields
    from holdfast.keeper.session import Session
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction

ELSEWHERE = 0
"""The time of a lease that a session of another machine has, and renews there."""
_TRY_AGAIN_MS = 15_000
"""The time between two renewals in the background, where a hub does not answer."""


def is_running(lease: Fields | None, now_ms: int) -> bool:
    return lease is not None and bool(lease["holder"]) and lease["until_ms"] > now_ms


def holders(store: Store) -> dict[str, tuple[str, bool]]:
    """Return the holder of each stream that was taken, and whether the lease runs."""
    now_ms = store.now_ms()
    leases = Leases(store.ledger).all()
    return {lease["stream"]: (lease["holder"], is_running(lease, now_ms)) for lease in leases}


def check(session: Session, tx: Transaction, stream: str, *, binds: bool = False) -> None:
    """Raise ``Refused`` (held) if another holder's lease forbids this caller's change.

    Renew the caller's own lease if half of its time is over. With ``binds``, the change gives the
    work to the caller's session: another one's lease that ran out is over then.
    """
    refuse_others(session, stream)
    store = session.store
    lease = Leases(store.ledger).of(stream)
    if lease is None or not lease["holder"] or not session.id:
        return
    if lease["holder"] == session.id:
        if _is_due(lease, store.now_ms()):
            _renew(store, tx, lease)
    elif binds:
        if lease["ttl_s"] != ELSEWHERE:
            note_loss(store, tx, stream, lease["holder"])
        end(store, tx, stream)


def refuse_others(session: Session, stream: str) -> None:
    """Raise ``Refused`` (held) if the caller is an agent and another one's lease runs."""
    lease = Leases(session.store.ledger).of(stream)
    if lease is None or session.is_person or (session.id and lease["holder"] == session.id):
        return
    if is_running(lease, session.store.now_ms()):
        raise held(session, lease)


def held(session: Session, lease: Fields) -> Refused:
    until = iso(lease["until_ms"])
    return Refused(
        "held",
        f"{lease['holder'][:80]} has taken {lease['stream']} from the pool, until {until}",
        _as_typed(session, "holdfast pool take"),
        holder=lease["holder"], until=until,
    )  # fmt: skip


def _as_typed(session: Session, command: str) -> str:
    """Return a command with the caller's session, if no client names that by itself."""
    is_given = session.id and session.pid is None
    return f"{command} --session {shell_word(session.id)}" if is_given else command


def take(
    session: Session, tx: Transaction, stream: str, ttl_s: float, *, epoch: int = 0,
    is_hub: bool = False,
) -> Fields:  # fmt: skip
    """Give this session the lease of a stream; return it. An earlier holder has lost it."""
    store = session.store
    assert session.id, "a lease is for a session"
    leases = Leases(store.ledger)
    before = leases.of(stream)
    tx.put_fact(POOL, "1")
    is_here = before is not None and before["ttl_s"] != ELSEWHERE
    if before is not None and is_here and before["holder"] not in ("", session.id):
        note_loss(store, tx, stream, before["holder"])
    until_ms = store.now_ms() + int(ttl_s * 1_000)
    leases.put(stream, session.id, ttl_s, until_ms, epoch=epoch, is_hub=is_hub)
    write_mark(store, session.id)
    if before is not None and is_here and before["holder"]:
        write_mark(store, before["holder"])
    lease = leases.of(stream)
    assert lease is not None
    return lease


def end(store: Store, tx: Transaction, stream: str) -> None:
    """End the lease of a stream, if it has one."""
    leases = Leases(store.ledger)
    lease = leases.of(stream)
    if lease is not None and lease["holder"]:
        tx.begin()
        leases.end(stream)
        write_mark(store, lease["holder"])
        if lease["is_hub"]:
            # It gets the last changes before the lease is given back there.
            start_detached(["pool", "renew"], store.workspace.root)


def note_elsewhere(
    store: Store, tx: Transaction, stream: str, holder: str, epoch: int, left_s: float
) -> None:
    """Note that the hub has given a stream to a session of another machine."""
    leases = Leases(store.ledger)
    before = leases.of(stream)
    until_ms = store.now_ms() + int(max(0.0, left_s) * 1_000)
    tx.put_fact(POOL, "1")
    leases.put(stream, holder, ELSEWHERE, until_ms, epoch=epoch)
    if before is not None and before["holder"] and before["ttl_s"] != ELSEWHERE:
        note_loss(store, tx, stream, before["holder"])
        write_mark(store, before["holder"])


def note_loss(store: Store, tx: Transaction, stream: str, holder: str) -> None:
    """Remember that a session lost a workflow, if it is the one that the session worked on."""
    own = [other.row for other in store.ledger.active_of_session(holder, None)]
    newest = max(own, key=lambda row: int(row["session"].get("seq", 0)), default=None)
    if newest is None or newest["id"] == stream:
        tx.put_fact(f"{LOST}{holder}", stream)


def forget_loss(session: Session, tx: Transaction) -> None:
    """Forget which workflow this session lost: it works on another one now."""
    if session.id and session.store.ledger.fact(f"{LOST}{session.id}"):
        tx.put_fact(f"{LOST}{session.id}", "")


def lost_by(session: Session, own: Sequence[Fields]) -> Refusal | None:
    """Return the refusal of a session that lost the workflow it worked on; ``own`` are its others.

    It takes up another one first: the next command was meant for the one that it lost.
    """
    from holdfast.core.refusal import Refusal

    ledger = session.store.ledger
    stream = ledger.fact(f"{LOST}{session.id}") if session.id else ""
    if not stream:
        return None
    lease, stored = Leases(ledger).of(stream), ledger.stream(stream)
    bound = stored.state["session"] if stored is not None else None
    names = (lease or {}).get("holder"), (bound or {}).get("id")
    who = next((name for name in names if name and name != session.id), None)
    others = [row["id"] for row in own if row["id"] != stream]
    is_reaped = lease is not None and lease["holder"] == session.id
    if is_reaped and who is None and not others:
        return None  # It goes on, as nobody else has it.
    if who is not None:
        what = f"{who[:80]} has taken it"
        command = f"holdfast resume {shell_word(others[0])}" if others else "holdfast pool take"
    else:
        what = "it was reaped" if is_reaped else "another session has had it since"
        command = f"holdfast resume {shell_word(stream)}"
    why = f"your lease of {stream} ran out, and {what}"
    return Refusal(
        "held", why, _as_typed(session, command), candidates=[stream], holder=who or session.id
    )


# Renewal


def _is_due(lease: Fields, now_ms: int) -> bool:
    return now_ms >= _due_ms(lease)


def _due_ms(lease: Fields) -> int:
    """Return when half of a lease's time is over."""
    due: int = lease["until_ms"] - int(lease["ttl_s"] * 500)
    return due


def _renew(store: Store, tx: Transaction, lease: Fields) -> None:
    """Renew a lease; have one of a hub renewed there, in the background."""
    tx.begin()
    now_ms, holder = store.now_ms(), lease["holder"]
    if not lease["is_hub"]:
        Leases(store.ledger).renew(lease, now_ms + int(lease["ttl_s"] * 1_000))
        write_mark(store, holder)
    elif store.workspace.is_lease_due(holder, now_ms):
        write_mark(store, holder, not_before_ms=now_ms + _TRY_AGAIN_MS)
        start_detached(["pool", "renew", "--session", holder], store.workspace.root)


def renew(session: Session, *, only_due: bool) -> None:
    """Renew this session's leases; ``only_due``: those of which half of the time is over.

    Else those that a hub gave are left to the caller, who renews them there.
    """
    store, own_id = session.store, session.id or ""
    with session.transaction() as tx:
        leases = Leases(store.ledger).held_by(own_id)
        due = [lease for lease in leases if _is_due(lease, store.now_ms())]
        for lease in due if only_due else leases:
            if only_due or not lease["is_hub"]:
                _renew(store, tx, lease)
        if own_id and not due:
            write_mark(store, own_id)


def write_mark(store: Store, holder: str, *, not_before_ms: int = 0) -> None:
    """Bring the file up to date that says when a session has to renew a lease.

    It is a hint alone: if it cannot be written, the session's changes renew the lease all the same.
    """
    path = store.workspace.lease_mark(holder)
    if holder != store.by.get("session") and not os.path.lexists(path):
        return  # It is nobody's here, or of another machine.
    due = [_due_ms(lease) for lease in Leases(store.ledger).held_by(holder)]
    try:
        if due:
            store.disk.replace_view(path, str(max(min(due), not_before_ms)).encode())
        else:
            store.disk.remove(path)
    except OSError:
        return
