"""The pages of a loop on the disk: made once, then patched, and the log appended to.

Called under the workspace's lock. A fault in a page is said and undoes nothing: the ledger has it.
What a page said when it was last written stands in a file beside the ledger, so that an edit can
be told from a page that a killed process left behind.
"""

from __future__ import annotations

import os

from holdfast import jsontext
from holdfast.core.workflow import OPENING
from holdfast.digest import digest
from holdfast.disk import FOLDER, ODD
from holdfast.errors import Refused
from holdfast.loops import entries, matching, pages, reading
from holdfast.loops.items import mode_of
from holdfast.loops.slugs import is_slug

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.shapes import Event, Fields, Json, Workflow
    from holdfast.engine import Engine

    Page = tuple[str, bool]
    """A page's text, and whether everything on it is known."""

HOME = ".claude/iterative"
ARCHIVE = f"{HOME}/archive"
PROGRESS = "progress.md"
CONTEXT = "context.md"
GUARDRAILS = "guardrails.md"
NO_FILE = "is no file that can be read (a link is not followed)"
_MAX_BYTES = 4 * 1024 * 1024
_MOST_KNOWN = 8
"""So many texts of the page of units are known again: more than any number of kills in a row."""


def units_name(state: Workflow) -> str:
    return "plan.md" if mode_of(state) == "knowledge" else "tasks.md"


def folder_of(engine: Engine, state: Workflow) -> str | None:
    """The loop's folder; ``None`` when its worktree is gone."""
    root = engine.workspace.root_of(state["worktree"])
    if root is None:
        return None
    return os.path.dirname(engine.workspace.inside(root, state["record"]))


def root_of(engine: Engine, state: Workflow, tried: str) -> str:
    """Where the loop's worktree is: its work is done there, whoever asks from elsewhere."""
    root = engine.workspace.root_of(state["worktree"])
    if root is None:
        raise Refused(
            "not_found",
            f"{tried}: the worktree of {state['id']} is gone",
            f"holdfast resume {state['id']} brings it here",
        )
    return root


def write_pages(engine: Engine, state: Workflow, *, seen: str | None = None) -> None:
    """Brings every page to what the ledger says, keeping what people wrote there.

    ``seen`` is the page of units that was taken in whole. If another text stands there now, or none
    was, it may hold edits that nobody has seen: its values stay as they are.
    """
    folder = folder_of(engine, state)
    if folder is None or state["recipe"]["format"] != "loop":
        return
    try:
        _write_pages(engine, state, folder, seen)
    except OSError as error:
        where = os.path.basename(error.filename or folder)
        engine.note(f"{where} could not be written ({error.strerror}); the ledger has it")


def _write_pages(engine: Engine, state: Workflow, folder: str, seen: str | None) -> None:
    engine.disk.make_folder(folder)
    if mode_of(state) == "knowledge":
        for name in ("sources", "outputs"):
            engine.disk.make_folder(os.path.join(folder, name))
    said = last_said(engine, state)
    _patch(engine, folder, "brief.md", lambda text: (text or pages.brief(state), True))
    context = _patch(
        engine, folder, CONTEXT, lambda text: _context(state, text, said.get("context"))
    )
    units = _patch(
        engine,
        folder,
        units_name(state),
        lambda text: _units(state, text, seen),
        lambda after: keep_known(engine, state, after),
    )
    _patch(engine, folder, GUARDRAILS, lambda text: _guardrails(state, text))
    known = append_progress(engine, state, folder, said.get("log"))
    _remember(engine, state, said, context, units, known)
    count = reading.words(context[0] if context else "")
    if count >= pages.MOST_WORDS:
        engine.note(too_long(count))


def too_long(count: int) -> str:
    return f"{CONTEXT} has {count} words and must have fewer than {pages.MOST_WORDS}: shorten it"


def _context(state: Workflow, text: str, ours: str | None) -> tuple[str, bool]:
    """Made anew as long as it is as Holdfast made it; then it is theirs who changed it."""
    is_ours = not text or digest(text.encode()) == ours
    return (pages.context(state) if is_ours else text), is_ours


def _units(state: Workflow, text: str, seen: str | None) -> tuple[str, bool]:
    if not text:
        return pages.units(state), True
    is_seen = text == seen
    return pages.patched_units(text, state, keep_values=not is_seen), is_seen


def _guardrails(state: Workflow, text: str) -> tuple[str, bool]:
    return (pages.patched_guardrails(text, state) if text else pages.guardrails(state)), True


