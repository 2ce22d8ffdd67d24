"""The pages of a loop on the disk: made once, then patched, and the log appended to.

Pages are written under the workspace's lock. A fault in a page is a note and undoes nothing: the
ledger has it.
"""

from __future__ import annotations

import os

from holdfast.core.digest import digest
from holdfast.core.workflow import OPENING
from holdfast.errors import Refused
from holdfast.loops import page_reader, pages, progress_log
from holdfast.loops.lessons import Remembered, known_pages
from holdfast.loops.slugs import is_slug
from holdfast.loops.unit_item import mode_of
from holdfast.system.disk import FOLDER, ODD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Event, Fields, Json, Workflow
    from holdfast.keeper.store import Store
    from holdfast.system.disk import Disk
    from holdfast.workspace.location import Workspace

    Page = tuple[str, bool]
    """A page's text, and whether everything on it is known."""

HOME = ".claude/iterative"
ARCHIVE = f"{HOME}/archive"
PROGRESS = "progress.md"
CONTEXT = "context.md"
GUARDRAILS = "guardrails.md"
NO_FILE = "is no file that can be read (a link is not followed)"
_MAX_BYTES = 4 * 1024 * 1024


def root_of(workspace: Workspace, state: Workflow, tried: str) -> str:
    """Return the root of the loop's worktree, where its work is done; raise ``Refused`` if gone."""
    root = workspace.root_of(state["worktree"])
    if root is None:
        raise Refused(
            "not_found",
            f"{tried}: the worktree of {state['id']} is gone",
            f"holdfast resume {state['id']} brings it here",
        )
    return root


def folder_of(workspace: Workspace, state: Workflow) -> str | None:
    """Return the path of the loop's folder; ``None`` when its worktree is gone."""
    root = workspace.root_of(state["worktree"])
    return None if root is None else os.path.dirname(workspace.inside(root, state["record"]))


def too_long(count: int) -> str:
    return f"{CONTEXT} has {count} words and must have fewer than {pages.MOST_WORDS}: shorten it"


# Reading


def read_page(disk: Disk, folder: str, name: str) -> str:
    """Return a page's text; empty when there is none that can be read."""
    return _decoded(_raw(disk, folder, name)) or ""


def read_log(disk: Disk, folder: str) -> str | None:
    """Return the text of ``progress.md``, however long; ``None`` when it is no readable file."""
    raw = _raw(disk, folder, PROGRESS)
    return None if raw in (FOLDER, ODD) else _log_text(raw or b"")


def _raw(disk: Disk, folder: str, name: str) -> bytes | None:
    """Return what stands in a page's place. A link is not followed: it may lead out of here."""
    path = os.path.join(folder, name)
    try:
        return ODD if os.path.islink(path) else disk.read(path)
    except OSError:
        return ODD


def _decoded(raw: bytes | None) -> str | None:
    """Return the text of a page; empty when there is none, ``None`` when it is no text."""
    if raw is None:
        return ""
    if len(raw) > _MAX_BYTES or raw in (FOLDER, ODD):
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _log_text(raw: bytes) -> str:
    # A cut in the middle of a character is a cut like any other.
    return raw.decode(errors="replace")


# Writing


def write_pages(
    store: Store, state: Workflow, *, seen: str | None = None, before: Workflow | None = None
) -> None:
    """Bring every page to what the ledger says, keeping what people wrote there.

    ``seen`` is the page of units that was taken in whole. If another text stands there now, or none
    was, it may hold edits that nobody has seen: its values stay as they are. ``before`` is the
    state before the change: a page that is as Holdfast made it then is made anew.
    """
    folder = folder_of(store.workspace, state)
    if folder is None or state["recipe"]["format"] != "loop":
        return
    try:
        LoopFolder(store, state, folder).write(state, seen, before)
    except OSError as error:
        where = os.path.basename(error.filename or folder)
        store.note(f"{where} could not be written ({error.strerror}); the ledger has it")


