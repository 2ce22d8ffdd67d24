"""Collect names and counts of tests while the output of a runner is parsed."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields

MAX_NAMES = 1_000
MAX_NAME_CHARS = 500


class Tally:
    """Names and counts of tests. A count that the output does not have is left out."""

    __slots__ = ("counts", "error", "failing", "passing")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.error = ""
        self.failing: dict[str, None] = {}
        self.passing: dict[str, None] = {}

    def fail(self, name: str) -> None:
        self.failing[cut(name)] = None

    def succeed(self, name: str) -> None:
        self.passing[cut(name)] = None

    def blame(self, line: str) -> None:
        """Keep the first line that says what is wrong."""
        self.error = self.error or cut(line.strip())

    def count(self, kind: str, number: int) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + number

    def reset_counts(self) -> None:
        """Set all counts to 0, for a summary that names only the others."""
        self.counts = dict.fromkeys(("failed", "passed", "skipped"), 0)

    def fields(self) -> Fields:
        # A test may pass and fail in its teardown: it counts as passing only if it never failed.
        passing = [name for name in self.passing if name not in self.failing]
        fields = {
            "failing": list(self.failing)[:MAX_NAMES],
            "passing": passing[:MAX_NAMES],
            "error": self.error,
        }
        return {**{key: value for key, value in fields.items() if value}, **self.counts}


def cut(name: str) -> str:
    """Cut a name; also used on prefixes, which would be repeated for every test."""
    return name[:MAX_NAME_CHARS]
