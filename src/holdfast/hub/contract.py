"""What every hub does. ``tests/hub/test_contract.py`` shows it for each of them.

A hub keeps the shared events of all replicas. It never reads into them: which of them count, and
what they make of a workflow, every replica finds out for itself, and all with the same result.
"""

from __future__ import annotations

from holdfast.errors import Fault, Refused

GIT, POSTGRES = "git", "postgres"
KINDS = (GIT, POSTGRES)
"""The kinds of hubs that a repository can have."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from holdfast.core.types import SharedEvent

    class Hub(Protocol):
        """Where replicas meet."""

        kind: str
        """``git`` or ``postgres``; ``memory`` in simulations."""
        where: str
        """Where it is, without secrets: what the ledger remembers and messages name."""
        address: str
        """Where that leads, without secrets: what is shown before anything is published."""
        is_fencing: bool
        """True if claims are exclusive, and events of a lease that was lost are fenced off."""

        def pull(self, since: str) -> Pulled:
            """Return the events that arrived after a cursor; the first cursor is empty.

            Events of one replica come in the order of ``n`` and without a gap, those of several in
            any order. An event may come again. A fenced event has ``fenced``: True.
            """

        def push(self, events: Sequence[SharedEvent]) -> list[tuple[str, int]]:
            """Store events; return ``(replica, n)`` of those that the hub has fenced off.

            The events of each replica are in order, and follow those that the hub has. Events that
            the hub has already are left out. All are stored durably, or none of a replica; a
            fenced event is stored too, marked as fenced. Raise ``Forked`` if the hub has another
            event under the same ``replica`` and ``n``.
            """

        def claim(self, stream: str, holder: str, ttl_s: float, epoch: int = 0) -> int:
            """Take the lease of a stream, or renew the one with this epoch; return its epoch.

            A lease that is taken has a higher epoch than every earlier one of the stream; renewing
            keeps it. A lease that ran out can still be renewed while nobody else has taken it.
            Raise ``Held`` if another holder's lease runs, or if the epoch is not the current one.
            """

        def release(self, stream: str, epoch: int) -> None:
            """Give up the lease with this epoch; do nothing if it is no longer the current one."""

        def leases(self) -> list[Lease]:
            """Return the leases that run."""

        def reach(self) -> None:
            """Raise ``Fault`` if it cannot be reached, or cannot be used. Change nothing."""

        def is_public(self) -> bool | None:
            """Return whether everybody can read it; ``None`` if that cannot be found out."""

        def close(self) -> None:
            """Let go of connections."""


class Pulled:
    """The answer to ``pull``."""

    __slots__ = ("cursor", "events", "flaws", "is_all", "known")

    def __init__(
        self, events: list[SharedEvent], cursor: str, known: dict[str, int], *,
        is_all: bool = False, flaws: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.events = events
        self.cursor = cursor
        """What to give to the next ``pull``. The order of a hub means nothing else."""
        self.known = known
        """The highest ``n`` that the hub has of each replica."""
        self.is_all = is_all
        """True if the hub is known to have no more at this moment: there is no need to ask."""
        self.flaws = flaws
        """What was left out because it is damaged, or no event: a sentence for each."""


class Lease:
    """Who works on a stream, for how long."""

    __slots__ = ("epoch", "holder", "left_s", "stream")

    def __init__(self, stream: str, holder: str, epoch: int, left_s: float) -> None:
        self.stream = stream
        self.holder = holder
        self.epoch = epoch
        self.left_s = left_s
        """The seconds until it runs out, by the hub's clock."""


class Held(Refused):
    """Another holder has the lease."""

    def __init__(self, stream: str, holder: str, left_s: float) -> None:
        super().__init__(
            "held",
            f"{stream} is held by {holder} for another {max(0, round(left_s))} s",
            "take another one: holdfast pool ready",
        )


class Forked(Fault):
    """The hub has other events under this replica's name: this ledger is a copy."""

    def __init__(self, replica: str, n: int) -> None:
        super().__init__(
            "forked",
            f"the hub has another event {n} of the replica {replica}: one of the ledgers is a copy",
            "holdfast hub sync",
        )
        self.replica = replica
        self.n = n


LATER = "what is recorded here goes there later"
"""What an answer says of a hub out of reach."""


def unreachable(where: str, why: str) -> Fault:
    """Return the fault of a hub that cannot be reached. Local work goes on without it."""
    return Fault(
        "hub_unreachable",
        f"the hub {where} cannot be reached ({why}); {LATER}",
        "holdfast hub sync",
    )
