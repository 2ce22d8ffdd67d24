"""The pool: the work that nobody holds and nothing blocks, for any number of agents.

Whoever takes a workflow gets its lease, and nobody else gets it while that runs. Two agents on one
ledger cannot take the same, because each takes it in a transaction. With a hub, the hub gives the
lease, before the ledger is locked; one that does not fence says only what others have seen of it.
"""

from __future__ import annotations

from itertools import islice

from holdfast.core import selection
from holdfast.core.refusal import shell_word
from holdfast.core.time import duration_s, iso
from holdfast.core.workflow import is_active
from holdfast.core.workflow.needs import unmet
from holdfast.core.workflow.pool import find_circle, is_workable
from holdfast.core.workflow.questions import blocking_questions
from holdfast.errors import Fault, Refused
from holdfast.formats import is_workflow
from holdfast.hub.contract import Held
from holdfast.keeper import leases
from holdfast.keeper.order import after_of, check_order
from holdfast.keeper.requests import fingerprint
from holdfast.storage import ACTIVE, POOL
from holdfast.storage.leases import Leases
from holdfast.storage.ledger import HUB

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.core.types import Fields, Workflow
    from holdfast.hub.contract import Hub
    from holdfast.hub.exchange import Exchanged, Progress
    from holdfast.keeper import Keeper, Receipt
    from holdfast.keeper.transaction import Transaction

LEASE = "30m"
"""How long a lease runs, unless its taker says otherwise; a change past half of it renews it."""
_MIN_LEASE_S, _MAX_LEASE_S = 1, 30 * 86_400
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.2, 5.0
_PAUSE_GROWS = 1.5
_AT_ONCE = 16
"""The number of workflows to look for at once: others may take some of them first."""
_ROW = (
    "id", "recipe", "title", "subject", "phase", "tasks_done", "tasks_total", "branch", "worktree",
    "initiative", "milestone", "created_at", "updated_at",
)  # fmt: skip


class Ready:
    """What is in the pool."""

    def __init__(self) -> None:
        self.rows: list[Fields] = []
        """The workflows that can be taken, the oldest first."""
        self.waiting: list[Fields] = []
        """``id``, ``title``, ``why`` and ``next`` of those that nobody holds and something blocks;
        ``next`` is the command that ends this, or ``None``."""
        self.notes: list[str] = []


class Taken:
    """A workflow that was taken: the receipt, and its lease."""

    def __init__(self, receipt: Receipt, lease: Fields) -> None:
        self.receipt = receipt
        self.lease = lease
        """``holder``, ``until``, ``epoch``, and ``hub``: whether the hub gave it."""


