"""Put a loop's folder into the archive, and offer the lessons there to new loops.

The event that names the new path of the record comes first, then the pages follow. If the process
is killed in between, the next command on the loop moves the rest.

The search for lessons is simple enough that a user can see why one is offered. Each word that it
shares with the new loop scores 1, and 2 if it is in the lesson's name or condition; an equal domain
scores 2. A lesson without a score is not offered. Words have at least three letters, in any case,
without those that are in every text.
"""

from __future__ import annotations

import os
import re

from holdfast import formats
from holdfast.adopt import findings
from holdfast.errors import Fault, Refused
from holdfast.keeper import record_folders
from holdfast.loops import page_files, pages

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


def archive(
    tx: Transaction, stream: str, id: str | None = None, outcome: str | None = None
) -> tuple[Workflow, list[int]]:
    """End a loaded loop and move its folder; return its state and the seqs.

    Raise ``Refused`` if the whole folder is in the archive already.
    """
    store = tx.store
    state: Workflow = tx.load(stream)
    if formats.is_archived(state["record"]):
        if not finish_move(tx, state):
            message = f"loop archive: {state['id']} is in the archive"
            raise Refused("already", message, f"bring it back: holdfast resume {state['id']}")
        return state, []
    pages_folder = page_files.open_folder(store, state)
    if pages_folder is not None:
        pages_folder.write(state)
    # Adds the archive to git's exclude file, which an older workspace lacks.
    store.workspace.prepare(store.disk, store.note)
    folder = record_folders.free_archive_folder(_root(store, state), state["id"], store.now())
    args = {"record": f"{folder}/{record_folders.RECORD}", "outcome": outcome}
    events = tx.do(stream, "archive_loop", args, id)
    tx.commit(is_asked=True)
    state = tx.load(stream)
    try:
        finish_move(tx, state)
    except (OSError, Fault) as error:
        # The event is committed: a failed move must not look like a failed command.
        tx.forget(stream)
        why = error.message if isinstance(error, Fault) else error.strerror or error
        store.note(f"not all of its folder could be moved ({why}): holdfast loop archive")
    return state, [event["seq"] for event in events]


def finish_move(tx: Transaction, state: Workflow) -> bool:
    """Move what is still in an archived loop's old folder; return whether something was."""
    store = tx.store
    new = record_folders.folder_of(store.workspace, state)
    if new is None or not formats.is_archived(state["record"]):
        return False
    root = _root(store, state)
    old = os.path.dirname(store.workspace.inside(root, record_folders.active_record(state)))
    if os.path.lexists(os.path.join(new, record_folders.PROGRESS)):
        store.disk.remove_folder(old)
        return False
    if not os.path.isdir(old):
        return False
    # The writer may have been killed before it wrote the new record or removed the old one.
    for saved in store.files.remove(os.path.join(old, record_folders.RECORD)):
        findings.settle_saved(tx, state["id"], saved)
    raw = store.files.read(os.path.join(new, record_folders.RECORD))
    ledger_record = store.ledger.record(state["worktree"], state["record"])
    if raw is None or ledger_record is None or not formats.is_record(raw, ledger_record["digest"]):
        tx.expect(state["id"], raw)
        tx.show(state["id"])
        tx.commit()
    page_files.LoopFolder(store, state, old).append_progress()
    record_folders.move_files(store, root, old, new, last=record_folders.PROGRESS)
    return True


def archive_old_pages(store: Store, slug: str) -> None:
    """Move the pages that an earlier loop of this name left in this worktree into the archive.

    The brief, which identifies them, moves last, so that a killed move is repeated.
    """
    workspace = store.workspace
    archived = record_folders.free_archive_folder(workspace.root, slug, store.now())
    source, target = (
        os.path.dirname(workspace.inside(workspace.root, f"{folder}/{record_folders.RECORD}"))
        for folder in (f"{record_folders.HOME}/{slug}", archived)
    )
    record_folders.move_files(store, workspace.root, source, target, last="brief.md")
    store.note(f"pages of an earlier {slug} stood here, and are now in {archived}")


def _root(store: Store, state: Workflow) -> str:
    return store.workspace.root_of(state["worktree"]) or store.workspace.root


# Lessons


def inherit_lessons(tx: Transaction, receipt: Receipt, *, inherit: bool) -> None:
    """Add the lessons of archived loops that match; without ``inherit``, only note them."""
    store, state = tx.store, receipt.state
    offered = _offered(store, state) if inherit or not receipt.resumed else []
    if offered and not inherit:
        titles = [f"{lesson.get('name', '?')} ({slug})" for slug, lesson in offered[:_MAX_LISTED]]
        store.note(
            f"archived loops have lessons that may fit: {', '.join(titles)}; to take them: "
            f"holdfast loop new {state['subject']} --mode {pages.mode_of(state)} --inherit"
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
    if not store.workspace.contains(record_folders.ARCHIVE):
        return []
    top = os.path.join(store.workspace.root, record_folders.ARCHIVE)
    lessons: list[Lesson] = []
    for name in page_files.names_in(top):
        folder = os.path.join(top, name)
        text = page_files.read_page(store.disk, folder, page_files.GUARDRAILS)
        if text and not os.path.islink(folder):
            from holdfast.loops.page_model import read_brief, read_guardrails

            learned = read_guardrails(text)
            domain = read_brief(page_files.read_page(store.disk, folder, "brief.md"))["domain"]
            lessons += [(name, {**lesson, "domain": domain}) for lesson in learned]
    context = state["context"]
    about = [state["title"], *(str(value) for value in context.values()), state["subject"]]
    contents = [_content(lesson) for lesson in state.get("guardrails", [])]
    matching = matching_lessons(lessons, context.get("domain"), " ".join(about))
    return [(name, lesson) for name, lesson in matching if _content(lesson) not in contents]


def matching_lessons(lessons: list[Lesson], domain: str | None, text: str) -> list[Lesson]:
    """Return the lessons that match, best first; of those with equal content, the best.

    The field ``domain`` of a lesson is that of the loop that learned it. ``text`` is everything
    that the new loop says about itself.
    """
    words = _words_of(text)
    scored: list[tuple[int, Lesson]] = []
    for name, lesson in lessons:
        condition = _words_of(lesson.get("name", ""), lesson.get("when", "")) & words
        body = _words_of(lesson.get("problem", ""), lesson.get("solution", "")) & words
        score = _CONDITION_SCORE * len(condition) + len(body - condition)
        if domain and lesson["domain"].lower() == str(domain).lower():
            score += _DOMAIN_SCORE
        if score:
            scored.append((score, (name, lesson)))
    best: dict[tuple[str, ...], Lesson] = {}
    for _, match in sorted(scored, key=lambda pair: -pair[0]):
        best.setdefault(_content(match[1]), match)
    return list(best.values())


def _words_of(*texts: str) -> set[str]:
    return set(_WORD.findall(" ".join(texts).lower())) - _COMMON_WORDS


def _content(lesson: Fields) -> tuple[str, ...]:
    return tuple(str(lesson.get(key) or "") for key in ("when", "problem", "solution"))
