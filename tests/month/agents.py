"""What agents do in a month: commands of every surface.

A command is a line of words, as at a terminal. It is carried out by the command line's own
functions with a keeper of this world, by a long-lived keeper of a program, or as a call of a tool.
"""

import os

from holdfast import Keeper, Refused
from holdfast.cli.parser import COMMANDS, parse
from holdfast.errors import Fault, HoldfastError
from holdfast.mcp.workflows import WorkflowApp
from month.effects import must
from month.model import CERTAINLY_NOT, Sent
from month.world import AgentDisk
from support.story import PERSONS

RECIPES = (
    "dev", "tdd", "planning", "custom", "apex", "debug", "oneshot", "implementation", "qa-loop",
    "brainstorm",
)  # fmt: skip
GATES = {"dev": ("lint", "test", "security_review")}
READING = ("@docs/plan.md", "@docs/more.md", "@docs/third.md")
SUBJECTS = 3
FAULTS = (*CERTAINLY_NOT, "record_behind", "unknown_outcome", "lost_events", "system")


class Agent:
    """One agent: its worktree, its sessions one after another, and how it speaks to Holdfast."""

    def __init__(self, month, number):
        self.month, self.number = month, number
        self.name = f"a{number:02}"
        self.root = month.roots[number % len(month.roots)]
        self.surface = ("cli", "library", "mcp")[number % 3]
        self.sessions = [f"{self.name}-1"]
        self.doubtful = None
        """A command of which it heard nothing: it may ask again."""
        self._keeper = None

    @property
    def session(self):
        return self.sessions[-1]

    def new_session(self):
        self.sessions.append(f"{self.name}-{len(self.sessions) + 1}")
        self._keeper = None

    def keeper(self, runner, **options):
        """A keeper of this world; a program keeps its own from call to call."""
        world = self.month.world
        if self._keeper is not None and not options:
            self._keeper.store.disk.runner = runner
            return self._keeper
        settings = {"session": self.session, "by": self.surface, **options}
        disk = AgentDisk(world, runner)
        made = Keeper(self.root, clock_ms=world.now, sleep=world.pause, disk=disk, **settings)
        if self.surface == "library" and not options:
            self._keeper = made
        return made

    # Commands

    def says(self, sent):
        """The act of sending a command; what was heard of it is noted when its answer comes."""

        def act(runner):
            sent.heard = None
            heard, seqs = "ok", []
            try:
                seqs = self._answered(runner, sent)
            except Refused as refused:
                heard = f"refused {refused.code}"
            except HoldfastError as fault:
                # The ledger's own rules never have to stop what a command does twice.
                must("constraint" not in fault.message, fault.message)
                heard = fault.code
            except OSError as error:
                heard = f"system {error.errno}"
            finally:
                if runner.is_dead:
                    self._keeper = None
            if not runner.is_dead:
                sent.heard, sent.seqs = heard, seqs

        return act

    def _answered(self, runner, sent):
        call = as_tool(sent) if self.surface == "mcp" else None
        if call is not None:
            server = WorkflowApp(lambda _share: self.keeper(runner))
            result = server.call(*call, None)["structuredContent"]
            if not result["ok"]:
                code, message = result["error"]["code"], result["error"]["message"]
                must(code != "internal", message)
                raise (Fault if code in FAULTS else Refused)(code, message, "")
            return result["seqs"]
        return said(self.keeper(runner), [*sent.words, *_aim(sent), "--id", sent.name])


def _aim(sent):
    return ["-w", sent.workflow] if sent.workflow else []


def said(keeper, words):
    """One command line, by the surface's own way but with this keeper; its events' numbers."""
    args = parse(words)
    if args["command"] in PERSONS:
        # What a person at a terminal does, who is in no month.
        return _decided(keeper, args).seqs
    return COMMANDS[args["command"]].run(keeper, args).fields().get("seqs", [])


def _decided(keeper, args):
    if args["command"] == "phase approve":
        return keeper.approve_phase(args["name"], **args["target"])
    return keeper.evidence().waive_gate(args["gate"], args["reason"], **args["target"])


