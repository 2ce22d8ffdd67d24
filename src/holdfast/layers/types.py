"""What a layer needs of its caller, for the type checker alone."""

from __future__ import annotations

from typing import Any, Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.storage.ledger import Ledger, Stream
    from holdfast.system.disk import Disk
    from holdfast.workspace.location import Workspace


class HasState(Protocol):
    """A look at one stream."""

    state: Any


class LayerSource(Protocol):
    """A workspace as one process has it open; the keeper's store is one."""

    workspace: Workspace
    disk: Disk
    ledger: Ledger
    notes: list[str]

    def now_ms(self) -> int:
        """Return the time in milliseconds."""

    def pause(self, seconds: float, /) -> None:
        """Sleep."""

    def note(self, text: str) -> None:
        """Add a sentence to the next answer."""

    def state_of(self, stream: str) -> Any:
        """Return the state of a log, edits of its record included."""

    def state_at(self, stream: str, seq: int) -> Any:
        """Return the state that a stream had after an event."""

    def peek_at(self, held: Stream) -> HasState:
        """Return a workflow's state, edits of its record included, without writing."""
