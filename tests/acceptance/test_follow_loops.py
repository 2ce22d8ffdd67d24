"""Whoever does nothing but follow NEXT finishes loops and initiatives properly."""

import os
import shlex
import sys

import pytest

from support.command_line import Folder
from support.follower import Follower, repository

pytestmark = pytest.mark.promise(17)

CHECK = [sys.executable, "-c", "import sys, app; sys.exit(app.N < 1)"]
VALUES = {
    "DID": "Wrote it.",
    "RECIPE": "oneshot",
    "TITLE": "Greet",
    "TASK": "Greet politely",
    "MESSAGE": "Greet politely",
}
UNIT_VERBS = ("iterate", "confirm", "verify")


@pytest.fixture
def project(folder):
    return repository(folder)


class LoopFollower(Follower):
    """An agent in a loop or an initiative.

    ``stumbles`` may have ``verify``, a verification that fails; ``confirm``, issues that the
    confirmation finds; and ``iterate``, a unit that is blocked until the user was asked.
    """

    def _filled(self, step):
        values = {**VALUES, "SUBJECT": f"Work {len(self.steps)}"}
        assert set(step["fill"]) <= {*values, "COMMAND"}, step
        words = []
        for word in step["command"][1:]:
            filled = [word.replace(name, values[name]) for name in step["fill"] if name in values]
            changed = [text for text in filled if text != word]
            words += CHECK if word == "COMMAND" else changed or [word]
        return words

    def _take(self, step):
        verb = step["command"][2] if step["command"][1] == "loop" else ""
        if verb in UNIT_VERBS and verb in self.stumbles:
            self.stumbles.remove(verb)
            unit = step["command"][3]
            if verb == "iterate":
                return self._run("loop", "block", unit, "--reason", "no access yet")
            if verb == "confirm":
                return self._run("loop", "confirm", unit, "--issues", "nobody greets")
            self.client.write("app.py", "N = 0\n")
            return self._run(*self._filled(step))
        if verb == "iterate":
            self.client.commit("app.py", f"N = {len(self.steps) + 1}\n", "Greet")
            return self._run(*self._filled(step), "--commit", "HEAD")
        return super()._take(step)

    def _compact(self, step):
        """Compact; the briefing names the same command, word for word."""
        self.client.fire("PreCompact", trigger="auto", custom_instructions=None)
        lines = self.client.briefed().splitlines()
        (line,) = [line for line in lines if line.startswith("NEXT: ")]
        # After `block` the answer is to tell the user; the briefing waits for them.
        if step["command"][-1] != "show":
            command = line[line.rindex(": holdfast ") + 2 :]
            assert shlex.split(command) == step["command"]


def followed(folder, *words, stumbles=()):
    """Follow a loop to its end; return the agent and the workflow."""
    agent = LoopFollower(folder, stumbles)
    workflow = agent.follow(agent._run("loop", "new", "greeting", *words))["workflow"]
    assert workflow["status"] == "completed"
    assert workflow["record"].startswith(".claude/iterative/archive/greeting-")
    assert {unit["status"] for unit in workflow["tasks"]} == {"completed"}
    assert {unit["verification_passed"] for unit in workflow["tasks"]} == {True}
    assert agent.refused == []
    assert agent.stumbles == []
    assert not any("--force" in step for step in agent.steps)
    return agent, workflow


def test_following_next_archives_a_development_loop_verified_by_a_run(project):
    agent, workflow = followed(project)
    assert [step[1] for step in agent.steps] == [
        "new", "plan", "iterate", "confirm", "verify", "archive",
    ]  # fmt: skip
    assert workflow["tasks"][0]["verification_run"]["exit_code"] == 0
    head = project.git("rev-parse", "HEAD")
    assert workflow["commits"] == [f"{head[:12]}: Greet"]


