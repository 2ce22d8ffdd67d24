"""One session's access to a workspace: identify the caller, select the workflow, and change it."""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.adopt.findings import REPLACED
from holdfast.core import json_text, selection
from holdfast.core.refusal import Refusal, shell_word
from holdfast.core.workflow import is_active, is_floating
from holdfast.core.workflow.lifecycle import completion_signal
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.formats import aggregate_of, is_workflow, stream_of
from holdfast.keeper.facts import Facts
from holdfast.keeper.requests import (
    find_repeat,
    fingerprint,
    refuse_other_command,
    refuse_other_request,
)
from holdfast.keeper.transaction import Transaction
from holdfast.storage import ACTIVE, HERE, MAX_CANDIDATES, NEWEST, POOL
from holdfast.storage.ledger import HELD, HUB, RENUMBERED
from holdfast.system import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from holdfast.core.types import Binding, Draft, Event, Fields, Workflow
    from holdfast.keeper.store import Store

_FOR_OTHERS = ("answer_question",)
"""Commands by which a caller helps whoever works on a workflow, and takes up nothing."""
_RECEIVERS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "HOLDFAST_OTEL_EXPORTER_OTLP_ENDPOINT", "HOLDFAST_OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)  # fmt: skip
"""The environment variables that name a receiver of spans."""
_MAX_PICKS = 2
"""Attempts to select: loading a workflow may end it, if another one's record is at its path."""


class Receipt:
    """The keeper's answer: the state, the events that were recorded, and notes."""

    __slots__ = (
        "agreement", "is_kept", "is_repeat", "notes", "output", "read_facts", "record", "resumed",
        "seqs", "signal", "state", "undone",
    )  # fmt: skip

    def __init__(
        self, state: Any, seqs: list[int], notes: list[str], *, resumed: bool = False
    ) -> None:
        self.state = state
        self.record = formats.record_path(state) if "recipe" in state else None
        """The current path of its record; ``None`` if it no longer has one."""
        self.seqs = seqs
        self.notes = notes
        self.resumed = resumed
        self.read_facts: Callable[[Workflow], Fields | None] | None = None
        """Return what the next step depends on outside the workflow."""
        self.is_kept = False
        """True if nothing is recorded yet: a Memory server keeps the command."""
        self.is_repeat = False
        """True if an earlier request with the same id is answered once more."""
        self.signal: str | None = None
        """The line that scripts search for to detect the end of a workflow or a feature."""
        self.output = ""
        """The end of what the tests printed, which is not kept."""
        self.agreement: str | None = None
        """Of ``initiative sync``: the sources ``agree``, were ``corrected`` or ``disagree``."""
        self.undone: Fields | None = None
        """Of ``undo``: ``what`` was undone, what is ``back``, the seqs that it ``undoes``."""

    @property
    def facts(self) -> Fields | None:
        """Read what the next step depends on outside the workflow.

        If it cannot be read, the next step does without: what was asked for is done.
        """
        try:
            return None if self.read_facts is None else self.read_facts(self.state)
        except (OSError, HoldfastError):
            return None


