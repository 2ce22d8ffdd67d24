"""Milestone pages: read what people ticked, and tick what is done.

A milestone is a heading such as ``## M1: title`` with boxes below it, or a box such as
``- [ ] M1: title`` with others inside it. A page may have both for one milestone; then the box
counts. Boxes in code and in quotes are not read.
"""

from __future__ import annotations

import os
import re

from holdfast.core.initiative_sources import PageMilestone, page_text, plain
from holdfast.core.initiatives import out_of_order
from holdfast.core.visible import clean
from holdfast.initiatives import BadFile
from holdfast.layers.markdown import MAX_LINES, block_tree, newline_of, split_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.core.types import Initiative, Milestone
    from holdfast.layers.markdown import Block

README = "README.md"
MAX_BYTES = 1_000_000
_LISTS = ("bullet_list", "ordered_list")
_BOX = re.compile(r"\[([ xX])\](?:\s+|$)")
_NUMBERED = re.compile(
    r"[*_`]*(?:milestone\s+m?|m)(?P<number>[0-9]{1,4})[*_`]*\s*"
    r"(?:[:.)\u2013\u2014-]+[*_`]*(?:\s+|$)(?P<title>.*))?",
    re.IGNORECASE | re.DOTALL,
)
_NEW_BLOCK = re.compile(r"(?:#{1,6}|[-*+])(?:\s|$)")
_FILE_NAME = re.compile(r"m[0-9]{1,4}(?![0-9a-z])", re.IGNORECASE)
_DONE_MARK = "✅"


class MilestoneLocation:
    """The lines of a milestone on a page: its heading, its box, and the boxes of its tasks."""

    __slots__ = ("box", "checked", "end", "heading", "id", "tasks", "title")

    def __init__(self, milestone_id: str, title: str) -> None:
        self.id = milestone_id
        self.title = title
        self.heading: int | None = None
        self.box: int | None = None
        self.checked: bool | None = None
        self.tasks: list[tuple[str, bool, int]] = []
        """Text, whether it is ticked, and line of each task."""
        self.end = 0
        """The line after its heading, or after the last of its tasks."""


