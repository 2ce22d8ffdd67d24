"""Send spans (``core.spans``) to a receiver of OpenTelemetry, over OTLP/HTTP.

It is on where a variable such as ``OTEL_EXPORTER_OTLP_ENDPOINT`` names a receiver. Each variable
``OTEL_…`` also counts with ``HOLDFAST_`` before it, and that one goes first: some clients hide the
others from the commands that they run.

A change does not wait for the receiver. When the lock is free again, it starts
``holdfast sync --telemetry``, which delivers up to the newest event. A small file beside the ledger
has the event up to which the receiver has everything. After a kill before that is noted, the same
spans are sent again, under the same ids. If the file is lost, delivery begins anew at the newest
event. A receiver that fails is left alone for a minute.

Only this module imports OpenTelemetry's SDK, an extra.
"""

from __future__ import annotations

import os
from contextlib import suppress

from holdfast import __version__
from holdfast.core import json_text
from holdfast.errors import Refused
from holdfast.layers.deliveries import DeliveryNotes
from holdfast.system.detached import start_detached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Self

    from holdfast.core.spans import Span
    from holdfast.core.types import Fields
    from holdfast.layers import LayerSource

LIMIT_S = 30
BACK_OFF_MS = 60 * 1_000
WARNING = "OpenTelemetry spans are not delivered"
RECOVERED = "OpenTelemetry spans are delivered again"
BEGUN = "what is done from here on goes to {} as spans; for all of it: holdfast sync --everything"
LOCK_FILE = "telemetry.lock"
_POSITION_FILE = "telemetry.json"
_NOTES = "telemetry"
_OWN = "HOLDFAST_"
_STANDARD = "OTEL_"
_OTLP, _OTLP_TRACES = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"
_NEEDED = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
_EXTRA = "in Holdfast's checkout: pip install '.[otel]'"
_MAX_QUOTED = 300
"""Characters of the SDK's own words in a message."""


# Settings


def settings_in(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables ``OTEL_…`` as Holdfast uses them; its own ones go first."""
    prefix = _OWN + _STANDARD
    own = {
        name.removeprefix(_OWN): value for name, value in environ.items() if name.startswith(prefix)
    }
    # A variable for all signals must not lose against another one's for traces alone.
    hidden = {name.replace(_OTLP, _OTLP_TRACES, 1) for name in own}
    standard = {
        name: value
        for name, value in environ.items()
        if name.startswith(_STANDARD) and name not in hidden
    }
    return {name: value for name, value in {**standard, **own}.items() if value}


def target() -> str:
    """Return the receiver's address, without a password in it; empty if there is none."""
    chosen = settings_in(os.environ)
    address = chosen.get(f"{_OTLP_TRACES}ENDPOINT") or chosen.get(f"{_OTLP}ENDPOINT", "")
    exporters = chosen.get("OTEL_TRACES_EXPORTER", "otlp").replace(" ", "").split(",")
    if chosen.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or "otlp" not in exporters:
        return ""
    scheme, mark, rest = address.partition("://")
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}" if rest else address


def check_ready() -> None:
    """Raise ``Refused`` if spans cannot be sent, whatever the receiver does."""
    import importlib.util

    chosen = settings_in(os.environ)
    protocol = chosen.get(f"{_OTLP_TRACES}PROTOCOL") or chosen.get(f"{_OTLP}PROTOCOL", "")
    if protocol.strip().lower() == "grpc":
        raise Refused(
            "no_sdk",
            f"{WARNING}: {target()} takes gRPC, and Holdfast speaks OTLP over HTTP",
            "name the receiver's HTTP address (mostly port 4318) in "
            "HOLDFAST_OTEL_EXPORTER_OTLP_ENDPOINT, and set "
            "HOLDFAST_OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
        )
    for name in _NEEDED:
        try:
            is_missing = importlib.util.find_spec(name) is None
        except ImportError:
            is_missing = True
        if is_missing:
            hint = f"{_EXTRA}; or, to send none: HOLDFAST_OTEL_SDK_DISABLED=true"
            why = f"{WARNING} to {target()}: OpenTelemetry's SDK is not installed"
            raise Refused("no_sdk", why, hint)


# What is delivered


class Position:
    """The event up to which the receiver has everything, and the last failure. Kept in a file."""

    def __init__(self, source: LayerSource) -> None:
        self._source = source
        self._path = os.path.join(source.workspace.home, _POSITION_FILE)
        stored = _parse(source.disk.read_own(self._path) if os.path.exists(self._path) else None)
        is_of_here = stored.get("ledger") == source.ledger.identity()
        self.is_known = is_of_here and stored["seq"] <= source.ledger.head_seq
        self.seq: int = stored["seq"] if self.is_known else 0
        self.until_ms: int = stored.get("left_alone_until_ms", 0) if self.is_known else 0
        self.why: str = stored.get("why", "") if self.is_known else ""

    def move(self, seq: int) -> None:
        """Store that everything up to an event is delivered."""
        self.seq, self.until_ms, self.why, self.is_known = seq, 0, "", True
        self._save()

    def back_off(self, why: str) -> None:
        """Leave the receiver alone after a failure."""
        self.why = why
        self.until_ms = self._source.now_ms() + BACK_OFF_MS
        self._save()

    def is_backing_off(self) -> bool:
        """Return True during the back-off. Setting the clock back does not extend it."""
        return 0 < self.until_ms - self._source.now_ms() <= BACK_OFF_MS

    def _save(self) -> None:
        stored: Fields = {"ledger": self._source.ledger.identity(), "seq": self.seq}
        if self.why:
            stored |= {"left_alone_until_ms": self.until_ms, "why": self.why}
        self._source.disk.replace_view(self._path, f"{json_text.pretty(stored)}\n".encode())


