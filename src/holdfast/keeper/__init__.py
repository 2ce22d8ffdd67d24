"""The keeper: everything a caller can do in a workspace, one method for each action.

A method that changes something makes one command of the core and runs it in a transaction. The
others only read. Modules that few methods need are imported when such a method is called.
"""

from __future__ import annotations

import os
import time

from holdfast.adopt.findings import expiry_note, notes_to_brief, take_notes_to_brief
from holdfast.core import json_text, selection
from holdfast.core.refusal import Refusal
from holdfast.core.workflow import find_task, is_active, unread
from holdfast.core.workflow.lifecycle import completion_signal, next_feature, pending
from holdfast.core.workflow.needs import with_stale_gates
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.formats import stream_of
from holdfast.keeper.requests import fingerprint, plain
from holdfast.keeper.session import Receipt, Session
from holdfast.keeper.store import Store
from holdfast.storage.ledger import ACTIVE, ASKED, ENDED
from holdfast.system.disk import Disk
from holdfast.workspace import location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Unpack

    from holdfast.core.types import Event, Fields, Recipe, Workflow
    from holdfast.keeper.archiving import Archived
    from holdfast.keeper.audit import Progress, Report
    from holdfast.keeper.evidence import Evidence
    from holdfast.keeper.history import PastState
    from holdfast.keeper.logs import Delegations, Interviews
    from holdfast.keeper.overview import Overview
    from holdfast.keeper.pull_requests import Form, PullRequests
    from holdfast.keeper.questions import Answers
    from holdfast.keeper.requests import Choice, Target
    from holdfast.keeper.session import Change
    from holdfast.keeper.transaction import Transaction
    from holdfast.keeper.transfer import Imported
    from holdfast.layers.memory import Memory
    from holdfast.workspace.trust import CommandRequest

__all__ = ["Keeper", "Receipt"]

LOCK_WAIT_S = 10.0
FOLLOW_EVERY_S = 0.2
MAX_SESSION = 200
_LEAVING = ("advance", "advance_to_branch", "start_phase", "complete_phase", "skip_phase")
"""Commands that leave a phase, which may need its gates to be fresh."""
MAX_LISTED = 200
"""The number of active workflows in a listing, unless all are asked for."""
BRIEFED_IN_TURN = "turn"
"""The source of a briefing after a compaction that is no event: it may need the same text again."""
_STOPPED = "stopped "
"""The beginning of the name of the fact that has the session that stopped last, and its change."""
_NO_CHANGES = ("workflow_resumed", "briefing_delivered")
"""Events by which a session takes up a workflow, and does not work on it yet."""
_MAX_OUTCOMES = 3
_MAX_LEARNINGS = 3
"""The number of learnings in a briefing, the newest; the project's memory has them all."""


