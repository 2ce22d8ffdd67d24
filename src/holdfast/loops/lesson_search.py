"""Lessons of archived loops for a new one: simple full text, so that anybody can tell why.

Each word that a lesson shares with the new loop scores 1, and 2 where it stands in the lesson's
name or in when it applies; the same domain scores 2. A lesson that scores nothing is not offered.
Words are runs of three letters or more, whatever their case, without those that stand everywhere.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields

    Lesson = tuple[str, Fields]

_WORD = re.compile(r"[^\W\d_]{3,}")
_EVERYWHERE = frozenset(
    _WORD.findall(
        "about after all also and any are because been before being both but can cannot could did "
        "does done each either else every few for from get got had has have her here him his how "
        "into its just like make many may more most much must need never new nor not now off once "
        "one only other our out over own per said same see set she should since some such take "
        "than that the their them then there these they this those through too two under until "
        "use used uses using very was way were what when where which while who why will with "
        "within without would yes yet you your"
    )
)
_DOMAIN = 2
_WHERE_IT_APPLIES = 2


def offered(guardrails_of_archived: list[Lesson], domain: str | None, words: str) -> list[Lesson]:
    """The lessons that match, best first; of those that say the same, the first alone.

    A lesson comes with the name of the loop that learned it. Its field ``domain``, where it has
    one, is that loop's; ``words`` is all that the new loop says of itself.
    """
    wanted = words_of(words)
    scored: list[tuple[int, Lesson]] = []
    seen: set[tuple[str, ...]] = set()
    for lesson in guardrails_of_archived:
        says = tuple(_text(lesson[1], key) for key in ("when", "problem", "solution"))
        points = _score(lesson[1], domain, wanted)
        if points and says not in seen:
            seen.add(says)
            scored.append((points, lesson))
    scored.sort(key=lambda one: -one[0])
    return [lesson for _, lesson in scored]


def words_of(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - _EVERYWHERE


def _score(lesson: Fields, domain: str | None, wanted: set[str]) -> int:
    applies = words_of(_text(lesson, "name") + " " + _text(lesson, "when")) & wanted
    told = words_of(_text(lesson, "problem") + " " + _text(lesson, "solution")) & wanted
    same = bool(domain) and _text(lesson, "domain").lower() == str(domain).lower()
    return _WHERE_IT_APPLIES * len(applies) + len(told - applies) + _DOMAIN * same


def _text(lesson: Fields, key: str) -> str:
    value = lesson.get(key)
    return "" if value is None else str(value)
