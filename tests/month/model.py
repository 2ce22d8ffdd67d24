"""What must be true of a month, known without Holdfast: plain Python over what was asked.

The model is told every command before it is sent, and what its sender heard. History is read event
by event: one that a sender's id names is applied as that command, in a few lines of its own; one
that nobody asked for must be of a kind that happens by itself, at a time when it may.
"""

import itertools
import json

from holdfast.core.time import duration_s, epoch_ms
from month.effects import APPLIED, Wrong, bound, must

CERTAINLY_NOT = ("not_written", "storage", "busy", "not_writable")
"""Codes of faults that say that nothing was recorded."""
BY_ITSELF = ("briefing_delivered", "context_compacted", "reading_confirmed", "record_cleaned")
CHECKED = ("status", "phase", "phases", "tasks", "reminders", "required_reading", "gates")
INITIATIVES = "_initiatives"


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


def facts_of(state):
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
        self.small = {}

    # History

    def take(self, events):
        """Take in the events after the last one that was seen; those of a request are together."""
        for request, own in itertools.groupby(events, lambda event: event["id"].partition(".")[0]):
            commit = list(own)
            for number, event in enumerate(commit, 1):
                wanted = request if number == 1 else f"{request}.{number}"
                must(event["id"] == wanted, f"event {event['seq']} is {event['id']}, not {wanted}")
                self._link(event)
            try:
                self._applied(commit)
            except Wrong as wrong:
                kinds = ", ".join(event["type"] for event in commit)
                last = commit[-1]
                raise Wrong(f"event {last['seq']} of {last['stream']} ({kinds}): {wrong}") from None

    def _link(self, event):
        seq, prev = self.head
        must(event["seq"] == seq + 1, f"event {event['seq']} follows event {seq}")
        must(event["prev"] == prev, f"event {event['seq']} does not continue the one before it")
        must(event["id"] not in self.seen, f"the id {event['id']} stands twice")
        self.seen.add(event["id"])
        self.head = (event["seq"], event["hash"])

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
            flow = self._flow(first, sent)
            if first["type"] == "workflow_resumed" and len(commit) > 1:
                # The first change of a session binds it.
                bound(self, flow, sent, commit)
                commit = commit[1:]
            APPLIED[sent.command](self, flow, sent, commit)
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
        found, wanted = facts_of(state), flow.as_told()
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