class Session:
    """One caller's access to a workspace: select its workflow, change it, and answer."""

    def __init__(
        self, store: Store, id: str | None, pid: int | None, *, is_person: bool = False
    ) -> None:
        self.store = store
        self.id = id
        self.pid = pid
        self.is_person = is_person
        """True if there is no session, and the caller is a person or their script."""
        self.workspace = store.workspace
        self.facts = Facts(store.workspace)
        self._is_replaying = False
        self._is_spreading = False
        self._notes: list[str] | None = None
        """The notes of the answer that is being made."""

    # Changing

    def transaction(self) -> Transaction:
        """Open a transaction: ``with session.transaction() as tx``."""
        return Transaction(self)

    def change(self, workflow: str | None = None, *, id: str | None = None) -> Change:
        """Open a transaction on one workflow, the session's own by default.

        Raise ``Refused`` if there is nothing to change: no ledger is made for that.
        """
        if not (self.store.ledger.exists() or self.workspace.has_records()):
            self.look(workflow)
        return Change(self, workflow, id)

    def do(
        self, kind: str, args: Fields, *, workflow: str | None = None, id: str | None = None,
        request_digest: str = "",
    ) -> Receipt:  # fmt: skip
        """Carry out one command on one workflow. Every change takes this path.

        ``request_digest`` is the fingerprint of the request, if it is not just this command.
        """
        if not (self.store.ledger.exists() or self.workspace.has_records()):
            self.look(workflow)  # It raises ``Refused``: no ledger is made for that.
        if id is not None and not request_digest:
            request_digest = fingerprint(kind, args)
        try:
            with Transaction(self) as tx:
                repeated = None
                if id is not None:
                    repeated = self.repeat(tx, id, workflow, request_digest, (kind, args))
                if repeated is not None:
                    return repeated
                stream = self.select(tx, workflow)
                return self.committed(tx, stream, self.do_in(tx, stream, kind, args, id))
        except Fault as fault:
            server = self.server_instead(fault)
            from holdfast.keeper import offline_queue

            return offline_queue.queue_command(
                self, server, kind, args, workflow, id, request_digest
            )

    def server_instead(self, fault: Fault) -> str:
        """Return the Memory server that keeps a command which cannot be recorded.

        Raise the fault if none is configured, or if it is another fault.
        """
        if fault.code != "not_writable" or self._is_replaying:
            raise fault
        from holdfast.keeper import offline_queue

        server = offline_queue.queue_server(self)
        if server is None:
            raise fault
        return server

    def do_in(
        self, tx: Transaction, stream: str, kind: str, args: Fields, id: str | None
    ) -> list[Event]:
        """Carry out the caller's command on a loaded workflow; return its events.

        The first change of a session that is not bound binds it.
        """
        self._check_number(stream, args)
        drafts = self._decide(tx, stream, kind, args)
        is_own_work = bool(drafts) and kind not in _FOR_OTHERS
        binds = is_own_work and self._is_first_change(tx, stream)
        if is_own_work:
            self.check_lease(tx, stream, binds=binds)
        if binds:
            binding = tx.decide(stream, "resume_workflow", {"session": self.bound(tx)})
            drafts = [*binding, *drafts]
        events = tx.append(stream, drafts, (kind, args), id=id)
        if drafts and (kind == "end_session" or not is_active(tx.load(stream))):
            self.end_lease(tx, stream)
        return events

    def _decide(self, tx: Transaction, stream: str, kind: str, args: Fields) -> list[Draft]:
        """Return what a command records; raise ``Refused``.

        Whoever has no part in the work any more is told so, and not what the work waits for.
        """
        try:
            return tx.decide(stream, kind, args)
        except Refused:
            if self.store.ledger.fact(POOL):
                from holdfast.keeper import leases

                leases.refuse_others(self, stream)
            raise

    def _check_number(self, stream: str, args: Fields) -> None:
        """Raise ``Refused`` (renumbered) if the caller may mean a task by its earlier number.

        Several machines have added tasks under one number. The next briefing has the new ones.
        """
        if "task" not in args or not self.store.ledger.fact(HUB):
            return
        text = self.store.ledger.fact(f"{RENUMBERED}{stream}")
        earlier = json_text.loads(text).get(str(args["task"])) if text else None
        if earlier is not None:
            raise Refused(
                "renumbered",
                f"task {args['task']} was {str(earlier)[:80]!r} until the work of other machines "
                "came in, and is another one now",
                f"holdfast resume {shell_word(stream)}",
            )

    def forget_numbers(self, tx: Transaction, stream: str) -> None:
        """Take the numbers of tasks as they are from now on: the session is briefed."""
        if self.store.ledger.fact(f"{RENUMBERED}{stream}"):
            tx.put_fact(f"{RENUMBERED}{stream}", "")

    def check_lease(self, tx: Transaction, stream: str, *, binds: bool = False) -> None:
        """Raise ``Refused`` (held) if the caller is an agent and another one's lease runs.

        Renew the caller's own lease if half of its time is over. ``binds``: the change gives the
        work to the caller's session.
        """
        if self.store.ledger.fact(POOL):
            from holdfast.keeper import leases

            leases.check(self, tx, stream, binds=binds)

    def end_lease(self, tx: Transaction, stream: str) -> None:
        """End the lease of a stream whose work has ended, or whose holder has."""
        if self.store.ledger.fact(POOL):
            from holdfast.keeper import leases

            leases.end(self.store, tx, stream)

    def _is_first_change(self, tx: Transaction, stream: str) -> bool:
        """Return whether this session has no workflow yet, and may have this one.

        It may not have one that a live session holds, or that belongs to another worktree or
        branch: acting on such a workflow by its name is no claim to it. What a hook records is no
        change by the agent.
        """
        if not self.id or self.store.by["surface"] == "hook":
            return False
        state: Workflow = tx.load(stream)
        holder = state["session"]
        if holder and holder["id"] == self.id:
            return False
        asker = self.asker()
        if not asker.is_at(state["worktree"], state["branch"], floating=is_floating(state)):
            return False
        if holder and holder["id"] in self.live([{**state}]):
            return False
        own = self.store.ledger.active_of_session(self.id, self.pid)
        return not any(asker.owns(other.row) for other in own)

    def committed(self, tx: Transaction, stream: str, events: list[Event]) -> Receipt:
        """Commit the caller's command; return its receipt."""
        tx.commit(is_asked=True)
        return self.answer(tx.load(stream), [event["seq"] for event in events])

    def answer(self, state: Any, seqs: list[int]) -> Receipt:
        """Return the receipt. Notes made before the lock is released are still added to it."""
        self._notes = self.store.take_notes()
        receipt = Receipt(state, seqs, self._notes)
        receipt.read_facts = self.facts.of_next_step if "recipe" in state else None
        return receipt

    def do_log(
        self, kind: str, command: str, args: Fields, *, id: str | None = None,
        request_digest: str = "",
    ) -> Receipt:  # fmt: skip
        """Carry out one command on a log; ``request_digest`` as in ``do``."""
        stream = stream_of(kind)
        request_digest = request_digest or fingerprint(command, args)
        try:
            with self.transaction() as tx:
                events = tx.repeat(id, log=stream, request_digest=request_digest)
                tx.load(stream)
                return self.committed(tx, stream, events or tx.do(stream, command, args, id))
        except Fault as fault:
            server = self.server_instead(fault)
            from holdfast.keeper import offline_queue

            return offline_queue.queue_log(self, server, kind, command, args, id, request_digest)

    def log_state(self, kind: str) -> Any:
        """Return the state of a log, an edit of its record included."""
        return self.store.state_of(stream_of(kind))

    def log_path(self, kind: str) -> str:
        address = aggregate_of(stream_of(kind)).record_address(None, self.workspace.name)
        return address[1] if address else ""

    def repeat(
        self, tx: Transaction, id: str | None, workflow: str | None = None,
        request_digest: str = "", command: tuple[str, Fields] | None = None,
    ) -> Receipt | None:  # fmt: skip
        """Return the answer to an earlier command with this id; ``None`` if there is none.

        Raise ``Refused`` if the id belongs to another command, or to another workflow than
        ``workflow``. ``command`` is the request, if it is one command of the core.
        """
        events = (
            [] if id is None else tx.repeat(id, workflow=workflow, request_digest=request_digest)
        )
        if not events:
            return None
        if command is not None and "asked" not in events[0]["by"]:
            stream, seq = events[0]["stream"], events[0]["seq"]
            before = self.store.state_at(stream, seq - 1)
            drafts = tx.decide_on(before, stream, *command)
            refuse_other_command(events, str(id), drafts, command[1])
        state = tx.load(events[0]["stream"])
        # Its writer may have been killed between the commit and the index.
        self.store.indexes.show(state, [])
        receipt = self.answer(state, [event["seq"] for event in events])
        receipt.is_repeat = True
        return receipt

    def peek_repeat(self, id: str | None, request_digest: str = "") -> Receipt | None:
        """Return the answer to an earlier request with this id; else ``None``, without the lock."""
        if id is None or not self.store.ledger.exists():
            return None
        events = find_repeat(self.store, id, request_digest=request_digest)
        peek = self.store.peek(events[0]["stream"]) if events else None
        if peek is None:
            return None
        with self.transaction() as tx:
            return self.repeat(tx, id)

    def spread(self) -> None:
        """Update the other layers after a change that they show, once the lock is released."""
        if self._is_spreading:
            return
        notes, self._notes = self._notes, None
        has_changes, self.store.has_changes = self.store.has_changes, False
        if has_changes and self.store.by["surface"] != "hook":
            self._start_delivery()
        if self.store.has_news:
            from holdfast.layers.memory import Memory

            self._is_spreading = True
            try:
                Memory(self.store).write()
            finally:
                self.store.has_news = self._is_spreading = False
                self.store.forecasts = []
        if notes is not None:
            notes += self.store.take_notes()

    def _start_delivery(self) -> None:
        """Have the user's own servers told what has changed, without waiting for them."""
        if os.environ.get("HOLDFAST_GRAPH") or self.workspace.has_settings():
            from holdfast.layers.graph import background

            background.start(self.store)
        if any(map(os.environ.get, _RECEIVERS)):
            from holdfast.layers import telemetry

            telemetry.start(self.store)

    def replay_queue(self) -> None:
        """Replay the commands that a Memory server queued while the workspace was read-only."""
        if self._is_replaying:
            return
        from holdfast.keeper import offline_queue

        self._is_replaying = True
        try:
            offline_queue.replay(self)
        finally:
            self._is_replaying = False

    # Selecting a workflow

    def select(self, tx: Transaction, workflow: str | None) -> str:
        """Select and load a workflow, and return its stream; raise ``Refused`` if there is none."""
        if workflow is not None:
            if not is_workflow(workflow):
                raise self.not_found(workflow)
            if tx.load(workflow) is None:
                self.adopt_unknown(tx)
                if tx.load(workflow) is None:
                    raise self.not_found(workflow)
            return workflow
        for _ in range(_MAX_PICKS):
            picked = self.picked()
            if isinstance(picked, Refusal) and self.adopt_unknown(tx):
                picked = self.picked()
            if isinstance(picked, Refusal):
                raise picked.error()
            stream = str(picked["id"])
            self._note_holder(picked)
            if tx.load(stream)["status"] not in ("completed", "abandoned"):
                break
        return stream

    def adopt_unknown(self, tx: Transaction) -> bool:
        """Adopt records that the ledger does not know; return whether there were any."""
        from holdfast.adopt import unknown_workflows

        return unknown_workflows.adopt_all(tx)

    def look(self, workflow: str | None = None) -> Workflow:
        """Return the state of the selected workflow; raise ``Refused``. Change nothing."""
        state = self.peek(workflow)
        if isinstance(state, Refusal):
            raise state.error()
        return state

    def peek(self, workflow: str | None = None) -> Workflow | Refusal:
        """Return the state of the selected workflow, or a refusal. Change nothing."""
        is_picked = workflow is None
        if workflow is None:
            picked = self.picked()
            if not isinstance(picked, Refusal):
                workflow = str(picked["id"])
                self._note_holder(picked)
        is_named = workflow is not None and is_workflow(workflow)
        peek = self.store.peek(str(workflow)) if is_named else None
        if is_picked and peek is not None and peek.finding and peek.finding.kind == REPLACED:
            workflow, peek = peek.finding.other["id"], None
        if peek is not None:
            state: Workflow = peek.state
            return state
        unknown = self._peek_unknown(workflow)
        if unknown is not None:
            return unknown
        if workflow is None:
            return picked  # type: ignore[return-value]
        refused = self.not_found(workflow)
        return Refusal(refused.code, refused.message, refused.hint, **refused.details)

    def _peek_unknown(self, workflow: str | None) -> Workflow | None:
        """Return the state of an unknown record, if it is the one that the caller names."""
        from holdfast.adopt import unknown_workflows

        started = [] if self.store.kept is None else self.store.kept.started(self)
        states = [*unknown_workflows.peek_all(self.store), *started]
        if workflow is not None:
            states = [state for state in states if state["id"] == workflow]
        if len(states) != 1:
            return None
        if states[0] in started:
            return states[0]
        self.store.foretell(unknown_workflows.announcement(states[0]))
        return states[0]

    def not_found(self, workflow: str) -> Refused:
        rows = self.store.ledger.rows(f"{ACTIVE} {NEWEST}")
        ids = [row["id"] for row in rows]
        return Refused(
            "not_found",
            f"there is no workflow {workflow[:80]!r}"
            + (f"; the active ones are {', '.join(ids[:10])}" if ids else ""),
            "holdfast status",
        )

    def picked(self) -> Fields | Refusal:
        """Return the row of the selected workflow, or a refusal."""
        ledger, here, asker = self.store.ledger, self.workspace, self.asker()
        own = [stream.row for stream in ledger.active_of_session(self.id, self.pid)]
        if self.id and ledger.fact(POOL):
            from holdfast.keeper import leases

            lost = leases.lost_by(self, own)
            if lost is not None:
                return lost
        rows = (
            [row for row in own if asker.owns(row)]
            or ledger.rows(f"{HERE} {NEWEST}", here.name, asker.branch)
            or ledger.rows(f"{ACTIVE} {NEWEST}")
        )
        picked = selection.choose(rows, asker, self.live(rows))
        if isinstance(picked, Refusal) and picked.details["candidates"] == []:
            done = self.completed()
            if done is not None:
                signal = completion_signal(done)
                picked.message += f"; this session completed {done['id']} ({signal})"
        return picked

    def completed(self) -> Workflow | None:
        """Return the workflow that this session completed last; ``None`` if there is none.

        Only the workflows that ended last are considered.
        """
        if not self.id:
            return None
        completed = self.store.ledger.completed_by(self.id, MAX_CANDIDATES)
        return None if completed is None else completed.state

    def note_sharing(self) -> None:
        """Note conflicts between machines, and what is held back until Holdfast is upgraded."""
        if not self.store.ledger.fact(HUB):
            return
        from holdfast.storage.shared_events import SharedEvents

        number = SharedEvents(self.store.ledger).count_conflicts()
        if number:
            what = "1 conflict" if number == 1 else f"{number} conflicts"
            self.store.note(f"{what} between several machines: holdfast conflicts")
        if self.store.ledger.fact(HELD):
            self.store.note("events of a newer Holdfast are held back: holdfast hub status")

    def last_machine(self, workflow: str) -> str | None:
        """Return the other machine that changed a workflow last; ``None`` if this one did."""
        if not self.store.ledger.fact(HUB):
            return None
        from holdfast.keeper.replica import id_of
        from holdfast.storage.shared_events import SharedEvents

        return SharedEvents(self.store.ledger).last_machine(workflow, id_of(self.store))

    def _note_holder(self, row: Fields) -> None:
        """Tell a person which live session works on the workflow that was selected for them."""
        if self.is_person and row["session"] and row["session"]["id"] in self.live([row]):
            self.store.note(f"the live session {row['session']['id'][:40]} works on {row['id']}")

    def chosen(self, rows: list[Fields]) -> Fields | Refusal:
        """Return the selected row of these, or a refusal."""
        return selection.choose(rows, self.asker(), self.live(rows))

    def asker(self) -> selection.Asker:
        here = self.workspace
        born = None if self.pid is None else kernel.birth(self.pid)
        return selection.Asker(
            self.id, self.pid, born, here.name, here.branch(), is_person=self.is_person
        )

    def live(self, rows: list[Fields]) -> set[str]:
        """Return the ids of the sessions in these rows that still run.

        Whoever took a workflow from the pool counts as live there for as long as the lease runs.
        """
        leases = self._leases() if rows else {}
        return selection.live_sessions(rows, leases, self.store.now_ms(), kernel.is_running)

    def _leases(self) -> dict[str, tuple[str, bool]]:
        """Return the holder of each stream that was taken from the pool; whether its lease runs."""
        if not self.store.ledger.fact(POOL):
            return {}
        from holdfast.keeper import leases

        return leases.holders(self.store)

    def binding(self, tx: Transaction, state: Workflow) -> Fields:
        """Return the arguments that bind a workflow to this session.

        ``rebind``: it was bound to this one before, but another workflow has been bound since.
        """
        if not self.id:
            return {}
        asker = self.asker()
        mine = self.store.ledger.active_of_session(self.id, self.pid)
        others = [
            stream for stream in mine if stream.row["id"] != state["id"] and asker.owns(stream.row)
        ]
        holder = state["session"]
        row: Fields = {**state, "session": holder}
        if holder and not asker.owns(row) and holder["id"] in self.live([row]):
            self.store.note(f"the live session {holder['id'][:40]} held it; it is yours now")
        return {"session": self.bound(tx), "rebind": bool(others)}

    def bound(self, tx: Transaction) -> Binding | None:
        """Return the session as a workflow's state has it: from now on, it works on that one."""
        if not self.id:
            return None
        if self.store.ledger.fact(POOL):
            from holdfast.keeper import leases

            leases.forget_loss(self, tx)
        bound: Binding = {"id": self.id, "at": self.store.now(), "seq": tx.next_seq}
        if self.pid is not None:
            bound["pid"] = self.pid
            born = kernel.birth(self.pid)
            if born is not None:
                bound["born"] = born
        return bound


