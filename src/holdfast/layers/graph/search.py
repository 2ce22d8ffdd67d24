"""How a text is searched: what the reference server's ``toLowerCase().includes()`` finds. Pure.

The index answers with all texts that have the query's most telling trigrams; whether they have the
query itself is asked of the texts. So the index may find too much, but never too little.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.layers.graph.shapes import Entity

SHORTEST = 3
"""The index knows three letters at a time; what is shorter is looked for in every text."""
_MOST = 3
_RARE_FIRST = "zqxjkvbywgfpmucldhrsnioate "
"""Letters from rare to common; digits, marks and other scripts count as rare."""
_STAND_IN = "\ufffd"
"""In place of NUL, at which the index would stop to read."""


_NEWER = {
    **{code: code + 1 for code in (0x1C89, 0xA7CC, 0xA7CE, 0xA7D2, 0xA7D4, 0xA7DA)},
    **{code: code + 0x20 for code in range(0x10D50, 0x10D66)},
    **{code: code + 0x1B for code in range(0x16EA0, 0x16EB9)},
    0xA7CB: 0x264,
    0xA7DC: 0x19B,
}
"""Letters that Unicode 16 and 17 gave a lower case: Node knows them, not every Python does."""


def folded(text: str) -> str:
    """The text as it is compared: in lower case, by the rules that JavaScript has too."""
    return text.lower() if text.isascii() else text.translate(_NEWER).lower()


def folded_if_other(text: str) -> str | None:
    """The folded text, where it has to be kept beside the text."""
    lower = folded(text)
    return None if lower == text else lower


def indexed(lower: str) -> str:
    """The folded text as it goes into the index."""
    return lower.replace("\0", _STAND_IN)


def trigrams(lower: str) -> str | None:
    """What to ask the index for; ``None`` when the query is too short for it."""
    text = indexed(lower)
    found = list(dict.fromkeys(text[at : at + SHORTEST] for at in range(len(text) - 2)))
    if not found:
        return None
    telling = sorted(found, key=_commonness)[:_MOST]
    return " ".join('"' + part.replace('"', '""') + '"' for part in telling)


def _commonness(part: str) -> int:
    return sum(_RARE_FIRST.find(letter) + 1 for letter in part)


def words(query: str) -> list[str]:
    """The words of a ranked search; a query without any is one word."""
    return list(dict.fromkeys(folded(query).split())) or [folded(query)]


def ranked(entities: list[Entity], query: str) -> list[Entity]:
    """The entities, the one that most likely is meant first; else in their own order."""
    whole = " ".join(folded(query).split())
    parts = words(query)
    return sorted(entities, key=lambda entity: -_score(entity, whole, parts))


def _score(entity: Entity, whole: str, parts: list[str]) -> float:
    name, kind = folded(entity["name"]), folded(entity["entityType"])
    told = [folded(text) for text in entity["observations"]]
    score = 100.0 * (name == whole) + 40.0 * name.startswith(whole) + 20.0 * (whole in name)
    score += 10.0 * (kind == whole) + 5.0 * any(whole in text for text in told)
    for part in parts:
        hits = sum(part in text for text in told)
        score += 8.0 * (part in name) + 4.0 * (part in kind) + 3.0 * hits / (hits + 2)
    return score
