"""Tables of text that fit a terminal."""

from __future__ import annotations

from holdfast.cli.screen import cells, padded, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.cli.screen import Screen

_GAP = "  "


def no_mark(screen: Screen) -> str:
    """Return spaces as wide as a mark."""
    return " " if screen.fancy else "   "


def columns_that_fit(
    screen: Screen, table: list[dict[str, str]], optional: Iterable[str], widest: dict[str, int],
    last_min: int,
) -> tuple[list[str], dict[str, int]]:  # fmt: skip
    """Return the columns that a terminal has room for, and their widths; the last takes the rest.

    Columns of ``optional`` are dropped, in order, until the last one has ``last_min`` columns.
    ``widest`` limits single columns.
    """
    columns = list(table[0])
    last = columns[-1]
    widths = {name: max([cells(row[name]) for row in table]) for name in columns}
    if screen.width is None:
        return columns, widths
    widths = {name: max(cells(name), width) for name, width in widths.items()}
    for name, width in widest.items():
        widths[name] = min(widths[name], width)
    space = screen.width - cells(no_mark(screen)) - 1
    space -= sum([widths[name] + len(_GAP) for name in columns[:-1]])
    for name in optional:
        if space >= min(last_min, widths[last]):
            break
        columns.remove(name)
        space += widths[name] + len(_GAP)
    widths[last] = min(widths[last], space)
    return columns, widths


def table_lines(
    screen: Screen, table: list[dict[str, str]], columns: list[str], widths: dict[str, int],
    marks: list[str],
) -> Iterator[str]:  # fmt: skip
    """Yield a line for each row, behind its mark; on a terminal the heading first."""
    if screen.width is not None:
        heading = _GAP.join(
            [padded(shortened(column, widths[column]), widths[column]) for column in columns]
        )
        yield screen.paint(f"{no_mark(screen)} {heading}".rstrip(), "dim")
    for mark, row in zip(marks, table, strict=True):
        parts = [padded(shortened(row[name], widths[name]), widths[name]) for name in columns]
        parts[0] = screen.paint(parts[0], "strong")
        yield f"{mark} {_GAP.join(parts)}".rstrip()