def _parse(raw: bytes | None) -> Fields:
    """Return the content of a position file; empty if it makes no sense."""
    try:
        stored = json_text.loads(raw or b"{}", strict=True)
    except json_text.BadJson:
        return {}
    kinds = {"ledger": str, "seq": int, "left_alone_until_ms": int, "why": str}
    is_valid = (
        isinstance(stored, dict)
        and {"ledger", "seq"} <= set(stored)
        and all(isinstance(stored.get(name, kind()), kind) for name, kind in kinds.items())
    )
    return stored if is_valid else {}


def notes_of(source: LayerSource) -> DeliveryNotes:
    return DeliveryNotes(source, _NOTES)


def start(source: LayerSource) -> None:
    """Have what was just recorded delivered, and say what an earlier delivery met.

    Where nothing can be written beside the ledger, nothing is delivered.
    """
    if target():
        with suppress(OSError):
            _start(source)


def _start(source: LayerSource) -> None:
    notes, position = notes_of(source), Position(source)
    notes.say()
    is_new = not position.is_known
    if is_new:
        position.move(source.ledger.seq_acquired)
    try:
        check_ready()
    except Refused as refused:
        notes.say_once(f"{refused.message}; {refused.hint}")
        return
    if is_new:
        source.note(BEGUN.format(target()))
    if not position.is_backing_off():
        start_detached(["sync", "--telemetry"], source.workspace.root)


# The receiver


class Receiver:
    """A receiver of spans: ``with Receiver(ledger) as receiver``."""

    def __init__(self, ledger: str) -> None:
        """``ledger`` is the identity of the ledger that the spans are of."""
        import logging

        check_ready()
        with _StandardEnvironment():
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.util.instrumentation import InstrumentationScope

            name = os.environ.get("OTEL_SERVICE_NAME", "")
            named = "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
            fields = {} if name or named else {"service.name": "holdfast"}
            self._resource = Resource.create({**fields, "holdfast.ledger": ledger})
            self._exporter: Any = OTLPSpanExporter()
        self._scope = InstrumentationScope("holdfast", __version__)
        # The exporter says why it failed only in its log.
        self._messages: list[str] = []
        messages = self._messages

        class Listener(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                messages.append(record.getMessage())

        self._logger = logging.getLogger("opentelemetry")
        self._logger.propagate = False
        self._listener = Listener()
        self._logger.addHandler(self._listener)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._logger.removeHandler(self._listener)
        self._exporter.shutdown()

    def send(self, spans: list[Span]) -> str:
        """Send spans; return why that failed, or an empty text."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        self._messages.clear()
        result = self._exporter.export([self._readable(span) for span in spans])
        if result is SpanExportResult.SUCCESS:
            return ""
        return "; ".join(dict.fromkeys(self._messages))[:_MAX_QUOTED] or "it failed"

    def _readable(self, span: Span) -> Any:
        """Return a span as the exporter takes it."""
        from opentelemetry.sdk.trace import Event, ReadableSpan
        from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags

        def context(trace: str, own_id: str, *, is_remote: bool) -> SpanContext:
            flags = TraceFlags(TraceFlags.SAMPLED)
            return SpanContext(int(trace, 16), int(own_id, 16), is_remote, flags)

        parent = context(span.trace, span.parent, is_remote=True) if span.parent else None
        failed = span.error is not None
        return ReadableSpan(
            span.name,
            context(span.trace, span.id, is_remote=False),
            parent,
            self._resource,
            span.attributes,
            [Event(name, values, at_ms * 1_000_000) for name, at_ms, values in span.points],
            [Link(context(*link, is_remote=True)) for link in span.links],
            status=Status(StatusCode.ERROR, span.error) if failed else Status(StatusCode.UNSET),
            start_time=span.start_ms * 1_000_000,
            end_time=(span.end_ms or span.start_ms) * 1_000_000,
            instrumentation_scope=self._scope,
        )


class _StandardEnvironment:
    """The environment with Holdfast's own variables under the names that the SDK reads."""

    def __enter__(self) -> None:
        self._before = {name: os.environ[name] for name in _standard_names()}
        self._change(settings_in(os.environ))

    def __exit__(self, *_error: object) -> None:
        self._change(self._before)

    @staticmethod
    def _change(variables: Mapping[str, str]) -> None:
        for name in list(_standard_names()):
            del os.environ[name]
        os.environ.update(variables)


def _standard_names() -> Iterator[str]:
    return (name for name in os.environ if name.startswith(_STANDARD))
