"""Claude Code: an agent that does nothing but follow NEXT takes a feature to its pull request.

``make e2e ARGS="-k follow_next -s"`` prints all that it did and was told.
"""

import pytest

from clients import kill
from follower import BRANCH, CODE, FEATURE, TASKS, TEST, Follower, cases, code
from transcripts import answers, transcript

COMMANDS = 14
"""How many commands of Holdfast it takes; none is run twice because a context was lost."""
CYCLE = dict.fromkeys(("red", "green", "refactor"), "completed")
GATES = {
    "lint": "run",
    "test": "run",
    "security_review": "claim",
    "code_simplifier": "claim",
    "pr_created": "check",
}


@pytest.fixture
def follower(claude):
    """The client's model, in a project with a remote and a feature of two tasks."""
    place = claude.place
    place.write(".gitignore", "__pycache__/\n")
    place.write(FEATURE, "# Greeting\n\n" + "".join(f"- [ ] {task}\n" for task in TASKS))
    place.write(CODE, code(0, tidied=0))
    place.write(TEST, cases(0))
    place.git("config", "user.name", "Ada")
    place.git("config", "user.email", "ada@example.org")
    place.run("holdfast", "init")
    place.commit("Say what is to be built")
    place.git("init", "-q", "--bare", "../origin.git")
    place.git("remote", "add", "origin", "../origin.git")
    place.git("push", "-q", "origin", "main")
    # A module that changes twice within a second would be taken from the cache.
    claude.extra = {"PYTHONDONTWRITEBYTECODE": "1"}
    claude.stub.agent = Follower(place)
    yield claude.stub.agent
    print(*transcript(claude.stub.requests), sep="\n")


def killed_before(claude, command):
    """The client dies when its model has done the work and is about to run the command."""
    claude.stub.agent.hangs_before = command
    process = claude.start("-p", "Go on.", "--continue", *claude.allowed)
    claude.stub.wait_for(1, lambda request: request.reply.hangs)
    kill(process)
    claude.stub.agent.hangs_before = None


def finished(claude):
    """Check that the work is done, shown and pushed, and that nothing was refused or repeated."""
    place, requests = claude.place, claude.stub.requests
    assert requests[-1].reply.text == "DEV_COMPLETE: Greeting"
    calls = [request.reply for request in requests if request.reply.call is not None]
    told = answers(requests)
    # The client puts the exit code before the answer of a command that was refused or failed.
    assert not [told[reply.number] for reply in calls if "Exit code" in told[reply.number]]
    commands = [
        given["command"] for tool, given in (reply.call for reply in calls) if tool == "Bash"
    ]
    assert sum(command.startswith("holdfast ") for command in commands) == COMMANDS
    assert not [command for command in commands if "--force" in command]

    (begun,) = place.events("workflow_started")
    workflow = place.holdfast("show", begun["stream"])["workflow"]
    assert workflow["status"] == "completed"
    assert {phase["status"] for phase in workflow["phases"]} == {"completed"}
    assert "skipped" not in workflow
    assert [task["phases"] for task in workflow["tasks"]] == [CYCLE, CYCLE]
    assert {name: gate["evidence"] for name, gate in workflow["gates"].items()} == GATES
    assert all(gate["passed"] for gate in workflow["gates"].values())

    pushed = place.git("log", "--format=%H %s", "--reverse", f"main..origin/{BRANCH}").splitlines()
    assert pushed == [f"{task['commit']} {task['description']}" for task in workflow["tasks"]]
    assert [task["description"] for task in workflow["tasks"]] == list(TASKS)
    assert place.git("status", "--porcelain") == ""
    assert not place.hook_log()
    return commands


def test_dev_is_finished_across_a_compaction_and_a_kill(claude, follower):
    follower.rests_before = "holdfast refactor"
    claude.say(f"/holdfast-dev {FEATURE}")
    claude.go_on("/compact")
    follower.rests_before = None
    killed_before(claude, "holdfast commit")
    claude.say("Go on.")
    commands = finished(claude)
    assert len(commands) == COMMANDS + 5  # git: add (once more after the kill), diff, push
    assert len(claude.place.events("context_compacted")) == 1


def test_dev_is_finished_in_one_turn_with_a_compaction_after_each_command(claude, follower):
    claude.extra["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = "100000"
    follower.fills_context = True
    claude.say(f"/holdfast-dev {FEATURE}")
    finished(claude)
    assert len(claude.place.events("context_compacted")) == COMMANDS - 1  # not after the last
