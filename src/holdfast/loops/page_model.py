"""Where things stand on a page that people may have edited: its sections, its units, their bullets.

Both who reads a page and who patches it look at it through this.
"""

from __future__ import annotations

import re

from holdfast.layers.markdown import block_tree, split_lines
from holdfast.loops import markdown_text, unit_item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.layers.markdown import Block

_MARKER = r"(\s*(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)"
_ITEM = re.compile(r"\s*(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]+|$)")
_UNIT = re.compile(
    _MARKER + r"(?:\[([ xX])\][ \t]+)?(\*\*([^*\n]+?)(?:\*\*[ \t]*:|:\*\*))[ \t]*(.*)"
)
_TICK_BOX = re.compile(_MARKER + r"\[[ xX]?\]")
_BULLET = re.compile(
    _MARKER + r"((?:\*\*)?([A-Za-z][A-Za-z ]{0,30}?)(?:\*\*[ \t]*:|:\*\*|:))[ \t]*(.*)"
)
_KEYS = {label.lower(): key for key, label in unit_item.BULLETS.items()} | {
    "file": "files",
    "outputs": "output",
    "completion signal": "completion",
    "maximum iterations": "max_iterations",
    "depends on": "depends",
}
_HEADER = re.compile(r"\*\*([A-Za-z][A-Za-z ]{0,30}):\*\*[ \t]*(.*)")


class Section:
    """What stands below a heading, to the next one of its kind."""

    __slots__ = ("blocks", "end", "first", "heading")

    def __init__(self, heading: Block, end: int, blocks: list[Block]) -> None:
        self.heading = heading.text
        self.first = heading.end
        self.end = end
        self.blocks = blocks

    @property
    def name(self) -> str:
        return self.heading.lower()


class Bullet:
    """A value of a unit: the lines ``first`` to ``end``, of which ``value`` is what it tells."""

    __slots__ = ("end", "first", "key", "label", "marker", "value")

    def __init__(self, key: str, first: int, end: int, match: re.Match[str]) -> None:
        self.key = key
        self.first = first
        self.end = end
        self.marker = match[1]
        self.label = match[2]
        self.value = [match[4]]


class Unit:
    """A unit's item. Its title is in the lines ``first`` to ``title_end``."""

    __slots__ = (
        "bullets", "checked", "end", "first", "label", "marker", "name", "title", "title_end",
    )  # fmt: skip

    def __init__(self, first: int, end: int, match: re.Match[str]) -> None:
        self.first = first
        self.end = end
        self.marker = match[1]
        self.checked = None if match[2] is None else match[2] != " "
        self.label = match[3]
        self.name = markdown_text.decoded(match[4].strip())
        self.title = [match[5]]
        self.title_end = first + 1
        self.bullets: list[Bullet] = []

    def bullet(self, key: str) -> Bullet | None:
        return next((one for one in self.bullets if one.key == key), None)


class Page:
    """A page, read once."""

    def __init__(self, text: str) -> None:
        self.lines = split_lines(text)
        self.bare = [line.rstrip("\r\n") for line in self.lines]
        self.blocks = block_tree(text)
        self.sections = self._sections()
        self.units: list[Unit] = []
        self.strays: list[int] = []
        """Lines of items with a box to tick that are no units."""
        for block in self.blocks:
            if block.kind.endswith("_list"):
                self._look_into(block)

    def title(self) -> str:
        """The first heading."""
        found = next((one for one in self.blocks if one.kind == "heading"), None)
        return markdown_text.decoded(found.text) if found and found.depth == 1 else ""

    def header(self) -> dict[str, tuple[int, str]]:
        """The bold keys above the first section, with their lines and values."""
        found: dict[str, tuple[int, str]] = {}
        for block in self.blocks:
            if block.kind == "heading" and block.depth > 1:
                break
            for line in range(block.first, block.end) if block.kind == "paragraph" else ():
                match = _HEADER.match(self.bare[line])
                if match and match[1].lower() not in found:
                    found[match[1].lower()] = (line, match[2].strip())
        return found

    def section(self, *names: str) -> Section | None:
        return next((one for one in self.sections if one.name in names), None)

    def text(self, section: Section | None) -> str:
        return markdown_text.plain_block(self.bare[section.first : section.end]) if section else ""

    def items(self, section: Section | None) -> list[str]:
        """The items of a section's lists; without a list, its paragraphs."""
        blocks = section.blocks if section else []
        listed = [one for each in blocks if each.kind.endswith("_list") for one in each.children]
        if listed:
            found = [self._item(block) for block in listed]
            return [markdown_text.plain_item(lines) for lines in found if lines != [""]]
        paragraphs = [self.bare[b.first : b.end] for b in blocks if b.kind == "paragraph"]
        return [markdown_text.plain_item(lines) for lines in paragraphs]

    def keyed(self, section: Section) -> dict[str, str]:
        """The bold keys of a section's items, with what they tell."""
        found: dict[str, str] = {}
        for block in (one for each in section.blocks for one in each.children):
            match = _BULLET.match(self.bare[block.first])
            if block.kind == "list_item" and match:
                rest = self.bare[block.first + 1 : self._end_of(block)]
                found.setdefault(match[3].strip().lower(), markdown_text.plain([match[4], *rest]))
        return found

    def _sections(self) -> list[Section]:
        places = [p for p, b in enumerate(self.blocks) if b.kind == "heading" and b.depth <= 2]
        found: list[Section] = []
        for place, following in zip(places, [*places, len(self.blocks)][1:], strict=True):
            below = self.blocks[place + 1 : following]
            is_last = following == len(self.blocks)
            end = len(self.lines) if is_last else self.blocks[following].first
            if self.blocks[place].depth == 2:
                found.append(Section(self.blocks[place], end, below))
        return found

    def _item(self, block: Block) -> list[str]:
        first, *others = self.bare[block.first : self._end_of(block)]
        return [_ITEM.sub("", first, count=1), *others]

    def _end_of(self, block: Block) -> int:
        return markdown_text.trimmed(self.bare, block.first, block.end)[1]

    def _look_into(self, block: Block) -> None:
        for one in block.children:
            match = _UNIT.match(self.bare[one.first])
            if match:
                self.units.append(self._unit(one, match))
            elif _TICK_BOX.match(self.bare[one.first]):
                self.strays.append(one.first)

    def _unit(self, block: Block, match: re.Match[str]) -> Unit:
        unit = Unit(block.first, self._end_of(block), match)
        if block.children:
            unit.title_end = block.children[0].end
            unit.title += self.bare[block.first + 1 : unit.title_end]
        for inner in (one for each in block.children for one in each.children):
            found = _BULLET.match(self.bare[inner.first])
            key = _KEYS.get(found[3].strip().lower()) if found else None
            if found and key:
                bullet = Bullet(key, inner.first, self._end_of(inner), found)
                bullet.value += self.bare[inner.first + 1 : bullet.end]
                unit.bullets.append(bullet)
        return unit
