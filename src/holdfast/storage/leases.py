"""The leases in a ledger: who holds what, for a time (the table ``leases`` of ``sharing.sql``).

They are no history, and safe to lose: a lease that is gone has run out. Who takes and renews them,
and what they forbid, is in ``keeper/leases.py``.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.storage.ledger import Ledger

_COLUMNS = ("stream", "holder", "epoch", "ttl_s", "until_ms", "is_hub")
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM leases"
_PUT = f"INSERT OR REPLACE INTO leases ({', '.join(_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?)"


class Leases:
    """The leases of one ledger. Writing belongs to its open transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._database = ledger.database

    def of(self, stream: str) -> Fields | None:
        """Return the last lease of a stream, which may have run out; ``None`` without one."""
        return next(iter(self._rows("WHERE stream = ?", stream)), None)

    def held_by(self, holder: str) -> list[Fields]:
        """Return the leases of a holder that were not given back; an empty name is nobody's."""
        return self._rows("WHERE holder = ? AND holder <> '' ORDER BY stream", holder)

    def all(self) -> list[Fields]:
        """Return the leases that were not given back."""
        return self._rows("WHERE holder <> '' ORDER BY stream")

    def given_back(self) -> list[Fields]:
        """Return the leases of a hub that have ended here, and perhaps not there."""
        return self._rows("WHERE holder = '' AND is_hub = 1 ORDER BY stream")

    def forget_hub(self, lease: Fields) -> None:
        """Note that the hub knows of the end of a lease."""
        statement = "UPDATE leases SET is_hub = 0 WHERE stream = ? AND holder = '' AND epoch = ?"
        self._database.execute(statement, (lease["stream"], lease["epoch"]))

    def _rows(self, where: str, *values: object) -> list[Fields]:
        rows = self._database.rows(f"{_SELECT} {where}", values)
        return [dict(zip(_COLUMNS, row, strict=True)) for row in rows]

    def put(
        self, stream: str, holder: str, ttl_s: float, until_ms: int, *, epoch: int = 0,
        is_hub: bool = False,
    ) -> int:  # fmt: skip
        """Store a lease, in place of an earlier one; return its epoch.

        Without the ``epoch`` that a hub gave it, it gets the next one.
        """
        before = self.of(stream)
        known = epoch or (before["epoch"] if before is not None else 0) + 1
        self._database.execute(_PUT, (stream, holder, known, ttl_s, until_ms, int(is_hub)))
        return known

    def renew(self, lease: Fields, until_ms: int) -> bool:
        """Let a lease run until then; return False if it has ended, or another took its place."""
        statement = "UPDATE leases SET until_ms = ? WHERE stream = ? AND holder = ? AND epoch = ?"
        values = until_ms, lease["stream"], lease["holder"], lease["epoch"]
        return bool(self._database.execute(statement, values).rowcount)

    def end(self, stream: str) -> None:
        """End a lease. Its epoch stays known, so that the next one has a higher one."""
        statement = "UPDATE leases SET holder = '', until_ms = 0 WHERE stream = ?"
        self._database.execute(statement, (stream,))
