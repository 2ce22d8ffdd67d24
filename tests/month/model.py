"""What must be true of a month, known without Holdfast: plain Python over what was asked.

The model is told every command before it is sent, and what its sender heard. History is read event
by event: one that a sender's id names is applied as that command, in a few lines of its own; one
that nobody asked for must be of a kind that happens by itself, at a time when it may.
"""

import json

from holdfast import recipes
from holdfast.core.moment import duration_s, epoch_ms

ACTIVE = ("in_progress", "blocked")
CERTAINLY_NOT = ("not_written", "storage", "busy", "not_writable")
"""Codes of faults that say that nothing was recorded."""
BY_ITSELF = ("briefing_delivered", "context_compacted", "reading_confirmed", "record_cleaned")
CHECKED = ("status", "phase", "phases", "tasks", "reminders", "required_reading", "gates")
MOST_ITERATIONS = 5
INITIATIVES = "_initiatives"


class Wrong(AssertionError):
    """Something is not as it must be."""


def must(holds, *why):
    if not holds:
        raise Wrong(" ".join(map(str, why)))


class Sent:
    """A command that somebody sent, and what they heard of it."""

    def __init__(self, name, words, workflow, agent):
        self.name, self.words, self.workflow, self.agent = name, words, workflow, agent
        self.heard = None
        """Nothing (its sender died), ``ok``, or the code of an error."""
        self.seqs = []
        self.is_doubtful = False
        """Whether an answer to it was ever lost: then what a later try heard is about that try."""

    @property
    def command(self):
        two = " ".join(self.words[:2])
        return two if self.words[0] in GROUPS else self.words[0]

    @property
    def is_of_initiative(self):
        """Such a command compares sources after it recorded: what fails then comes too late."""
        return self.words[0] == "initiative"

    def option(self, name):
        found = [self.words[at + 1] for at, word in enumerate(self.words) if word == name]
        return found if name in ("--task", "--read", "--remind") else (found or [None])[0]


GROUPS = (
    "phase", "task", "gate", "violation", "loop", "initiative", "forge", "interview", "delegation",
    "tests", "files",
)  # fmt: skip


class Flow:
    """A workflow as the model has it."""

    def __init__(self, name, recipe):
        told = recipes.load(recipe)
        self.id, self.recipe, self.format = name, recipe, told["format"]
        listed = [phase["name"] for phase in told["phases"]]
        following = dict(zip(listed, [*listed[1:], None], strict=True))
        self.may_follow = {
            phase["name"]: phase.get("next") or [following[phase["name"]]]
            for phase in told["phases"]
        }
        self.following = {name: names[0] for name, names in self.may_follow.items()}
        self.cycles_at = told.get("cycles_at")
        self.needs_approval = {p["name"] for p in told["phases"] if p.get("approval")}
        self.approved = set()
        self.phases = dict.fromkeys(listed, "pending")
        self.phase = listed[0]
        self.phases[self.phase] = "in_progress"
        self.status, self.ttl = "in_progress", told.get("ttl")
        self.tasks, self.reminders, self.reading, self.context = {}, [], [], {}
        self.gates = {name: gate["status"] for name, gate in told.get("gates", {}).items()}
        self.guardrails, self.iterations = 0, {}
        self.session, self.bound_at, self.worktree = None, 0, ""
        self.at_ms = 0

    @property
    def is_active(self):
        return self.status in ACTIVE

    @property
    def current_task(self):
        moving = [task for task, status in self.tasks.items() if status == "in_progress"]
        return moving[0] if len(moving) == 1 else None

    def enter(self, name):
        self.phase = name
        self.phases[name] = "in_progress"

    def as_told(self):
        return {
            "status": self.status,
            "phase": self.phase,
            "phases": self.phases,
            "tasks": self.tasks,
            "reminders": self.reminders,
            "required_reading": self.reading,
            "gates": self.gates,
        }


