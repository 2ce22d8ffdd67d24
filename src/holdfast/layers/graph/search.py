"""Find what the reference server's ``toLowerCase().includes()`` finds. Pure.

The index returns all texts with the rarest trigrams of the query, and the texts themselves are
then compared with the query. So the index may return too much, but never too little.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.layers.graph.types import Entity

_TRIGRAM = 3
"""Letters that the index has together; a shorter query is compared with every text."""
_MAX_TRIGRAMS = 3
_RARE_FIRST = "zqxjkvbywgfpmucldhrsnioate "
"""Letters from rare to common; digits, marks and other scripts count as rare."""
_REPLACES_NUL = "\ufffd"
"""The index would stop reading at NUL."""
_NEW_LETTERS = {
    **{code: code + 1 for code in (0x1C89, 0xA7CC, 0xA7CE, 0xA7D2, 0xA7D4, 0xA7DA)},
    **{code: code + 0x20 for code in range(0x10D50, 0x10D66)},
    **{code: code + 0x1B for code in range(0x16EA0, 0x16EB9)},
    0xA7CB: 0x264,
    0xA7DC: 0x19B,
}
"""Letters with a lower case since Unicode 16 and 17, which Node knows and older Pythons do not."""


def folded(text: str) -> str:
    """Return the text in lower case, by the rules of JavaScript."""
    return text.lower() if text.isascii() else text.translate(_NEW_LETTERS).lower()


def folded_if_other(text: str) -> str | None:
    """Return the folded text, ``None`` if it equals the text."""
    lower = folded(text)
    return None if lower == text else lower


def indexed(lower: str) -> str:
    """Return a folded text as it is put into the index."""
    return lower.replace("\0", _REPLACES_NUL)


def trigrams(lower: str) -> str | None:
    """Return the query for the index, ``None`` if the text is too short for it."""
    text = indexed(lower)
    parts = dict.fromkeys(text[at : at + _TRIGRAM] for at in range(len(text) - _TRIGRAM + 1))
    rarest = sorted(parts, key=_commonness)[:_MAX_TRIGRAMS]
    return " ".join('"' + part.replace('"', '""') + '"' for part in rarest) or None


def _commonness(part: str) -> int:
    return sum(_RARE_FIRST.find(letter) + 1 for letter in part)


def words(query: str) -> list[str]:
    """Return the folded words of a ranked search; a query of spaces is one word."""
    return list(dict.fromkeys(folded(query).split())) or [folded(query)]


def ranked(entities: list[Entity], query: str) -> list[Entity]:
    """Return the entities, the best match first; equal ones keep their order."""
    whole = " ".join(folded(query).split())
    parts = words(query)
    return sorted(entities, key=lambda entity: -_score(entity, whole, parts))


def _score(entity: Entity, whole: str, parts: list[str]) -> float:
    name, kind = folded(entity["name"]), folded(entity["entityType"])
    texts = [folded(text) for text in entity["observations"]]
    score = 100.0 * (name == whole) + 40.0 * name.startswith(whole) + 20.0 * (whole in name)
    score += 10.0 * (kind == whole) + 5.0 * any(whole in text for text in texts)
    for part in parts:
        hits = sum(part in text for text in texts)
        score += 8.0 * (part in name) + 4.0 * (part in kind) + 3.0 * hits / (hits + 2)
    return score
