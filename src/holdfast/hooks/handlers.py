"""What an event of a client asks for here: a plan that can be told, and one that is carried out.

A plan has what the client is answered, what is recorded, and one sentence on both. So ``--explain``
tells what would happen without anything happening.
"""

from __future__ import annotations

import os

from holdfast.adopt.note_parser import detect
from holdfast.core.briefing import quoted
from holdfast.core.digest import digest
from holdfast.core.refusal import Refusal
from holdfast.core.workflow.lifecycle import listed, pending
from holdfast.core.workflow.state import is_active, unread
from holdfast.errors import HoldfastError
from holdfast.hooks import responses
from holdfast.hooks.log import write as write_log
from holdfast.hooks.quick_check import paths_read
from holdfast.keeper import MAX_SESSION, Keeper
from holdfast.workspace.settings import may_enforce

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Workflow

WAIT_S = 2.0
WAIT_AT_THE_END_S = 0.5
"""A client gives all its hooks one and a half seconds when a session ends."""
_MOST_LET_GO = 50
"""So many workflows of a session can be let go in that time; the newest come first."""
_STAYS_BOUND = ("clear", "resume")
"""Ends of a session after which the same client goes on with the same work."""


class Plan:
    """What would be said, what would be recorded, and both in a sentence."""

    def __init__(
        self, says: str, answer: Fields | None = None, act: Callable[[], object] | None = None
    ) -> None:
        self.says = says
        self.answer = answer
        self.act = act


NOTHING = Plan("nothing: no workflow here is this session's")


class Call:
    """One event: who asks, from where, and what about."""

    def __init__(self, event: Fields, root: str) -> None:
        self.event = event
        self.root = root
        self.name = _text(event, "hook_event_name")
        told = _text(event, "session_id") or os.environ.get("CLAUDE_CODE_SESSION_ID", "")
        self.session = told[:MAX_SESSION]
        wait_s = WAIT_AT_THE_END_S if self.name == "SessionEnd" else WAIT_S
        self.keeper = Keeper(
            root, session=self.session or None, pid=_client(), by="hook", wait_s=wait_s
        )

    def mine(self) -> Workflow | Refusal:
        """Return this session's workflow, or why there is none."""
        return self.keeper.mine()

    def unenforced(self) -> str:
        """Why nothing is enforced although settings ask for it; empty when all is well."""
        if not may_enforce(self.root):
            return ""
        try:
            self.keeper.enforced()
        except HoldfastError as error:
            return f"NOT ENFORCED: {quoted(error.message, 500)}. Next: {quoted(error.hint, 200)}"
        return ""


def carry_out(event: Fields, root: str) -> Fields | None:
    """Records what the event asks for, and gives what the client is answered.

    What cannot be recorded is logged; what is to be said is said all the same.
    """
    call = Call(event, root)
    plan = plan_for(call)
    if plan.act is not None or call.name == "SessionStart":
        try:
            if plan.act is not None:
                plan.act()
            if call.name == "SessionStart":
                _name_worktree(call.keeper)
        except (HoldfastError, OSError) as error:
            write_log(call.keeper.workspace, error)
    return plan.answer


def _name_worktree(keeper: Keeper) -> None:
    """Name a new linked worktree: what a sandboxed agent runs cannot write git's folder."""
    if keeper.workspace.is_unnamed and keeper.store.ledger.exists():
        with keeper.store.transaction():
            pass


def plan_for(call: Call) -> Plan:
    """What the event asks for, here and now."""
    make = _PLANS.get(call.name)
    return make(call) if make is not None else Plan("nothing: Holdfast has no part in this event")