class LoopFolder:
    """The folder of one loop, with its pages and its log."""

    def __init__(self, store: Store, state: Workflow, path: str) -> None:
        self.path = path
        self.mode = mode_of(state)
        self.units_name = "plan.md" if self.mode == "knowledge" else "tasks.md"
        self.remembered = Remembered(store, state)
        self._store = store
        self._disk = store.disk
        self._id = state["id"]
        self._created_at = state["created_at"]

    def read(self, name: str) -> str:
        """Return a page's text; empty when there is none that can be read."""
        return read_page(self._disk, self.path, name)

    def write(self, state: Workflow, seen: str | None, before: Workflow | None) -> None:
        """Bring every page to this state; ``seen`` and ``before`` are as for ``write_pages``."""
        self._disk.make_folder(self.path)
        if self.mode == "knowledge":
            for name in ("sources", "outputs"):
                self._disk.make_folder(os.path.join(self.path, name))
        memory = self.remembered.read()
        self._patch("brief.md", lambda text: (text or pages.brief(state), True))
        context = self._patch(CONTEXT, lambda text: _context(state, text, memory.get("context")))
        units = self._patch(
            self.units_name,
            lambda text: _units(state, text, seen, before),
            self.remembered.learn,
        )
        self._patch(GUARDRAILS, lambda text: _guardrails(state, text))
        log = self.append_progress(memory.get("log"))
        self._remember(memory, context, units, log)
        self._check_length(context[0] if context else "")

    def _check_length(self, context: str) -> None:
        count = page_reader.words(context)
        if count >= pages.MOST_WORDS:
            self._store.note(too_long(count))

    def _patch(
        self,
        name: str,
        change: Callable[[str], Page],
        announce: Callable[[str], None] | None = None,
    ) -> Page | None:
        """Change a page; return it, or ``None`` if it is none or was saved meanwhile.

        ``announce`` is called with a text of which all is known before that is written.
        """
        path = os.path.join(self.path, name)
        raw = _raw(self._disk, self.path, name)
        text = _decoded(raw)
        if text is None:
            why = NO_FILE if raw in (FOLDER, ODD) else "is no UTF-8 text, or too large"
            self._store.note(f"{name} {why}; it is left as it is")
            return None
        after, is_known = change(text)
        if after == text and raw is not None:
            return after, is_known
        if announce is not None and is_known:
            announce(after)
        # People write here too: what they wrote is on the disk before the old text is let go.
        spare = self._store.files.prepare(path, after.encode(), durable=True)
        left = self._store.files.put(spare, path, raw)
        if left is None:
            return after, is_known
        # Somebody saved it between our reading and our writing: theirs stands, ours comes later.
        self._disk.move(left, path)
        self._store.note(f"{name} was saved meanwhile, and is taken in by the next command")
        return None

    def _remember(
        self, before: Fields, context: Page | None, units: Page | None, log: list[Json] | None
    ) -> None:
        """Keep what the pages say, of those that are known: an edit has to stay one."""
        memory: Fields = {"created_at": self._created_at, "units": before.get("units", "")}
        memory |= {"context": before.get("context"), "log": log}
        memory["known"] = known_pages(self.remembered.read())
        if context is not None and context[1]:
            memory["context"] = digest(context[0].encode())
        if units is not None and units[1]:
            memory["units"] = units[0]
        if memory != before:
            self.remembered.keep(memory)

    def remembered_units(self) -> dict[str, Fields]:
        """Return the units by their names, as the page told of them when it was last written."""
        text = self.remembered.read().get("units")
        units, _ = page_reader.read_units(text if isinstance(text, str) else "", self.mode)
        return {unit.pop("id"): unit for unit in units}

    # The log

    def append_progress(self, known: list[Json] | None = None) -> list[Json] | None:
        """Append an entry for every event that has none; an earlier entry is never touched.

        ``known`` is how far the log was whole the last time: so many bytes, their digest, the last
        event that they tell of, and the ledger that has it. Return how far it is whole now.
        """
        log = self._compared_log(known)
        if log is None:
            self._store.note(f"{PROGRESS} {NO_FILE}; it is left as it is, and the ledger has it")
            return None
        self._note_differences(log, "is written again at the end")
        compared = log.compared
        header = "" if log.text else pages.progress_header()
        added = header + compared.addition()
        if added:
            self._disk.extend(os.path.join(self.path, PROGRESS), added.encode())
        newest = compared.newest_missing()
        if newest is None or compared.changed:
            return known if log.skipped else None
        # The last entry is compared again: somebody may write on right below it.
        whole = log.raw + added.removesuffix(compared.last()).encode()
        return [len(whole), digest(whole), newest["seq"] - 1, self._store.ledger.identity()]

    def examine(self) -> None:
        """Note of the log and the context what a change would note. Write nothing."""
        log = self._compared_log(self.remembered.read().get("log"))
        if log is not None:
            self._note_differences(log, "is written again by the next change")
        self._check_length(self.read(CONTEXT))

    def _compared_log(self, known: list[Json] | None) -> _Log | None:
        """Compare the log with the events. What was whole the last time is skipped while its bytes
        are the same, or every command on a long log would take its time.
        """
        raw = _raw(self._disk, self.path, PROGRESS)
        if raw in (FOLDER, ODD):
            return None
        return _Log(raw or b"", known, self._store.ledger.identity(), self._events)

    def _events(self, after: int) -> list[Event]:
        """Return the loop's events after a seq, without those of an earlier loop of its name."""
        events = list(self._store.ledger.events(self._id, after=after))
        openings = [index for index, event in enumerate(events) if event["type"] in OPENING]
        return events[openings[-1] :] if openings else events

    def _note_differences(self, log: _Log, remedy: str) -> None:
        for heading in log.compared.changed:
            self._store.note(
                f"{PROGRESS}: {heading!r} was changed since; the ledger has it as it was"
            )
        for heading in log.compared.removed():
            self._store.note(f"{PROGRESS}: {heading!r} was gone, and {remedy}")