def told(state):
    """The same of a state that Holdfast gives."""
    return {
        **{name: state[name] for name in ("status", "phase", "reminders", "required_reading")},
        "phases": {phase["name"]: phase["status"] for phase in state["phases"]},
        "tasks": {str(task["id"]): task["status"] for task in state["tasks"]},
        "gates": {name: _gate_told(gate) for name, gate in state["gates"].items()},
    }


def _gate_told(gate):
    if gate["status"] != "completed":
        return gate["status"]
    return "passed" if gate["passed"] else "failed"


class Model:
    """All workflows, and every command that was sent."""

    def __init__(self):
        self.sent = {}
        self.tokens, self.saved_tokens = set(), set()
        """What hands wrote into records; none of it may ever be gone."""
        self.learned, self.noted = [], []
        self.begin_again()

    def begin_again(self):
        """Forgets what history said; it will be read again."""
        self.flows, self.seen, self.head = {}, set(), (0, "")
        self.small, self._commit = {}, []

    # History

    def take(self, event):
        seq, prev = self.head
        must(event["seq"] == seq + 1, f"event {event['seq']} follows event {seq}")
        must(event["prev"] == prev, f"event {event['seq']} does not continue the one before it")
        must(event["id"] not in self.seen, f"the id {event['id']} stands twice")
        self.seen.add(event["id"])
        self.head = (event["seq"], event["hash"])
        self._commit.append(event)
        number, parts = event.get("part", [1, 1])
        must(number == len(self._commit), f"event {event['seq']} is part {number} of {parts}")
        if number == parts:
            commit, self._commit = self._commit, []
            try:
                self._applied(commit)
            except Wrong as wrong:
                kinds = ", ".join(one["type"] for one in commit)
                raise Wrong(f"event {event['seq']} of {event['stream']} ({kinds}): {wrong}") from None

    def _applied(self, commit):
        """One commit, whole: as its command if somebody sent it, else as what happens by itself."""
        first = commit[0]
        sent = self.sent.get(first["id"])
        if sent is None:
            for event in commit:
                self._unasked(event)
        elif first["stream"].startswith("_"):
            self.small.setdefault(first["stream"], []).append(sent)
        else:
            APPLIED[sent.command](self, self._flow(first, sent), sent, commit)
        flow = self.flows.get(first["stream"])
        if flow is not None:
            flow.at_ms = epoch_ms(first["at"])

    def _flow(self, event, sent):
        if sent.command in ("start", "loop new"):
            return self.flows.get(event["stream"])
        flow = self.flows.get(event["stream"])
        must(flow is not None, "nobody started", event["stream"])
        must(sent.workflow in (None, flow.id), sent.words, "was for", sent.workflow)
        must(flow.is_active or sent.command == "resume", f"{flow.id} is {flow.status}")
        return flow

    def _unasked(self, event):
        kind, data = event["type"], event["data"]
        if event["stream"] == INITIATIVES:
            return
        flow = self.flows.get(event["stream"])
        must(flow is not None, "nobody asked for it")
        if kind == "workflow_expired":
            lay_s = (epoch_ms(event["at"]) - flow.at_ms) / 1000
            must(flow.ttl is not None and lay_s > duration_s(flow.ttl), f"it lay still for {lay_s}")
            flow.status = "expired"
        elif kind == "record_edited":
            for _, _, after in data["changes"]:
                said = json.dumps(after)
                must(any(token in said for token in self.tokens), "nobody wrote", said)
        elif kind == "workflow_abandoned":
            must(data.get("reason", "").startswith("replaced by "), "nobody asked for it")
            flow.status = "abandoned"
        elif kind == "session_ended":
            flow.session = None
        else:
            must(kind in BY_ITSELF, "nobody asked for it:", json.dumps(data)[:300])

    # What senders heard

    def check_answers(self):
        for sent in self.sent.values():
            is_there = sent.name in self.seen
            if sent.heard == "ok" and sent.seqs:
                must(is_there or sent.is_of_initiative, sent.words, "was acknowledged, and is gone")
            elif sent.heard == "record_behind":
                must(is_there, sent.words, "is said to be recorded, and is not")
            elif sent.heard in CERTAINLY_NOT and not (sent.is_of_initiative or sent.is_doubtful):
                must(not is_there, sent.words, f"is recorded, and its sender heard {sent.heard}")

    def check_state(self, state):
        flow = self.flows[state["id"]]
        found, wanted = told(state), flow.as_told()
        for name in CHECKED:
            if name in ("phase", "phases") and flow.format == "loop":
                continue  # A loop moves its phase by itself, with its units.
            must(found[name] == wanted[name], f"{flow.id}: {name} is {found[name]}, {wanted[name]}")
        for key, value in flow.context.items():
            must(state["context"].get(key) == value, f"{flow.id}: {key} of the context is lost")
        must(len(state.get("guardrails", [])) == flow.guardrails, f"{flow.id}: guardrails")

    def bound_to(self, session):
        """The workflow that a session would be told of; the one that it bound last."""
        held = [one for one in self.flows.values() if one.is_active and one.session == session]
        return max(held, key=lambda flow: flow.bound_at, default=None)


