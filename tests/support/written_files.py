"""Every file that Holdfast writes and that people or other tools may write, too.

A ``Target`` is one of them with a command that writes it. ``lost_edits`` lets a crowd of editors
save it meanwhile, and looks for what they saved.
"""

import itertools
import json
import os

from holdfast import Initiatives, Loops, install
from holdfast.errors import HoldfastError
from holdfast.storage import shared_file
from support.editors import LIMITS, Crowd, CrowdedDisk, crowd_leases
from support.loop_files import HOME as LOOPS
from support.workshop import worked_on

EAGERNESS = (0.005, 0.02, 0.1)
"""How likely it is that an editor works at a step."""


def mark_json(raw, mark):
    """Add an unknown field, as another tool would; ``None`` if it is no record at this moment."""
    try:
        document = json.loads(raw)
    except ValueError:
        return None
    if not document or not isinstance(document, dict):
        return None
    document[f"x-{mark}"] = mark
    return json.dumps(document, indent=2).encode()


def mark_text(raw, mark):
    lines = raw.decode().splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return "".join([*lines, f"- {mark}\n"]).encode()


def mark_top(raw, mark):
    return f"a line of {mark}\n".encode() + raw


def mark_yaml(raw, mark):
    return raw + f"# {mark}\n".encode() if raw else None


def mark_index(raw, mark):
    return raw + f"{mark}\n".encode() if raw else None


class Target:
    """A file, and a command that writes it."""

    add_mark = staticmethod(mark_json)
    is_text = False

    def __init__(self, shop, _monkeypatch):
        self.shop = shop
        self.number = 0
        self.path = shop.path(self.begin())

    def command(self, disk):
        """Run a command that writes the file; return its notes."""
        self.number += 1
        options = {} if disk is None else {"disk": disk, "sleep": disk.pause}
        return self.run(self.shop.keeper(**options))

    def run(self, keeper):
        return self.change(keeper).notes


class Record(Target):
    record_format = "skill"

    def begin(self):
        state = worked_on(self.shop.keeper(), self.record_format)
        self.id = state["id"]
        return state["record"]

    def change(self, keeper):
        return keeper.remind(f"reminder {self.number}", workflow=self.id)


class Verb(Record):
    record_format = "verb"


class Formal(Record):
    record_format = "formal"


class Loop(Record):
    record_format = "loop"


class InitiativeRecord(Target):
    def begin(self):
        Initiatives(self.shop.keeper()).create("Tidy billing", ["M1: Map"], files=False)
        Initiatives(self.shop.keeper()).start("M1")
        return ".claude/initiative.json"

    def change(self, keeper):
        initiatives = Initiatives(keeper)
        return initiatives.block("wait") if self.number % 2 else initiatives.unblock()


class Interview(Target):
    def begin(self):
        self.shop.keeper().interviews().record("dev", 0.5)
        return ".claude/interview-state.json"

    def change(self, keeper):
        return keeper.interviews().record("dev", 0.5 + self.number % 5 / 10)


class Delegation(Target):
    def begin(self):
        self.shop.keeper().delegations().record("scout", outcome="success")
        return ".claude/delegation-log.json"

    def change(self, keeper):
        return keeper.delegations().record(f"scout-{self.number}", outcome="success")


class Learnings(Target):
    def begin(self):
        self.shop.keeper().remember("one thing")
        return ".claude/learnings.json"

    def change(self, keeper):
        return keeper.remember(f"thing {self.number}")


class Forge(Target):
    def begin(self):
        self.shop.keeper().note_forge("area", "text")
        return ".claude/forge-context.json"

    def change(self, keeper):
        return keeper.note_forge("area", f"text {self.number}")


class Index(Target):
    add_mark = staticmethod(mark_index)

    def begin(self):
        worked_on(self.shop.keeper(), "skill")
        return ".claude/workflow-state/index.json"

    def change(self, keeper):
        if self.number % 3:
            workflow = self.shop.keeper().workflows()[0][0]["id"]
            return keeper.remind(f"more {self.number}", workflow=workflow)
        return keeper.start("dev", f"work {self.number}")


class MemoryFile(Target):
    add_mark = staticmethod(mark_text)
    is_text = True

    def __init__(self, shop, monkeypatch):
        monkeypatch.setenv("HOLDFAST_MEMORY", "MEMORY.md")
        super().__init__(shop, monkeypatch)

    def begin(self):
        self.shop.write("MEMORY.md", "# Notes\n")
        self.shop.keeper().remember("one thing")
        return "MEMORY.md"

    def change(self, keeper):
        return keeper.remember(f"thing {self.number}")