class MilestonePage:
    """A parsed page. The constructor raises ``BadFile`` if the page cannot be used.

    The name of the file, or of its folder, may name the milestone of its boxes. ``ids`` are those
    of milestones that are not of the form M1.
    """

    def __init__(self, raw: bytes, path: str = "", ids: Collection[str] = ()) -> None:
        self.path = path
        if len(raw) > MAX_BYTES:
            raise self._bad(0, f"it has {len(raw):,} bytes; the limit is {MAX_BYTES:,}")
        self.text = raw.decode("utf-8", "surrogateescape")
        self.lines = split_lines(self.text)
        if len(self.lines) > MAX_LINES:
            raise self._bad(MAX_LINES - 1, f"it has more than {MAX_LINES:,} lines")
        self.title = ""
        self._title_line: int | None = None
        self.milestones: dict[str, MilestoneLocation] = {}
        self._ids = ids
        self._owner: MilestoneLocation | None = None
        """The milestone whose heading was read last."""
        self._depth = 0
        folder, name = os.path.split(path)
        file_name = _FILE_NAME.match(os.path.basename(folder) if name == README else name)
        if file_name is not None:
            self._owner = self._location(file_name[0].upper(), "")
        for block in block_tree(self.text.removeprefix("\ufeff"), underlined=True):
            if block.kind == "heading":
                self._read_heading(block)
            elif block.kind in _LISTS:
                for item in block.children:
                    self._read_item(item, self._owner)
        if file_name is not None:
            own = self.milestones[file_name[0].upper()]
            if not own.tasks and own.heading is None and own.box is None:
                del self.milestones[own.id]
        pair = out_of_order(list(self.milestones))
        if pair is not None:
            earlier, later = pair
            location = self.milestones[later]
            line = location.heading if location.box is None else location.box
            raise self._bad(line or 0, f"{later} stands behind {earlier}; put them in their order")

    def _bad(self, line: int, why: str) -> BadFile:
        return BadFile(self.path, line + 1, why)

    def _location(self, milestone_id: str, title: str) -> MilestoneLocation:
        return self.milestones.setdefault(milestone_id, MilestoneLocation(milestone_id, title))

    def _read_heading(self, block: Block) -> None:
        text = block.text.strip()
        checked = True if text.endswith(_DONE_MARK) else None
        box = _BOX.match(text)
        if box is not None:
            checked, text = box[1] != " ", text[box.end() :]
        name = self._milestone_name(text.removesuffix(_DONE_MARK).strip())
        if name is None:
            if block.depth == 1 and not self.title:
                self.title = page_text(text)
                self._title_line = block.first
            if block.depth <= self._depth:
                self._owner, self._depth = None, 0
            return
        location = self._unique(name, "heading", block.first)
        location.heading, location.end = block.first, block.end
        if checked is not None:
            location.checked = checked
        self._owner, self._depth = location, block.depth

    def _read_item(self, item: Block, owner: MilestoneLocation | None) -> None:
        first = item.children[0] if item.children else None
        text = first.text if first is not None and first.kind == "paragraph" else ""
        box = _BOX.match(text)
        if box is not None and first is not None:
            label, is_done = text[box.end() :], box[1] != " "
            name = self._milestone_name(label.strip()) if owner is None else None
            if name is not None:
                owner = self._unique(name, "box", first.first)
                owner.box, owner.checked = first.first, is_done
                owner.end = owner.end or item.end
            elif owner is not None and (task := page_text(label)):
                owner.tasks.append((task, is_done, first.first))
                lines = "".join(self.lines[item.first : item.end]).rstrip()
                owner.end = max(owner.end, item.first + len(split_lines(lines)))
        for block in item.children:
            if block.kind in _LISTS:
                for inner in block.children:
                    self._read_item(inner, owner)

    def _unique(self, name: tuple[str, str], what: str, line: int) -> MilestoneLocation:
        """Return the location of a milestone; raise ``BadFile`` if it has this already."""
        location = self._location(*name)
        before = location.heading if what == "heading" else location.box
        if before is not None:
            raise self._bad(line, f"{location.id} stands on line {before + 1} already")
        location.title = location.title or name[1]
        return location

    def _milestone_name(self, text: str) -> tuple[str, str] | None:
        """Return the id and the title, if a text is the name of a milestone."""
        head, _, title = text.partition(":")
        own = head.strip(" *_`")
        if own in self._ids:
            return own, page_text(title)
        match = _NUMBERED.fullmatch(text)
        return (f"M{match['number']}", page_text(match["title"] or "")) if match else None

    # Ticking

    def ticked(
        self, initiative: Initiative, *, is_own: bool, elsewhere: Collection[str] = ()
    ) -> bytes:
        """Return the page with everything ticked that is done; every other byte stays.

        ``is_own``: Holdfast wrote the page, so it also adds what the page lacks, and follows a new
        name. ``elsewhere`` are milestones that another page has.
        """
        missing = [
            milestone["id"]
            for milestone in initiative["milestones"]
            if is_own and milestone["id"] not in {*self.milestones, *elsewhere}
        ]
        after = self._ticked(initiative, missing, is_own=is_own)
        if missing and not self._are_found(missing, after):
            # Below an open code block, for one, they would be added again each time.
            return self._ticked(initiative, (), is_own=is_own)
        return after

    def _are_found(self, milestone_ids: list[str], raw: bytes) -> bool:
        """Return whether another version of the page has these milestones."""
        try:
            milestones = MilestonePage(raw, self.path, self._ids).milestones
        except BadFile:
            return False
        return all(milestone_id in milestones for milestone_id in milestone_ids)

    def _ticked(self, initiative: Initiative, missing: Collection[str], *, is_own: bool) -> bytes:
        lines = list(self.lines)
        newline = newline_of(lines)
        added: list[tuple[int, str]] = []
        if is_own:
            self._rename(lines, initiative)
        for milestone in initiative["milestones"]:
            location = self.milestones.get(milestone["id"])
            if location is None:
                if milestone["id"] in missing:
                    added += self._missing(milestone, initiative, newline)
                continue
            if milestone["status"] == "completed" and location.box is not None:
                lines[location.box] = _tick(lines[location.box])
            done = {plain(task["text"]) for task in milestone["tasks"] if task["done"]}
            for text, is_done, line in location.tasks:
                if text in done and not is_done:
                    lines[line] = _tick(lines[line])
            on_page = {text for text, _, _ in location.tasks}
            rows = [
                _row(task["text"], is_done=task["done"])
                for task in (milestone["tasks"] if is_own else ())
                if plain(task["text"]) not in on_page
            ]
            if rows and not location.tasks:
                rows.insert(0, "")
            forced = _forced_row(milestone)
            if is_own and forced and forced not in self.text:
                rows += ["", forced]
            if rows and location.heading is not None:
                added.append((location.end, "".join([row + newline for row in rows])))
        # Backwards, so that a line's number stays right, and so does the order at one line.
        for line, text in sorted(added, key=lambda addition: addition[0])[::-1]:
            if line and not lines[line - 1].endswith(("\n", "\r")):
                lines[line - 1] += newline
            # Text right below a new row would become part of it.
            following = "".join(lines[line : line + 1]).strip()
            is_safe = not following or _NEW_BLOCK.match(following)
            lines.insert(line, text if is_safe else text + newline)
        return "".join(lines).encode("utf-8", "surrogateescape")

    def _rename(self, lines: list[str], initiative: Initiative) -> None:
        """Replace the page's title if it is a name that the initiative had before."""
        former = [plain(name) for name in initiative.get("former", ())]
        line = self._title_line
        if line is not None and self.title in former and lines[line].startswith("# "):
            ending = lines[line].removeprefix(lines[line].rstrip("\r\n"))
            lines[line] = f"# {clean(plain(initiative['name']))}{ending}"

    def _missing(
        self, milestone: Milestone, initiative: Initiative, newline: str
    ) -> list[tuple[int, str]]:
        """Return the box and the section of a milestone that the page lacks, with their lines.

        They stand before those of the next milestone on the page, or else at the end: the box
        behind the last box, the section behind everything.
        """
        ids = [other["id"] for other in initiative["milestones"]]
        others = [self.milestones[other] for other in ids if other in self.milestones]
        later = [other for other in others if ids.index(other.id) > ids.index(milestone["id"])]
        boxes = [other.box for other in others if other.box is not None]
        box = next((other.box for other in later if other.box is not None), None)
        if box is None:
            box = max(boxes) + 1 if boxes else None
        heading = next((other.heading for other in later if other.heading is not None), None)
        section = [*_section(milestone), ""]
        if heading is None:
            heading, section = len(self.lines), ["", *_section(milestone)]
        added = [(heading, "".join([row + newline for row in section]))]
        if box is not None:
            added.append((box, _milestone_row(milestone) + newline))
        return added