def _patch(
    engine: Engine,
    folder: str,
    name: str,
    change: Callable[[str], tuple[str, bool]],
    announce: Callable[[str], None] | None = None,
) -> Page | None:
    """Changes a page; gives its text and whether all of it is known, or nothing if it is none.

    ``announce`` is told a text of which all is known before it is written.
    """
    path = os.path.join(folder, name)
    raw = _raw(engine, folder, name)
    text = _decoded(raw)
    if text is None:
        why = NO_FILE if raw in (FOLDER, ODD) else "is no UTF-8 text, or too large"
        engine.note(f"{name} {why}; it is left as it is")
        return None
    after, is_known = change(text)
    if after == text and raw is not None:
        return after, is_known
    if announce is not None and is_known:
        announce(after)
    # People write here too: what they wrote is on the disk before the old text is let go.
    spare = engine.store.prepare(path, after.encode(), durable=True)
    left = engine.store.put(spare, path, raw)
    if left is None:
        return after, is_known
    # Somebody saved it between our reading and our writing: theirs stands, ours comes later.
    engine.disk.move(left, path)
    engine.note(f"{name} was saved meanwhile, and is taken in by the next command")
    return None


def _raw(engine: Engine, folder: str, name: str) -> bytes | None:
    """What stands in a page's place. A link is not followed: it may lead out of the workspace."""
    path = os.path.join(folder, name)
    try:
        return ODD if os.path.islink(path) else engine.disk.read(path)
    except OSError:
        return ODD


def _decoded(raw: bytes | None) -> str | None:
    """The text of a page; empty when there is none, ``None`` when it is no text."""
    if raw is None:
        return ""
    if len(raw) > _MAX_BYTES or raw in (FOLDER, ODD):
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def page(engine: Engine, folder: str, name: str) -> str:
    """A page's text; empty when there is none that can be read."""
    return _decoded(_raw(engine, folder, name)) or ""


def log(engine: Engine, folder: str) -> str | None:
    """The text of ``progress.md``, however long; ``None`` when no file that can be read is there.

    A cut in the middle of a character is a cut like any other.
    """
    raw = _raw(engine, folder, PROGRESS)
    return None if raw in (FOLDER, ODD) else _log_text(raw or b"")


def _log_text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def append_progress(
    engine: Engine, state: Workflow, folder: str, known: list[Json] | None = None
) -> list[Json] | None:
    """Every event has its entry; an earlier one is never touched.

    ``known`` is how far the log was whole the last time: so many bytes, their digest, the last
    event that they tell of, and the ledger that has it. As long as they are the same, only what
    follows is compared, or every command on a long log would take its time. Gives how far it is
    whole now.
    """
    raw = _raw(engine, folder, PROGRESS)
    if raw in (FOLDER, ODD):
        engine.note(f"{PROGRESS} {NO_FILE}; it is left as it is, and the ledger has it")
        return None
    raw = raw or b""
    ledger = engine.ledger.identity()
    size, seq = _known_part(raw, known, ledger)
    text = _log_text(raw[size:])
    compared = entries.Comparison(text or pages.progress_header(), _of_this_run(engine, state, seq))
    for heading in compared.changed:
        engine.note(f"{PROGRESS}: {heading!r} was changed since; the ledger has it as it was")
    for heading in compared.removed():
        engine.note(f"{PROGRESS}: {heading!r} was gone, and is written again at the end")
    added = compared.addition() if text else pages.progress_header() + compared.addition()
    if added:
        engine.disk.extend(os.path.join(folder, PROGRESS), added.encode())
    newest = compared.newest_missing()
    if newest is None or compared.changed:
        return known if size else None
    # The last entry is compared again: somebody may write on right below it.
    whole = raw + added.removesuffix(compared.last()).encode()
    return [len(whole), digest(whole), newest["seq"] - 1, ledger]


def _of_this_run(engine: Engine, state: Workflow, after: int) -> list[Event]:
    """The loop's events after a seq, without those of an earlier loop of its name."""
    events = engine.ledger.since(state["id"], OPENING, after=after)
    openings = [place for place, event in enumerate(events) if event["type"] in OPENING]
    return events[openings[-1] :] if openings else events


