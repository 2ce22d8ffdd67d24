"""Milestone pages: what people ticked, and the same page with more of it ticked.

A milestone is a heading such as ``## M1: title`` with boxes below it, or a box such as
``- [ ] M1: title`` with others inside it; a page may have both for the same one, and then the box
counts. What stands in code or in a quote is no box.
"""

from __future__ import annotations

import re

from holdfast.core.initiative import out_of_order
from holdfast.core.milestones import PageMilestone, plain
from holdfast.layers.markdown import MOST_LINES, lines_of, newline_of, tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.core.types import Initiative, Milestone
    from holdfast.layers.markdown import Block

MOST_BYTES = 1_000_000
_LISTS = ("bullet_list", "ordered_list")
_BOX = re.compile(r"\[([ xX])\](?:\s+|$)")
_NUMBERED = re.compile(
    r"[*_`]*(?:milestone\s+m?|m)(?P<number>[0-9]{1,4})[*_`]*\s*"
    r"(?:[:.)\u2013\u2014-]+[*_`]*(?:\s+|$)(?P<title>.*))?",
    re.IGNORECASE | re.DOTALL,
)
_HEADING = re.compile(r"#{1,6}(?:\s|$)")
_FILE = re.compile(r"m[0-9]{1,4}(?![0-9a-z])", re.IGNORECASE)
_DONE = "✅"


