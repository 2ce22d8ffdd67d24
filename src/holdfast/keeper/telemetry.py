"""Read spans from the ledger, and have them delivered (``layers.telemetry``).

Events are read in the order in which they were recorded. What happened to a workflow before that is
read once, so that its open phases and tasks are known. Every text of a span is masked as output is.
"""

from __future__ import annotations

from holdfast.core.spans import SpanFold
from holdfast.errors import Fault, HoldfastError, system_refused
from holdfast.evidence.masking import masked_texts
from holdfast.formats import aggregate_of, is_workflow
from holdfast.layers import telemetry
from holdfast.layers.deliveries import repeat
from holdfast.layers.sync import CURRENT, DELIVERED, UNAVAILABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.spans import Span
    from holdfast.core.types import Event, Fields, Workflow
    from holdfast.keeper.store import Store

LAYER = "telemetry"
MAX_TEXT = 1_000
"""The maximum number of characters of a text."""
_EVENTS_AT_ONCE = 500
_SPANS_AT_ONCE = 250
_UNFIT = (LookupError, TypeError, ValueError, AttributeError)
_WAIT_S = 10.0


def is_on() -> bool:
    """Return whether a receiver is named and not switched off."""
    return telemetry.target() != ""


def sync(store: Store, *, everything: bool) -> Fields:
    """Deliver at once, for ``holdfast sync``; return the layer's row."""
    row: Fields = {"layer": LAYER, "target": telemetry.target()}
    if not store.ledger.exists():
        return {**row, "status": CURRENT}
    try:
        done = _deliver(store, everything=everything, at_once=True, wait_s=_WAIT_S)
        row |= {"status": DELIVERED if done["spans"] else CURRENT, **done}
        why = row.pop("why")
        if not why:
            telemetry.notes_of(store).say_no_more("")
            return row
        hint = "holdfast sync tries it at once; others do so a minute after a failure"
        error = {"code": "telemetry_unavailable", "message": why, "hint": hint}
    except (OSError, HoldfastError) as failure:
        fault = system_refused(failure) if isinstance(failure, OSError) else failure
        why = fault.message
        error = {"code": fault.code, "message": fault.message, "hint": fault.hint}
    telemetry.notes_of(store).say_no_more(why)
    return {**row, "status": UNAVAILABLE, "error": error}


def deliver_in_background(store: Store) -> None:
    """Deliver until the receiver has everything, fails, or the time is over."""
    if is_on() and store.ledger.exists():
        repeat(lambda: _deliver_once(store), telemetry.LIMIT_S)


def _deliver_once(store: Store) -> bool:
    """Deliver, unless another process does; return True if nothing is left to do."""
    seq = 0
    try:
        done = _deliver(store, everything=False, at_once=False, wait_s=0.0)
        trouble, seq = done["why"], done["seq"]
    except HoldfastError as fault:
        if fault.code == "busy":
            return True
        trouble = f"{telemetry.WARNING}: {fault.message}; {fault.hint}"
    notes = telemetry.notes_of(store)
    was_down = notes.last_note().startswith(telemetry.WARNING)
    notes.settle(trouble, telemetry.RECOVERED if was_down else "")
    return bool(trouble) or store.ledger.head_seq == seq


def _deliver(store: Store, *, everything: bool, at_once: bool, wait_s: float) -> Fields:
    """Deliver what the receiver lacks, unless it failed a moment ago and may not be tried.

    Return the numbers of events and spans that were delivered, the last event that the receiver
    has (``seq``), how many it lacks (``behind``), and ``why`` it failed. Raise ``Fault`` (busy) if
    another process delivers, and ``Refused`` if nothing can be sent.
    """
    lock = store.disk.lock(f"{store.workspace.home}/{telemetry.LOCK_FILE}", wait_s)
    try:
        position, head = telemetry.Position(store), store.ledger.head_seq
        if everything or not position.is_known:
            position.move(0 if everything else head)
        first, spans_sent = position.seq, 0
        if position.seq < head and (at_once or not position.is_backing_off()):
            with telemetry.Receiver(store.ledger.identity()) as receiver:
                for seq, spans in batches(store, position.seq, head):
                    why = receiver.send(spans) if spans else ""
                    if why:
                        position.back_off(f"{telemetry.WARNING} to {telemetry.target()}: {why}")
                        break
                    spans_sent += len(spans)
                    position.move(seq)
    finally:
        store.disk.close(lock)
    done: Fields = {"events": position.seq - first, "spans": spans_sent, "seq": position.seq}
    behind = head - position.seq
    return {**done, **({"behind": behind} if behind else {}), "why": position.why}


def batches(store: Store, after: int, upto: int) -> Iterator[tuple[int, list[Span]]]:
    """Yield the spans that ended after an event, in parts; each with the last event it is of."""
    folds: dict[str, _Reader] = {}
    ready: list[Span] = []
    while after < upto:
        # No query stays open while spans are sent.
        events = list(store.ledger.events(after=after, upto=min(upto, after + _EVENTS_AT_ONCE)))
        after = min(upto, after + _EVENTS_AT_ONCE)
        for event in events:
            if is_workflow(event["stream"]):
                ready += _read(store, folds, event)
            if len(ready) >= _SPANS_AT_ONCE:
                yield event["seq"], _masked(ready, store.workspace.root)
                ready = []
    yield upto, _masked(ready, store.workspace.root)


def _read(store: Store, folds: dict[str, _Reader], event: Event) -> list[Span]:
    stream = event["stream"]
    if stream not in folds:
        folds[stream] = _Reader(store.ledger.identity(), stream)
        try:
            for earlier in store.ledger.events(stream, upto=event["seq"] - 1):
                folds[stream].read(earlier)
        except Fault:
            pass  # Its beginning is lost, or in an archive that is not here.
    fold = folds[stream].fold
    was_open = fold.is_open
    spans = folds[stream].read(event)
    if was_open and not fold.is_open:
        del folds[stream]  # It takes memory, and mostly nothing follows.
    return spans


class _Reader:
    """The spans of one workflow, and its state, as far as its events have been read."""

    def __init__(self, ledger: str, stream: str) -> None:
        self.fold = SpanFold(ledger, stream)
        self._evolve = aggregate_of(stream).evolve
        self._state: Workflow | None = None

    def read(self, event: Event) -> list[Span]:
        """Return the spans that an event ends; none if it makes no sense."""
        try:
            after: Workflow = self._evolve(self._state, event)
            spans = self.fold.read(event, self._state, after)
        except _UNFIT:
            return []
        self._state = after
        return spans


def _masked(spans: list[Span], root: str) -> list[Span]:
    """Mask every text of spans, and then cut it."""
    texts = [
        [span.name, span.error, span.attributes, [list(point) for point in span.points]]
        for span in spans
    ]
    for span, values in zip(spans, masked_texts(texts, root), strict=True):
        name, span.error, attributes, points = values
        span.name, span.attributes = name[:MAX_TEXT], _cut(attributes)
        span.points = [(name, at, _cut(fields)) for name, at, fields in points]
    return spans


def _cut(attributes: Fields) -> Fields:
    return {
        name: value[:MAX_TEXT] if isinstance(value, str) else value
        for name, value in attributes.items()
    }
