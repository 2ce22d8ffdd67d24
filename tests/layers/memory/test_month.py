"""A month of work, as the project's memory sees it: deterministic, with an agent that edits too."""

import random

import pytest

from holdfast import Keeper, Refused

pytestmark = pytest.mark.promise(8, 9)

DAY_MS = 86_400_000
RECIPES = ("apex", "debug", "brainstorm", "oneshot")
AGENTS_OWN = "# Notes of the agent\n\nRead CONTRIBUTING.md first.\n"


class Month:
    """Thirty days of one project."""

    def __init__(self, root, memory):
        self.root = root
        self.memory = memory
        self.ms = 1_775_000_000_000
        self.chance = random.Random(7)
        self.completed = []
        self.learned = []

    def keeper(self):
        self.ms += 60_000
        return Keeper(str(self.root), clock_ms=lambda: self.ms)

    def day(self, number):
        subject = f"feature {number}"
        try:
            self.keeper().start(self.chance.choice(RECIPES), subject, replace=number % 5 == 0)
        except Refused:
            self.keeper().remind(f"still busy on day {number}")
        for _ in range(self.chance.randrange(1, 6)):
            self.move()
        if self.chance.random() < 0.4:
            self.learned.append(f"learned on day {number}")
            self.keeper().remember(self.learned[-1], kind="insight")
        if number in (10, 20):
            text = self.memory.read_text()
            self.memory.write_text(
                text.replace("- Insight: learned on day", "- learned, I say, on", 1)
            )
        # Now and then nobody comes for two days.
        self.ms += DAY_MS * (2 if self.chance.random() < 0.2 else 1) - 3_600_000

    def move(self):
        rows, _ = self.keeper().workflows()
        if not rows:
            return
        state = self.keeper().show().state
        try:
            if state["phase"] == "plan":
                self.keeper().approve_phase("plan")
            self.keeper().advance()
        except Refused:
            self.keeper().complete("shipped")
            self.completed.append(state["title"])


def test_a_month(tmp_path, monkeypatch):
    memory = tmp_path / "MEMORY.md"
    memory.write_text(AGENTS_OWN)
    monkeypatch.setenv("HOLDFAST_MEMORY", str(memory))
    (tmp_path / "work").mkdir()
    month = Month(tmp_path / "work", memory)
    for number in range(1, 31):
        month.day(number)
        text = memory.read_text()
        assert text.startswith(AGENTS_OWN)
        ours = text.split("holdfast:begin", 1)[1].splitlines() if "holdfast:begin" in text else []
        assert len(ours) <= 40
        assert len([line for line in ours if line.startswith("- Active ")]) <= 1
        bullets = [line for line in ours if line.startswith("- ")]
        assert len(bullets) == len(set(bullets))
    for learned in month.learned:
        assert text.count(f"{learned}\n") <= 1
    assert any(f"for {month.completed[-1]}: shipped" in line for line in text.splitlines())
    assert text.count("- learned, I say, on") == 2
    month.keeper().memory().write()
    assert memory.read_text() == text