def test_following_next_archives_a_knowledge_loop_by_a_claim(project):
    agent, workflow = followed(project, "--mode", "knowledge")
    assert ["loop", "verify", "R1", "--passed"] in agent.steps
    assert "verification_run" not in workflow["tasks"][0]


@pytest.mark.parametrize("mode", ["development", "knowledge"])
def test_next_leads_out_of_every_failure_of_a_loop(project, mode):
    stumbles = ["iterate", "confirm", *(["verify"] if mode == "development" else [])]
    agent, workflow = followed(project, "--mode", mode, stumbles=stumbles)
    verbs = [step[1] if step[0] == "loop" else step[0] for step in agent.steps]
    assert verbs[2:4] == ["block", "unblock"]
    assert workflow["tasks"][0]["confirmations_used"] == len(stumbles)
    assert len(agent.failed) == (mode == "development")


def test_a_declared_verification_is_run_once_a_person_trusts_the_folder(project):
    config = os.path.join(project.environment["HOME"], ".config", "holdfast", "config.toml")
    os.makedirs(os.path.dirname(config))
    with open(config, "w", encoding="utf-8") as file:
        file.write(f'[trust]\nfolders = ["{project.path}"]\n')
    agent = LoopFollower(project, ["verify"])
    agent._run("loop", "new", "greeting")
    check = f'{sys.executable} -c "import sys, app; sys.exit(app.N < 1)"'
    answer = agent._run("loop", "plan", "--unit", "T1: Greet", "--verify", check)
    workflow = agent.follow(answer)["workflow"]
    assert ["loop", "verify", "T1", "--run"] in agent.steps
    assert (len(agent.failed), agent.refused) == (1, [])
    assert workflow["tasks"][0]["verification_run"] == {"command": check, "exit_code": 0}


@pytest.mark.parametrize("files", [[], ["--files"]])
def test_following_next_archives_an_initiative_by_its_workflows(project, files):
    agent = LoopFollower(project)
    milestones = ["--milestone", "M1: Map the readers", "--milestone", "M2: Move them"]
    answer = agent._run("initiative", "create", "Tidy billing", *milestones, *files)
    initiative = agent.follow(answer)["initiative"]
    assert initiative["status"] == "archived"
    assert [milestone["status"] for milestone in initiative["milestones"]] == ["completed"] * 2
    assert "forced" not in str(initiative)
    assert agent.refused == []
    assert not any("--force" in step for step in agent.steps)
    rows = project.ok("initiative", "show")["workflows"]
    assert [(row["milestone"], row["status"]) for row in rows] == [
        ("M1", "completed"), ("M2", "completed"),
    ]  # fmt: skip
    assert [step[1] for step in agent.steps if step[0] == "initiative"] == [
        "create", "start", "complete", "start", "complete", "finish", "archive",
    ]  # fmt: skip


@pytest.mark.parametrize("files", [[], ["--files"]])
def test_following_next_archives_an_initiative_by_its_tasks(project, files):
    agent = LoopFollower(project)
    answer = agent._run("initiative", "create", "Tidy billing", "--milestone", "M1: Map", *files)
    assert "holdfast initiative start M1" in agent.client.briefed()
    for task in ("List all readers", '- [ ] it\'s "quoted"'):
        answer = agent._run("initiative", "task", "M1", "--", task)
    initiative = agent.follow(answer)["initiative"]
    assert initiative["status"] == "archived"
    assert all(task["done"] for task in initiative["milestones"][0]["tasks"])
    assert agent.refused == []


def test_outside_git_a_loop_is_followed_to_its_end_too(folder):
    folder.write("app.py", "N = 1\n")
    agent = LoopFollower(Folder(folder.path, folder.environment))
    agent.client.commit = lambda *_words: None
    answer = agent._run("loop", "new", "greeting", "--mode", "knowledge")
    workflow = agent.follow(answer)["workflow"]
    assert workflow["commits"] == ["HEAD: Wrote it."]
    assert agent.refused == []