class _Log:
    """The bytes of a log, and how its new part compares with the events."""

    def __init__(
        self,
        raw: bytes,
        known: list[Json] | None,
        ledger: str,
        events: Callable[[int], list[Event]],
    ) -> None:
        self.raw = raw
        self.skipped, seq = _known_part(raw, known, ledger)
        """How many bytes need no second look."""
        self.text = _log_text(raw[self.skipped :])
        text = self.text or pages.progress_header()
        self.compared = progress_log.Comparison(text, events(seq))


def _known_part(raw: bytes, known: list[Json] | None, ledger: str) -> tuple[int, int]:
    """Return how many bytes of a log need no second look, and the last event they tell of."""
    match known:
        case [int(size), str(mark), int(seq), str(identity)] if 0 < size < len(raw):
            is_same = identity == ledger and digest(raw[:size]) == mark
            return (size, seq) if is_same else (0, 0)
    return 0, 0


def _context(state: Workflow, text: str, ours: str | None) -> Page:
    """Make it anew as long as it is as Holdfast made it; then it is theirs who changed it."""
    is_ours = not text or digest(text.encode()) == ours
    return (pages.context(state) if is_ours else text), is_ours


def _units(state: Workflow, text: str, seen: str | None, before: Workflow | None) -> Page:
    if not text or (before is not None and text == pages.units(before)):
        return pages.units(state), True
    is_seen = text == seen
    return pages.patched_units(text, state, keep_values=not is_seen), is_seen


def _guardrails(state: Workflow, text: str) -> Page:
    whole = pages.guardrails(state)
    return (pages.patched_guardrails(text, state) if text not in ("", whole) else whole), True


# Folders


def folders(root: str) -> list[str]:
    """Return the names of loops that have a folder here, archived ones aside."""
    return [name for name in names(os.path.join(root, HOME)) if name != "archive"]


def unknown_folders(store: Store) -> list[str]:
    """Return the folders with a log of which the ledger knows nothing; it may be gone."""
    root = store.workspace.root
    return [
        name
        for name in folders(root)
        if is_slug(name)
        and store.ledger.stream(name) is None
        and os.path.isfile(os.path.join(root, HOME, name, PROGRESS))
    ]


def names(folder: str) -> list[str]:
    """Return the names in a folder, without hidden ones; none where there is no folder."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return []
