"""Names for loops and units, and room for a new loop: its name and its folder must be free."""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.core.workflow import OPENING
from holdfast.core.workflow.state import is_active
from holdfast.errors import Refused
from holdfast.formats import aggregate_of
from holdfast.keeper.loop_folder import HOME, PROGRESS
from holdfast.loops import archive, page_files, pages, progress_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Workflow
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction

MAX_SLUG_LENGTH = 60
_SLUG_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_MAX_UNIT_DIGITS = 4


# Names


def check_slug(slug: str) -> None:
    """Raise ``Refused`` if a loop cannot have this name, which becomes that of its folder."""
    why = _slug_error(slug)
    if why is not None:
        raise Refused("invalid", f"loop: the name {slug[:60]!r} {why}", "holdfast loop new my-loop")


def _slug_error(slug: str) -> str | None:
    if not slug or len(slug) > MAX_SLUG_LENGTH:
        return f"must have 1 to {MAX_SLUG_LENGTH} characters"
    if not _SLUG_LETTERS.issuperset(slug):
        return "may hold lower case letters, digits and - only"
    if slug[0] == "-" or slug[-1] == "-" or "--" in slug:
        return "must not begin or end with -, nor have two in a row"
    return "is the folder of what has ended" if slug == "archive" else None


def parse_unit(text: str, mark: str) -> tuple[str, str]:
    """Return the id and the title of ``T1: title``; the title may be missing.

    ``mark`` is T or R. Raise ``Refused`` if the text does not begin with an id.
    """
    name, _, title = text.partition(":")
    name = name.strip()
    number = name[1:]
    is_number = number.isdecimal() and number.isascii() and len(number) <= _MAX_UNIT_DIGITS
    if name[:1] != mark or not is_number or number.startswith("0"):
        raise Refused(
            "invalid",
            f"loop plan: {text[:60]!r} does not begin with a unit from {mark}1 to {mark}9999",
            f"holdfast loop plan --unit '{mark}1: title'",
        )
    return name, title.strip()


# Folders


def folder_names(root: str) -> list[str]:
    """Return the names of the loops with a folder in this worktree, without archived ones."""
    return [name for name in page_files.names_in(os.path.join(root, HOME)) if name != "archive"]


def unknown_folders(store: Store) -> list[str]:
    """Return the names of folders with a log whose loop the ledger does not know."""
    root = store.workspace.root
    return [
        name
        for name in folder_names(root)
        if _slug_error(name) is None
        and store.ledger.stream(name) is None
        and os.path.isfile(os.path.join(root, HOME, name, PROGRESS))
    ]


# Room for a loop


def check_context(slug: str, title: str, context: Fields) -> None:
    """Raise ``Refused`` if ``context.md`` would have too many words."""
    preview: Fields = {"title": title, "context": context, "tasks": []}
    count = pages.count_words(pages.render_context(preview))  # type: ignore[arg-type]
    if count >= pages.MAX_CONTEXT_WORDS:
        raise Refused(
            "invalid",
            f"loop new: {page_files.CONTEXT} of {slug} would have {count} words, "
            f"and must have fewer than {pages.MAX_CONTEXT_WORDS}",
            "say the outcome in fewer words; --notes has room for more",
        )


def make_room(tx: Transaction, slug: str, mode: str) -> None:
    """Free the name of a new loop: put an ended loop of this name into the archive.

    Raise ``Refused`` if another kind of workflow has the name, or a loop that the ledger does not
    know.
    """
    state: Workflow | None = tx.load(slug)
    if state is not None:
        kind = state["recipe"]["name"]
        if kind != f"loop-{mode}":
            raise Refused(
                "exists",
                f"loop new: {slug} is the name of a workflow of {kind} ({state['status']})",
                f"choose another name: holdfast loop new {slug[:50]}-2 --mode {mode}",
            )
        if is_active(state):
            return
        if formats.is_archived(state["record"]):
            archive.finish_move(tx, state)
        else:
            archive.archive(tx, slug)
            tx.store.note(f"the {slug} that had ended was put into the archive")
    _check_folder(tx.store, slug)


def _check_folder(store: Store, slug: str) -> None:
    """Put the pages of an earlier loop into the archive.

    Raise ``Refused`` for a log without a record, which is that of a loop unknown to the ledger.
    """
    folder = os.path.join(store.workspace.root, HOME, slug)
    brief = page_files.read_page(store.disk, folder, "brief.md")
    if brief:
        from holdfast.loops.page_reader import read_brief

        created = read_brief(brief)["created"]
        if created and created in _creation_times(store, slug):
            archive.archive_old_pages(store, slug)
    if os.path.lexists(os.path.join(folder, "state.json")):
        return
    log = page_files.read_log(store.disk, folder)
    if log is None or log.strip() not in ("", progress_log.HEADER.strip()):
        raise Refused(
            "exists",
            f"loop new: {HOME}/{slug} has the log of a loop that is not known here",
            f"holdfast loop rebuild {slug}",
        )


def _creation_times(store: Store, slug: str) -> list[str]:
    """Return when the loops of this name that the ledger knows were created."""
    openings = [[event] for event in store.ledger.events(slug) if event["type"] in OPENING]
    states = [aggregate_of(slug).replay(opening.copy)[0] for opening in openings]
    return [state["created_at"] for state in states if state is not None]