class Status(Target):
    add_mark = staticmethod(mark_yaml)

    def begin(self):
        Initiatives(self.shop.keeper()).create("Tidy billing", ["M1: Map"], files=True)
        folder = "documentation/milestones/_active/tidy-billing"
        self.readme = f"{folder}/README.md"
        return f"{folder}/WORKFLOW-STATUS.yaml"

    def change(self, keeper):
        return Initiatives(keeper).task("M1", f"task {self.number}")


class MilestonePage(Status):
    add_mark = staticmethod(mark_text)
    is_text = True

    def begin(self):
        super().begin()
        return self.readme


class UnitsPage(Target):
    add_mark = staticmethod(mark_text)
    is_text = True
    page = "tasks.md"

    def begin(self):
        loops = Loops(self.shop.keeper())
        loops.new("user-auth", "development", task="User auth")
        loops.plan("user-auth", "T1: Login", criteria="it works")
        return f"{LOOPS}/user-auth/{self.page}"

    def change(self, keeper):
        if self.number % 3:
            return Loops(keeper).extend("T1", 10 + self.number)
        what = f"problem {self.number}"
        return Loops(keeper).guardrail(when="always", problem=what, solution="care")


class Guardrails(UnitsPage):
    page = "guardrails.md"


class ProgressPage(UnitsPage):
    page = "progress.md"


class ContextPage(UnitsPage):
    page = "context.md"


class ClaudeSettings(Target):
    file, agent = ".claude/settings.json", "claude"

    def __init__(self, shop, monkeypatch):
        self.monkeypatch = monkeypatch
        for name in ("HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
            monkeypatch.setenv(name, shop.path("home"))
        super().__init__(shop, monkeypatch)

    def begin(self):
        self.shop.write(self.file, self.first)
        return self.file

    first = '{"model": "a"}'

    def command(self, disk):
        self.number += 1
        with self.monkeypatch.context() as patch:
            if disk is not None:
                patch.setattr(install, "Disk", lambda: disk)
            run = install.init if self.number % 2 else install.uninstall
            try:
                return run(self.shop.root, agent=self.agent).notes
            except HoldfastError as error:  # It is being written: nothing was changed.
                return [error.message]


class Servers(ClaudeSettings):
    file, first = ".mcp.json", '{"mcpServers": {}}'


class CodexConfig(ClaudeSettings):
    file, first, agent = "home/config.toml", 'model = "a"\n', "codex"
    add_mark = staticmethod(mark_yaml)


TARGETS = {
    kind.__name__: kind
    for kind in (
        Record, Verb, Formal, Loop, InitiativeRecord, Interview, Delegation, Learnings, Forge,
        Index, MemoryFile, Status, MilestonePage, UnitsPage, Guardrails, ProgressPage, ContextPage,
        ClaudeSettings, Servers, CodexConfig,
    )
}  # fmt: skip


def lost_marks(target, crowd, notes):
    """Return the marks that are nowhere: not in the file, the ledger, or a file that was named."""
    named = "\n".join(notes)
    ledger = json.dumps(target.shop.keeper().log()).encode()
    texts = [ledger]
    folder = os.path.dirname(target.path)
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and (path == target.path or name in named):
            with open(path, "rb") as file:
                texts.append(file.read())
    found = b"\n".join(texts)
    return [entry for entry in crowd.saved if entry[0].encode() not in found]


def crowded_rounds(target, monkeypatch, chance, rounds, limits=tuple(LIMITS)):
    """Let editors save during commands; yield the number of edits, and what was lost of them."""
    crowd = Crowd(target.path, target.add_mark, chance, is_text=target.is_text)
    notes = []
    monkeypatch.setattr(shared_file, "_PAUSE_S", 0)
    for number, limit in zip(range(rounds), itertools.cycle(limits), strict=False):
        crowd.saved.clear()
        with monkeypatch.context() as patch:
            LIMITS[limit](patch)
            disk = CrowdedDisk(crowd, chance.choice(EAGERNESS))
            crowd_leases(patch, disk)
            crowd.is_at_work = True
            notes += target.command(disk)
            crowd.is_at_work = False
            crowd.finish()
            for _ in range(2):
                notes += target.command(None)
        notes += [line["message"] for line in target.shop.keeper().verify().lines]
        lost = lost_marks(target, crowd, notes)
        why = f"round {number}, {limit}: lost {lost} of {crowd.saved}; {notes[-8:]}" if lost else ""
        yield len(crowd.saved), why
