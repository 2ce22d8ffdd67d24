"""Tells the browsers that something has changed, by server-sent events.

One poller serves all of them, and works only while somebody listens. It asks the file system
whether anything was written since the last look, and opens nothing.
"""

from __future__ import annotations

import asyncio

from holdfast.core import json_text
from holdfast.errors import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.web.desk import Desk
    from holdfast.web.snapshots import Signs, Snapshots

EVERY_S = 1.0
_ALIVE_S = 15.0
"""The time after which a browser is told that the server still runs."""
_MAX_LISTENERS = 64


class Live:
    """The browsers that listen, and the poller."""

    def __init__(self, desk: Desk, snapshots: Snapshots) -> None:
        self._desk = desk
        self._snapshots = snapshots
        self._listeners: set[asyncio.Queue[list[str] | None]] = set()
        self._poller: asyncio.Task[None] | None = None
        self._is_closed = False

    def listen(self) -> AsyncIterator[bytes]:
        """Return what one browser is sent; raise ``Fault`` if too many listen."""
        if self._is_closed or len(self._listeners) >= _MAX_LISTENERS:
            why = f"{_MAX_LISTENERS} pages are live already"
            raise Fault("busy", why, "close some of them, or load this one again by hand")
        queue: asyncio.Queue[list[str] | None] = asyncio.Queue()
        self._listeners.add(queue)
        if self._poller is None:
            self._poller = asyncio.create_task(self._poll())
        return self._stream(queue)

    async def _stream(self, queue: asyncio.Queue[list[str] | None]) -> AsyncIterator[bytes]:
        try:
            yield b"retry: 2000\nevent: ready\ndata: {}\n\n"
            while True:
                try:
                    keys = await asyncio.wait_for(queue.get(), _ALIVE_S)
                except TimeoutError:
                    yield b": alive\n\n"
                    continue
                if keys is None:
                    return
                data = json_text.dumps({"repositories": keys})
                yield f"event: changed\ndata: {data}\n\n".encode()
        finally:
            self._listeners.discard(queue)
            if not self._listeners and self._poller is not None:
                self._poller.cancel()
                self._poller = None

    async def _poll(self) -> None:
        seen: dict[str, Signs] | None = None
        while True:
            signs = await self._desk.read(self._signs)
            if seen is not None and signs != seen:
                changed = [key for key in (signs | seen) if signs.get(key) != seen.get(key)]
                for queue in self._listeners:
                    queue.put_nowait(changed)
            seen = signs
            await asyncio.sleep(EVERY_S)

    def _signs(self, desk: Desk) -> dict[str, Signs]:
        return {one.key: self._snapshots.signs(one) for one in desk.list()}

    def close(self) -> None:
        """End all streams, so that the server can end."""
        self._is_closed = True
        for queue in self._listeners:
            queue.put_nowait(None)
