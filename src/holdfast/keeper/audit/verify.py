"""Verify the chain of events, and compare every view with the ledger. Nothing is changed."""

from __future__ import annotations

from holdfast.errors import Fault
from holdfast.keeper.audit import views
from holdfast.keeper.audit.chain import LEDGER, Chain, Report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.keeper.store import Store

RECENT_EVENTS = 50_000
"""The number of newest events that are checked unless the caller asks for everything."""


def verify(store: Store, *, everything: bool = False) -> Report:
    """Check the ledger and the views. A view that is merely behind is not an error.

    In a ledger with more than ``RECENT_EVENTS``, only the newest are checked unless
    ``everything`` is true, and the report says so.
    """
    report = Report()
    after = 0
    kept, store.notes = store.notes, []
    try:
        after = 0 if everything else max(0, store.ledger.head_seq - RECENT_EVENTS)
        if not check_ledger(store, report, after):
            return report
        views.check_records(store, report)
        views.check_unknown(store, report)
        views.check_index(store, report)
        views.check_other_ledger(store, report)
    except Fault as fault:
        if fault.code == "storage":
            raise  # The disk failed: the ledger may be sound, and a repair would not help.
        report.say("error", LEDGER, fault.message)
    finally:
        store.notes = kept
    if after:
        message = f"events 1 to {after} were not checked: holdfast verify --everything"
        report.say("ok", LEDGER, message)
    if report.ok:
        counts = [_counted(report.counts[name], name) for name in ("events", "streams", "records")]
        report.say("ok", "workspace", ", ".join(counts))
    return report


def check_ledger(store: Store, report: Report, after: int) -> bool:
    """Check the database, the chain of events, and the tables made from it.

    Return False if the database cannot be read.
    """
    is_whole = after == 0
    damage = store.ledger.damage() if is_whole else []
    for line in damage:
        report.say("error", LEDGER, f"it is damaged: {line}")
    chain = read_chain(store, after)
    chain.report(report)
    if is_whole:
        views.check_streams(store, chain, report)
    return not damage


def read_chain(store: Store, after: int = 0, *, is_careful: bool = False) -> Chain:
    """Read the events after a seq, in order. Raise ``Fault`` if the database cannot be read."""
    chain = Chain(after, store.ledger.hash_at(after), is_careful=is_careful)
    chain.read(store.ledger.raw_rows(after))
    return chain


def _counted(number: int, name: str) -> str:
    return f"{number} {name.removesuffix('s') if number == 1 else name}"
