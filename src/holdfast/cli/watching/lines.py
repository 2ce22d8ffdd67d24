"""Painted lines, as all windows of ``watch`` are made of: how each is shown, and the last ones."""

from __future__ import annotations

from holdfast.cli.screen import clip, count_cells, count_painted_cells, wrap
from holdfast.core.visible import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.screen import Screen

    Key = tuple[str, ...]

_MAX_ANSWER_LINES = 3
_USUAL_COLUMNS = 80
NEXT, WAITS, PHASES, OPEN, GATES, NOTES, DONE = range(7)
"""The ranks of lines; where there is little room, those of the greatest are left out first."""


class Line:
    """A painted line; ``key`` is what it is about, ``rank`` how early it can be left out."""

    def __init__(self, text: str, key: Key = (), rank: int = OPEN) -> None:
        self.key = key
        self.text = text
        self.rank = rank
        self.is_chosen = False

    def show(self, screen: Screen, changed: set[Key]) -> str:
        """Return the text within the width, behind a mark if it is chosen or has changed."""
        text = screen.encoded(self.text.rstrip(" "))
        mark = " "
        if self.is_chosen:
            mark = screen.paint("▌" if screen.fancy else ">", "active")
        if self.key in changed:
            mark, text = "•" if screen.fancy else "*", screen.highlight(text)
            mark = screen.paint(mark, "warn")
        text = mark + text
        if screen.width is not None:
            text = screen.encoded(clip(text, screen.width))
        return text.rstrip(" ")


class Foot:
    """The last lines of the window: the answer to a key, then a question or the keys."""

    def __init__(
        self, keys: str = "", answer: tuple[str, str] = ("", ""), prompt: tuple[str, str] = ("", "")
    ) -> None:
        self.keys = keys
        self.answer = answer
        """The mark of a status, and a text; empty if there is nothing to say."""
        self.prompt = prompt
        """A question with what was typed, and how to answer it, where there is room for that."""

    @property
    def is_urgent(self) -> bool:
        """Return whether it has more to say than the keys."""
        return bool(self.prompt[0] or self.answer[1])

    def lines(self, screen: Screen, height: int) -> list[Line]:
        """Return the lines, at most as many as the window has."""
        width = _USUAL_COLUMNS if screen.width is None else screen.width - 1
        prompt, hint = clean(self.prompt[0]), clean(self.prompt[1])
        if hint and count_cells(prompt) + count_cells(hint) + 5 <= width:
            prompt += f"   ({hint})"
        while count_cells(prompt) > max(1, width):
            prompt = prompt[1:]  # The end, where something is typed, stays in sight.
        last = Line(prompt or screen.dim(self.keys))
        if not self.answer[1] or height < 1:
            return [last][:height]
        text = f"{screen.mark(self.answer[0])} {clean(self.answer[1])}"
        pieces = list(wrap(text, max(1, width)))[:_MAX_ANSWER_LINES]
        if prompt or height > len(pieces):
            return [*map(Line, pieces[: height - 1]), last]
        return list(map(Line, pieces[:height]))


def spread(screen: Screen, left: str, right: str) -> Line:
    """Return a line with one text at its beginning and another one at its end."""
    gap = 2
    if screen.width is not None:
        gap = max(2, screen.width - 1 - count_painted_cells(left) - count_painted_cells(right))
    return Line(left + " " * gap + right)