class Change:
    """Several commands on one workflow: ``with keeper.transaction(workflow) as tx``.

    A change whose id was recorded before decides nothing, and commits to the answer it had then.
    """

    def __init__(self, session: Session, workflow: str | None, id: str | None) -> None:
        self._session = session
        self._workflow = workflow
        self._id = id
        self._tx = session.transaction()
        self._stream = ""
        self._events: list[Event] = []
        self._repeated: list[Event] = []
        """The events of an earlier change with the same id."""

    def __enter__(self) -> Self:
        self._tx.__enter__()
        try:
            self._repeated = self._tx.repeat(self._id, workflow=self._workflow)
            if self._repeated:
                self._stream = self._repeated[0]["stream"]
                self._tx.load(self._stream)
            else:
                self._stream = self._session.select(self._tx, self._workflow)
        except BaseException as error:
            self._tx.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._tx.__exit__(kind, error, trace)

    def load(self) -> Any:
        """Return the state after the commands so far."""
        return self._tx.load(self._stream)

    def decide(self, kind: str, /, **args: Any) -> None:
        """Carry out a command of the core; raise ``Refused``."""
        request = self._id
        if request is not None:
            # The fingerprint covers the commands before this one, too.
            before = self._tx.request_digest
            self._tx.request_digest = fingerprint(before + kind, args)
        if self._repeated:
            digest = self._tx.request_digest
            known = [event for event in self._repeated if event["by"].get("asked") == digest]
            refuse_other_request((known or self._repeated)[0], str(request), digest)
            return
        if request is not None and self._events:
            request = f"{request}.{len(self._events) + 1}"
        self._events += self._session.do_in(self._tx, self._stream, kind, args, request)

    def commit(self) -> Receipt:
        """Make the events durable, write the record, and return the receipt."""
        return self._session.committed(self._tx, self._stream, self._repeated or self._events)
