"""Promise 10, with real tools: scripts change a record with jq and mean what they say."""

import shutil
import subprocess

import pytest

from holdfast import Refused
from holdfast.core.workflow.needs import is_passed
from support.git_template import make_repository
from support.workshop import FORMATS, Workshop, lines_of, types, worked_on

pytestmark = pytest.mark.promise(10)

SAVED = '"$RECORD" > "$RECORD.new" && mv "$RECORD.new" "$RECORD"'
MOVE_ON = f"""jq --arg to "$TO" --arg now "$NOW" '
  (.state_machine.current_phase |= $to) | (.workflow.updated_at |= $now)
  | .history = .history + [{{at: $now, event: "phase_started", phase: $to}}]' {SAVED}"""
TASK_DONE = f"""jq --argjson n "$TASK" --arg sha "$SHA" --arg now "$NOW" '
  (.tasks[] | select(.index == $n)) |= (.status = "completed" | .commit_sha = $sha)
  | (.workflow.updated_at |= $now)
  | .history = .history + [{{at: $now, event: "task_completed", task: $n, commit: $sha}}]
  ' {SAVED}"""
CHECKED = f"""jq --arg gate "$GATE" --arg now "$NOW" --arg passed "$PASSED" '
  .checkpoints[$gate] += {{status: "completed", last_run: $now, passed: ($passed == "true")}}
  ' {SAVED}"""
FINISHED = """mkdir -p "$(dirname "$DONE")" && jq --arg now "$NOW" '
  .workflow += {status: "completed", completed_at: $now}' "$RECORD" > "$RECORD.new" &&
mv "$RECORD.new" "$DONE" """
NOW = "2026-02-17T13:14:15+01:00"


@pytest.fixture
def jq(not_shown):
    if shutil.which("jq") is None:
        not_shown("promise 10: jq is missing, so what scripts do with it was not run")


class Scripted:
    """A workflow of the skill format, and a shell beside it."""

    def __init__(self, folder, recipe):
        self.shop = Workshop(folder, git=False)
        make_repository(folder, committed=True)
        self.state = worked_on_by(self.shop.keeper(), recipe)
        self.id, self.record = self.state["id"], self.state["record"]
        self.done = self.record.replace("/active/", "/completed/")

    def sh(self, script, **variables):
        subprocess.run(
            ["sh", "-ec", script],
            cwd=self.shop.root,
            env={
                "PATH": "/usr/bin:/bin",
                "RECORD": self.record,
                "DONE": self.done,
                "NOW": NOW,
                **variables,
            },
            check=True,
        )

    def looked(self):
        return self.shop.keeper().settle(workflow=self.id).state

    def sound(self):
        assert lines_of(self.shop.keeper()) == []
        assert self.shop.beside(self.record) == {} or self.looked()["status"] == "completed"
        return True


def worked_on_by(keeper, recipe):
    if recipe == "dev":
        return worked_on(keeper, "skill", "features/search.md")
    started = keeper.start("tdd", "parse an empty line").state
    keeper.start_phase("red", {"test_file": "tests/parse.py"}, workflow=started["id"])
    return keeper.show(workflow=started["id"]).state


@pytest.fixture(params=["dev", "tdd"])
def scripted(request, tmp_path, jq):
    return Scripted(tmp_path, request.param)


@pytest.fixture
def dev(tmp_path, jq):
    return Scripted(tmp_path, "dev")


def statuses_by_phase(state):
    return {phase["name"]: phase["status"] for phase in state["phases"]}


def test_a_script_that_sets_the_phase_moves_the_workflow_on(scripted):
    names = [phase["name"] for phase in scripted.state["phases"]]
    place = names.index(scripted.state["phase"])
    scripted.sh(MOVE_ON, TO=names[place + 1])
    state = scripted.looked()
    assert state["phase"] == names[place + 1]
    assert list(statuses_by_phase(state).values()) == (
        ["completed"] * (place + 1) + ["in_progress"] + ["pending"] * (len(names) - place - 2)
    )
    assert {"at": NOW, "event": "phase_started", "phase": names[place + 1]} in state["history"]
    assert types(scripted.shop.keeper())[-1] == "record_edited"
    assert scripted.sound()
    with pytest.raises(Refused) as caught:
        scripted.shop.keeper().advance(workflow=scripted.id)
    assert caught.value.code == "pending"
    forced = {"force": True, "reason": "the script knows"}
    scripted.shop.keeper().advance(workflow=scripted.id, **forced)
    assert scripted.looked()["phase"] == names[place + 2]


def test_a_script_moves_through_every_phase(scripted):
    for phase in scripted.state["phases"]:
        scripted.sh(MOVE_ON, TO=phase["name"])
        assert scripted.looked()["phase"] == phase["name"]
    state = scripted.looked()
    assert list(statuses_by_phase(state).values())[:-1] == ["completed"] * (
        len(state["phases"]) - 1
    )
    assert scripted.sound()


