"""A workspace with an initiative, and a clock that only the test moves."""

import json
import os

from holdfast import Initiatives, Keeper
from holdfast.core import time as times
from holdfast.layers.graph import projection
from support.workshop import Workshop

TOP = "documentation/milestones/_active"
RECORD = ".claude/initiative.json"
YAML = "WORKFLOW-STATUS.yaml"
START = "2026-04-01T08:00:00.000Z"
MINUTE_MS = 60_000


class InitiativeShop(Workshop):
    """A workshop without git whose clock is set by the test."""

    def __init__(self, root):
        super().__init__(root, git=False)
        self.ms = times.epoch_ms(START)
        self.folder = f"{TOP}/tidy-billing"

    @property
    def now(self):
        return times.iso(self.ms)

    def later(self, minutes=1):
        self.ms += minutes * MINUTE_MS
        return self.now

    def keeper(self, root=None, **options):
        return Keeper(root or self.root, clock_ms=lambda: self.ms, **options)

    def initiatives(self):
        """Return the library, one minute later."""
        self.later()
        return Initiatives(self.keeper())

    def begin(self, *, files=False, milestones=("M1: Map", "M2: Move", "M3: Ship")):
        self.initiatives().create("Tidy billing", milestones, files=files)
        return self

    def current(self):
        return Initiatives(self.keeper()).current()

    def progress(self):
        return {milestone["id"]: milestone["status"] for milestone in self.current()["milestones"]}

    # Files

    @property
    def yaml(self):
        return YAML if os.path.lexists(self.path(YAML)) else f"{self.folder}/{YAML}"

    @property
    def readme(self):
        return f"{self.folder}/README.md"

    def replace(self, name, *pairs):
        text = self.text(name)
        for old, new in pairs:
            assert old in text, (old, text)
            text = text.replace(old, new, 1)
        self.write(name, text)

    def edit_yaml(self, at=None, **values):
        """Change values as a person would, with ``at`` also the time of the update."""
        lines = self.text(self.yaml).splitlines(keepends=True)
        for key, value in {**values, **({} if at is None else {"updated": at})}.items():
            lines = [
                f"{line.partition(key)[0]}{key}: {value}\n"
                if line.strip().startswith(f"{key}:")
                else line
                for line in lines
            ]
        self.write(self.yaml, "".join(lines))

    def record(self):
        return self.document(RECORD)

    def edit_record(self, *, is_theirs=False, **values):
        """Edit the record; ``is_theirs``: as another tool, which drops our envelope."""
        document = {**self.record(), **values}
        if is_theirs:
            document.pop("_holdfast", None)
        self.write(RECORD, json.dumps(document))

    # The ledger and the graph

    def events(self):
        return list(self.keeper().log())

    def types(self):
        return [event["type"] for event in self.events()]

    def entity(self, name="initiative-checkpoint"):
        """Return the observations of an entity in the embedded graph; ``None`` if it has none."""
        updates = projection.read_changes(self.keeper().store)[0]
        return next((entity["observations"] for entity in updates if entity["name"] == name), None)