def as_tool(sent):
    """The same command as a call of an MCP tool, where one has it."""
    words, command = sent.words, sent.command
    given = {"id": sent.name}
    if sent.workflow:
        given["workflow"] = sent.workflow
    if command == "remind":
        return "note", {**given, "kind": "reminder", "text": words[1]}
    if command == "read":
        return "note", {**given, "kind": "reading", "text": words[1]}
    if command == "set":
        key, _, value = words[1].partition("=")
        return "note", {**given, "kind": "context", "fields": {key: value}}
    if command == "remember":
        return "note", {**given, "kind": "learning", "text": words[1]}
    if command == "task add":
        return "task", {**given, "action": "add", "text": words[2]}
    if command in ("task start", "task done"):
        return "task", {**given, "action": words[1], "task": words[2]}
    if command == "task block":
        return "task", {**given, "action": "block", "task": words[2], "reason": words[4]}
    if command == "advance":
        force = {"force": True, "reason": sent.option("--reason")}
        return "phase", {**given, "action": "advance", **(force if "--force" in words else {})}
    if command == "phase unblock":
        return "phase", {**given, "action": "unblock", "name": words[2]}
    if command == "gate record":
        passed = "--passed" in words
        return "gate", {**given, "action": "record", "gate": words[2], "passed": passed}
    if command == "resume":
        return "resume", {**given, "workflow": words[1]}
    if command == "complete":
        told = {"force": True, "reason": sent.option("--reason")}
        return "complete", {**given, **told, "outcome": sent.option("--outcome")}
    return None