def _known_part(raw: bytes, known: list[Json] | None, ledger: str) -> tuple[int, int]:
    """How many bytes of the log need no second look, and the event up to which they tell."""
    match known:
        case [int(size), str(mark), int(seq), str(identity)] if 0 < size < len(raw):
            is_same = identity == ledger and digest(raw[:size]) == mark
            return (size, seq) if is_same else (0, 0)
    return 0, 0


# What the pages said when they were last written


def last_said(engine: Engine, state: Workflow) -> Fields:
    """``units`` by their names, the digest of ``context``, how far the ``log`` is known, and the
    digests of those texts of the page of units of which all is ``known``.

    Empty when nobody remembers.
    """
    raw = engine.disk.read(_memory(engine, state))
    try:
        said = jsontext.loads(raw or b"{}", strict=True)
    except jsontext.BadJson:
        return {}
    is_this_run = isinstance(said, dict) and said.get("created_at") == state["created_at"]
    return said if is_this_run else {}


def is_known(engine: Engine, state: Workflow, text: str) -> bool:
    """Whether all of a page of units is in the ledger, though it may say what was true before.

    A writer that died, or a power cut, leaves such a page: it is no edit.
    """
    return digest(text.encode()) in _known(last_said(engine, state))


def keep_known(engine: Engine, state: Workflow, text: str) -> None:
    """Remembers that all of this page of units is in the ledger."""
    said = last_said(engine, state)
    if not is_known(engine, state, text):
        marks = [*_known(said), digest(text.encode())][-_MOST_KNOWN:]
        fresh: Fields = {"created_at": state["created_at"], "units": {}}
        _keep(engine, state, {**fresh, **said, "known": marks})


def _known(said: Fields) -> list[Json]:
    found = said.get("known")
    return found if isinstance(found, list) else []


def _keep(engine: Engine, state: Workflow, said: Fields) -> None:
    engine.disk.make_folder(os.path.dirname(_memory(engine, state)), 0o700)
    engine.disk.replace_view(_memory(engine, state), jsontext.line_of(said).encode())


def _memory(engine: Engine, state: Workflow) -> str:
    return os.path.join(engine.workspace.home, "pages", f"{state['id']}.json")


def _remember(
    engine: Engine,
    state: Workflow,
    before: Fields,
    context: Page | None,
    units: Page | None,
    log: list[Json] | None,
) -> None:
    """Keeps what the pages said, of those that are known: else it is an edit the next time, too."""
    said: Fields = {"created_at": state["created_at"], "units": before.get("units", {})}
    said |= {"context": before.get("context"), "log": log}
    said["known"] = _known(last_said(engine, state))
    if context is not None and context[1]:
        said["context"] = digest(context[0].encode())
    if units is not None and units[1]:
        told, complaints = reading.read_units(units[0], mode_of(state))
        if not complaints:
            said["units"] = {unit.pop("id"): unit for unit in told}
    if said != before:
        _keep(engine, state, said)


# Folders


def folders(root: str) -> list[str]:
    """The names of loops that have a folder here, archived ones aside."""
    return [name for name in names(os.path.join(root, HOME)) if name != "archive"]


def unknown(engine: Engine) -> list[str]:
    """Folders with a log of which the ledger knows nothing; it may be gone."""
    root = engine.workspace.root
    return [
        name
        for name in folders(root)
        if is_slug(name)
        and engine.position(name) is None
        and os.path.isfile(os.path.join(root, HOME, name, PROGRESS))
    ]


def names(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return []


def offered(engine: Engine, state: Workflow) -> list[tuple[str, Fields]]:
    """Lessons of archived loops that match this one's domain or words, and that it lacks."""
    if not engine.workspace.contains(ARCHIVE):
        return []
    top = os.path.join(engine.workspace.root, ARCHIVE)
    lessons: list[tuple[str, Fields]] = []
    for name in names(top):
        folder = os.path.join(top, name)
        if os.path.islink(folder):
            continue
        told = reading.read_guardrails(page(engine, folder, GUARDRAILS))
        if told:
            domain = reading.read_brief(page(engine, folder, "brief.md"))["domain"]
            lessons += [(name, {**lesson, "domain": domain}) for lesson in told]
    context = state["context"]
    about = [state["title"], *(str(value) for value in context.values()), state["subject"]]
    known = [_body(one) for one in state.get("guardrails", [])]
    found = matching.offered(lessons, context.get("domain"), " ".join(about))
    return [(name, lesson) for name, lesson in found if _body(lesson) not in known]


def _body(lesson: Fields) -> list[object]:
    return [lesson.get(key) for key in ("when", "problem", "solution")]