# What each command does, if it was recorded


def _started(model, flow, sent, commit):
    event = commit[0]
    if event["type"] == "workflow_resumed":
        must(flow is not None and flow.is_active, "it was not active")
        _bound(model, flow, sent, commit)
        return
    must(flow is None or not flow.is_active, "it was active already")
    is_loop = sent.command == "loop new"
    flow = Flow(event["stream"], "loop-development" if is_loop else sent.words[1])
    model.flows[flow.id] = flow
    mark = "T" if flow.format == "loop" else ""
    for number, _ in enumerate(sent.option("--task"), 1):
        flow.tasks[f"{mark}{number}"] = "pending"
    flow.reading += sent.option("--read")
    flow.reminders += sent.option("--remind")
    flow.worktree = event["data"]["worktree"]
    _bound(model, flow, sent, commit)


def _bound(_model, flow, sent, commit):
    session = commit[0]["data"].get("session")
    if session:
        must(session["id"] in sent.agent.sessions, "another session")
        flow.session, flow.bound_at = session["id"], commit[0]["seq"]


def _resumed(model, flow, sent, commit):
    _bound(model, flow, sent, commit)
    flow.worktree = commit[0]["data"].get("worktree", flow.worktree)
    if not flow.is_active:
        is_blocked = flow.phases.get(flow.phase) == "blocked"
        flow.status = "blocked" if is_blocked else "in_progress"


def _advanced(_model, flow, _sent, _commit):
    must(flow.phases[flow.phase] == "in_progress", f"{flow.phase} is {flow.phases[flow.phase]}")
    waits = flow.phase in flow.needs_approval and flow.phase not in flow.approved
    must(not waits, f"{flow.phase} was not approved")
    flow.phases[flow.phase] = "completed"
    if flow.following[flow.phase] is not None:
        flow.enter(flow.following[flow.phase])


def _went_back(_model, flow, sent, _commit):
    name = sent.words[2]
    if name in flow.may_follow[flow.phase]:
        flow.phases[flow.phase] = "completed"
        flow.enter(name)
        return
    listed = list(flow.phases)
    again = listed if flow.cycles_at == name and flow.phases[name] == "completed" else None
    for phase in again or listed[listed.index(name) :]:
        flow.phases[phase] = "pending"
        flow.approved.discard(phase)
    flow.enter(name)


def _phase_is(status, now):
    def applied(_model, flow, sent, _commit):
        must(flow.phases[sent.words[2]] == status, f"{sent.words[2]} was not {status}")
        flow.phases[sent.words[2]] = flow.status = now

    return applied


def _approved(_model, flow, sent, _commit):
    flow.approved.add(sent.words[2])


