"""What a layer needs of the keeper above it: an open workspace to read from."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from holdfast.storage.ledger import Ledger, Stream
    from holdfast.system.disk import Disk
    from holdfast.workspace.location import Workspace

    class HasState(Protocol):
        """A look at one stream."""

        state: Any

    class LayerSource(Protocol):
        """A workspace as one process has it open; the keeper's store is one."""

        @property
        def workspace(self) -> Workspace: ...
        @property
        def disk(self) -> Disk: ...
        @property
        def ledger(self) -> Ledger: ...
        @property
        def notes(self) -> list[str]: ...
        def now_ms(self) -> int: ...
        def pause(self, seconds: float, /) -> None: ...
        def note(self, text: str) -> None: ...
        def state_of(self, stream: str) -> Any: ...
        def state_at(self, stream: str, seq: int) -> Any: ...
        def peek_at(self, held: Stream) -> HasState: ...
