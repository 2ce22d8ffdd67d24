"""The trace of a process, as ``TRACEPARENT`` names it in the form of W3C Trace Context. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "TRACEPARENT"
BY_TRACE = "trace"
"""The key, in ``by`` of an event, of the trace that its command belonged to."""
_LENGTHS = [2, 32, 16, 2]
_HEX = frozenset("0123456789abcdef")
_NO_VERSION = "ff"


class TraceParent:
    """The span under which a command was run: its trace and its id, both in hexadecimal."""

    __slots__ = ("flags", "span", "trace")

    def __init__(self, trace: str, span: str, flags: str) -> None:
        self.trace = trace
        self.span = span
        self.flags = flags

    @property
    def is_sampled(self) -> bool:
        """False if whoever made the span does not record it."""
        return int(self.flags, 16) & 1 == 1

    def text(self) -> str:
        return f"00-{self.trace}-{self.span}-{self.flags}"


def parse(text: object) -> TraceParent | None:
    """Return the span that a ``TRACEPARENT`` names; ``None`` if the text is not valid.

    A later version of the format may have more fields, which are left out.
    """
    fields = text.split("-", 4) if isinstance(text, str) else []
    version, trace, span, flags = fields[:4] if len(fields) >= 4 else ("", "", "", "")
    is_valid = (
        [len(field) for field in fields[:4]] == _LENGTHS
        and _HEX.issuperset(version + trace + span + flags)
        and version != _NO_VERSION
        and (version != "00" or len(fields) == 4)
        and trace.strip("0") != ""
        and span.strip("0") != ""
    )
    return TraceParent(trace, span, flags) if is_valid else None


def trace_in(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what ``by`` of an event has of the trace of a process; nothing if it is in none."""
    parent = parse(environ.get(VARIABLE))
    return {} if parent is None else {BY_TRACE: parent.text()}
