"""What a runner's output tells, as it is gathered line by line."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields

MAX_NAMES = 1_000
MAX_NAME = 500


class Tally:
    """Names and counts. A count that the output does not tell is left out."""

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
        """The first line that says what is wrong is kept."""
        self.error = self.error or cut(line.strip())

    def count(self, what: str, number: int) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def count_nothing(self) -> None:
        """For a summary that names only what is not zero."""
        self.counts = dict.fromkeys(("failed", "passed", "skipped"), 0)

    def fields(self) -> Fields:
        # A test may pass and then fail to tidy up: it passes only if nothing says that it failed.
        passing = [name for name in self.passing if name not in self.failing]
        found = {
            "failing": list(self.failing)[:MAX_NAMES],
            "passing": passing[:MAX_NAMES],
            "error": self.error,
        }
        return {**{key: value for key, value in found.items() if value}, **self.counts}


def cut(name: str) -> str:
    """Also for what stands before many names: a long one would be copied for each of them."""
    return name[:MAX_NAME]
