"""The agents of the simulation: what they do with the work on their machines.

Each has a session on one machine. It takes work from the pool, gives it back, and carries out
commands of the real keeper, and is told what it is told: a receipt (the command is *acknowledged*),
a refusal, or nothing at all, because its machine died. Then it may ask again under the same id.
"""

from holdfast.core.workflow import find_task
from holdfast.errors import Fault, Refused
from holdfast.hub import Sharing
from holdfast.hub.pool import Pool
from holdfast.storage.leases import Leases
from support.disks import Died

LEASES = ("5m", "1h", "12h")
RECIPES = ("dev", "dev", "apex", "planning")


def _gate_run(mark):
    """Return the arguments of a gate that Holdfast ran, with output that does not travel."""
    fields = {"command": "make test", "exit_code": 0, "output_tail": f"{mark} passed"}
    return {"gate": mark, "passed": True, "evidence": "run", "fields": fields}


class Deed:
    """An acknowledged command, and where its effect is to be seen."""

    def __init__(self, own_id, kind, stream, mark, machine):
        self.id = own_id
        self.kind = kind
        self.stream = stream
        self.mark = mark
        """A text that only this command brings into the state."""
        self.machine = machine
        self.is_excused = False
        """True if it went with a disk that was replaced by an older copy."""


class Agent:
    """One agent: a session on a machine."""

    def __init__(self, world, machine, number):
        self.world = world
        self.lots = world.lots
        self.machine = machine
        self.name = f"agent-{number}"
        self.starts = 0
        self.unanswered = None
        """The command that it got no answer to: id and what to call."""

    @property
    def keeper(self):
        return self.machine.keeper_of(self.name)

    def act(self):
        """Do one thing; die of it now and then."""
        steps = self.lots.randrange(1, 30) if self.lots.random() < 0.12 else None
        self.machine.disk.die_after(steps)
        action = self._next_action()
        try:
            action()
        except Died:
            self.world.note("died", self.name, action.__name__)
            self.machine.reboot()
        except Refused as refused:
            self.world.note("refused", self.name, action.__name__, refused.code)
        except Fault as fault:
            if fault.code != "hub_unreachable":
                raise
            self.world.note("unreachable", self.name, action.__name__)
        else:
            self.world.note(action.__name__, self.name)
        self.machine.disk.die_after(None)

    def _next_action(self):
        if self.unanswered is not None and self.lots.random() < 0.7:
            return self.ask_again
        if self.lots.random() < 0.6 and self.lease is not None:
            return self.lots.choice([self.work, self.work, self.work, self.renew, self.give])
        weights = {
            self.start: 6, self.take: 12, self.work: 40, self.sync: 25, self.learn: 3,
            self.settle: 5, self.resume: 3,
        }  # fmt: skip
        return self.lots.choices([*weights], [*weights.values()])[0]

    # Commands

    def start(self):
        """Start a workflow; sometimes one that another machine starts at the same time."""
        world = self.world
        if world.subjects and self.lots.random() < 0.15:
            recipe, subject = self.lots.choice(world.subjects)
        else:
            recipe, subject = self.lots.choice(RECIPES), f"work-{len(world.subjects)}.md"
            world.subjects.append((recipe, subject))
        self.starts += 1
        title = f"{subject} of {self.name}, its start {self.starts}"
        self._do("start", None, title, lambda own_id: self.keeper.start(
            recipe, subject, title=title, tasks=["one", "two"], id=own_id,
        ))  # fmt: skip

    def work(self):
        """Carry out a command on the work that is held, or on any."""
        state = self._workflow()
        if state is None:
            return
        stream, mark = state["id"], f"{self.name}/{self.lots.randrange(10**9)}"
        open_tasks = [task for task in state["tasks"] if task["status"] != "completed"]
        kinds = ["reminder"] * 3 + ["task"] * 3 + ["context"] * 3 + ["advance", "end", "gate"]
        kind = self.lots.choice(kinds + ["done"] * 4 * bool(open_tasks))
        task = self.lots.choice(open_tasks) if kind == "done" else None
        target = {"workflow": stream}
        calls = {
            "reminder": lambda own_id: self.keeper.remind(mark, **target, id=own_id),
            "task": lambda own_id: self.keeper.add_task(mark, **target, id=own_id),
            "context": lambda own_id: self.keeper.set_context({mark: 1}, **target, id=own_id),
            "advance": lambda own_id: self.keeper.advance(
                force=True, reason=mark, **target, id=own_id
            ),
            "gate": lambda own_id: self.keeper.do(
                "record_gate", _gate_run(mark), **target, id=own_id
            ),
            "done": lambda own_id: self._complete(stream, task, own_id),
            "end": lambda own_id: self._end(stream, mark, own_id),
        }
        mark = task["description"] if task is not None else mark
        self._do(kind, stream, mark, calls[kind])

    def _complete(self, stream, task, own_id):
        """Complete a task, unless its number has become another one's: agents look before."""
        state = self.machine.keeper.store.ledger.stream(stream).state
        now = find_task(state, task["id"])
        if now is None or now["description"] != task["description"]:
            raise Refused("renumbered", f"{task['id']} is another task now", "holdfast status")
        return self.keeper.complete_task(task["id"], workflow=stream, id=own_id)

    def _end(self, stream, why, own_id):
        keeper = self.keeper
        if self.lots.random() < 0.5:
            return keeper.abandon(why, workflow=stream, id=own_id)
        return keeper.complete(force=True, reason=why, workflow=stream, id=own_id)

    def learn(self):
        mark = f"{self.name} learned {self.lots.randrange(10**9)}"
        self._do("learning", None, mark, lambda own_id: self.keeper.remember(mark, id=own_id))

    def resume(self):
        """Go on here with work that may have ended, or be on another machine."""
        rows = self.machine.keeper.store.ledger.rows("kind = 'workflow' ORDER BY stream")
        if rows:
            stream = self.lots.choice(rows)["id"]
            self._do(
                "resume",
                stream,
                None,
                lambda own_id: self.keeper.resume(workflow=stream, id=own_id),
            )

    def ask_again(self):
        """Send a command again that got no answer."""
        kind, stream, mark, call, own_id = self.unanswered
        self._send(kind, stream, mark, call, own_id)

    def _do(self, kind, stream, mark, call):
        self._send(kind, stream, mark, call, self.lots.randbytes(12).hex())

    def _send(self, kind, stream, mark, call, own_id):
        self.unanswered = kind, stream, mark, call, own_id
        try:
            receipt = call(own_id)
        except Refused:
            self.unanswered = None
            raise
        self.unanswered = None
        if receipt.seqs:
            stream = stream or receipt.state.get("id", "_learning")
            first = self.machine.keeper.store.ledger.event_of_seq(receipt.seqs[0])
            kind = "resume" if first["type"] == "workflow_resumed" else kind
            self.world.deeds.append(Deed(own_id, kind, stream, mark, self.machine))

    def _workflow(self):
        """Return the state of the workflow that is held, or of any active one."""
        held = self.lease
        if held is not None and self.lots.random() < 0.8:
            stored = self.machine.keeper.store.ledger.stream(held)
            return None if stored is None else stored.state  # An older copy may not have it.
        where = "kind = 'workflow' AND status IN ('in_progress', 'blocked') ORDER BY stream"
        rows = self.machine.keeper.store.ledger.rows(where)
        if not rows:
            return None
        return self.machine.keeper.store.ledger.stream(self.lots.choice(rows)["id"]).state

    # The pool

    @property
    def lease(self):
        """The workflow that it believes to hold; ``None`` without one."""
        held = Leases(self.machine.keeper.store.ledger).held_by(self.name)
        return held[0]["stream"] if held else None

    def take(self):
        """Take whatever is ready."""
        lease = self.lots.choice(LEASES)
        self._do(
            "take", None, None,
            lambda own_id: Pool(self.keeper).take(lease=lease, id=own_id).receipt,
        )  # fmt: skip

    def renew(self):
        """Renew the lease at the hub, as hooks and commands do in the background."""
        Pool(self.keeper).renew()

    def give(self):
        """Give the work back; the hub hears of it with the next renewal."""
        stream = self.lease
        self._do("give", stream, None, lambda own_id: Pool(self.keeper).give(stream, id=own_id))

    # The hub

    def sync(self):
        if not self.machine.is_online and self.lots.random() < 0.8:
            return
        done = self.machine.sync()
        self.world.note("synced", self.machine.name, done.pulled, done.pushed, done.conflicts)

    def settle(self):
        """Take or drop a conflict."""
        sharing = Sharing(self.keeper)
        conflicts = sharing.conflicts()
        if not conflicts:
            return
        conflict = self.lots.choice(conflicts)["id"]
        if self.lots.random() < 0.5:
            sharing.take(conflict)
        else:
            sharing.drop(conflict, f"{self.name} has seen it")