def _briefed(call: Call) -> Plan:
    """A new context: it gets the briefing of its workflow, or hears which there are."""
    source = _text(call.event, "source") or ("turn" if call.name == "BeforeAgent" else "startup")
    found = call.mine()
    if isinstance(found, Refusal):
        return _candidates(call, found)
    # What a compaction unticks is ticked only where nobody could record it.
    is_new = source == "compact" and bool(found["read"])
    briefing = call.keeper.briefing(state={**found, "read": {}} if is_new else found)
    text = "\n".join(filter(None, (briefing, call.unenforced())))
    told = {
        "digest": digest(text.encode()),
        "characters": len(text),
        "source": source,
        "session": call.session,
    }

    def act() -> None:
        if is_new:
            call.keeper.do("note_compaction", {"trigger": "auto"}, workflow=found["id"])
        call.keeper.do("note_briefing", told, workflow=found["id"])

    says = f"brief the session on {found['id']} ({len(text):,} characters)"
    return Plan(says, responses.context(call.name, text), act)


def _candidates(call: Call, refusal: Refusal) -> Plan:
    """What is merely there is named, not taken."""
    if not refusal.details.get("candidates"):
        text = call.keeper.initiative_line() if call.name == "SessionStart" else ""
        return (
            Plan("tell of the initiative", responses.context(call.name, text)) if text else NOTHING
        )
    text = f"Holdfast: {quoted(refusal.message, 1_500)}. Next: {quoted(refusal.hint, 500)}"
    return Plan("name the workflows there are", responses.context(call.name, text))


def _compacted(call: Call) -> Plan:
    """Before the context is summed up: what the agent's notes tell is taken in, all is saved."""
    trigger = _text(call.event, "trigger") or "auto"
    # One client says so at every turn, whether or not anything is summed up.
    is_certain = call.name == "PreCompact" or trigger == "manual"

    notes = detect(call.keeper.workspace.root)
    found = call.mine()
    says = [f"take in what {', '.join(note['source'] for note in notes)} tells"] if notes else []
    if is_certain and not isinstance(found, Refusal):
        says.append(f"record that the context of {found['id']} is compacted")

    def act() -> None:
        call.keeper.take_in_notes()
        found = call.mine()
        if is_certain and not isinstance(found, Refusal):
            call.keeper.do("note_compaction", {"trigger": trigger}, workflow=found["id"])

    return Plan(quoted(", and ".join(says)), act=act) if says else NOTHING


def _ended(call: Call) -> Plan:
    reason = _text(call.event, "reason") or "other"
    if reason in _STAYS_BOUND:
        return Plan(f"nothing: after {reason} the same client goes on")
    held = call.keeper.held()[: -_MOST_LET_GO - 1 : -1]
    if not held:
        return NOTHING
    told = {"session": call.session, "reason": reason}

    def act() -> None:
        for workflow in held:
            call.keeper.do("end_session", told, workflow=workflow)

    return Plan(f"let go of {', '.join(held)}, which this session holds", act=act)


def _read(call: Call) -> Plan:
    """Required reading is ticked when the client's own tool really read it."""
    found = call.mine()
    if isinstance(found, Refusal):
        return NOTHING
    if "tool_input" not in call.event:
        listed = ", ".join(unread(found)) or "nothing is left"
        return Plan(f"tick what {found['id']} requires when it is read: {quoted(listed)}")
    names = [f"@{path}" for path in _paths(call)]
    read = [path for path in unread(found) if path in names or _same(call, path, names)]
    if not read:
        return Plan(f"nothing: {found['id']} does not require this file")

    def act() -> None:
        for path in read:
            call.keeper.do("confirm_reading", {"path": path}, workflow=found["id"])

    return Plan(f"tick {', '.join(read)} of {found['id']}", act=act)


def _same(call: Call, required: str, names: list[str]) -> bool:
    """Whether a required path names one of the files that were read, however it is spelled."""
    if not call.keeper.workspace.contains(required[1:]):
        return False
    full = os.path.realpath(os.path.join(call.root, required[1:]))
    return any(full == os.path.realpath(os.path.join(call.root, name[1:])) for name in names)