def test_a_script_that_completes_a_task_completes_it(dev):
    dev.sh(TASK_DONE, TASK="1", SHA="1f2e3d4")
    task = dev.looked()["tasks"][0]
    assert task["status"] == "completed"
    assert task["commit"] == "1f2e3d4"
    assert dev.shop.document(dev.record)["tasks"][0]["commit_sha"] == "1f2e3d4"
    assert dev.sound()
    dev.shop.keeper().start_task(2, workflow=dev.id)


def test_a_script_that_records_a_checkpoint_makes_a_claim(dev):
    dev.sh(CHECKED, GATE="lint", PASSED="true")
    dev.sh(CHECKED, GATE="test", PASSED="false")
    gates = dev.looked()["gates"]
    assert gates["lint"] == {
        **gates["lint"],
        "status": "completed",
        "passed": True,
        "last_run": NOW,
    }
    assert gates["lint"]["evidence"] == "claim"
    assert gates["test"]["passed"] is False
    assert not is_passed(dev.looked(), "lint")
    dev.sh(CHECKED, GATE="security_review", PASSED="true")
    assert is_passed(dev.looked(), "security_review")
    assert dev.sound()
    assert "FAILED gate test" in dev.shop.keeper().briefing(workflow=dev.id)


def test_a_script_that_completes_the_workflow_and_moves_its_record_completes_it(scripted):
    scripted.sh(FINISHED)
    state = scripted.looked()
    assert state["status"] == "completed"
    assert types(scripted.shop.keeper())[-1] == "workflow_completed"
    assert scripted.sound()
    rows, _ = scripted.shop.keeper().workflows()
    assert rows == []
    assert scripted.shop.document(scripted.done)["workflow"]["status"] == "completed"
    resumed = scripted.shop.keeper().resume(workflow=scripted.id).state
    assert resumed["status"] == "in_progress"
    assert resumed["phase"] == scripted.state["phase"]


def test_a_script_that_only_moves_the_record_completes_it(scripted):
    scripted.sh('mkdir -p "$(dirname "$DONE")"; mv "$RECORD" "$DONE"')
    assert scripted.looked()["status"] == "completed"
    assert scripted.sound()


def test_scripts_and_commands_take_turns(dev):
    """What a script and the command line do, in any order, is all there at the end."""
    keeper = dev.shop.keeper()
    dev.sh(MOVE_ON, TO="task_execution")
    head = keeper.complete_task(1, "HEAD", workflow=dev.id).state["tasks"][0]["commit"]
    dev.sh(TASK_DONE, TASK="2", SHA="bbbbbbb")
    keeper.start_task(3, workflow=dev.id)
    dev.sh(TASK_DONE, TASK="3", SHA="ccccccc")
    dev.sh(MOVE_ON, TO="verification")
    for gate in ("lint", "test", "security_review", "code_simplifier", "pr_created"):
        dev.sh(CHECKED, GATE=gate, PASSED="true")
    with pytest.raises(Refused) as caught:
        keeper.advance(workflow=dev.id)
    assert caught.value.details["pending"] == {"gates": ["lint", "test"]}
    for gate in ("lint", "test"):
        keeper.evidence().run_gate(gate, ["test", "-e", "README.md"], workflow=dev.id)
    keeper.advance(workflow=dev.id)
    keeper.evidence().waive_gate("pr_created", "there is no remote", workflow=dev.id)
    state = keeper.complete("merged", workflow=dev.id).state
    assert [task["commit"] for task in state["tasks"]] == [head, "bbbbbbb", "ccccccc"]
    assert set(statuses_by_phase(state).values()) == {"completed"}
    assert state["status"] == "completed"
    assert dev.sound()


@pytest.mark.parametrize("record_format", FORMATS)
@pytest.mark.parametrize(
    "script",
    ["jq .", "jq -S .", "jq -c .", "jq --tab .", "jq --indent 7 .", "jq -a .", "sed 's/$/\\r/'"],
)
def test_reformatting_is_not_an_edit(record_format, script, tmp_path, jq):
    shop = Workshop(tmp_path)
    keeper = shop.keeper()
    tasks = [f"tâche {number} 🎈" for number in range(11)]
    context = {
        "ratio": 0.1,
        "count": 2.0,
        "large": 2**53 - 1,
        "tiny": 1e-7,
        "text": "é\u2028\u0007",
    }
    recipe = {"verb": "apex", "formal": "planning", "skill": "dev", "loop": "loop-development"}
    state = keeper.start(recipe[record_format], "reformat", tasks=tasks, context=context).state
    before = types(keeper)
    command = f'{script} "$RECORD" > "$RECORD.new" && mv "$RECORD.new" "$RECORD"'
    subprocess.run(
        ["sh", "-ec", command],
        cwd=shop.root,
        env={"PATH": "/usr/bin:/bin", "RECORD": state["record"]},
        check=True,
    )
    look = shop.keeper().settle(workflow=state["id"])
    assert look.state == state
    assert look.notes == []
    shop.keeper().remind("afterwards", workflow=state["id"])
    assert types(shop.keeper()) == [*before, "reminder_added"]
    assert lines_of(shop.keeper()) == []