class Keeper:
    """Give one caller access to a workspace. Methods raise ``Refused`` and ``Fault``.

    The keywords of ``target`` are ``workflow``, the caller's own by default, and ``id``, under
    which a caller that is not sure whether its request was recorded may send it again. Those of
    ``choice`` say which events are meant: ``grep`` is a text in them, ``since`` a time or an age,
    ``types`` are event types, ``task`` is a task's id, ``by`` a surface, session or machine.
    """

    def __init__(
        self,
        path: str = ".",
        *,
        session: str | None = None,
        pid: int | None = None,
        by: str = "library",
        clock_ms: Callable[[], int] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        disk: Disk | None = None,
        wait_s: float | None = None,
        share: Keeper | None = None,
        is_person: bool = True,
    ) -> None:
        """Open the workspace that ``path`` is in.

        ``is_person``: a caller without a session is a person or their script, and no client.
        ``share`` is an earlier keeper of the same thread. Its open ledger is reused if it belongs
        to the same repository.
        """
        self.workspace = location.find(path)
        self.workspace.check_links(self.workspace.home)
        if session and (len(session) > MAX_SESSION or not session.isprintable()):
            raise Refused(
                "invalid",
                f"the session id {session[:40]!r} is not printable text of up to {MAX_SESSION} "
                "letters",
                "give the client's own session id",
            )
        who: Fields = {"surface": by}
        if session:
            who["session"] = session
        wait = LOCK_WAIT_S if wait_s is None else wait_s
        ledger = None
        if share is not None and share.workspace.home == self.workspace.home:
            ledger = share.store.ledger
            # It waits for the garbage collector, which counts objects and not their bytes.
            share.store.files.forget()
        self.store: Store = Store(
            self.workspace, disk or Disk(), clock_ms or _system_clock_ms, sleep, who, wait, ledger
        )
        self.session = Session(
            self.store, session or None, pid, is_person=is_person and not session
        )
        if self.workspace.has_foreign_ledger():
            from holdfast.keeper import foreign_ledger

            foreign_ledger.set_aside(self.store)
        if self.workspace.has_old_ledger() and not self.store.ledger.head_seq:
            from holdfast.keeper.transfer import upgrade

            upgrade(self.store)

    # Opening and ending

    def start(
        self,
        recipe: str,
        subject: str | None = None,
        *,
        title: str | None = None,
        tasks: Sequence[str] = (),
        phases: Sequence[str] = (),
        reading: Sequence[str] = (),
        reminders: Sequence[str] = (),
        context: Fields | None = None,
        branch: str | None = None,
        ttl: str | None = None,
        replace: bool = False,
        again: bool = False,
        initiative: str | None = None,
        milestone: str | None = None,
        labels: Sequence[str] = (),
        after: Sequence[str] = (),
        workflow: str | None = None,
        id: str | None = None,
    ) -> Receipt:
        """Open a workflow, or resume the active one of the same recipe and subject."""
        from holdfast.keeper import start

        if workflow is not None:
            raise Refused("invalid", "start makes its own id", "holdfast resume ID")
        plan = start.prepare(
            self.session, recipe, subject, title=title, tasks=tasks, phases=phases, reading=reading,
            reminders=reminders, context=plain(context or {}), branch=branch, ttl=ttl,
            initiative=initiative, milestone=milestone, labels=labels, after=after,
        )  # fmt: skip
        asked: Fields = {
            "recipe": recipe, "subject": subject, "title": title, "tasks": tasks, "phases": phases,
            "reading": reading, "reminders": reminders, "context": context, "of_branch": branch,
            "ttl": ttl, "initiative": initiative, "milestone": milestone, "replace": replace,
            "again": again, **({"labels": labels} if labels else {}),
            **({"after": after} if after else {}),
        }  # fmt: skip
        request_digest = fingerprint("start", asked)
        try:
            with self.session.transaction() as tx:
                repeated = self.session.repeat(tx, id, request_digest=request_digest)
                if repeated is not None:
                    return repeated
                return start.carry_out(self.session, tx, plan, replace=replace, again=again, id=id)
        except Fault as fault:
            server = self.session.server_instead(fault)
            from holdfast.keeper import offline_queue

            words = {
                "recipe_name": recipe, "subject": subject, "title": title, "tasks": list(tasks),
                "phases": list(phases), "reading": list(reading), "reminders": list(reminders),
                "context": plain(context or {}), "branch": branch, "ttl": ttl,
                "initiative": initiative, "milestone": milestone, "labels": list(labels),
                "after": list(after),
            }  # fmt: skip
            return offline_queue.queue_start(self.session, server, words, id, request_digest)

    def resume(self, *, workflow: str | None = None, id: str | None = None) -> Receipt:
        """Bind a workflow to this session and worktree; reopen it if it had ended."""
        request_digest = fingerprint("resume", {"workflow": workflow})
        with self.session.transaction() as tx:
            repeated = self.session.repeat(tx, id, request_digest=request_digest)
            if repeated is not None:
                self._mark_stale(repeated)
                return repeated
            stream = self._to_resume(tx, workflow)
            state: Workflow = tx.load(stream)
            take_notes_to_brief(tx, stream)
            if "notes_file" in state:
                from holdfast.adopt import unknown_workflows

                unknown_workflows.take_in(tx)
                state = tx.load(stream)
            if workflow is None and not is_active(state):
                hint = f"holdfast resume {state['id']}"
                raise Refused("ended", f"resume: {state['id']} has expired", hint)
            self.session.check_lease(tx, stream, binds=True)
            receipt = self.take_up(tx, stream, id)
        self._mark_stale(receipt)
        return receipt

    def take_up(self, tx: Transaction, stream: str, id: str | None) -> Receipt:
        """Bind a loaded workflow to this session and worktree, and commit; reopen it if ended."""
        from holdfast.keeper import record_folders

        state: Workflow = tx.load(stream)
        args: Fields = {"worktree": self.workspace.name, **self.session.binding(tx, state)}
        moves = state["worktree"] != self.workspace.name
        if state["recipe"]["format"] == "loop" and (moves or not is_active(state)):
            args["record"] = record_folders.bring_here(tx, state)
        holder = state["session"]
        is_holder = holder is not None and holder["id"] == self.session.id
        if self.session.id and not is_holder:
            args["new_context"] = self.awaits_briefing(stream, self.session.id)
        if moves:
            self._note_move(state, args)
        if moves or not is_active(state):
            from holdfast.keeper import start

            more = f", then holdfast resume {state['id']}"
            start.check_slot(self.session, tx, state["recipe"]["format"], stream, more)
        self.session.forget_numbers(tx, stream)
        receipt = self.session.committed(tx, stream, tx.do(stream, "resume_workflow", args, id))
        receipt.resumed = True
        record_folders.clean_at_times(tx)
        return receipt

    def _note_move(self, state: Workflow, args: Fields) -> None:
        """Say from where a workflow moves here. From another machine, it keeps its branch."""
        machine = selection.machine_of(state["worktree"])
        if machine is None:
            args["branch"] = self.workspace.branch()
            self.store.note(f"{state['id']} moved here, to branch {args['branch']}")
        else:
            self.store.note(f"{state['id']} moved here from {machine}")

    def complete(
        self,
        outcome: str | None = None,
        *,
        force: bool = False,
        reason: str | None = None,
        workflow: str | None = None,
        id: str | None = None,
    ) -> Receipt:
        """Complete a workflow. Raise ``Refused`` if something is pending and it is not forced."""
        args: Fields = {"outcome": outcome, "force": force, "reason": reason}
        repeated = self.session.peek_repeat(id, fingerprint("complete_workflow", args))
        if repeated is not None:
            return repeated
        state = self.session.look(workflow)
        args["facts"] = self.session.facts.of_change(state)
        following = next_feature(state)
        if following is not None:
            from holdfast.keeper import start

            args["next_title"] = start.title_of(self.workspace.root, following)
            args["next_tasks"] = start.tasks_in(self.workspace.root, following)
        receipt = self.do("complete_workflow", args, workflow=state["id"], id=id)
        skipped = pending(state, args["facts"]) if force else {}
        receipt.signal = completion_signal(state, skipped)
        return receipt

    def abandon(self, reason: str | None = None, **target: Unpack[Target]) -> Receipt:
        """End a workflow that will not be finished; ``resume`` reopens it."""
        return self.session.do("abandon_workflow", {"reason": reason}, **target)

    def abandon_all(self, reason: str | None = None) -> tuple[list[Fields], list[str]]:
        """End every active workflow of this worktree; return a row for each, and the notes."""
        from holdfast.keeper import record_folders

        if not self.active_here():
            return [], self.store.take_notes()
        with self.session.transaction() as tx:
            return record_folders.abandon_all(tx, reason), self.store.take_notes()

    def active_here(self) -> list[Fields]:
        """Return a row for each active workflow of this worktree. Change nothing."""
        from holdfast.keeper import record_folders

        return record_folders.list_active_here(self.store)

    # Phases, steps, tasks, notes

    def advance(
        self,
        *,
        branch: str | None = None,
        force: bool = False,
        reason: str | None = None,
        **target: Unpack[Target],
    ) -> Receipt:
        """Complete the current phase and start the next, on ``branch`` if one is named.

        A phase that only asks for the branch is completed with it.

        Raise ``Refused`` with what the phase still needs. With ``force`` and a reason it is
        skipped instead.
        """
        if branch is not None:
            from holdfast.evidence import commits

            self.session.look(target.get("workflow"))
            if branch in self.workspace.main_branches():
                message = f"advance: {branch} is the main branch, not one for this work"
                raise Refused("invalid", message, "holdfast advance --branch BRANCH")
            commits.switch(self.workspace, branch)
        kind = "advance" if branch is None else "advance_to_branch"
        return self._phase(kind, None, None, target, force=force, reason=reason)

    def start_phase(
        self,
        name: str,
        fields: Fields | None = None,
        *,
        force: bool = False,
        reason: str | None = None,
        **target: Unpack[Target],
    ) -> Receipt:
        """Start a phase, or add fields to the one in progress."""
        return self._phase("start_phase", name, fields, target, force=force, reason=reason)

    def complete_phase(
        self,
        name: str,
        fields: Fields | None = None,
        *,
        force: bool = False,
        reason: str | None = None,
        **target: Unpack[Target],
    ) -> Receipt:
        """Complete the current phase by its name and start the next."""
        return self._phase("complete_phase", name, fields, target, force=force, reason=reason)

    def skip_phase(self, name: str, reason: str, **target: Unpack[Target]) -> Receipt:
        """Leave the current phase without completing it, and start the next."""
        return self._phase("skip_phase", name, None, target, reason=reason)

    def block_phase(
        self, name: str, fields: Fields | None = None, **target: Unpack[Target]
    ) -> Receipt:
        """Block the current phase; ``fields`` may hold a ``reason``."""
        return self._phase("block_phase", name, fields, target)

    def unblock_phase(
        self, name: str, fields: Fields | None = None, **target: Unpack[Target]
    ) -> Receipt:
        """Unblock the blocked phase."""
        return self._phase("unblock_phase", name, fields, target)

    def approve_phase(
        self, name: str, fields: Fields | None = None, **target: Unpack[Target]
    ) -> Receipt:
        """Record a person's approval of a phase."""
        return self._phase("approve_phase", name, fields, target)

    def _phase(
        self, kind: str, name: str | None, fields: Fields | None, target: Target, **forced: object
    ) -> Receipt:
        args: Fields = {"fields": plain(fields or {}), **forced}
        if name is not None:
            args["phase"] = name
        if kind in _LEAVING:
            state = self.session.peek(target.get("workflow"))
            if isinstance(state, Refusal):
                args["facts"] = self.workspace.facts()
            else:
                leaves = [] if state["phase"] is None else [state["phase"]]
                args["facts"] = self.session.facts.of_leaving(state, leaves)
        return self.session.do(kind, args, **target)

    def start_step(self, name: str, **target: Unpack[Target]) -> Receipt:
        """Start a step of the current phase."""
        return self.session.do("start_step", {"step": name}, **target)

    def add_task(self, text: str, **target: Unpack[Target]) -> Receipt:
        """Add a task at the end."""
        return self.add_tasks([text], **target)

    def add_tasks(
        self, texts: Sequence[str] = (), *, path: str | None = None, **target: Unpack[Target]
    ) -> Receipt:
        """Add tasks at the end, and those that a Markdown file lists as ``- [ ] text``."""
        tasks: list[Fields] = [{"text": text} for text in texts]
        if path is not None:
            from holdfast.keeper import start

            listed = start.tasks_in(self.workspace.root, path)
            if not listed:
                message = f"task add: {path[:200]} has no list of tasks (- [ ] text)"
                raise Refused("not_found", message, "holdfast task add TASK")
            tasks += listed
        request_digest = fingerprint("add_tasks", {"texts": list(texts), "path": path})
        return self.session.do(
            "add_tasks", {"tasks": tasks}, **target, request_digest=request_digest
        )

    def start_task(self, task: int | str, **target: Unpack[Target]) -> Receipt:
        """Start a task, or a blocked one again."""
        args = {"task": task, "head": self.workspace.commit()}
        return self.session.do("start_task", args, **target)

    def complete_task(
        self,
        task: int | str,
        commit: str | None = None,
        *,
        force: bool = False,
        reason: str | None = None,
        **target: Unpack[Target],
    ) -> Receipt:
        """Complete a task with its commit: an id, a branch or HEAD.

        Without one, the commit that was made since the task began is taken, if it is the only one
        and the work tree is clean; else none is. Raise ``Refused`` if git has no commit so named.
        """
        args: Fields = {"task": task, "commit": commit, "force": force, "reason": reason}
        has_id = target.get("id") is not None
        request_digest = fingerprint("complete_task", args) if has_id else ""
        note = None
        if commit is not None and self.workspace.git is not None:
            args["commit"] = self.workspace.known_commit(commit)
            if args["commit"] is None:
                from holdfast.evidence import commits

                args["commit"] = commits.resolve(self.workspace, commit, "task done")
        elif commit is None:
            state = self.session.peek(target.get("workflow"))
            begun = None if isinstance(state, Refusal) else find_task(state, task)
            if begun is not None and "base" in begun and begun["status"] != "completed":
                from holdfast.evidence import commits

                args["commit"], note = commits.made_for_task(self.workspace, begun)
        receipt = self.session.do("complete_task", args, **target, request_digest=request_digest)
        receipt.notes += [] if note is None else [note]
        return receipt

    def start_task_phase(
        self,
        task: int | str,
        phase: str,
        *,
        force: bool = False,
        reason: str | None = None,
        **target: Unpack[Target],
    ) -> Receipt:
        """Start a phase of a task: red, green, refactor.

        Raise ``Refused`` if an earlier one lacks what the recipe asks for, unless it is forced.
        """
        args = {"task": task, "phase": phase, "force": force, "reason": reason}
        args["head"] = self.workspace.commit()
        return self.session.do("start_task_phase", args, **target)

    def block_task(self, task: int | str, reason: str, **target: Unpack[Target]) -> Receipt:
        """Block a task, with a reason."""
        return self.session.do("block_task", {"task": task, "reason": reason}, **target)

    def unblock_task(self, task: int | str, **target: Unpack[Target]) -> Receipt:
        """Let a blocked task go on where it stood."""
        return self.session.do("unblock_task", {"task": task}, **target)

    def edit_task(self, task: int | str, text: str, **target: Unpack[Target]) -> Receipt:
        """Change the text of a task."""
        return self.session.do("edit_task", {"task": task, "description": text}, **target)

    def remove_task(self, task: int | str, **target: Unpack[Target]) -> Receipt:
        """Remove a task. No later task gets its number."""
        return self.session.do("remove_task", {"task": task}, **target)

    def reopen_task(self, task: int | str, **target: Unpack[Target]) -> Receipt:
        """Make a completed task pending again."""
        return self.session.do("reopen_task", {"task": task}, **target)

    def move_task(
        self, task: int | str, *, before: int | str | None = None, after: int | str | None = None,
        to: int | None = None, **target: Unpack[Target],
    ) -> Receipt:  # fmt: skip
        """Move a task before or after another one, or to a position counted from 1."""
        args = {"task": task, "before": before, "after": after, "to": to}
        return self.session.do("move_task", args, **target)

    def remind(self, text: str, **target: Unpack[Target]) -> Receipt:
        """Add a reminder that every briefing repeats."""
        return self.session.do("add_reminder", {"text": text}, **target)

    def remove_reminder(self, reminder: int | str, **target: Unpack[Target]) -> Receipt:
        """Remove a reminder by its number, counted from 1, or by its text."""
        return self.session.do("remove_reminder", {"reminder": reminder}, **target)

    def require_reading(self, path: str, **target: Unpack[Target]) -> Receipt:
        """Add a file, as ``@path``, that must be read first after a compaction."""
        from holdfast.keeper import start

        start.check_reading(self.store, [path])
        return self.session.do("require_reading", {"path": path}, **target)

    def remove_reading(self, path: str, **target: Unpack[Target]) -> Receipt:
        """Remove a file, as ``@path``, from the required reading."""
        return self.session.do("remove_reading", {"path": path}, **target)

    def set_context(self, fields: Fields, **target: Unpack[Target]) -> Receipt:
        """Set context variables."""
        return self.session.do("set_context", {"values": plain(fields)}, **target)

    def unset_context(self, keys: Sequence[str], **target: Unpack[Target]) -> Receipt:
        """Remove context variables."""
        return self.session.do("unset_context", {"keys": list(keys)}, **target)

    def rename(self, title: str, **target: Unpack[Target]) -> Receipt:
        """Change the title of a workflow."""
        return self.session.do("rename_workflow", {"title": title}, **target)

    # Questions to people

    def ask(
        self,
        text: str,
        choices: Sequence[str] = (),
        *,
        blocking: bool = False,
        **target: Unpack[Target],
    ) -> Receipt:
        """Ask people something, with choices to offer; this session is told the answer.

        Work that does not depend on the answer goes on. If it is ``blocking``, the phase waits.
        Raise ``Refused`` if another session asks that already; this one is told the answer, too.
        """
        from holdfast.keeper import questions

        args: Fields = {"text": text, "choices": list(choices), "blocking": blocking}
        try:
            receipt = self.session.do("ask_question", {**args, "by": self.store.by}, **target)
        except Refused as refused:
            asked_in = refused.details.get("asked_in")
            if self.session.id and isinstance(asked_in, str):
                questions.await_answers(self.store, self.session.id, asked_in, [text])
            raise
        if self.session.id and receipt.seqs:
            questions.await_answers(self.store, self.session.id, receipt.state["id"], [text])
        return receipt

    def answer(
        self, number: int, text: str, *, workflow: str | None = None, id: str | None = None
    ) -> Receipt:
        """Answer a question with any text, or with a choice by its text or number.

        By default, the only workflow that has open questions is meant, else the caller's own.
        """
        if workflow is None:
            from holdfast.keeper.questions import asking_workflows

            asking = asking_workflows(self.store)
            workflow = asking[0] if len(asking) == 1 else None
        args: Fields = {"question": number, "text": text, "by": self.store.by}
        return self.session.do("answer_question", args, workflow=workflow, id=id)

    def withdraw_question(self, number: int, **target: Unpack[Target]) -> Receipt:
        """Withdraw a question that needs no answer any more."""
        return self.session.do("withdraw_question", {"question": number}, **target)

    def open_questions(self) -> list[Fields]:
        """Return the open questions of all active workflows, each with its ``workflow``."""
        if not self.store.ledger.fact(ASKED):
            return []
        from holdfast.keeper.questions import open_everywhere

        return open_everywhere(self.store)

    def new_answers(self) -> Answers | None:
        """Return what this session was not told yet of the answers it waits for."""
        session = self.session.id
        if not session or not self.workspace.waits_for_answers(session):
            return None
        from holdfast.keeper.questions import Answers

        return Answers(self.store, session)

    def undo(self, **target: Unpack[Target]) -> Receipt:
        """Undo this caller's last change of a workflow; ``undone`` of the receipt has its words.

        Without ``workflow``, a workflow that the caller has just ended is meant before any other.
        """
        from holdfast.keeper.undo import undo

        return undo(self.session, **target)

    # Reading

    def briefing(
        self,
        *,
        workflow: str | None = None,
        state: Workflow | None = None,
        notes: Sequence[str] = (),
        others: Sequence[str] = (),
    ) -> str:
        """Return the briefing of a workflow, or of ``state``, for a session that resumes it.

        ``notes`` are those of the answer that the briefing is part of. ``others`` name further
        workflows that the session could take up.
        """
        from holdfast.core.briefing import briefing

        if state is None:
            receipt = self.show(workflow=workflow)
            state, notes = receipt.state, [*notes, *receipt.notes]
        here, ledger = self.workspace, self.store.ledger
        branch = here.branch()
        required = state["required_reading"]
        inside = [path for path in required if here.contains(path[1:])]
        # A hook reads the work tree only if the next step depends on it.
        facts = self.session.facts.of_next_step(state)
        readable = with_stale_gates({**state, "required_reading": inside}, facts)
        learnings: list[Fields] = []
        if ledger.stream(stream_of("learning")) is not None:
            learnings = self.learnings()[-_MAX_LEARNINGS:]
        outcomes, delegations = self._history(state)
        notes = [*notes_to_brief(self.store, state), *notes, *self.store.take_notes()]
        notes += self.session.facts.lost_commits(state)
        return briefing(
            readable,
            self.store.now(),
            seq=ledger.last_seq(state["id"], besides="briefing_delivered"),
            branch=branch,
            pushed=self._pushed(state, branch),
            missing=self.missing_reading(readable),
            outside=len(required) - len(inside),
            learnings=[str(entry["text"]) for entry in learnings],
            outcomes=outcomes,
            delegations=delegations,
            notes=list(dict.fromkeys(notes)),
            others=others,
            facts=facts,
            machine=self.session.last_machine(state["id"]),
            is_named=self.needs_explicit_id(state),
        )

    def _history(self, state: Workflow) -> tuple[list[str], list[str]]:
        """Return how workflows of this recipe ended, oldest first, and how delegations went.

        Both are what the memory graph has; without one, nothing is returned.
        """
        named = os.environ.get("HOLDFAST_GRAPH")
        if named == "off":
            return [], []
        if not named and self.workspace.has_settings():
            from holdfast.workspace import settings

            try:
                if settings.load(self.workspace.root).graph() == "off":
                    return [], []
            except HoldfastError:
                return [], []
        ledger = self.store.ledger
        query = f"{ENDED} AND recipe = ? AND stream != ? ORDER BY updated_at DESC, seq DESC LIMIT ?"
        ended = list(ledger.states(query, state["recipe"]["name"], state["id"], _MAX_OUTCOMES))
        has_log = ledger.stream(stream_of("delegation")) is not None
        if not ended and not has_log:
            return [], []
        from holdfast.core import other_layers
        from holdfast.core.workflow.edits import is_adopted

        # What came with a record from elsewhere is not this person's experience.
        own = [stream.state for stream in reversed(ended) if not is_adopted(stream.state)]
        outcomes = [other_layers.outcome_line(state) for state in own]
        if not has_log:
            return outcomes, []
        memory = self.memory()
        logs = [memory.own_entries(log) for log in ("delegation", "interview")]
        return outcomes, other_layers.delegation_lines(*logs)

    def missing_reading(self, state: Workflow) -> list[str]:
        """Return the required files inside the workspace that do not exist."""
        here = self.workspace
        return [
            path
            for path in unread(state)
            if here.contains(path[1:]) and not os.path.exists(os.path.join(here.root, path[1:]))
        ]

    def note_briefing(
        self, text: str, source: str, *, workflow: str, new_context: bool = False
    ) -> list[str]:
        """Record that this session was given a briefing, once for each text; return the notes.

        Several clients read the same settings, and fire their hooks for the same context. If it is
        a ``new_context``, nothing that is required was read there yet.
        """
        session = self.session.id or ""
        delivery: Fields = {
            "digest": json_text.digest(text.encode()),
            "characters": len(text),
            "source": source,
            "session": session,
        }
        delivery |= {"new_context": True} if new_context else {}
        with self.session.transaction() as tx:
            stream = self.session.select(tx, workflow)
            for event in self.store.ledger.newest(stream):
                if event["type"] != "briefing_delivered":
                    break
                is_same = all(event["data"].get(k) == delivery[k] for k in ("digest", "session"))
                if is_same and source != BRIEFED_IN_TURN:
                    return self.store.take_notes()
            events = tx.do(stream, "note_briefing", delivery)
            self.session.forget_numbers(tx, stream)
            receipt = self.session.committed(tx, stream, events)
        if session and "questions" in receipt.state:
            from holdfast.keeper import questions

            questions.await_open(self.store, session, receipt.state)
            questions.heard_in(self.store, session, text)
        return receipt.notes

    def workflows(self, *, every: bool = False) -> tuple[list[Fields], list[str]]:
        """Return a row for each active workflow, newest activity first, and the notes."""
        from holdfast.keeper import overview

        rows = overview.list_active(self.session, None if every else MAX_LISTED)
        self.session.note_sharing()
        return rows, self.store.take_notes()

    def log(
        self, *, workflow: str | None = None, limit: int | None = None, **choice: Unpack[Choice]
    ) -> list[Event]:
        """Return events in order, of one workflow or of all; only the newest ``limit``."""
        return list(self.events(workflow=workflow, limit=limit, **choice))

    def events(
        self, *, workflow: str | None = None, limit: int | None = None, **choice: Unpack[Choice]
    ) -> Iterator[Event]:
        """Yield what ``log`` returns, without holding all of it in memory.

        With a ``limit``, a choice is looked for among the newest 50,000 events; a note says so if
        there may be more.
        """
        ledger = self.store.ledger
        if workflow is not None and ledger.stream(workflow) is None:
            self.session.look(workflow)
        if any(choice.values()):
            from holdfast.keeper import event_log

            return event_log.chosen(self.store, workflow, limit, choice)
        if limit is None:
            return ledger.events(workflow)
        newest = list(ledger.newest(workflow, limit))[::-1]
        if workflow is not None and len(newest) < limit:
            next(ledger.events(workflow), None)  # It raises ``Fault`` if an archive is missing.
        return iter(newest)

    def follow(
        self, *, workflow: str | None = None, after: int = 0, **choice: Unpack[Choice]
    ) -> Iterator[Event]:
        """Yield the chosen events after a seq, then those to come, without end."""
        only = None
        if any(choice.values()):
            from holdfast.keeper import event_log

            only = event_log.filter_of(self.store, choice)
        while True:
            for event in self.store.ledger.events(workflow, after=after):
                after = event["seq"]
                if only is None or only.has(event):
                    yield event
            self.store.pause(FOLLOW_EVERY_S)

    def do(self, kind: str, args: Fields, **target: Unpack[Target]) -> Receipt:
        """Run one command of the core on one workflow."""
        return self.session.do(kind, args, **target)

    def transaction(self, workflow: str | None = None, *, id: str | None = None) -> Change:
        """Change one workflow by several commands that happen together or not at all.

        ``with keeper.transaction() as tx: tx.decide("complete_task", task=1); tx.commit()``
        """
        return self.session.change(workflow, id=id)

    def show(self, *, workflow: str | None = None) -> Receipt:
        """Return a workflow's state with its stale gates marked. Change nothing."""
        receipt = self.session.answer(self.session.look(workflow), [])
        self._mark_stale(receipt)
        return receipt

    def state_at(self, seq: int, *, workflow: str | None = None) -> PastState:
        """Return a workflow as it was after an event: ``state``, and the ``event``.

        By default it is the workflow that the event is of. Raise ``Refused`` if it began later.
        """
        from holdfast.keeper import history

        return history.state_at(self.session, seq, workflow)

    def changes(self, workflow: str, from_seq: int, to_seq: int) -> list[Fields]:
        """Return what changed in a workflow from its state after one event to that after another.

        Each has a ``path``, ``about`` in words, and ``was`` and ``now``, which an addition or a
        removal lacks.
        """
        from holdfast.keeper import history

        return history.changes(self.session, workflow, from_seq, to_seq)

    def _mark_stale(self, receipt: Receipt) -> None:
        """Mark the gates that are older than the work tree, which is read once for the answer."""
        facts = self.session.facts
        tree = facts.tree(receipt.state)
        receipt.state = with_stale_gates(receipt.state, {"tree": tree})
        receipt.read_facts = lambda state: facts.of_next_step(state, tree)

    def settle(self, *, workflow: str | None = None) -> Receipt:
        """Adopt an edit of a workflow's record by a person or a tool, and change nothing else."""
        with self.session.transaction() as tx:
            stream = self.session.select(tx, workflow)
            return self.session.answer(tx.load(stream), [])

    def context(self) -> tuple[Fields, list[str]]:
        """Return everything known here, with the layer that has it, and the notes."""
        from holdfast.keeper import degradation

        return degradation.report_layers(self.session), self.store.take_notes()

    def _to_resume(self, tx: Transaction, workflow: str | None) -> str:
        """Load the workflow to resume and return its stream. A refusal names alternatives."""
        try:
            if workflow is None and not self.store.ledger.head_seq:
                from holdfast.keeper import degradation

                degradation.recover(tx)
            return self.session.select(tx, workflow)
        except Refused as refused:
            if refused.details.get("candidates") != []:
                raise
            from holdfast.keeper.logs import suggest_initiative

            raise suggest_initiative(self.session, self._explained(refused)) from None

    def _explained(self, refused: Refused) -> Refused:
        """Return a refusal to resume that says what has expired, and what is no record."""
        notes, hint = self.store.take_notes(), refused.hint
        query = f"{ENDED} AND worktree = ? ORDER BY updated_at DESC, seq DESC LIMIT 1"
        for row in self.store.ledger.rows(query, self.workspace.name):
            if row["status"] == "expired":
                notes, hint = [*notes, expiry_note(row)], f"holdfast resume {row['id']}"
        message = "; ".join([refused.message, *dict.fromkeys(notes)])
        return Refused(refused.code, message, hint, **refused.details)

    def needs_explicit_id(self, state: Workflow) -> bool:
        """Return whether this caller's commands must name the workflow to reach it."""
        try:
            picked = self.session.picked()
        except (OSError, HoldfastError):
            return True  # Naming it is always safe; the command itself has succeeded.
        return isinstance(picked, Refusal) or picked["id"] != state["id"]

    # For hooks

    def current_workflow(self) -> Workflow | Refusal:
        """Return this session's workflow, or a refusal. Change nothing."""
        state = self.session.peek()
        if isinstance(state, Refusal) or is_active(state):
            return state
        if state["status"] == "completed":
            why, hint = f"{state['id']} is completed", "holdfast start RECIPE SUBJECT"
            return Refusal("ended", why, hint, candidates=[state["id"]])
        why = f"{state['id']} has ended or expired"
        return Refusal("ended", why, f"holdfast resume {state['id']}", candidates=[state["id"]])

    def workflow_to_brief(self) -> tuple[Workflow | Refusal, list[str]]:
        """Return the workflow for a new context, or a refusal, and the others it could take up.

        If several are free, it is the newest one. Change nothing.
        """
        state = self.current_workflow()
        if not isinstance(state, Refusal) or state.code != "ambiguous":
            return state, []
        candidates: list[str] = state.details["candidates"]  # type: ignore[assignment]
        titles = {row["id"]: row["title"] for row in self.store.ledger.rows(ACTIVE)}
        others = [f"{other} ({titles.get(other, '')})" for other in candidates[1:]]
        return self.session.peek(candidates[0]), others

    def changed_since_stop(self, workflow: str, *, or_nameless: bool = False) -> int:
        """Return the seq of this session's last change since it last stopped; 0 without one.

        Taking up a workflow is no change, nor is what hooks record. ``or_nameless``: the changes of
        callers without a session count as well.
        """
        session, _, stopped = self.store.ledger.fact(f"{_STOPPED}{workflow}").rpartition(" ")
        seen = int(stopped) if session == self.session.id and stopped.isdecimal() else 0
        sessions = (self.session.id, None) if or_nameless else (self.session.id,)
        for event in self.store.ledger.newest(workflow):
            if event["seq"] <= seen:
                break
            by = event["by"]
            is_change = by.get("surface") != "hook" and event["type"] not in _NO_CHANGES
            if is_change and by.get("session") in sessions:
                return event["seq"]
        return 0

    def note_stop(self, workflow: str, seq: int) -> None:
        """Remember that this session stopped after its change with this seq."""
        with self.session.transaction() as tx:
            tx.put_fact(f"{_STOPPED}{workflow}", f"{self.session.id} {seq}")

    def renew_leases(self) -> None:
        """Renew the leases of this session of which half of the time is over."""
        from holdfast.keeper import leases

        leases.renew(self.session, only_due=True)

    def owned_workflows(self) -> list[str]:
        """Return the ids of the active workflows that this session holds."""
        streams = self.store.ledger.active_of_session(self.session.id, None)
        return [stream.row["id"] for stream in streams]

    def take_in_notes(self) -> list[str]:
        """Adopt the workflows that an agent's own notes describe; return those that changed."""
        from holdfast.adopt import agent_notes, unknown_workflows

        has_notes = agent_notes.detect(self.workspace.root)
        if not has_notes and not unknown_workflows.over(self.store):
            return []
        with self.session.transaction() as tx:
            self.session.adopt_unknown(tx)
            return unknown_workflows.take_in(tx)

    def note_unknown(self) -> None:
        """Add a note for each file in a record's place that cannot be taken in."""
        from holdfast.adopt import unknown_workflows

        unknown_workflows.peek_all(self.store)

    def lost_work(self, limit_s: float) -> str:
        """Return a sentence on the work that only a Memory server knows; empty if there is none.

        It is asked only if there is no ledger.
        """
        if self.store.ledger.exists():
            return ""
        from holdfast.keeper.degradation import tell_of_graph

        return tell_of_graph(self.session, limit_s)

    def enforced(self) -> list[str]:
        """Return what the settings enforce: ``reading``, ``stop``."""
        from holdfast.workspace import settings

        return settings.load(self.workspace.root).enforced

    def needs_delivery(self, receipt: Receipt) -> bool:
        """Return whether the briefing of this answer is still to be recorded as delivered.

        A request that is repeated may have been killed before that.
        """
        session = self.session.id
        if not session or not receipt.is_repeat:
            return bool(session)
        for event in self.store.ledger.newest(receipt.state["id"]):
            if event["seq"] <= receipt.seqs[-1]:
                break
            is_delivery = event["type"] == "briefing_delivered"
            if is_delivery and event["data"].get("session") == session:
                return False
        return True

    def awaits_briefing(self, workflow: str, session: str, lost_at: str = "") -> bool:
        """Return whether this session has no briefing since the last compaction.

        ``lost_at`` is when its context lost the briefing, by a compaction without a hook call.
        """
        for event in self.store.ledger.newest(workflow):
            if event["type"] == "context_compacted":
                return True
            delivered = event["type"] == "briefing_delivered"
            if delivered and event["data"].get("session") == session:
                return bool(event["at"] < lost_at)
        return True

    def _pushed(self, state: Workflow, branch: str | None) -> str | None:
        """Return the remote branch that has the work, if only the pull request is missing."""
        from holdfast.core.workflow import next_phases
        from holdfast.core.workflow.needs import PULL_REQUEST, pending_gates

        here = branch is not None and state["phase"] is not None and state["branch"] == branch
        if not here or PULL_REQUEST not in pending_gates(state):
            return None
        if next_phases(state, str(state["phase"])):
            return None
        from holdfast.evidence import git

        return git.pushed_to(self.workspace.root, str(branch))

    def evidence(self) -> Evidence:
        """Return the evidence of this session: gates, tests, violations, files, whole steps."""
        from holdfast.keeper.evidence import Evidence

        return Evidence(self.session)

    def report(self, *, workflow: str | None = None) -> Fields:
        """Return what a workflow did, and what that rests on, as plain data. Change nothing."""
        from holdfast.keeper import report

        receipt = self.show(workflow=workflow)
        for note in receipt.notes:
            self.store.note(note)
        return report.collect(self.session, receipt.state)

    def pull_requests(self, form: Form) -> PullRequests:
        """Return what plans and sends pull requests; ``form`` makes their texts of a report."""
        from holdfast.keeper.pull_requests import PullRequests

        return PullRequests(self.session, lambda workflow: self.report(workflow=workflow), form)

    # Upkeep

    def verify(self, *, everything: bool = False, progress: Progress | None = None) -> Report:
        """Check the ledger, and every view against it. Change nothing.

        What was found sound before is not checked again, unless ``everything`` is true.
        ``progress`` is called with what is being checked, how many were, and how many there are.
        """
        from holdfast.keeper import audit

        return audit.verify(
            self.store, everything=everything, progress=progress or audit.no_progress
        )

    def repair(self) -> Report:
        """Rebuild every view, and recover what a damaged ledger still has. Delete nothing."""
        from holdfast.keeper.audit import repair

        return repair(self.session)

    def archive(self, before: str, *, dry_run: bool = False) -> Archived:
        """Move the events of workflows that ended before a date into an archive.

        ``before`` is a date such as ``2026-01-31``, or an age such as ``90d``. The workflows stay
        known: ``show``, ``log`` and ``resume`` work as before. Raise ``Refused``.
        """
        from holdfast.keeper import archiving

        moment = archiving.moment(before, self.store.now_ms())
        if dry_run:
            return archiving.Archived(archiving.list_due(self.store, moment))
        return archiving.archive(self.session, moment)

    def export(self, *, workflow: str | None = None) -> Iterator[str]:
        """Yield the ledger, or one workflow of it, as lines of JSON; raise ``Refused``."""
        from holdfast.keeper import transfer

        if workflow is not None and self.store.ledger.stream(workflow) is None:
            raise self.session.not_found(workflow)
        return transfer.export_lines(self.store, workflow)

    def import_file(self, path: str) -> Imported:
        """Import an export, ``-`` for standard input. Raise ``Refused`` if it is not valid."""
        from holdfast.keeper import transfer

        return transfer.import_file(self.session, path)

    def untrusted_commands(
        self, workflows: Sequence[str] | None = None
    ) -> tuple[list[CommandRequest], list[str]]:
        """Return the commands that the repository asks to run, and notes on unreadable files.

        ``workflows``: of the workflows, only look at those with these ids.
        """
        from holdfast.workspace import trust

        where, values = ACTIVE, tuple(workflows or ())
        if workflows is not None:
            where = f"streams.stream IN ({', '.join('?' * len(values))})"
        running = [stream.state for stream in self.store.ledger.states(where, *values)]
        return trust.list_requests(self.workspace, running)

    def approve(self, commands: Sequence[str]) -> None:
        """Store in the person's own folder that these commands may run here."""
        from holdfast.workspace import trust

        if commands:
            trust.approve(self.workspace, list(commands), self.store.now())

    def take_back_ledger(self) -> str:
        """Believe the ledger that was set aside because it was not made here; return its path."""
        from holdfast.keeper import foreign_ledger

        return foreign_ledger.take_back(self.store)

    def revoke_trust(self) -> int:
        """Remove every approval for this workspace; return how many there were."""
        from holdfast.workspace import trust

        return trust.revoke(self.workspace)

    def sync(
        self, *, everything: bool = False, foreground: bool = True, background: bool = False,
        telemetry: bool = False,
    ) -> tuple[list[Fields], list[str]]:  # fmt: skip
        """Bring every layer beside the records up to date; return a row for each, and notes.

        ``foreground``: the caller is a person or their agent, not an agent in the background.
        ``background``: deliver to the Memory server only, as a change has it done by itself.
        ``telemetry``: the same for spans.
        """
        from holdfast.keeper import graph_adoption
        from holdfast.keeper import telemetry as spans

        if telemetry:
            spans.deliver_in_background(self.store)
            return [], self.store.take_notes()

        is_up = not foreground or graph_adoption.adopt(self.session, at_once=not background)
        if background:
            from holdfast.layers.graph.background import deliver

            deliver(self.store)
            return [], self.store.take_notes()
        from holdfast.layers import sync

        rows = sync.sync(self.store, everything=everything, foreground=foreground, at_once=is_up)
        if foreground and spans.is_on():
            rows.append(spans.sync(self.store, everything=everything))
        return rows, self.store.take_notes()

    def clean(
        self, *, dry_run: bool = False, everything: bool = False
    ) -> tuple[list[Fields], list[str]]:
        """Remove the records of expired and long-ended workflows; return a row for each.

        ``everything``: end this worktree's active workflows, and remove every record of ended ones.
        """
        from holdfast.keeper import record_folders

        if everything:
            rows = [*self.active_here(), *record_folders.list_ended_here(self.store)]
            if dry_run or not rows:
                return rows, self.store.take_notes()
        elif dry_run:
            return record_folders.list_due(self.store), self.store.take_notes()
        with self.session.transaction() as tx:
            rows = record_folders.clean_all(tx) if everything else record_folders.clean(tx)
            return rows, self.store.take_notes()

    def overview(self) -> Overview:
        """Return everything active here, and which workflow a command would get."""
        from holdfast.keeper.overview import look_around

        return look_around(self.session)

    def known(self, *, most: int, format: str | None = None) -> list[Fields]:
        """Return a row for each workflow that can be named, active ones first."""
        from holdfast.keeper import overview

        return overview.list_known(self.store, most, format)

    def board(
        self, *, most: int, before: tuple[str, int] | None = None, most_ended: int = 0
    ) -> Fields:
        """Return a page of active workflows without their states, newest activity first.

        ``before`` is the ``next`` of the page before it.
        """
        from holdfast.keeper import board

        return board.page(self.session, most, before, most_ended)

    def watched(self, seen: Overview, *, workflow: str | None = None, limit: int = 20) -> Fields:
        """Return what ``watch`` shows beside an overview: ``layers`` and the newest ``events``."""
        from holdfast.keeper.degradation import describe_layers

        events = list(self.store.ledger.newest(workflow, limit))[::-1]
        return {"layers": describe_layers(self.session, seen), "events": events}

    def peek(self, *, workflow: str | None = None) -> Workflow | Refusal:
        """Return the workflow that a command would get, or a refusal."""
        return self.session.peek(workflow)

    def recipes(self) -> list[Fields]:
        """Return a row for each recipe; ``bad`` explains one that cannot be used."""
        from holdfast.workspace import recipes

        return recipes.list_rows(self.workspace.root)

    def recipe(self, name: str) -> tuple[Recipe, str]:
        """Return one recipe, and where it comes from; raise ``Refused`` if it is broken."""
        from holdfast.workspace import recipes

        return recipes.load_with_source(name, self.workspace.root)

    # Notes and logs beside workflows

    def drain_notes(self) -> list[str]:
        """Return the notes since the last answer, such as edits that were adopted or refused."""
        return self.store.take_notes()

    def has_initiatives(self) -> bool:
        """Return whether there is an initiative or a folder of one, without loading any."""
        from holdfast.keeper import logs

        return logs.has_initiatives(self.session) or logs.has_milestone_folders(self.session)

    def interviews(self) -> Interviews:
        """Return the log of interviews."""
        from holdfast.keeper.logs import Interviews

        return Interviews(self.session)

    def memory(self) -> Memory:
        """Return the project's ``MEMORY.md``."""
        from holdfast.layers.memory import Memory

        return Memory(self.store)

    def search_memory(self, query: str, *, limit: int | None = None) -> Fields:
        """Return the entities of the memory graph that have all words, the likeliest first.

        ``path`` names who keeps the graph. Raise ``Refused`` if nobody does.
        """
        from holdfast.keeper.degradation import search

        return search(self.store, query, limit)

    def remember(
        self, text: str, *, kind: str | None = None, section: str | None = None,
        id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Record a pattern, a preference or an insight for all later sessions."""
        args = {"text": text, "kind": kind, "section": section}
        return self.session.do_log("learning", "remember", args, id=id)

    def search(
        self, words: str, *, limit: int = 20, everywhere: bool = False,
        progress: Progress | None = None,
    ) -> Fields:  # fmt: skip
        """Return the events and remarks in loops' logs that have all words, as ``hits``.

        ``everywhere``: of all of this person's repositories, which ``repositories`` lists.
        ``progress`` is called while events are added to the index. Raise ``Refused``.
        """
        from holdfast.keeper.searching import search

        return search(self.store, words, limit=limit, everywhere=everywhere, progress=progress)

    def note_forge(self, key: str, text: str, *, id: str | None = None) -> Receipt:
        """Add a line to the forge context."""
        args = {"key": key, "text": text}
        return self.session.do_log("forge", "note_forge", args, id=id)

    def forge(self, *, key: str | None = None) -> list[Fields]:
        """Return the forge context, oldest first, of one key or of all."""
        entries: list[Fields] = self.session.log_state("forge")["entries"]
        return [entry for entry in entries if key in (None, entry["key"])]

    def learnings(self) -> list[Fields]:
        """Return the learnings, oldest first."""
        learnings: list[Fields] = self.session.log_state("learning")["learnings"]
        return learnings

    def delegations(self) -> Delegations:
        """Return the log of delegations."""
        from holdfast.keeper.logs import Delegations

        return Delegations(self.session)


def _system_clock_ms() -> int:
    return time.time_ns() // 1_000_000