class Pool:
    """The pool of a keeper's repository."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._session = keeper.session
        self._store = keeper.store
        self.open_hub: Callable[[], Hub | None] = self._open_hub
        """Returns a connection to the hub; ``None`` without one."""

    # Looking

    def ready(self, *, recipe: str | None = None, label: str | None = None) -> Ready:
        """Return what nobody holds, and what of it nothing blocks. Change nothing."""
        found = Ready()
        with self._store.ledger.database.reading():
            for row, state, blocked in self._look(recipe, label):
                if blocked is None:
                    found.rows.append(self._row(row, state))
                else:
                    why, following = blocked
                    found.waiting.append(
                        {"id": row["id"], "title": row["title"], "why": why, "next": following}
                    )
        found.notes = self._store.take_notes()
        return found

    def _look(
        self, recipe: str | None, label: str | None
    ) -> Iterator[tuple[Fields, Workflow, tuple[str, str | None] | None]]:
        """Yield row and state of each workflow that nobody holds, and why it cannot be taken."""
        for row in self._free_rows(recipe):
            peek = self._store.peek(row["id"])
            state: Workflow | None = None if peek is None else peek.state
            if state is not None and is_active(state) and _has_label(state, label):
                yield row, state, self._why_not(state)

    def _candidates(self, recipe: str | None, label: str | None, tried: list[str]) -> list[str]:
        """Return the ids of the next few workflows that can be taken, without those ``tried``."""
        with self._store.ledger.database.reading():
            ready = (
                row["id"]
                for row, _, blocked in self._look(recipe, label)
                if blocked is None and row["id"] not in tried
            )
            return list(islice(ready, _AT_ONCE))

    def _row(self, row: Fields, state: Workflow) -> Fields:
        shown = {name: row[name] for name in _ROW}
        machine = selection.machine_of(row["worktree"])
        return {**shown, "labels": list(state.get("labels", ())), "machine": machine}

    def _free_rows(self, recipe: str | None) -> list[Fields]:
        """Return the rows of the active workflows that nobody holds, the oldest first."""
        ledger, now_ms = self._store.ledger, self._store.now_ms()
        of_recipe, values = ("", ()) if recipe is None else (" AND recipe = ?", (recipe,))
        rows = ledger.rows(f"{ACTIVE}{of_recipe} ORDER BY created_at, stream", *values)
        known = Leases(ledger).all() if ledger.fact(POOL) else []
        by_stream = {lease["stream"]: lease for lease in known}
        live = self._session.live(rows)
        return [row for row in rows if not _is_held(row, by_stream.get(row["id"]), live, now_ms)]

    def _why_not(self, state: Workflow) -> tuple[str, str | None] | None:
        """Return why a free workflow cannot be taken, and the command that ends this, if any."""
        for name in state.get("after", ()):
            reason = self._why_after(state, name)
            if reason is not None:
                return reason
        if is_workable(state):
            return None
        own_id = shell_word(state["id"])
        if state["status"] == "blocked":
            return f"phase {state['phase']} is blocked", f"holdfast show {own_id}"
        if waiting := blocking_questions(state):
            number = waiting[0]["id"]
            why = f"question {number} waits for an answer"
            return why, f"holdfast answer {number} ANSWER -w {own_id}"
        if list(unmet(state)) == ["approval"]:
            phase = shell_word(state["phase"])
            why = f"phase {state['phase']} waits for a person's approval"
            return why, f"holdfast phase approve {phase} -w {own_id}"
        return "its open tasks are blocked, or wait for one that is", f"holdfast show {own_id}"

    def _why_after(self, state: Workflow, name: str) -> tuple[str, str | None] | None:
        """Return why a workflow still waits for another one; ``None`` if that is completed."""
        drop = f"holdfast pool change {shell_word(state['id'])} --no-after {shell_word(name)}"
        stored = self._store.ledger.stream(name) if is_workflow(name) else None
        if stored is None:
            return f"it comes after {name}, which is not known here", drop
        status = stored.state["status"]
        if status == "completed":
            return None
        if status in ("abandoned", "expired"):
            ways = f"holdfast resume {shell_word(name)}, or {drop}"
            how = "was abandoned" if status == "abandoned" else "has expired"
            return f"it comes after {name}, which {how}", ways
        circle = find_circle(state["id"], [name], lambda one: after_of(self._store, one))
        if circle:
            return f"it waits for itself: {' after '.join(circle[:10])}", drop
        return f"it comes after {name}, which is not completed", None

    # Taking

    def take(
        self,
        *,
        recipe: str | None = None,
        label: str | None = None,
        wait: float | None = 0,
        lease: str = LEASE,
        id: str | None = None,
    ) -> Taken:
        """Take the oldest workflow that is ready: get its lease, and bind it to this session.

        ``wait`` is how many seconds to wait for one, ``None`` for as long as it takes. Raise
        ``Refused`` (nothing_ready) if there is none.
        """
        store, ttl_s = self._store, _lease_s(lease)
        if not self._session.id:
            message = "pool take: a lease is for a session, and this caller has none"
            raise Refused("invalid", message, "holdfast pool take --session NAME")
        begun_ms, pause_s = store.now_ms(), _FIRST_PAUSE_S
        while True:
            taken = self._try(recipe, label, ttl_s, id)
            if taken is not None:
                return taken
            left_s = _MAX_PAUSE_S
            if wait is not None:
                left_s = wait - (store.now_ms() - begun_ms) / 1_000
            if left_s <= 0:
                raise self._nothing(recipe, label, wait or 0)
            store.pause(min(pause_s, left_s))
            pause_s = min(pause_s * _PAUSE_GROWS, _MAX_PAUSE_S)

    def _nothing(self, recipe: str | None, label: str | None, wait: float) -> Refused:
        found = self.ready(recipe=recipe, label=label)
        waiting = [f"{row['id']} ({row['why']})" for row in found.waiting]
        more = f"; {selection.join_names(waiting)}" if waiting else ""
        after = f" within {wait:g} s" if wait else ""
        chosen = "".join(
            f" {what} {word[:40]}" for what, word in (("of recipe", recipe), ("with label", label))
            if word
        )  # fmt: skip
        return Refused(
            "nothing_ready", f"pool take: nothing{chosen} is ready{after}{more}",
            "holdfast pool ready", waiting=[row["id"] for row in found.waiting],
        )  # fmt: skip

    def _try(
        self, recipe: str | None, label: str | None, ttl_s: int, id: str | None
    ) -> Taken | None:
        """Take the first workflow that can be taken; ``None`` if there is none."""
        asked = {"recipe": recipe, "label": label, "lease": ttl_s}
        request_digest = fingerprint("pool take", asked)
        repeated = self._session.peek_repeat(id, request_digest)
        if repeated is not None:
            return Taken(repeated, self._shown(self._own_lease(repeated.state["id"])))
        hub = self.open_hub()
        if hub is None:
            return self._take_first(recipe, label, ttl_s, id, request_digest)
        try:
            return self._take_from(hub, recipe, label, ttl_s, id, request_digest)
        finally:
            hub.close()

    def _own_lease(self, stream: str) -> Fields:
        """Return the lease that this session took earlier; raise ``Refused`` if it has ended."""
        leases.refuse_others(self._session, stream)
        lease = Leases(self._store.ledger).of(stream)
        if lease is None or lease["holder"] != self._session.id:
            message = f"pool take: this took {stream}, and it is not held any more"
            raise Refused("not_held", message, f"holdfast show {shell_word(stream)}")
        return lease

    def _take_first(
        self, recipe: str | None, label: str | None, ttl_s: int, id: str | None, digest: str
    ) -> Taken | None:
        tried: list[str] = []
        while streams := self._candidates(recipe, label, tried):
            for stream in streams:
                taken = self._take(stream, ttl_s, id, digest)
                if taken is not None:
                    return taken
            tried += streams
        return None

    def _take(
        self, stream: str, ttl_s: int, id: str | None, digest: str, *, epoch: int = 0
    ) -> Taken | None:
        """Take a workflow; ``None`` if it is not ready any more, or has no place here.

        ``epoch`` is the one of the hub's lease.
        """
        session = self._session
        with session.transaction() as tx:
            tx.request_digest = digest if id is not None else ""
            if not self._is_ready(tx, stream):
                return None
            lease = leases.take(session, tx, stream, ttl_s, epoch=epoch, is_hub=bool(epoch))
            try:
                receipt = self._keeper.take_up(tx, stream, id)
            except Refused as refused:
                if refused.code != "occupied":
                    raise
                self._store.note(f"{stream} is left out: {refused.message}")
                leases.end(self._store, tx, stream)
                return None
        return Taken(receipt, self._shown(lease))

    def _is_ready(self, tx: Transaction, stream: str) -> bool:
        state: Workflow | None = tx.load(stream)
        if state is None or self._why_not(state) is not None:
            return False
        lease = Leases(self._store.ledger).of(stream)
        row: Fields = {**state}
        return not _is_held(row, lease, self._session.live([row]), self._store.now_ms())

    @staticmethod
    def _shown(lease: Fields) -> Fields:
        until = iso(lease["until_ms"]) if lease["until_ms"] else None
        return {
            "holder": lease["holder"] or None, "until": until, "epoch": lease["epoch"],
            "hub": bool(lease["is_hub"]),
        }  # fmt: skip

    # Taking from a hub

    def _open_hub(self) -> Hub | None:
        from holdfast.hub import open_hub
        from holdfast.keeper.replica import settings_of

        settings = settings_of(self._store)
        return None if settings is None else open_hub(self._store, settings)

    def _take_from(
        self, hub: Hub, recipe: str | None, label: str | None, ttl_s: int, id: str | None,
        digest: str,
    ) -> Taken | None:  # fmt: skip
        """Take a workflow whose lease the hub gives. The ledger is not locked meanwhile.

        What others recorded under their lease has reached the hub before they gave it back, so it
        is here before this one is used.
        """
        try:
            self.exchange(hub)
            tried: list[str] = []
            while streams := self._candidates(recipe, label, tried):
                for stream in streams:
                    taken = self._claim_and_take(hub, stream, ttl_s, id, digest)
                    if taken is not None:
                        return taken
                tried += streams
        except Fault as fault:
            if hub.is_fencing or fault.code != "hub_unreachable":
                raise
            self._store.note(f"{_advisory(hub)}; {fault.message}")
            return self._take_first(recipe, label, ttl_s, id, digest)
        return None

    def _claim_and_take(
        self, hub: Hub, stream: str, ttl_s: int, id: str | None, digest: str
    ) -> Taken | None:
        """Take a workflow under the hub's lease; ``None`` if another has it, or it is not ready.

        What the last holder recorded is asked for after the claim, when nothing more can come.
        """
        epoch = self._claim(hub, stream, ttl_s)
        if not epoch:
            return None
        taken = None
        try:
            self._exchange(hub)
            taken = self._take(stream, ttl_s, id, digest, epoch=epoch)
        finally:
            if taken is None:
                hub.release(stream, epoch)
        if taken is not None and not hub.is_fencing:
            taken.receipt.notes.append(_advisory(hub))
        return taken

    def exchange(self, hub: Hub, progress: Progress | None = None) -> Exchanged:
        """Exchange with the hub, and settle who holds what; return what was exchanged.

        Leases that ended here while the hub could not be told are given back there, after the work
        that was done under them.
        """
        ended = Leases(self._store.ledger).given_back()
        done = self._exchange(hub, progress)
        ended += self._end_leases_of_ended_work()
        for lease in ended:
            self._release_at(hub, lease)
        self._note_others(hub)
        return done

    def _end_leases_of_ended_work(self) -> list[Fields]:
        """End the leases of work that another machine ended; return them."""
        ledger, table = self._store.ledger, Leases(self._store.ledger)
        ended = []
        for lease in table.all():
            stored = ledger.stream(lease["stream"]) if lease["is_hub"] else None
            if stored is not None and not is_active(stored.state):
                ended.append(lease)
        if ended:
            with self._session.transaction() as tx:
                tx.begin()
                for lease in ended:
                    if table.renew(lease, 0):  # Else it was taken again meanwhile.
                        table.end(lease["stream"])
                        leases.write_mark(self._store, lease["holder"])
        return ended

    def _exchange(self, hub: Hub, progress: Progress | None = None) -> Exchanged:
        from holdfast.hub import Sharing
        from holdfast.hub.exchange import exchange

        return Sharing(self._keeper).noted(lambda: exchange(self._session, hub, progress))

    def _claim(self, hub: Hub, stream: str, ttl_s: int) -> int:
        """Claim a stream at the hub; return the epoch, 0 if another one has it."""
        try:
            return hub.claim(stream, self._name(self._session.id or ""), ttl_s)
        except Held:
            return 0

    def _name(self, session: str) -> str:
        """Return the name of a session of this machine at the hub."""
        from holdfast.core.json_text import loads
        from holdfast.keeper.replica import id_of

        machine = loads(self._store.ledger.fact(HUB) or "{}").get("name", "")
        return f"{session}@{machine}/{id_of(self._store)}"

    def _note_others(self, hub: Hub) -> None:
        """Note which streams the hub has given to sessions of other machines."""
        own, table = self._name(""), Leases(self._store.ledger)
        others = {lease.stream: lease for lease in hub.leases() if not lease.holder.endswith(own)}
        with self._session.transaction() as tx:
            for lease in others.values():
                if is_workflow(lease.stream):
                    leases.note_elsewhere(
                        self._store, tx, lease.stream, lease.holder, lease.epoch, lease.left_s
                    )
            for known in table.all():
                if known["ttl_s"] == leases.ELSEWHERE and known["stream"] not in others:
                    leases.end(self._store, tx, known["stream"])

    def renew(self) -> list[Fields]:
        """Renew the leases of this session now; with a hub, at the hub. Return them.

        Commands and hooks do it by themselves.
        """
        leases.renew(self._session, only_due=False)
        table, own_id = Leases(self._store.ledger), self._session.id or ""
        hub = self.open_hub()
        if hub is not None:
            try:
                for lease in table.held_by(own_id):
                    if lease["is_hub"]:
                        self._renew_at(hub, lease)
                self.exchange(hub)
            finally:
                hub.close()
        return [self._listed(lease) for lease in table.held_by(own_id)]

    def _renew_at(self, hub: Hub, lease: Fields) -> None:
        """Renew a lease at the hub; end it here if another holder has had it there since."""
        try:
            hub.claim(lease["stream"], self._name(lease["holder"]), lease["ttl_s"], lease["epoch"])
        except Held:
            until_ms = None
        else:
            until_ms = self._store.now_ms() + int(lease["ttl_s"] * 1_000)
        with self._session.transaction() as tx:
            tx.begin()
            table, stream = Leases(self._store.ledger), lease["stream"]
            if until_ms is not None:
                table.renew(lease, until_ms)
                leases.write_mark(self._store, lease["holder"])
            elif table.renew(lease, 0):
                leases.note_loss(self._store, tx, stream, lease["holder"])
                leases.end(self._store, tx, stream)

    def _release_at(self, hub: Hub, lease: Fields) -> None:
        """Give a lease back at the hub."""
        hub.release(lease["stream"], lease["epoch"])
        with self._session.transaction() as tx:
            tx.begin()
            Leases(self._store.ledger).forget_hub(lease)

    # Giving back

    def give(self, workflow: str, *, id: str | None = None) -> Receipt:
        """Give a workflow back, so that it is ready again; raise ``Refused`` if it is another's."""
        request_digest = fingerprint("pool give", {"workflow": workflow})
        session, store = self._session, self._store
        with session.transaction() as tx:
            repeated = session.repeat(tx, id, request_digest=request_digest)
            if repeated is not None:
                return repeated
            stream = session.select(tx, workflow)
            state: Workflow = tx.load(stream)
            lease = Leases(store.ledger).of(stream)
            if lease is not None and lease["ttl_s"] == leases.ELSEWHERE:
                self._refuse_elsewhere(lease)
                lease = None
            bound = state["session"]["id"] if state["session"] else ""
            holder = (lease["holder"] if lease is not None else "") or bound
            if not holder:
                message = f"pool give: nobody holds {stream}"
                raise Refused("not_held", message, "holdfast pool ready")
            if holder != session.id and not session.is_person:
                if lease is not None and lease["holder"]:
                    raise leases.held(session, lease)
                message = f"pool give: the session {holder[:40]} works on {stream}"
                raise Refused("held", message, "holdfast pool ready", holder=holder)
            tx.request_digest = request_digest if id is not None else ""
            ending = {"session": bound, "reason": "pool give"}
            events = tx.do(stream, "end_session", ending, id)
            leases.end(store, tx, stream)
            return session.committed(tx, stream, events)

    def _refuse_elsewhere(self, lease: Fields) -> None:
        """Raise ``Refused`` (held) if a session of another machine holds this."""
        if leases.is_running(lease, self._store.now_ms()):
            until = iso(lease["until_ms"])
            raise Refused(
                "held",
                f"pool give: {lease['holder'][:80]} has taken {lease['stream']}: it is given back "
                f"on that machine, or is ready when the lease runs out, at {until}",
                "holdfast pool ready", holder=lease["holder"], until=until,
            )  # fmt: skip

    def reap(self) -> list[Fields]:
        """End the leases that ran out; return ``workflow``, ``holder`` and ``until`` of each."""
        store, reaped = self._store, []
        if not store.ledger.fact(POOL):
            return []
        with self._session.transaction() as tx:
            table, now_ms = Leases(store.ledger), store.now_ms()
            for lease in table.all():
                stream = lease["stream"]
                if leases.is_running(lease, now_ms) or not lease["until_ms"]:
                    continue
                state: Workflow | None = tx.load(stream) if is_workflow(stream) else None
                is_here = lease["ttl_s"] != leases.ELSEWHERE
                if is_here and state is not None and is_active(state):
                    reaped.append(self._listed(lease))
                    leases.note_loss(store, tx, stream, lease["holder"])
                    tx.do(stream, "end_session", {"session": lease["holder"], "reason": "reaped"})
                    table.renew(lease, 0)
                else:
                    leases.end(store, tx, stream)
            tx.commit(is_asked=True)
        return reaped

    def _listed(self, lease: Fields) -> Fields:
        return {"workflow": lease["stream"], **self._shown(lease)}

    # Labels and order

    def change(
        self,
        workflow: str,
        *,
        label: Sequence[str] = (),
        no_label: Sequence[str] = (),
        after: Sequence[str] = (),
        no_after: Sequence[str] = (),
        id: str | None = None,
    ) -> Receipt:
        """Add and remove labels, and workflows that have to be completed first.

        Raise ``Refused`` if one of those is unknown, or if a workflow would come after itself.
        """
        args: Fields = {
            "labels": list(label), "no_labels": list(no_label), "after": list(after),
            "no_after": list(no_after),
        }  # fmt: skip
        if not any(args.values()):
            message = "pool change: nothing to change was named"
            raise Refused("invalid", message, f"holdfast pool change {workflow} --label LABEL")
        session = self._session
        request_digest = fingerprint("change_pool", args)
        with session.transaction() as tx:
            repeated = session.repeat(tx, id, workflow, request_digest)
            if repeated is not None:
                return repeated
            stream = session.select(tx, workflow)
            state: Fields = tx.load(stream)
            for names, what in ((no_label, "labels"), (no_after, "after")):
                missing = [name for name in names if name not in state.get(what, ())]
                if missing:
                    has = ", ".join(state.get(what, ())) or "none"
                    message = f"pool change: {stream} has {has}, not {missing[0][:40]!r}"
                    raise Refused("not_found", message, f"holdfast show {stream}")
            check_order(session, "pool change", stream, after)
            tx.request_digest = request_digest if id is not None else ""
            return session.committed(tx, stream, session.do_in(tx, stream, "change_pool", args, id))


def _is_held(row: Fields, lease: Fields | None, live: set[str], now_ms: int) -> bool:
    """Return whether somebody holds a workflow, by a lease or as a live session.

    Whoever had a lease holds it no longer than that.
    """
    if leases.is_running(lease, now_ms):
        return True
    holder = row["session"]
    if not holder or (lease is not None and lease["holder"] == holder["id"]):
        return False
    return holder["id"] in live


def _has_label(state: Workflow, label: str | None) -> bool:
    return label is None or label in state.get("labels", ())


def _lease_s(text: str) -> int:
    seconds = duration_s(text)
    if seconds is None or not _MIN_LEASE_S <= seconds <= _MAX_LEASE_S:
        message = f"pool take: {text[:40]!r} is no time for a lease"
        raise Refused("invalid", message, "write it like 90s, 30m or 2h, up to 30d")
    return seconds


def _advisory(hub: Hub) -> str:
    return (
        f"the hub {hub.where} does not fence: agents on other machines can take the same, until "
        "they see that it is taken"
    )
