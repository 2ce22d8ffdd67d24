"""One month: twenty agents in four worktrees, what befalls them, and what is checked on the way.

A step is a round: the clock moves, and one to four agents, hooks and hands run until each has
ended, died or been stopped. Then the model reads what history says anew, and everything it knows is
held against it. After the last day the faults end, and everybody must be able to go on.
"""

import contextlib
import hashlib
import os
import random
import shutil

from holdfast.workspace import location
from month.agents import Agent, Wishes
from month.checks import Checks
from month.effects import Wrong, must
from month.model import Model
from month.people import Hand, Hook, foreign_edit, record_edit, records_of
from month.place import approve, inhabited, lay_out
from month.world import Runner, World
from support.memory_model import Model as Graph
from support.workshop import DAY_MS, NOON, lines_of

AGENTS = 20
STEPS = 160
MONTH_MS = 30 * DAY_MS
BRANCHES = ("main", "feature", "fix")


class Failure(AssertionError):
    """What went wrong, and how to see it again."""


class Month(Checks):
    """The month of one seed."""

    def __init__(self, folder, seed, steps=STEPS):
        self.seed, self.steps, self.step = seed, steps, 0
        self.folder = os.path.join(os.path.realpath(folder), "world")
        self.lines = []
        """What happened, a line each; the same for the same seed."""
        chance = random.Random(f"place {seed}")
        self.graph_kept_by = chance.choice(["embedded", "mcp:memory"])
        self.roots = lay_out(self.folder)
        self.memory = os.path.join(self.folder, "MEMORY.md")
        self.foreign = b"# Ours\n\nRead CONTRIBUTING.md first.\n"
        with open(self.memory, "wb") as file:
            file.write(self.foreign)
        self.model = Model()
        self.graph, self.graph_is_down = Graph(), False

    # A run

    def run(self):
        """The whole month; raises ``Failure``, and always leaves the process as it was."""
        with inhabited(self):
            approve(self)
            self.world = World(self.folder, self.seed)
            self.wishes = Wishes(self)
            self.agents = [Agent(self, number) for number in range(AGENTS)]
            try:
                while self.step < self.steps:
                    self.step += 1
                    self._round()
                self._end()
            except (Exception, Wrong) as error:
                self._let_everybody_go()
                raise self._failure(error) from error
        self.world.counts["steps"] += self.steps
        self.world.counts["events"] += self.model.head[0]
        return self.world.counts

    def _failure(self, error):
        last = "\n".join(self.lines[-20:])
        return Failure(
            f"seed {self.seed}, step {self.step}: {type(error).__name__}: {error}\n"
            f"again: PYTHONPATH=src:tests python -m month.run {self.seed}\n"
            f"the last steps:\n{last}"
        )

    @property
    def digest(self):
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()

    def _say(self, *what):
        self.lines.append(" ".join([f"{self.step:4}", *map(str, what)]))

    # Steps

    def _round(self):
        lots, world = self.world.lots, self.world
        self._time_passes()
        self._befall()
        runners = self._thawed()
        count = lots.choice([1, 1, 1, 1, 1, 2, 2, 3, 4])
        stopped = [runner.agent for runner in world.stopped]
        agents = lots.sample([one for one in self.agents if one not in stopped], count)
        is_simple = count == 1 and not runners and lots.random() < 0.97
        self._in_hand = set()
        acts = [self._act(agent) for agent in agents]
        for agent, (what, act) in zip(agents, acts, strict=True):
            runner = Runner(act, is_simple=is_simple)
            runner.agent, runner.what = agent, what
            if not isinstance(act, Hand):
                self._doom(runner)
            runners.append(runner)
        if lots.random() < 0.02:
            world.cut_in = lots.randint(1, 60 * count)
        world.run(runners)
        self._look_after(runners)

    def _time_passes(self):
        lots, world = self.world.lots, self.world
        world.ms += int(lots.expovariate(1) * MONTH_MS / self.steps) + 60_000
        if lots.random() < 0.02:
            jump = lots.choice([-1, 1]) * lots.choice(
                [3_600_000, DAY_MS, 30 * DAY_MS, 365 * DAY_MS]
            )
            if world.ms + jump > NOON - 400 * DAY_MS:
                world.counts["clock jumps"] += 1
                world.ms += jump
                self._say("the clock jumps by", jump // 1000, "s")

    def _befall(self):
        """What happens to all of them: a full disk, a branch, a server that is away."""
        lots, world = self.world.lots, self.world
        world.full_for = max(0, world.full_for - 1)
        if lots.random() < 0.02:
            world.full_for = lots.randint(1, 3)
            self._say("the disk is full")
        if lots.random() < 0.05:
            root, branch = lots.choice(self.roots), lots.choice(BRANCHES)
            path = os.path.join(location.find(root).git, "HEAD")
            self._write(path, f"ref: refs/heads/{branch}\n".encode())
            world.counts["branch switches"] += 1
            self._say(os.path.basename(root), "is on", branch)
        if lots.random() < 0.05:
            self.graph_is_down = not self.graph_is_down
            world.counts["server outages"] += self.graph_is_down
        if lots.random() < 0.03:
            world.checkpoint()

    def _write(self, path, data):
        with open(path, "wb") as file:
            file.write(data)
        self.world.kept(path, data)

    def _doom(self, runner):
        """What befalls this one in this round."""
        lots = self.world.lots
        chance = lots.random()
        if chance < 0.10:
            runner.dies_at = lots.randint(1, 60)
        elif chance < 0.13:
            runner.fails_at = lots.randint(1, 60)
        elif chance < 0.16 and not runner.is_simple:
            runner.stops_at = lots.randint(1, 60)

    def _thawed(self):
        """Those who were stopped and go on now; some are killed instead."""
        lots = self.world.lots
        awake = [runner for runner in self.world.stopped if lots.random() < 0.5]
        for runner in awake:
            if lots.random() < 0.3:
                runner.is_dead = True
                self.world.counts["kills"] += 1
        return awake

    def _act(self, agent):
        """What an agent does in this round, in words, and as something that can be run."""
        lots = self.world.lots
        chance = lots.random()
        if agent.doubtful is not None:
            sent, agent.doubtful = agent.doubtful, None
            if lots.random() < 0.7:
                self.world.counts["retries"] += 1
                return self._sending(agent, sent)
        if chance < 0.10:
            return self._hook(agent)
        if chance < 0.17:
            return self._hand(agent)
        if chance < 0.22:
            return self._upkeep(agent)
        return self._sending(agent, self.wishes.draw(agent))

    def _sending(self, agent, sent):
        self.world.counts["commands"] += 1
        return sent, agent.says(sent)

    def _hook(self, agent):
        lots = self.world.lots
        self.world.counts["hook calls"] += 1
        kind = lots.choice(
            ["compact", "compact", "compact", "start", "end", "read", "stop", "turn"]
        )
        if kind == "compact":
            self.world.counts["compactions"] += 1
            return self._compaction(agent)
        more = {
            "start": ("SessionStart", {"source": "startup"}),
            "end": ("SessionEnd", {"reason": "other"}),
            "read": ("PostToolUse", {"tool_name": "Read", "tool_input": {
                "file_path": os.path.join(agent.root, "docs/plan.md")}}),
            "stop": ("Stop", {"stop_hook_active": False}),
            "turn": ("BeforeAgent", {}),
        }[kind]  # fmt: skip
        if kind == "start":
            agent.new_session()
        hook = Hook(agent, more[0], **more[1])
        return hook, hook

    def _compaction(self, agent):
        """The client says that it sums up, and then begins anew."""
        before = Hook(agent, "PreCompact", trigger="auto")
        after = Hook(agent, "SessionStart", source="compact")
        after.is_compaction = True

        def act(runner):
            before(runner)
            if not runner.is_dead:
                after(runner)

        return after, act

    def _hand(self, agent):
        """Somebody edits a record of this worktree, or the memory, with an editor."""
        lots = self.world.lots
        in_place = lots.random() < 0.5
        if lots.random() < 0.35 and self.memory not in self._in_hand:
            self._in_hand.add(self.memory)
            line = f"- a line of {agent.name} in step {self.step}".encode()
            hand = Hand(self, self.memory, foreign_edit(line), in_place=in_place)
            hand.foreign = line
            return hand, hand
        flows = [f for f in self.model.flows.values() if self.root_of(f) == agent.root]
        paths = [path for path in records_of(agent.root) if path not in self._in_hand]
        if not flows or not paths:
            return self._sending(agent, self.wishes.draw(agent))
        token = f"hand{self.step}{lots.choice('xy')}"
        self.model.tokens.add(token)
        change = record_edit(token, broken=lots.random() < 0.15)
        hand = Hand(self, lots.choice(paths), change, in_place=in_place)
        self._in_hand.add(hand.path)
        hand.token = token
        return hand, hand

    def _upkeep(self, agent):
        """What no workflow asks for: looks, syncs, cleaning."""
        name = self.world.lots.choice(["workflows", "sync", "clean", "show", "verify"])

        def act(runner):
            keeper = agent.keeper(runner)
            try:
                getattr(keeper, name)()
            except Exception as error:
                if not hasattr(error, "code") and not isinstance(error, OSError):
                    raise
            finally:
                if runner.is_dead:
                    agent._keeper = None

        return f"{agent.name} {name}", act

    # After a round

    def _look_after(self, runners):
        world = self.world
        must(not world.is_stuck, "agents wait for each other for ever")
        was_cut = world.is_cut
        if was_cut:
            self._kill_stopped()
            for agent in self.agents:
                agent._keeper = None
            world.cut_power()
            self._say("the power was cut")
        world.cut_in = None
        for runner in runners:
            self._note(runner)
        self._read_history(anew=was_cut)
        self.model.check_answers()
        self._check_hands(runners)
        if not world.stopped and not world.full_for:
            self._check_briefings(runners, was_cut=was_cut)
            if was_cut or self.step % 16 == 0:
                self._check_all()

    def _note(self, runner):
        """A line of what came of it; who died of a command may ask again."""
        what = runner.what
        end = "died" if runner.is_dead else "stopped" if runner in self.world.stopped else ""
        if hasattr(what, "words"):
            end = end or what.heard
            if runner.is_dead or what.heard == "unknown_outcome":
                what.agent.doubtful, what.is_doubtful = what, True
            if runner.is_dead:
                what.heard = None
            said = f"{what.agent.name}@{os.path.basename(what.agent.root)} {what.agent.surface}"
            words = " ".join([what.name, *what.words, what.workflow or ""])
            self._say(said, f"{words}: {end} {what.seqs}", f"({runner.calls} calls)")
        elif isinstance(what, Hook):
            self._say(
                what.agent.name, "hook", what.event["hook_event_name"], end, len(what.context)
            )
        elif isinstance(what, Hand):
            path = os.path.relpath(what.path, self.folder)
            self._say("by hand", path, "in place" if what.in_place else "", what.saved, end)
        else:
            self._say(what, end)

    def root_of(self, flow):
        """The worktree that the workflow is in."""
        return location.find(self.roots[0]).root_of(flow.worktree)

    # The end

    def _kill_stopped(self):
        while self.world.stopped:
            runner = self.world.stopped[0]
            runner.is_dead = True
            self.world.run([runner])

    def _let_everybody_go(self):
        """No thread outlives its month, whatever came of it."""
        self.world.is_cut = True
        with contextlib.suppress(Exception):
            self._kill_stopped()

    def _end(self):
        """The faults end. Everybody goes on, and all views say what the ledger says."""
        world = self.world
        world.full_for, self.graph_is_down = 0, False
        self._kill_stopped()
        self._read_history()
        for agent in self.agents:
            self._goes_on(agent)
        self._check_all()
        # Twice: a change in one worktree may take an edit in that those before it lack.
        for root in [*self.roots, *self.roots]:
            keeper = self._observer(root)
            for row in keeper.workflows(every=True)[0]:
                keeper.settle(workflow=row["id"])
            keeper.repair()
        world.ms += DAY_MS  # A server that failed was left alone for a while.
        rows, _ = self._observer().sync()
        must(all(row["status"] in ("delivered", "current") for row in rows), rows)
        self._read_history()
        for root in self.roots:
            complaints = lines_of(self._observer(root))
            must(not complaints, "verify says:", complaints)
        self._check_small()

    def _goes_on(self, agent):
        sent = self.wishes.draw(agent)
        sent.words, sent.workflow = ["forge", "add", "end", agent.name], None
        runner = Runner(agent.says(sent))
        runner.what = sent
        self.world.run([runner])
        self._note(runner)
        must(sent.heard == "ok", agent.name, "cannot go on:", sent.heard)
        self._read_history()
        self.model.check_answers()


def run(folder, seed, steps=STEPS):
    """The month of a seed in a fresh folder: its counts, and the digest of what happened."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    month = Month(folder, seed, steps)
    try:
        counts = month.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return counts, month.digest