class BadPage(Exception):
    """A page that cannot be used: ``line`` is where, ``why`` is what is wrong there."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


class Spot:
    """Where a milestone stands on a page: its heading, its box, and the boxes of its tasks."""

    __slots__ = ("box", "checked", "end", "heading", "id", "tasks", "title")

    def __init__(self, milestone_id: str, title: str) -> None:
        self.id = milestone_id
        self.title = title
        self.heading: int | None = None
        self.box: int | None = None
        self.checked: bool | None = None
        self.tasks: list[tuple[str, bool, int]] = []
        self.end = 0
        """The line behind its heading, or behind the last of its tasks."""


class Page:
    """One page, read. ``BadPage`` when it is none; ``name`` may tell whose boxes these are."""

    def __init__(self, raw: bytes, name: str = "", known: Collection[str] = ()) -> None:
        if len(raw) > MOST_BYTES:
            raise BadPage(1, f"it has {len(raw):,} bytes, {MOST_BYTES:,} are the most")
        self.text = raw.decode("utf-8", "surrogateescape")
        self.lines = lines_of(self.text)
        if len(self.lines) > MOST_LINES:
            raise BadPage(MOST_LINES, f"it has more than {MOST_LINES:,} lines")
        self.title = ""
        self.spots: dict[str, Spot] = {}
        self._known = known
        self._owner: Spot | None = None
        self._depth = 0
        mark = _FILE.match(name)
        if mark is not None:
            self._owner = self._spot(mark[0].upper(), "")
        for block in tree(self.text.removeprefix("\ufeff"), underlined=True):
            if block.kind == "heading":
                self._take_heading(block)
            elif block.kind in _LISTS:
                for item in block.inside:
                    self._take_item(item, self._owner)
        if mark is not None and not self._says(self.spots[mark[0].upper()]):
            del self.spots[mark[0].upper()]
        self._check_order()

    def _check_order(self) -> None:
        behind = out_of_order(list(self.spots))
        if behind is not None:
            one, other = behind
            spot = self.spots[other]
            line = spot.heading if spot.box is None else spot.box
            raise BadPage((line or 0) + 1, f"{other} stands behind {one}; put them in their order")

    @staticmethod
    def _says(spot: Spot) -> bool:
        return bool(spot.tasks) or spot.heading is not None or spot.box is not None

    def _spot(self, milestone_id: str, title: str) -> Spot:
        return self.spots.setdefault(milestone_id, Spot(milestone_id, title))

    def _take_heading(self, block: Block) -> None:
        text = block.text.strip()
        checked = True if text.endswith(_DONE) else None
        box = _BOX.match(text)
        if box is not None:
            checked, text = box[1] != " ", text[box.end() :]
        found = self._named(text.removesuffix(_DONE).strip())
        if found is None:
            if block.depth == 1 and not self.title:
                self.title = plain(text)
            if block.depth <= self._depth:
                self._owner, self._depth = None, 0
            return
        spot = self._once(found, "heading", block.first)
        spot.heading, spot.end = block.first, block.end
        if checked is not None:
            spot.checked = checked
        self._owner, self._depth = spot, block.depth

    def _take_item(self, item: Block, owner: Spot | None) -> None:
        first = item.inside[0] if item.inside else None
        text = first.text if first is not None and first.kind == "paragraph" else ""
        box = _BOX.match(text)
        if box is not None and first is not None:
            said, is_done = text[box.end() :], box[1] != " "
            found = self._named(said.strip()) if owner is None else None
            if found is not None:
                owner = self._once(found, "box", first.first)
                owner.box, owner.checked = first.first, is_done
                owner.end = owner.end or item.end
            elif owner is not None and (task := plain(said)):
                owner.tasks.append((task, is_done, first.first))
                owner.end = max(owner.end, self._last_line(item))
        for block in item.inside:
            if block.kind in _LISTS:
                for inner in block.inside:
                    self._take_item(inner, owner)

    def _last_line(self, block: Block) -> int:
        """The line behind the block, without the empty ones at its end."""
        end = block.end
        while end > block.first + 1 and not self.lines[end - 1].strip():
            end -= 1
        return end

    def _once(self, found: tuple[str, str], what: str, line: int) -> Spot:
        spot = self._spot(*found)
        before = spot.heading if what == "heading" else spot.box
        if before is not None:
            raise BadPage(line + 1, f"{found[0]} stands on line {before + 1} already")
        spot.title = spot.title or found[1]
        return spot

    def _named(self, text: str) -> tuple[str, str] | None:
        """The id and the title of a milestone, where a text is the name of one."""
        head, _, rest = text.partition(":")
        own = head.strip(" *_`")
        if own in self._known:
            return own, plain(rest)
        found = _NUMBERED.fullmatch(text)
        return (f"M{found['number']}", plain(found["title"] or "")) if found else None

    # The same page with more of it ticked

    def ticked(self, one: Initiative, *, is_ours: bool) -> bytes:
        """What is done is ticked; a page that Holdfast wrote is given new tasks too."""
        lines = list(self.lines)
        newline = newline_of(lines)
        added: list[tuple[int, str]] = []
        for milestone in one["milestones"]:
            spot = self.spots.get(milestone["id"])
            if spot is None:
                continue
            if milestone["status"] == "completed" and spot.box is not None:
                lines[spot.box] = _tick(lines[spot.box])
            done = {plain(task["text"]) for task in milestone["tasks"] if task["done"]}
            for text, is_done, line in spot.tasks:
                if text in done and not is_done:
                    lines[line] = _tick(lines[line])
            if is_ours and spot.heading is not None:
                rows = _lacking(milestone, spot)
                lead = newline if rows and not spot.tasks else ""
                if rows:
                    added.append((spot.end, lead + "".join([row + newline for row in rows])))
        for place, text in sorted(added, reverse=True):
            if place and not lines[place - 1].endswith(("\n", "\r")):
                lines[place - 1] += newline
            # Text right below a new task would become part of it.
            follows = "".join(lines[place : place + 1]).strip()
            stands_alone = not follows or _HEADING.match(follows)
            lines.insert(place, text if stands_alone else text + newline)
        return "".join(lines).encode("utf-8", "surrogateescape")


def _lacking(milestone: Milestone, spot: Spot) -> list[str]:
    there = {text for text, _, _ in spot.tasks}
    lacking = [task for task in milestone["tasks"] if plain(task["text"]) not in there]
    return [_row(task["text"], is_done=task["done"]) for task in lacking]


def _row(text: str, *, is_done: bool) -> str:
    return f"- [{'x' if is_done else ' '}] {plain(text)}"


def _tick(line: str) -> str:
    """With its own box ticked: another one behind it is part of the text."""
    box = line.find("[")
    return f"{line[:box]}[x]{line[box + 3 :]}" if line.startswith("[ ]", box) else line


def merged(pages: list[tuple[str, Page]]) -> tuple[str, list[PageMilestone]]:
    """What several pages say together, the first of them first; ``BadPage`` where they clash."""
    found: dict[str, PageMilestone] = {}
    title = next((page.title for _, page in pages if page.title), "")
    for _, page in pages:
        for spot in page.spots.values():
            told = found.setdefault(spot.id, PageMilestone(spot.id, spot.title))
            told.title = told.title or spot.title
            if spot.checked is not None:
                told.checked = spot.checked if told.checked is None else told.checked
            for text, is_done, _ in spot.tasks:
                told.tasks[text] = is_done and told.tasks.get(text, True)
    return title, list(found.values())


def fresh(one: Initiative) -> bytes:
    """A new page."""
    rows = [f"# {plain(one['name'])}", ""]
    rows += [
        _row(f"{each['id']}: {each['title']}".rstrip(": "), is_done=each["status"] == "completed")
        for each in one["milestones"]
    ]
    for each in one["milestones"]:
        rows += ["", f"## {each['id']}: {plain(each['title'])}".rstrip(": ")]
        tasks = [_row(task["text"], is_done=task["done"]) for task in each["tasks"]]
        rows += ["", *tasks] if tasks else []
    return ("\n".join(rows) + "\n").encode()
