"""Names of loops and units, which become names of folders and headings."""

from __future__ import annotations

from holdfast.errors import Refused

MAX_SLUG = 60
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_TAKEN = ("archive",)
_MOST_DIGITS = 4


def is_slug(name: str) -> bool:
    return _why_not(name) is None


def check_slug(slug: str) -> None:
    """Refuses what cannot be the name of a loop's folder."""
    why = _why_not(slug)
    if why is not None:
        raise Refused("invalid", f"loop: the name {slug[:60]!r} {why}", "holdfast loop new my-loop")


def _why_not(slug: str) -> str | None:
    why = None
    if not slug or len(slug) > MAX_SLUG:
        why = f"must have 1 to {MAX_SLUG} characters"
    elif not _LETTERS.issuperset(slug):
        why = "may hold lower case letters, digits and - only"
    elif slug[0] == "-" or slug[-1] == "-" or "--" in slug:
        why = "must not begin or end with -, nor have two in a row"
    elif slug in _TAKEN:
        why = "is the folder of what has ended"
    return why


def unit_of(text: str, mark: str) -> tuple[str, str]:
    """``T1: title`` as the unit's id and its title, which may be missing; ``mark`` is T or R."""
    name, _, title = text.partition(":")
    name = name.strip()
    number = name[1:]
    is_number = number.isdecimal() and number.isascii() and len(number) <= _MOST_DIGITS
    if name[:1] != mark or not is_number or number.startswith("0"):
        raise Refused(
            "invalid",
            f"loop plan: {text[:60]!r} does not begin with a unit from {mark}1 to {mark}9999",
            f"holdfast loop plan --unit '{mark}1: title'",
        )
    return name, title.strip()