class Wishes:
    """Draws what an agent wants next, from what the model says is there."""

    def __init__(self, month):
        self.month, self.model, self.lots = month, month.model, month.world.lots
        self._number = 0

    def next_name(self):
        self._number += 1
        return f"m{self._number}"

    def draw(self, agent):
        """A command, drawn by lot; one that makes sense as far as the model knows."""
        name = self.next_name()
        flows = [f for f in self.model.flows.values() if self.month.root_of(f) == agent.root]
        active = [flow for flow in flows if flow.is_active]
        chance = self.lots.random()
        if chance < 0.12 or not active:
            words, workflow = self._opening(agent, flows), None
        elif chance < 0.24:
            words, workflow = self._beside(name), None
        elif chance < 0.30:
            words, workflow = self._of_initiative(name), None
        else:
            flow = self.lots.choice(active)
            make = self._of_loop if flow.format == "loop" else self._of_flow
            words, workflow = make(flow, name), flow.id
            if self.lots.random() < 0.3 and flow.format == "loop":
                words = self._of_flow(flow, name)
        sent = Sent(name, words, None if words[0] == "resume" else workflow, agent)
        self.model.sent[name] = sent
        return sent

    def _opening(self, agent, flows):
        gone = [flow for flow in flows if not flow.is_active]
        elsewhere = [f for f in self.model.flows.values() if self.month.root_of(f) != agent.root]
        chance = self.lots.random()
        if gone and chance < 0.35:
            return ["resume", self.lots.choice(gone).id]
        if elsewhere and chance < 0.40:
            return ["resume", self.lots.choice(elsewhere).id]
        if flows and chance < 0.5:
            return ["resume", self.lots.choice(flows).id]
        subject = f"{os.path.basename(agent.root)} work {self.lots.randrange(SUBJECTS)}"
        if chance < 0.65:
            return ["loop", "new", subject.replace(" ", "-")]
        words = ["start", self.lots.choice(RECIPES), subject]
        for number in range(self.lots.randrange(4)):
            words += ["--task", f"task {number}"]
        words += ["--read", READING[0]] if self.lots.random() < 0.6 else []
        words += ["--remind", "mind the gap"] if self.lots.random() < 0.5 else []
        return [*words, "--replace"] if self.lots.random() < 0.3 else words

    def _beside(self, name):
        return self.lots.choice(
            [
                ["remember", f"learned {name}", "--kind", "insight"],
                ["remember", f"learned {name}"],
                ["forge", "add", "api", f"found {name}"],
                ["interview", "record", "--skill", "dev", "--confidence", "0.8"],
                ["interview", "skip", "dev", "--reason", f"no time {name}"],
                ["delegation", "record", "--agent", name, "--outcome", "done"],
                ["delegation", "escalate", "--from", "a", "--to", "b", "--reason", name],
                ["delegation", "override", "--suggested", "a", "--chosen", name],
                ["delegation", "routing", "--suggested", "a", "--chosen", "b", "--intent", name],
            ]
        )

    def _of_initiative(self, name):
        milestone = self.lots.choice(["M1", "M2", "M3"])
        listed = [w for one in ("M1: a", "M2: b", "M3: c") for w in ("--milestone", one)]
        return self.lots.choice(
            [
                ["initiative", "create", f"goal {self.lots.randrange(2)}", *listed],
                ["initiative", "start", milestone],
                ["initiative", "task", milestone, f"do {name}"],
                ["initiative", "task", milestone, f"done {name}", "--done"],
                ["initiative", "complete", milestone],
                ["initiative", "block", "--reason", name],
                ["initiative", "unblock"],
                ["initiative", "use", f"goal {self.lots.randrange(2)}"],
            ]
        )

    def _of_flow(self, flow, name):
        tasks = list(flow.tasks) or ["1"]
        task = self.lots.choice(tasks)
        listed = list(flow.phases)
        earlier = listed[: listed.index(flow.phase) + 1]
        wishes = [
            ["remind", f"reminder {name}"],
            ["set", f"k{self.lots.randrange(4)}={name}"],
            ["read", self.lots.choice(READING)],
            ["task", "add", f"task {name}"],
            ["task", "start", task],
            ["task", "start", task],
            ["task", "block", task, "--reason", name],
            ["violation", "add", f"V-{name}", "LOW", "not nice"],
            ["tests", "record", "--command", "make test", "--passing", name],
        ]
        if flow.format != "loop":
            wishes += [["task", "done", task]] * 3
            wishes += [["advance"]] * 2
            wishes += [
                ["phase", "start", self.lots.choice(earlier)],
                ["phase", "block", flow.phase, "--reason", name],
                ["phase", "unblock", flow.phase],
                ["phase", "unblock", flow.phase],
                ["phase", "approve", flow.phase],
                ["phase", "skip", flow.phase, "--reason", name],
                ["advance", "--force", "--reason", name],
            ]
            wishes += [["complete", "--force", "--reason", "enough", "--outcome", name]]
            wishes += [["abandon", "--reason", name]]
        for gate in GATES.get(flow.recipe, ()):
            wishes.append(["gate", "record", gate, self.lots.choice(["--passed", "--failed"])])
            wishes.append(["gate", "waive", gate, "--reason", name])
        chosen = self.lots.choice(wishes)
        is_moot = chosen[:2] == ["phase", "unblock"] and flow.status != "blocked"
        return ["remind", f"reminder {name}"] if is_moot else chosen

    def _of_loop(self, flow, name):
        units = [unit for unit, status in flow.tasks.items() if status != "completed"]
        if not units or self.lots.random() < 0.15:
            return ["loop", "plan", flow.id, "--unit", f"T{len(flow.tasks) + 1}: unit {name}"]
        if self.lots.random() < 0.05:
            return ["loop", "archive", flow.id]
        unit = self.lots.choice(units)
        status = flow.tasks[unit]
        if status == "confirming":
            return ["loop", "confirm", unit, "--clean"]
        if status == "verifying":
            return ["loop", "verify", unit, "--passed"]
        if self.lots.random() < 0.2:
            told = ["--when", "always", "--problem", f"trouble {name}", "--solution", "care"]
            return ["loop", "guardrail", "add", *told]
        did = ["--did", f"did {name}", "--remaining", "some"]
        signal = ["--signal", f"{unit}_DONE"] if self.lots.random() < 0.5 else []
        return ["loop", "iterate", unit, *did, *signal]
