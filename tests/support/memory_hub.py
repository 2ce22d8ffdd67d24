"""A hub in memory, for simulations: it fences as a database does, and is lost with its process."""

from __future__ import annotations

import json

from holdfast.hub.contract import Forked, Held, Lease, Pulled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.types import SharedEvent


class MemoryHub:
    """The events and leases of all replicas, on a clock that the caller gives."""

    kind = "memory"
    where = address = "memory"
    is_fencing = True

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._events: list[str] = []
        self._ids: dict[tuple[str, int], str] = {}
        self._known: dict[str, int] = {}
        self._leases: dict[str, tuple[str, int, float]] = {}

    def pull(self, since: str) -> Pulled:
        start = int(since or 0)
        events = [json.loads(text) for text in self._events[start:]]
        return Pulled(events, str(len(self._events)), dict(self._known))

    def push(self, events: Sequence[SharedEvent]) -> list[tuple[str, int]]:
        fenced = []
        for event in events:
            replica, n = event["replica"], event["n"]
            own_id = event["cause"]["id"]
            known = self._ids.setdefault((replica, n), own_id)
            if known != own_id:
                raise Forked(replica, n)
            if n <= self._known.get(replica, 0):
                if self._is_fenced(replica, n):
                    fenced.append((replica, n))
                continue
            assert n == self._known.get(replica, 0) + 1, "a replica's events have no gap"
            epoch = self._leases.get(event["stream"], ("", 0, 0.0))[1]
            is_fenced = "epoch" in event and event["epoch"] < epoch
            if is_fenced:
                fenced.append((replica, n))
            self._known[replica] = n
            self._events.append(json.dumps({**event, "fenced": True} if is_fenced else event))
        return fenced

    def _is_fenced(self, replica: str, n: int) -> bool:
        events = map(json.loads, self._events)
        return any(
            event.get("fenced")
            for event in events
            if (event["replica"], event["n"]) == (replica, n)
        )

    def claim(self, stream: str, holder: str, ttl_s: float, epoch: int = 0) -> int:
        owner, current, until = self._leases.get(stream, ("", 0, 0.0))
        left = until - self._clock_s()
        if epoch:
            if epoch != current or owner != holder:
                raise Held(stream, owner, left)
        elif left > 0 and owner != holder:
            raise Held(stream, owner, left)
        else:
            epoch = current + 1
        self._leases[stream] = holder, epoch, self._clock_s() + ttl_s
        return epoch

    def release(self, stream: str, epoch: int) -> None:
        owner, current, _ = self._leases.get(stream, ("", 0, 0.0))
        if epoch == current:
            self._leases[stream] = owner, current, 0.0

    def leases(self) -> list[Lease]:
        now = self._clock_s()
        return [
            Lease(stream, holder, epoch, until - now)
            for stream, (holder, epoch, until) in self._leases.items()
            if until > now
        ]

    def reach(self) -> None:
        """It is always there."""

    def is_public(self) -> bool | None:
        return False

    def close(self) -> None:
        """Nothing is open."""
