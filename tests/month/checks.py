"""What is held against each other in a month: history, records, memory, hands and briefings."""

import glob
import os

from holdfast import Keeper
from month.effects import must
from month.people import Hand, check_briefing
from month.world import AgentDisk, Runner


class Checks:
    """The part of a month that looks; ``Month`` gives it the world and the model."""

    def _observer(self, root=None):
        """Somebody to whom nothing happens."""
        disk = AgentDisk(self.world, Runner(None))
        clock, sleep = self.world.now, lambda _: None
        return Keeper(root or self.roots[0], clock_ms=clock, disk=disk, sleep=sleep)

    def _read_history(self, *, anew=False):
        if anew:
            self.model.begin_again()
        before = self.model.head
        self.model.take(self._observer().store.ledger.events(after=self.model.head[0]))
        if self.model.head != before:
            self._say("  head", *self.model.head)

    def _check_hands(self, runners):
        for runner in runners:
            hand = runner.what
            if isinstance(hand, Hand) and hand.saved:
                self.world.counts["hand edits"] += 1
                if hasattr(hand, "foreign"):
                    self.foreign = hand.foreign + b"\n" + self.foreign
                else:
                    self.model.saved_tokens.add(hand.token)
                    self.model.saved_tokens.difference_update(hand.taken_out)
        if not any(r in self.world.stopped for r in runners):
            self._check_memory()

    def _is_kept_beside(self):
        """Whether the person finds their save beside the file: a killed writer had moved it aside.

        Nobody knows any more what it was a change of.
        """
        for path in glob.glob(glob.escape(self.memory) + ".found-*"):
            with open(path, "rb") as file:
                if file.read().startswith(self.foreign):
                    os.unlink(path)
                    return True
        return False

    def _check_memory(self):
        """Outside of our marks stand the bytes that others wrote; an empty line sets them apart."""
        with open(self.memory, "rb") as file:
            raw = file.read()
        outside, _, rest = raw.partition(b"<!-- holdfast:begin")
        below = rest.partition(b"holdfast:end")[2].partition(b"-->\n")[2]
        is_whole = outside in (self.foreign, self.foreign + b"\n") and not below
        if not is_whole and self._is_kept_beside():
            self.foreign, is_whole = outside, not below
        must(is_whole, "MEMORY.md lost bytes that are not ours:", raw.decode())

    def _check_briefings(self, runners, *, was_cut):
        for runner in runners:
            hook = runner.what
            if len(runners) > 1 or was_cut or not getattr(hook, "is_compaction", False):
                continue
            flow = self.model.bound_to(hook.agent.session)
            if flow is not None and not runner.is_dead and runner.fails_at is None:
                check_briefing(hook, flow)
                self.world.counts["briefings"] += 1

    def _check_all(self):
        """Every workflow as the model has it, and everything that hands wrote is somewhere."""
        keeper = self._observer()
        for flow in list(self.model.flows.values()):
            state = keeper.settle(workflow=flow.id).state
            self._read_history()
            self.model.check_state(state)
        self._check_tokens()
        self.world.counts["checks"] += 1

    def _check_tokens(self):
        # A page of the database may end in the middle of a token.
        lines = [line.encode() for line in self._observer().export()]
        missing = {token.encode() for token in self.model.saved_tokens}
        missing = {token for token in missing if not any(token in line for line in lines)}
        for folder, _, names in os.walk(self.folder):
            for name in names:
                if not missing:
                    return
                with open(os.path.join(folder, name), "rb") as file:
                    data = file.read()
                missing = {token for token in missing if token not in data}
        must(not missing, "edits by hand are gone:", missing)

    def _check_small(self):
        keeper = self._observer()
        learned = [entry["text"] for entry in keeper.learnings()]
        wanted = [sent.words[1] for sent in self.model.small.get("_learning", [])]
        must(learned == wanted, "what was learned is", learned, "not", wanted)
        if self.graph_kept_by != "embedded":
            told = [o.removeprefix("insight: ") for one in self.graph.entities
                    if one["name"] == "learnings" for o in one["observations"]]  # fmt: skip
            must(sorted(told) == sorted(learned), "the server has", told, "not", learned)
        noted = [entry["text"] for entry in keeper.forge()]
        wanted = [sent.words[3] for sent in self.model.small.get("_forge", [])]
        must(noted == wanted, "what was noted is", noted, "not", wanted)