def _milestone_row(milestone: Milestone) -> str:
    name = f"{milestone['id']}: {milestone['title']}".rstrip(": ")
    return _row(name, is_done=milestone["status"] == "completed")


def _section(milestone: Milestone) -> list[str]:
    """Return the lines of a milestone: its heading, its tasks, and whether it was forced."""
    rows = [f"## {milestone['id']}: {clean(plain(milestone['title']))}".rstrip(": ")]
    tasks = [_row(task["text"], is_done=task["done"]) for task in milestone["tasks"]]
    rows += ["", *tasks] if tasks else []
    forced = _forced_row(milestone)
    return [*rows, "", forced] if forced else rows


def _row(text: str, *, is_done: bool) -> str:
    return f"- [{'x' if is_done else ' '}] {clean(plain(text))}"


def _forced_row(milestone: Milestone) -> str:
    """Return the line below a milestone that was completed by force; empty for others."""
    if "forced" not in milestone:
        return ""
    return f"Completed by force: {clean(plain(milestone['forced']['reason']))}"


def _tick(line: str) -> str:
    """Return a line with its first box ticked; a later one is part of the text."""
    box = line.find("[")
    return f"{line[:box]}[x]{line[box + 3 :]}" if line.startswith("[ ]", box) else line


def merge_pages(pages: list[MilestonePage]) -> tuple[str, list[PageMilestone]]:
    """Return the title and the milestones of several pages; where they differ, the first counts."""
    merged: dict[str, PageMilestone] = {}
    title = next((page.title for page in pages if page.title), "")
    for page in pages:
        for location in page.milestones.values():
            milestone = merged.setdefault(location.id, PageMilestone(location.id, location.title))
            milestone.title = milestone.title or location.title
            if milestone.checked is None:
                milestone.checked = location.checked
            for text, is_done, _ in location.tasks:
                milestone.tasks[text] = is_done and milestone.tasks.get(text, True)
    return title, list(merged.values())


def new_page(initiative: Initiative) -> bytes:
    """Return a new page with every milestone."""
    milestones = initiative["milestones"]
    rows = [f"# {clean(plain(initiative['name']))}", "", *map(_milestone_row, milestones)]
    for milestone in milestones:
        rows += ["", *_section(milestone)]
    return ("\n".join(rows) + "\n").encode()
