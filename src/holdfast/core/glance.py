"""The text of a status line: one line on where a workflow stands, fitted to a terminal. Pure.

What matters most stays longest when there is little room: the other branch that the work belongs
to, what it waits for, the phase, the task, failing tests, the gates, the context that is used. The
text of the task takes what the rest leaves.
"""

from __future__ import annotations

from holdfast.core.visible import clean, count_cells, folded, shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.types import Fields

_TONES = {"good": "32", "active": "36", "bad": "31", "warn": "33", "dim": "2", "plain": ""}
_MARKS = {"active": "▶", "bad": "✗", "dot": " · ", "cut": "…"}
_SPELLED = {"active": ">", "bad": "!", "dot": " | ", "cut": "~"}
_OWN_SIGNS = dict.fromkeys(map(ord, "▶✗·…"), "x")
_MIN_TEXT = 12
"""The columns of a task's text below which its number alone is shown."""
_MAX_NAME = 30
_MAX_NAMED = 2
_CONTEXT_WARN, _CONTEXT_BAD = 70, 90


class Segment:
    """A part of the line: its text, a shorter one, its colour, and its rank: 0 leaves last.

    ``elastic`` is text behind it that can be cut anywhere.
    """

    __slots__ = ("elastic", "rank", "short", "text", "tone")

    def __init__(
        self, rank: int, tone: str, text: str, *, short: str = "", elastic: str = ""
    ) -> None:
        self.rank = rank
        self.tone = tone
        self.text = text
        self.short = short or text
        self.elastic = elastic


class Style:
    """What a terminal can show: its width, colours, and signs beyond ASCII."""

    __slots__ = ("colour", "marks", "width")

    def __init__(self, width: int, *, colour: bool, fancy: bool) -> None:
        self.width = width
        self.colour = colour
        self.marks = _MARKS if fancy else _SPELLED


def workflow_line(row: Fields, branch: str | None, context: float | None, style: Style) -> str:
    """Return the line of a workflow's row; ``context`` is how many percent of it are used."""
    return fit([*_parts(row, branch, style.marks), *_context(context)], style)


def other_line(text: str, context: float | None, style: Style, tone: str = "dim") -> str:
    """Return the line of a session without a workflow: a sentence about those that are here."""
    return fit([Segment(0, tone, "", elastic=_shown(text)), *_context(context)], style)


def _parts(row: Fields, branch: str | None, marks: dict[str, str]) -> Iterator[Segment]:
    glance: Fields = row["glance"] or {}
    if not row["floating"] and row["branch"] not in (None, branch):
        name = _name(row["branch"])
        here = _name(branch) if branch else "no branch"
        yield Segment(
            0, "bad", f"{marks['bad']} for branch {name}, not {here}", short=f"for {name}"
        )
    yield from _waiting(row, glance, marks)
    if row["phase"]:
        number = f"{row['phase_index']}/{row['phase_total']}"
        yield Segment(1, "active", f"{marks['active']} {number} {_name(row['phase'])}")
    if row["tasks_total"]:
        yield _task(row, glance)
    if "failing" in glance:
        count, is_asked = glance["failing"], glance.get("is_red_asked")
        tests = f"{count} failing" if count else "tests fail"
        tone, more = ("warn", ", as red asks") if is_asked else ("bad", "")
        yield Segment(2, tone, f"{marks['bad']} {tests}{more}", short=f"{marks['bad']} {tests}")
    if "gates" in glance:
        yield _gates(glance, marks)


def _waiting(row: Fields, glance: Fields, marks: dict[str, str]) -> Iterator[Segment]:
    """Yield what keeps the work from going on, or waits for a person."""
    if row["status"] == "blocked" or row["phase_status"] == "blocked":
        reason = _shown(glance.get("blocked", ""))
        yield Segment(0, "bad", f"{marks['bad']} blocked", elastic=reason)
    for key, one, many in (
        ("questions", "question", "questions"),
        ("conflicts", "conflict", "conflicts"),
    ):
        if count := glance.get(key):
            yield Segment(1, "warn", f"{count} {one if count == 1 else many}")
    if glance.get("approval"):
        yield Segment(1, "warn", "waits for approval", short="approval")


def _task(row: Fields, glance: Fields) -> Segment:
    total = row["tasks_total"]
    if "task" not in glance:
        return Segment(2, "plain", f"tasks {row['tasks_done']}/{total}")
    number, text, status = glance["task"]
    state = {"blocked": ", blocked", "timeout": ", timed out"}.get(status, "")
    tone = "warn" if state else "plain"
    return Segment(2, tone, f"task {number}/{total}{state}", elastic=_shown(text))


def _gates(glance: Fields, marks: dict[str, str]) -> Segment:
    """Return how many gates are settled, which of these were not shown, and which failed."""
    passed, claimed, waived, total = glance["gates"]
    failed = [_name(name) for name in glance.get("failed", ())]
    count = f"gates {passed + waived}/{total}"
    kinds = [f"{n} {kind}" for n, kind in ((claimed, "claimed"), (waived, "waived")) if n]
    text = f"{count} ({', '.join(kinds)})" if kinds else count
    if failed:
        more = f" +{len(failed) - _MAX_NAMED}" if len(failed) > _MAX_NAMED else ""
        text += f" {marks['bad']} {', '.join(failed[:_MAX_NAMED])}{more}"
        return Segment(3, "bad", text, short=f"{count} {marks['bad']}{len(failed)}")
    tone = "warn" if kinds else "good" if passed == total else "plain"
    return Segment(3, tone, text, short=count)


def _context(used: float | None) -> Iterator[Segment]:
    if used is not None:
        tone = "bad" if used >= _CONTEXT_BAD else "warn" if used >= _CONTEXT_WARN else "dim"
        yield Segment(4, tone, f"context {used:.0f}%", short=f"{used:.0f}%")


def _shown(text: object) -> str:
    return clean(folded(str(text)))


def _name(text: object) -> str:
    return shorten(_shown(text), _MAX_NAME)


# Fitting


def fit(parts: list[Segment], style: Style) -> str:
    """Return the parts on one line of at most the terminal's width."""
    dot = style.marks["dot"]
    texts = [part.text for part in parts]
    shown = list(range(len(parts)))

    def taken() -> int:
        return sum([_cells(texts[i]) for i in shown]) + len(dot) * (len(shown) - 1)

    least = min([_MIN_TEXT, *[_cells(part.elastic) for part in parts if part.elastic]])
    if taken() + least > style.width:
        texts = [part.short for part in parts]
    while taken() > style.width and len(shown) > 1:
        shown.remove(max(shown, key=lambda i: (parts[i].rank, i)))
    room = style.width - taken()
    line = []
    for i in shown:
        text, elastic = texts[i], parts[i].elastic
        gap = 1 if text and elastic else 0
        if elastic and (room - gap >= min(_MIN_TEXT, _cells(elastic)) or not text):
            cut = shorten(elastic, max(1, room - gap))
            text, room = f"{text}{' ' * gap}{cut}", room - gap - _cells(cut)
        if _cells(text) > style.width:
            text = shorten(text, style.width)
        text = text.replace("…", style.marks["cut"])
        line.append(_paint(text, parts[i].tone, style))
    return _paint(dot, "dim", style).join(line)


def _cells(text: str) -> int:
    """Return the columns that a text takes; our own signs take one, which needs no table."""
    return count_cells(text if text.isascii() else text.translate(_OWN_SIGNS))


def _paint(text: str, tone: str, style: Style) -> str:
    code = _TONES[tone]
    return f"\x1b[{code}m{text}\x1b[0m" if style.colour and code and text else text