def _task_added(_model, flow, _sent, commit):
    name = next(str(event["data"]["task"]) for event in commit if "task" in event["data"])
    must(name not in flow.tasks, f"there was a task {name}")
    flow.tasks[name] = "pending"


def _unit_planned(_model, flow, _sent, commit):
    name = next(str(event["data"]["task"]) for event in commit if "task" in event["data"])
    flow.tasks.setdefault(name, "pending")


def _task_is(now, *before):
    def applied(_model, flow, sent, _commit):
        name = sent.words[2]
        must(flow.tasks.get(name) in before, f"task {name} was {flow.tasks.get(name)}")
        flow.tasks[name] = now

    return applied


def _unit_iterated(_model, flow, sent, commit):
    name = sent.words[2]
    must(flow.tasks.get(name) in ("pending", "in_progress"), f"unit {name}: {flow.tasks}")
    flow.iterations[name] = flow.iterations.get(name, 0) + 1
    flow.tasks[name] = "confirming" if sent.option("--signal") else "in_progress"
    if flow.iterations[name] > MOST_ITERATIONS:
        flow.tasks[name] = "timeout"
    kinds = [event["type"] for event in commit]
    must(("task_timed_out" in kinds) == (flow.tasks[name] == "timeout"), f"unit {name}: {kinds}")


def _ended(status):
    def applied(_model, flow, _sent, _commit):
        if status == "completed" and not flow_has_pending(flow):
            flow.phases[flow.phase] = "completed"
        flow.status = status

    return applied


def flow_has_pending(flow):
    """Whether phases stand between the workflow and its end."""
    left = flow.following[flow.phase] is not None
    waits = flow.phase in flow.needs_approval and flow.phase not in flow.approved
    return left or waits or flow.phases[flow.phase] != "in_progress"


def _archived(_model, flow, _sent, _commit):
    flow.status = "completed" if set(flow.tasks.values()) == {"completed"} else "abandoned"


def _listed(name, of):
    def applied(_model, flow, sent, _commit):
        getattr(flow, name).append(of(sent))

    return applied


def _context(_model, flow, sent, _commit):
    key, _, value = sent.words[1].partition("=")
    flow.context[key] = value


def _gate(_model, flow, sent, _commit):
    flow.gates[sent.words[2]] = "passed" if "--passed" in sent.words else "failed"


def _guardrail(_model, flow, _sent, _commit):
    flow.guardrails += 1


def _nothing_we_keep(_model, _flow, _sent, _commit):
    """It is enough that it is in history once."""


APPLIED = {
    "start": _started,
    "loop new": _started,
    "resume": _resumed,
    "advance": _advanced,
    "phase start": _went_back,
    "phase block": _phase_is("in_progress", "blocked"),
    "phase unblock": _phase_is("blocked", "in_progress"),
    "phase approve": _approved,
    "step": _nothing_we_keep,
    "task add": _task_added,
    "task start": _task_is("in_progress", "pending", "blocked", "confirming", "verifying", "timeout"),
    "task phase": _task_is("in_progress", "pending", "blocked", "in_progress"),
    "task done": _task_is("completed", "pending", "in_progress"),
    "task block": _task_is(
        "blocked", "pending", "in_progress", "blocked", "confirming", "verifying", "timeout"
    ),
    "remind": _listed("reminders", lambda sent: sent.words[1]),
    "read": _listed("reading", lambda sent: sent.words[1]),
    "set": _context,
    "gate record": _gate,
    "violation add": _nothing_we_keep,
    "violation clear": _nothing_we_keep,
    "tests record": _nothing_we_keep,
    "complete": _ended("completed"),
    "abandon": _ended("abandoned"),
    "loop plan": _unit_planned,
    "loop iterate": _unit_iterated,
    "loop confirm": _task_is("verifying", "confirming"),
    "loop verify": _task_is("completed", "verifying"),
    "loop guardrail": _guardrail,
    "loop archive": _archived,
}