def _paths(call: Call) -> list[str]:
    """The files that the tool read to their end, from the root."""
    if not _has_the_end(call.event.get("tool_response")):
        return []
    folder = _text(call.event, "cwd") or call.root
    paths = [os.path.join(folder, path) for path in paths_read(call.event.get("tool_input"))]
    top = os.path.realpath(call.root)
    return [os.path.relpath(os.path.realpath(path), top) for path in paths]


def _has_the_end(response: object) -> bool:
    """Whether a tool gave a file to its end: a long one is read in pieces, and the last counts."""
    if not isinstance(response, dict):
        return True
    if response.get("error") or response.get("is_error"):
        return False
    file = response.get("file")
    told = file if isinstance(file, dict) else {}
    start, lines, total = (told.get(key) for key in ("startLine", "numLines", "totalLines"))
    if not (isinstance(start, int) and isinstance(lines, int) and isinstance(total, int)):
        return True
    return start + lines >= total


def _editing(call: Call) -> Plan:
    """With ``enforce = ["reading"]`` nothing is edited before it was read."""
    if "reading" not in call.keeper.enforced():
        return Plan("nothing: reading is not enforced here")
    found = call.mine()
    if isinstance(found, Refusal):
        return NOTHING
    there = [path for path in unread(found) if _exists(call, path)]
    if not there:
        return Plan(f"nothing: everything that {found['id']} requires was read")
    named = ", ".join(quoted(path) for path in there[:20])
    why = f"Holdfast: read these first, with the Read tool: {named} (workflow {found['id']})"
    return Plan(f"deny the edit until {named} was read", responses.denied(call.name, why))


def _exists(call: Call, path: str) -> bool:
    full = os.path.join(call.root, path[1:])
    return call.keeper.workspace.contains(path[1:]) and os.path.isfile(full)


def _stopping(call: Call) -> Plan:
    """With ``enforce = ["stop"]`` the agent is sent back once, with what is pending."""
    if "stop" not in call.keeper.enforced():
        return Plan("nothing: stopping is not enforced here")
    if call.event.get("stop_hook_active") is not False:
        return Plan("nothing: the agent was sent back once already")
    found = call.mine()
    if isinstance(found, Refusal):
        return NOTHING
    left = {kind: items for kind, items in pending(found).items() if kind in ("tasks", "gates")}
    if not is_active(found) or not left:
        return Plan(f"nothing: {found['id']} has no task or gate pending")
    why = (
        f"Holdfast: {found['id']} still has pending {quoted(listed(left))}. Go on, or say why not: "
        f"holdfast task block N --reason TEXT -w {found['id']}, or holdfast abandon"
    )
    return Plan("send the agent back once, with what is pending", responses.blocked(why))


def _turn_begins(call: Call) -> Plan:
    """For clients that say nothing after a compaction: the next turn gets the briefing."""
    found = call.mine()
    if isinstance(found, Refusal):
        return NOTHING
    from holdfast.hooks.transcripts import summed_up_at

    lost_at = summed_up_at(_text(call.event, "transcript_path"), f"id {found['id']} ")
    if not call.keeper.awaits_briefing(found["id"], call.session, lost_at):
        return Plan(f"nothing: this session has the briefing of {found['id']}")
    return _briefed(call)


def _client() -> int | None:
    """The process of the client, which outlives a ``/clear``."""
    told = os.environ.get("CLAUDE_PID", "")
    return int(told) if told.isascii() and told.isdigit() and len(told) < 10 else None


def _text(event: Fields, key: str) -> str:
    found = event.get(key)
    return found if isinstance(found, str) and found.isprintable() else ""


_PLANS: dict[str, Callable[[Call], Plan]] = {
    "SessionStart": _briefed,
    "PreCompact": _compacted,
    "PreCompress": _compacted,
    "SessionEnd": _ended,
    "PostToolUse": _read,
    "AfterTool": _read,
    "PreToolUse": _editing,
    "BeforeTool": _editing,
    "Stop": _stopping,
    "AfterAgent": _stopping,
    "BeforeAgent": _turn_begins,
}
EVENTS = tuple(_PLANS)
