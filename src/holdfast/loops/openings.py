"""How a loop gets its name, its place and the lessons of others when it is opened."""

from __future__ import annotations

import os

from holdfast.core.workflow import OPENING
from holdfast.core.workflow.state import is_active
from holdfast.errors import Refused
from holdfast.layers import records
from holdfast.layers.records import sound
from holdfast.loops import archive, files, items, pages, reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.caller import Caller, Receipt
    from holdfast.core.shapes import Fields, Workflow
    from holdfast.engine import Engine

_EMPTY_LOG = pages.progress_header().strip()
_NAMED = 5


def check_context(slug: str, title: str, context: Fields) -> None:
    """Every iteration reads ``context.md``, so it has to be short."""
    preview: Fields = {"title": title, "context": context, "tasks": []}
    count = reading.words(pages.context(preview))  # type: ignore[arg-type]
    if count >= pages.MOST_WORDS:
        raise Refused(
            "invalid",
            f"loop new: {files.CONTEXT} of {slug} would have {count} words, "
            f"and must have fewer than {pages.MOST_WORDS}",
            "say the outcome in fewer words; --notes has room for more",
        )


def make_room(engine: Engine, caller: Caller, slug: str, mode: str) -> None:
    """Sees that the name is free for such a loop; one that has ended goes into the archive."""
    position = engine.position(slug)
    state = None if position is None else caller.current(position)
    if state is not None:
        _check_same_kind(state, slug, mode)
        if is_active(state):
            return
        if not records.is_archived(state["record"]):
            archive.archive(engine, caller, state, None)
            engine.note(f"the {slug} that had ended was put into the archive")
        archive.settle(engine, state)
    _check_folder(engine, slug)


def _check_same_kind(state: Workflow, slug: str, mode: str) -> None:
    """One name is one loop: another kind of workflow, or of loop, needs a name of its own."""
    kind = state["recipe"]["name"]
    if kind != f"loop-{mode}":
        raise Refused(
            "exists",
            f"loop new: {slug} is the name of a workflow of {kind} ({state['status']})",
            f"choose another name: holdfast loop new {slug[:50]}-2 --mode {mode}",
        )


def _check_folder(engine: Engine, slug: str) -> None:
    """Pages of an earlier loop go into the archive. A log without a record is a loop that nobody
    knows any more: it is not written into.
    """
    folder = os.path.join(engine.workspace.root, files.HOME, slug)
    created = reading.read_brief(files.page(engine, folder, "brief.md"))["created"]
    if created and created in _runs(engine, slug):
        archive.put_away(engine, slug)
    if os.path.lexists(os.path.join(folder, "state.json")):
        return
    log = files.log(engine, folder)
    if log is None or log.strip() not in ("", _EMPTY_LOG):
        raise Refused(
            "exists",
            f"loop new: {files.HOME}/{slug} has the log of a loop that is not known here",
            f"holdfast loop rebuild {slug}",
        )


def _runs(engine: Engine, slug: str) -> list[str]:
    """When the loops of this name that the ledger knows were made."""
    opened = [[event] for event in engine.ledger.scan(slug) if event["type"] in OPENING]
    states = [sound.replayed(events)[0] for events in opened]
    return [state["created_at"] for state in states if state is not None]


def inherited(engine: Engine, receipt: Receipt, *, inherit: bool) -> Workflow:
    """The state with the lessons of archived loops, or a note that there are some."""
    state = receipt.state
    offered = files.offered(engine, state) if inherit or not receipt.resumed else []
    if offered and not inherit:
        listed = [f"{lesson.get('name', '?')} ({slug})" for slug, lesson in offered[:_NAMED]]
        engine.note(
            f"archived loops have lessons that may fit: {', '.join(listed)}; to take them: "
            f"holdfast loop new {state['subject']} --mode {items.mode_of(state)} --inherit"
        )
        return state
    for slug, lesson in offered:
        learned = f"{slug}: {lesson.get('learned', '')}".rstrip(": ")
        drafts = engine.decide(state, "add_guardrail", {**lesson, "learned": learned})
        state, events = engine.commit(state["id"], state, drafts)
        receipt.seqs += [event["seq"] for event in events]
    if offered:
        engine.note(f"{len(offered)} lessons of archived loops were taken")
    return state
