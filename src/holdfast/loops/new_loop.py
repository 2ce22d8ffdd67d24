"""How a loop gets its name, its place and the lessons of others when it is opened."""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.core.workflow import OPENING
from holdfast.core.workflow.state import is_active
from holdfast.errors import Refused
from holdfast.formats.aggregates import aggregate_of
from holdfast.loops import archive, lesson_search, page_files, page_reader, pages, unit_item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Workflow
    from holdfast.keeper.session import Receipt
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction

_EMPTY_LOG = pages.progress_header().strip()
_NAMED = 5


def check_context(slug: str, title: str, context: Fields) -> None:
    """Raise ``Refused`` if ``context.md``, which every iteration reads, would be long."""
    preview: Fields = {"title": title, "context": context, "tasks": []}
    count = page_reader.words(pages.context(preview))  # type: ignore[arg-type]
    if count >= pages.MOST_WORDS:
        raise Refused(
            "invalid",
            f"loop new: {page_files.CONTEXT} of {slug} would have {count} words, "
            f"and must have fewer than {pages.MOST_WORDS}",
            "say the outcome in fewer words; --notes has room for more",
        )


def make_room(tx: Transaction, slug: str, mode: str) -> None:
    """See that the name is free for such a loop; one that has ended goes into the archive.

    Raise ``Refused`` if another kind of workflow has it, or a loop that is not known any more.
    """
    state: Workflow | None = tx.load(slug)
    if state is not None:
        _check_same_kind(state, slug, mode)
        if is_active(state):
            return
        if formats.is_archived(state["record"]):
            archive.finish_move(tx, state)
        else:
            archive.archive(tx, slug)
            tx.store.note(f"the {slug} that had ended was put into the archive")
    _check_folder(tx.store, slug)


def _check_same_kind(state: Workflow, slug: str, mode: str) -> None:
    """Raise ``Refused`` if the name is that of another kind of workflow, or of loop."""
    kind = state["recipe"]["name"]
    if kind != f"loop-{mode}":
        raise Refused(
            "exists",
            f"loop new: {slug} is the name of a workflow of {kind} ({state['status']})",
            f"choose another name: holdfast loop new {slug[:50]}-2 --mode {mode}",
        )


def _check_folder(store: Store, slug: str) -> None:
    """Put pages of an earlier loop into the archive; raise ``Refused`` for a log without a record:
    that is a loop that nobody knows any more, and it is not written into.
    """
    folder = os.path.join(store.workspace.root, page_files.HOME, slug)
    created = page_reader.read_brief(page_files.read_page(store.disk, folder, "brief.md"))[
        "created"
    ]
    if created and created in _earlier_runs(store, slug):
        archive.archive_old_pages(store, slug)
    if os.path.lexists(os.path.join(folder, "state.json")):
        return
    log = page_files.read_log(store.disk, folder)
    if log is None or log.strip() not in ("", _EMPTY_LOG):
        raise Refused(
            "exists",
            f"loop new: {page_files.HOME}/{slug} has the log of a loop that is not known here",
            f"holdfast loop rebuild {slug}",
        )


def _earlier_runs(store: Store, slug: str) -> list[str]:
    """Return when the loops of this name that the ledger knows were made."""
    openings = [[event] for event in store.ledger.events(slug) if event["type"] in OPENING]
    states = [aggregate_of(slug).replay(opening.copy)[0] for opening in openings]
    return [state["created_at"] for state in states if state is not None]


def inherit_lessons(tx: Transaction, receipt: Receipt, *, inherit: bool) -> None:
    """Take the lessons of archived loops that fit, or note that there are some."""
    store, state = tx.store, receipt.state
    offered = _offered(store, state) if inherit or not receipt.resumed else []
    if offered and not inherit:
        listed = [f"{lesson.get('name', '?')} ({slug})" for slug, lesson in offered[:_NAMED]]
        store.note(
            f"archived loops have lessons that may fit: {', '.join(listed)}; to take them: "
            f"holdfast loop new {state['subject']} --mode {unit_item.mode_of(state)} --inherit"
        )
        return
    for slug, lesson in offered:
        learned = f"{slug}: {lesson.get('learned', '')}".rstrip(": ")
        events = tx.do(state["id"], "add_guardrail", {**lesson, "learned": learned})
        receipt.seqs += [event["seq"] for event in events]
    if offered:
        tx.commit()
        store.note(f"{len(offered)} lessons of archived loops were taken")


def _offered(store: Store, state: Workflow) -> list[tuple[str, Fields]]:
    """Return the lessons of archived loops that match this one's domain or words and it lacks."""
    if not store.workspace.contains(page_files.ARCHIVE):
        return []
    top = os.path.join(store.workspace.root, page_files.ARCHIVE)
    lessons: list[tuple[str, Fields]] = []
    for name in page_files.names(top):
        folder = os.path.join(top, name)
        if os.path.islink(folder):
            continue
        learned = page_reader.read_guardrails(
            page_files.read_page(store.disk, folder, page_files.GUARDRAILS)
        )
        if learned:
            brief = page_reader.read_brief(page_files.read_page(store.disk, folder, "brief.md"))
            lessons += [(name, {**lesson, "domain": brief["domain"]}) for lesson in learned]
    context = state["context"]
    about = [state["title"], *(str(value) for value in context.values()), state["subject"]]
    known = [_body(lesson) for lesson in state.get("guardrails", [])]
    matched = lesson_search.offered(lessons, context.get("domain"), " ".join(about))
    return [(name, lesson) for name, lesson in matched if _body(lesson) not in known]


def _body(lesson: Fields) -> list[object]:
    return [lesson.get(key) for key in ("when", "problem", "solution")]
