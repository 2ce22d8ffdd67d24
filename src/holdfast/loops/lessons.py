"""Offer the lessons of archived loops to a new one.

The search is simple enough that anybody can tell why a lesson is offered. Each word that a lesson
shares with the new loop scores 1, and 2 if it is in the lesson's name or condition; an equal domain
scores 2. A lesson without a score is not offered. Words have at least three letters, in any case,
without those that are in every text.
"""

from __future__ import annotations

import os
import re

from holdfast.keeper.loop_folder import ARCHIVE
from holdfast.loops.page_files import GUARDRAILS, names_in, read_page
from holdfast.loops.pages import mode_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Workflow
    from holdfast.keeper.session import Receipt
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction

    Lesson = tuple[str, Fields]
    """The name of the loop that learned it, and its fields."""

_WORD = re.compile(r"[^\W\d_]{3,}")
_COMMON_WORDS = frozenset(
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
_DOMAIN_SCORE = 2
_CONDITION_SCORE = 2
_MAX_LISTED = 5


def inherit_lessons(tx: Transaction, receipt: Receipt, *, inherit: bool) -> None:
    """Add the lessons of archived loops that match; without ``inherit``, only note them."""
    store, state = tx.store, receipt.state
    offered = _offered(store, state) if inherit or not receipt.resumed else []
    if offered and not inherit:
        listed = [f"{lesson.get('name', '?')} ({slug})" for slug, lesson in offered[:_MAX_LISTED]]
        store.note(
            f"archived loops have lessons that may fit: {', '.join(listed)}; to take them: "
            f"holdfast loop new {state['subject']} --mode {mode_of(state)} --inherit"
        )
        return
    for slug, lesson in offered:
        learned = f"{slug}: {lesson.get('learned', '')}".rstrip(": ")
        events = tx.do(state["id"], "add_guardrail", {**lesson, "learned": learned})
        receipt.seqs += [event["seq"] for event in events]
    if offered:
        tx.commit()
        store.note(f"{len(offered)} lessons of archived loops were taken")


def _offered(store: Store, state: Workflow) -> list[Lesson]:
    """Return the lessons of archived loops that match this one and that it does not have."""
    if not store.workspace.contains(ARCHIVE):
        return []
    top = os.path.join(store.workspace.root, ARCHIVE)
    lessons: list[Lesson] = []
    for name in names_in(top):
        folder = os.path.join(top, name)
        text = "" if os.path.islink(folder) else read_page(store.disk, folder, GUARDRAILS)
        if text:
            from holdfast.loops.page_model import read_brief, read_guardrails

            learned = read_guardrails(text)
            domain = read_brief(read_page(store.disk, folder, "brief.md"))["domain"]
            lessons += [(name, {**lesson, "domain": domain}) for lesson in learned]
    context = state["context"]
    about = [state["title"], *(str(value) for value in context.values()), state["subject"]]
    known = [_content(lesson) for lesson in state.get("guardrails", [])]
    matching = matching_lessons(lessons, context.get("domain"), " ".join(about))
    return [(name, lesson) for name, lesson in matching if _content(lesson) not in known]


def matching_lessons(lessons: list[Lesson], domain: str | None, text: str) -> list[Lesson]:
    """Return the lessons that match, best first; of those with equal content, the first.

    The field ``domain`` of a lesson is that of the loop that learned it. ``text`` is everything
    that the new loop says about itself.
    """
    words = _words_of(text)
    scored: list[tuple[int, Lesson]] = []
    seen: set[tuple[str, ...]] = set()
    for lesson in lessons:
        score = _score(lesson[1], domain, words)
        content = _content(lesson[1])
        if score and content not in seen:
            seen.add(content)
            scored.append((score, lesson))
    scored.sort(key=lambda pair: -pair[0])
    return [lesson for _, lesson in scored]


def _score(lesson: Fields, domain: str | None, words: set[str]) -> int:
    condition = _words_of(f"{_text(lesson, 'name')} {_text(lesson, 'when')}") & words
    body = _words_of(f"{_text(lesson, 'problem')} {_text(lesson, 'solution')}") & words
    same = bool(domain) and _text(lesson, "domain").lower() == str(domain).lower()
    return _CONDITION_SCORE * len(condition) + len(body - condition) + _DOMAIN_SCORE * same


def _words_of(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - _COMMON_WORDS


def _content(lesson: Fields) -> tuple[str, ...]:
    return tuple(_text(lesson, key) for key in ("when", "problem", "solution"))


def _text(lesson: Fields, key: str) -> str:
    value = lesson.get(key)
    return "" if value is None else str(value)
