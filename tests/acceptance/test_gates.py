"""Gates: what was run is evidence until a file changes; what was said is shown as a claim."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from support.command_line import Folder
from support.pseudoterminal import Pseudoterminal, skip_below_client

PYTHON = sys.executable
PASSES = ("test", "-d", ".")
FAILS = ("test", "-f", "nowhere")
HANG = "sleep 300 & setsid sleep 301 & echo begun; wait"


@pytest.fixture
def dev(repo):
    repo.ok("start", "dev", "feature.md", "--task", "one")
    return repo


def gate(place, name):
    return {row["name"]: row for row in place.ok("gate", "list")["gates"]}[name]


def test_a_run_is_recorded_with_what_it_showed(dev):
    answer = dev.ok("gate", "run", "lint", "--", "sh", "-c", "echo all is well")
    found = answer["gate"]
    assert (found["status"], found["passed"], found["evidence"]) == ("completed", True, "run")
    assert (found["exit_code"], found["output_tail"]) == (0, "all is well")
    assert found["command"] == "sh -c 'echo all is well'"
    assert found["commit"] == dev.git("rev-parse", "HEAD")
    assert found["duration_ms"] >= 0
    record = dev.record(answer["workflow"]["record"])
    assert record["checkpoints"]["lint"]["passed"] is True
    assert record["checkpoints"]["lint"]["status"] == "completed"
    assert record["checkpoints"]["lint"]["last_run"]


def test_a_run_that_fails_has_an_exit_code_of_its_own_and_is_recorded(dev):
    answer = dev.run("gate", "run", "test", "--json", "--", "sh", "-c", "echo broken >&2; exit 3")
    assert answer.code == 4
    assert answer.json["error"]["code"] == "failed"
    assert answer.json["gate"]["exit_code"] == 3
    assert gate(dev, "test")["passed"] is False
    assert "broken" in dev.run("resume").out
    dev.refused("complete")


def test_the_option_for_json_belongs_to_holdfast_only_before_the_dashes(dev):
    dev.ok("gate", "run", "lint", "--", "sh", "-c", 'echo "$@"', "sh", "--json", "-w", "nobody")
    assert gate(dev, "lint")["output_tail"] == "--json -w nobody"


@pytest.mark.parametrize(
    "edit",
    [
        lambda place: place.write("README.md", "Another project.\n"),
        lambda place: place.write("new.txt", "untracked\n"),
        lambda place: os.remove(os.path.join(place.path, "README.md")),
        lambda place: os.chmod(os.path.join(place.path, "README.md"), 0o755),
        lambda place: os.symlink("README.md", os.path.join(place.path, "link")),
        lambda place: place.write("odd\nname", "x"),
    ],
    ids=["edited", "untracked", "removed", "executable", "link", "odd name"],
)
def test_a_later_edit_makes_it_stale(dev, edit):
    dev.ok("gate", "run", "lint", "--", *PASSES)
    assert gate(dev, "lint")["status"] == "completed"
    edit(dev)
    assert gate(dev, "lint")["status"] == "stale"
    assert dev.state()["gates"]["lint"]["status"] == "stale"
    assert "STALE gate lint" in dev.run("resume").out
    assert "lint" in dev.refused("complete")["details"]["pending"]["gates"]
    dev.ok("gate", "run", "lint", "--", *PASSES)
    assert gate(dev, "lint")["status"] == "completed"


def test_staging_and_committing_are_no_edits(dev):
    dev.write("new.txt", "work\n")
    dev.write("README.md", "More.\n")
    os.symlink("new.txt", os.path.join(dev.path, "link"))
    dev.ok("gate", "run", "lint", "--", *PASSES)
    dev.git("add", "new.txt", "link")
    assert gate(dev, "lint")["status"] == "completed"
    dev.git("add", "-A")
    dev.git("commit", "-q", "-m", "all")
    assert gate(dev, "lint")["status"] == "completed"
    dev.git("switch", "-q", "-c", "other")
    assert gate(dev, "lint")["status"] == "completed"
    dev.git("reset", "-q", "--hard", "HEAD~1")
    assert gate(dev, "lint")["status"] == "stale"


def test_undoing_the_edit_makes_it_good_again(dev):
    dev.ok("gate", "run", "lint", "--", *PASSES)
    dev.write("README.md", "Hm.\n")
    assert gate(dev, "lint")["status"] == "stale"
    dev.write("README.md", "A project.\n")
    assert gate(dev, "lint")["status"] == "completed"


def test_holdfasts_own_files_and_ignored_ones_do_not_count(dev):
    dev.commit(".gitignore", "build/\n")
    dev.ok("gate", "run", "lint", "--", *PASSES)
    dev.write("build/out.bin", "x")
    dev.ok("task", "done", "1")
    other = dev.ok("start", "tdd", "another")["workflow"]["id"]
    dev.ok("abandon", "-w", other)
    assert gate(dev, "lint")["status"] == "completed"


def test_what_the_command_makes_is_its_own_product(dev):
    answer = dev.ok("gate", "run", "test", "--", "sh", "-c", "echo x > coverage.xml")
    assert answer["gate"]["status"] == "completed"
    assert gate(dev, "test")["status"] == "completed"


def test_a_file_that_changes_while_it_runs_makes_it_stale_at_once(dev):
    answer = dev.ok("gate", "run", "lint", "--", "sh", "-c", "echo fixed >> README.md")
    assert answer["gate"]["status"] == "stale"
    assert any("README.md" in note for note in answer["notes"])
    dev.ok("gate", "run", "lint", "--", *PASSES)
    assert gate(dev, "lint")["status"] == "completed"


def test_without_git_files_count_as_they_are(folder):
    folder.write("a.txt", "a")
    folder.ok("start", "dev", "feature.md")
    assert folder.ok("gate", "run", "lint", "--", *PASSES)["gate"]["commit"] is None
    assert gate(folder, "lint")["status"] == "completed"
    folder.write("a.txt", "b")
    assert gate(folder, "lint")["status"] == "stale"


def begin_verification(place):
    place.git("switch", "-q", "-c", "feat/x")
    for _ in range(2):
        place.ok("advance")
    place.ok("phase", "skip", "task_execution", "--reason", "it is a test")


def test_a_claim_is_shown_as_one(dev):
    begin_verification(dev)
    dev.ok("gate", "record", "security_review", "--passed", "findings=0")
    assert gate(dev, "security_review")["evidence"] == "claim"
    assert gate(dev, "security_review")["findings"] == 0
    assert "security_review  claimed" in dev.run("gate", "list").out
    dev.ok("gate", "record", "security_review", "--failed", "findings=2")
    assert gate(dev, "security_review")["passed"] is False


def test_a_claim_cannot_pretend_to_be_a_run(dev):
    begin_verification(dev)
    for field in ("evidence=run", "tree=abc", "exit_code=0", "status=completed"):
        line = ["gate", "record", "security_review", "--passed", field]
        assert dev.refused(*line)["code"] == "invalid"
    dev.ok("gate", "run", "security_review", "--", *PASSES)
    dev.ok("gate", "record", "security_review", "--passed")
    assert gate(dev, "security_review")["evidence"] == "claim"
    assert {"exit_code", "tree", "command"}.isdisjoint(gate(dev, "security_review"))


@pytest.mark.parametrize("name", ["lint", "test"])
def test_a_claim_does_not_pass_a_gate_that_takes_a_run(dev, name):
    error = dev.refused("gate", "record", name, "--passed")
    assert (error["code"], error["hint"]) == ("needs_run", f"holdfast gate run {name} -- COMMAND")
    answer = dev.run("gate", "record", name, "--passed")
    assert answer.err.splitlines()[-1].strip() == f"next: holdfast gate run {name} -- COMMAND"
    assert gate(dev, name) == {"name": name, "needs": "run", "status": "pending"}
    dev.ok("gate", "record", name, "--failed")
    assert gate(dev, name)["passed"] is False


@pytest.mark.parametrize("name", ["lint", "security_review"])
def test_a_claim_covers_neither_a_failed_run_nor_a_stale_one(dev, name):
    dev.run("gate", "run", name, "--", *FAILS)
    error = dev.refused("gate", "record", name, "--passed")
    assert (error["code"], error["hint"]) == ("needs_run", f"holdfast gate run {name}")
    assert gate(dev, name)["passed"] is False
    dev.write(FAILS[-1], "")
    dev.ok("gate", "run", name)
    dev.write("README.md", "Another project.\n")
    assert dev.refused("gate", "record", name, "--passed")["code"] == "needs_run"
    assert gate(dev, name)["status"] == "stale"
    assert dev.ok("gate", "run", name)["gate"]["command"] == " ".join(FAILS)
    assert gate(dev, name)["status"] == "completed"


def test_another_command_does_not_cover_the_one_that_failed(dev):
    dev.run("gate", "run", "lint", "--", *FAILS)
    answer = dev.run("gate", "run", "lint", "--json", "--", *PASSES)
    assert (answer.code, answer.json["error"]["code"]) == (1, "other_command")
    assert answer.json["next"]["command"] == ["holdfast", "gate", "run", "lint"]
    assert gate(dev, "lint")["passed"] is False
    line = ["gate", "run", "lint", "--reason", "there is no such file", "--", *PASSES]
    dev.ok(*line)
    for _ in range(2):
        found = gate(dev, "lint")
        assert (found["passed"], found["instead_of"]) == (True, " ".join(FAILS))
        assert found["reason"] == "there is no such file"
        dev.write("README.md", "Another project.\n")
        dev.ok("gate", "run", "lint")
    instead = f"instead of {' '.join(FAILS)}: there is no such file"
    assert instead in dev.run("gate", "list").out
    signal = dev.ok("complete", "--force", "--reason", "enough")["signal"]
    assert f"replaced: lint ran {' '.join(PASSES)}, not {' '.join(FAILS)}" in signal


def test_a_command_that_was_not_found_can_be_corrected(dev):
    dev.run("gate", "run", "lint", "--", "sh", "-c", "nosuch")
    assert gate(dev, "lint")["exit_code"] == 127
    assert "instead_of" not in dev.ok("gate", "run", "lint", "--", *PASSES)["gate"]


@pytest.mark.parametrize("program", ["true", "/bin/true", "false", ":", "echo", "sleep", " "])
def test_a_command_that_checks_nothing_is_no_evidence(dev, program):
    dev.git("switch", "-q", "-c", "feat/x")
    assert dev.refused("gate", "run", "lint", "--", program)["code"] == "invalid"
    assert dev.refused("tests", "run", "--", program)["code"] == "invalid"
    assert dev.refused("red", "--", program)["code"] == "invalid"
    assert gate(dev, "lint")["status"] == "pending"
    assert dev.state()["tests"] == {}


def test_a_run_of_unittest_that_finds_no_test_shows_nothing(dev):
    words = ("--", "sh", "-c", "echo 'Ran 0 tests in 0.000s'; echo OK")
    failed = dev.run("gate", "run", "test", *words)
    assert (failed.code, "no test was found" in failed.out) == (4, True)
    assert gate(dev, "test")["passed"] is False
    assert dev.run("tests", "run", *words).code == 4
    assert dev.state()["tests"]["last_error"] == "no test was found"
    dev.git("switch", "-q", "-c", "feat/x")
    assert dev.run("red", *words).code == 4


def test_a_python_module_that_does_not_exist_was_not_started(dev):
    dev.git("switch", "-q", "-c", "feat/x")
    error = dev.refused("red", "--", PYTHON, "-m", "unitest")
    assert error["code"] == "not_started"
    assert "No module named unitest" in error["message"]
    assert dev.state()["tests"] == {}


def test_a_pull_request_is_looked_up(dev):
    said = ["gate", "record", "pr_created", "--passed", "pr_number=12", "pr_url=https://x.org/12"]
    dev.git("switch", "-q", "-c", "feat/one")
    error = dev.refused(*said)
    skip = "holdfast phase skip pr_creation --reason TEXT"
    assert (error["code"], error["hint"]) == ("not_pushed", skip)
    assert gate(dev, "pr_created")["status"] == "pending"
    dev.git("init", "-q", "--bare", "../remote.git")
    dev.git("remote", "add", "origin", "../remote.git")
    assert dev.refused(*said)["hint"] == "git push -u origin feat/one"
    dev.git("remote", "add", "backup", "../remote.git")
    assert dev.refused(*said)["hint"] == "git push -u REMOTE feat/one"
    dev.git("push", "-q", "origin", "feat/one")
    dev.ok(*said)
    found = gate(dev, "pr_created")
    assert (found["evidence"], found["pr_number"]) == ("check", 12)
    dev.commit("more.txt", "more\n")
    assert dev.refused(*said)["code"] == "not_pushed"


def waived(place, name, reason="There is none", **environment):
    """Let a person waive a gate on a terminal; return the exit code and what was shown."""
    command = [PYTHON, "-m", "holdfast", "gate", "waive", name, "--reason", reason]
    variables = {**place.environment, **environment}
    skip_below_client()
    with Pseudoterminal(command, place.path, variables) as terminal:
        return terminal.ended(), terminal.text


def test_a_person_can_waive_a_gate_and_it_is_named_to_the_end(dev):
    code, text = waived(dev, "lint")
    assert (code, "gate lint waived: There is none" in text) == (0, True)
    found = gate(dev, "lint")
    assert (found["status"], found["reason"]) == ("waived", "There is none")
    assert "passed" not in found
    assert "waived" in dev.run("gate", "list").out
    assert "lint" not in dev.refused("complete")["details"]["pending"]["gates"]
    record = dev.record(dev.state()["record"])
    assert record["checkpoints"]["lint"]["status"] == "waived"
    signal = dev.ok("complete", "--force", "--reason", "enough")["signal"]
    assert signal.endswith("; waived: lint)")
    assert "gate_waived" in dev.types(dev.ok("log")["events"][0]["stream"])


@pytest.mark.parametrize("variable", ["CLAUDECODE", "CODEX_SANDBOX", "GEMINI_CLI", "AI_AGENT"])
def test_nobody_but_a_person_waives_a_gate(dev, variable):
    line = ["gate", "waive", "lint", "--reason", "x"]
    assert dev.refused(*line)["code"] == "needs_person"
    code, text = waived(dev, "lint", **{variable: "1"})
    assert (code, "only a person can decide this" in text) == (1, True)
    assert gate(dev, "lint")["status"] == "pending"
    assert dev.types().count("gate_waived") == 0


def forged(gates):
    gates["test"] = {**gates["lint"], "passed": True, "exit_code": 0, "command": "make test"}


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda gates: gates["lint"].update(passed=True), "lint"),
        (lambda gates: gates["lint"].update(passed=True, exit_code=0), "lint"),
        (forged, "test"),
        (lambda gates: gates["test"].update(status="completed", passed=True), "test"),
    ],
    ids=["a failed run turned round", "with its exit code", "a run invented", "as scripts do it"],
)
def test_an_edited_record_can_claim_but_never_forge_a_run(dev, change, name):
    record = dev.run("gate", "run", "lint", "--json", "--", *FAILS).json["workflow"]["record"]
    dev.edit(record, lambda document: change(document["checkpoints"]))
    found = gate(dev, name)
    assert (found["status"], found["passed"], found["evidence"]) == ("completed", True, "claim")
    assert {"exit_code", "tree", "command", "output_tail"}.isdisjoint(found)
    assert f"{name}  completed · claimed; needs a run" in dev.run("gate", "list").out
    assert dev.types().count("record_edited") == 0
    dev.ok("remind", "carefully")
    assert dev.types().count("record_edited") == 1
    assert dev.record(record)["checkpoints"][name] == {
        key: value for key, value in found.items() if key not in ("name", "needs")
    }
    assert name in dev.refused("complete")["details"]["pending"]["gates"]
    assert dev.ok("verify")["counts"]["behind"] == 0


def test_a_note_beside_a_run_leaves_it_one(dev):
    record = dev.ok("gate", "run", "lint", "--", *PASSES)["workflow"]["record"]
    dev.edit(record, lambda document: document["checkpoints"]["lint"].update(note="slow"))
    assert (gate(dev, "lint")["evidence"], gate(dev, "lint")["note"]) == ("run", "slow")


def test_a_run_that_came_with_a_clone_is_its_authors_claim(dev):
    record = dev.ok("gate", "run", "lint", "--", *PASSES)["workflow"]["record"]
    dev.git("add", "-f", record)
    dev.git("commit", "-q", "-m", "with its record")
    dev.git("clone", "-q", dev.path, "../clone")
    clone = dev.at("..", "clone")
    found = gate(clone, "lint")
    assert (found["passed"], found["evidence"]) == (True, "claim")
    assert {"exit_code", "tree", "command"}.isdisjoint(found)


def test_tests_that_an_edit_tells_of_are_a_claim(dev):
    record = dev.ok("tests", "run", "--", *PASSES)["workflow"]["record"]
    assert dev.state()["tests"]["evidence"] == "run"
    path = os.path.join(dev.path, record)
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace('"last_result": "passed"', '"last_result": "failed"'))
    tests = dev.state()["tests"]
    assert (tests["last_result"], tests["evidence"]) == ("failed", "claim")
    assert "exit_code" not in tests


def test_a_gate_that_the_recipe_does_not_have_is_recorded_with_the_one_that_was_meant(dev):
    said = "the recipe dev does not declare a gate 'lnit'; did you mean 'lint'?"
    assert dev.ok("gate", "record", "lnit", "--passed")["notes"] == [said]
    assert dev.ok("gate", "run", "lnit", "--", *PASSES)["notes"] == [said]
    assert gate(dev, "lnit")["passed"] is True
    (note,) = dev.ok("gate", "record", "spelling", "--passed")["notes"]
    assert note == "the recipe dev does not declare a gate 'spelling'"
    dev.write(".claude/holdfast.toml", "nonsense")
    assert dev.ok("gate", "record", "spelling", "--passed")["notes"] == [note]


def test_a_gate_of_the_recipe_or_of_the_settings_is_recorded_without_a_word(dev):
    begin_verification(dev)
    dev.write(".claude/holdfast.toml", '[gates.spelling]\ncommand = "true"\n')
    assert dev.ok("gate", "record", "security_review", "--passed").get("notes", []) == []
    assert dev.ok("gate", "record", "spelling", "--failed").get("notes", []) == []
    error = dev.refused("gate", "record", "spelling", "--passed")
    assert (error["code"], error["hint"]) == ("needs_run", "holdfast gate run spelling")
    assert dev.ok("gate", "run", "lint", "--", *PASSES).get("notes", []) == []
    other = dev.ok("start", "tdd", "src/parser.py")["workflow"]["id"]
    assert dev.ok("gate", "record", "lint", "--passed", "-w", other).get("notes", []) == []


def test_passed_and_failed_exclude_each_other(dev):
    dev.refused("gate", "record", "lint", exit_code=2)
    dev.refused("gate", "record", "lint", "--passed", "--failed", exit_code=2)


def test_a_command_that_hangs_is_ended_with_its_children(dev):
    begun = time.monotonic()
    answer = dev.run("gate", "run", "lint", "--timeout", "1s", "--json", "--", "sh", "-c", HANG)
    assert answer.code == 4
    assert time.monotonic() - begun < 60
    assert answer.json["gate"]["timed_out"] is True
    assert "time limit" in answer.json["error"]["message"]
    with os.popen("ps -eo args") as listed:
        assert "sleep 301" not in listed.read()


def test_a_command_that_prints_a_lot_or_wants_a_terminal_is_no_trouble(dev):
    loud = "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo the end"
    assert dev.ok("gate", "run", "lint", "--", "sh", "-c", loud)["gate"]["passed"]
    assert len(gate(dev, "lint")["output_tail"]) <= 4_000
    assert gate(dev, "lint")["output_tail"].endswith("the end")
    asking = dev.run("gate", "run", "test", "--json", "--", "sh", "-c", "read x < /dev/tty")
    assert asking.code == 4


def test_a_run_that_failed_without_a_word_is_shown_in_one_line(dev):
    assert "|" not in dev.run("gate", "run", "lint", "--", *FAILS).out


def test_a_command_that_cannot_be_started_is_refused_and_nothing_is_recorded(dev):
    assert dev.refused("gate", "run", "lint", "--", "no-such-program")["code"] == "not_started"
    assert gate(dev, "lint")["status"] == "pending"
    assert dev.refused("gate", "run", "lint")["code"] == "no_command"
    assert dev.refused("gate", "run", "lint", "--timeout", "soon", "--", *PASSES)


def test_a_request_that_is_repeated_runs_nothing_again(dev):
    line = ["gate", "run", "lint", "--id", "r1", "--", "sh", "-c", "echo ran >> ../runs"]
    first = dev.ok(*line)
    again = dev.ok(*line)
    assert first["seqs"] == again["seqs"]
    with open(os.path.join(dev.path, "..", "runs")) as runs:
        assert runs.read() == "ran\n"


def test_steps_lead_through_the_gates_of_their_phase(dev):
    dev.ok("task", "done", "1")
    dev.ok("advance")
    dev.ok("advance", "--branch", "feat/one")
    assert dev.ok("advance")["workflow"]["phase"] == "verification"
    assert "gate run lint" in dev.run("show").out
    dev.ok("gate", "run", "lint", "--", *PASSES)
    assert "gate run test" in dev.run("show").out


# Tests and files


def test_a_test_run_is_read_and_recorded(dev):
    dev.write(
        "test_it.py",
        "def test_good(): pass\ndef test_bad(): assert 1 == 2\n",
    )
    answer = dev.run("tests", "run", "--json", "--", PYTHON, "-m", "pytest", "-q", "test_it.py")
    assert answer.code == 4, answer
    tests = answer.json["tests"]
    assert tests["failing_tests"] == ["test_it.py::test_bad"]
    assert tests["last_result"] == "failed"
    assert tests["counts"]["passed"] == 1
    assert "test_it.py::test_bad" in dev.run("resume").out
    record = dev.record(answer.json["workflow"]["record"])["test_state"]
    assert record["failing_tests"] == ["test_it.py::test_bad"]
    assert record["test_command"].endswith("pytest -q test_it.py")
    assert record["last_run"]
    dev.write("test_it.py", "def test_good(): pass\n")
    after = dev.ok("tests", "run", "--", PYTHON, "-m", "pytest", "-q", "test_it.py")["tests"]
    assert (after["last_result"], after["failing_tests"]) == ("passed", [])
    assert "last_error" not in after


def test_a_test_run_that_somebody_made_is_recorded(dev):
    dev.ok("tests", "record", "--command", "cargo test", "--failing", "a, b", "--passing", "c")
    tests = dev.state()["tests"]
    assert (tests["failing_tests"], tests["passing_tests"]) == (["a", "b"], ["c"])
    assert tests["last_result"] == "failed"
    dev.ok("tests", "record", "--command", "cargo test", "--error", "does not compile")
    assert dev.state()["tests"]["last_error"] == "does not compile"


def test_files_come_from_the_caller_or_from_git(dev):
    dev.ok("files", "add", "src/a.py", "--phase", "green", "--lines", "12")
    assert dev.state()["files"] == [{"path": "src/a.py", "phase": "green", "lines_added": 12}]
    dev.commit("src/a.py", "one\ntwo\n")
    dev.write("src/b.py", "one\n")
    dev.ok("task", "phase", "1", "red")
    dev.ok("files", "sync")
    found = {file["path"]: file for file in dev.state()["files"]}
    assert found["src/a.py"] == {"path": "src/a.py", "phase": "green", "lines_added": 2}
    assert found["src/b.py"] == {"path": "src/b.py", "phase": "red", "lines_added": 1}
    assert set(found) == {"src/a.py", "src/b.py"}
    assert dev.ok("files", "sync")["seqs"] == []
    record = dev.record(dev.state()["record"])
    assert record["files_modified"][0]["path"] == "src/a.py"


def test_a_file_outside_is_refused(dev):
    assert dev.refused("files", "add", "../secret")["code"] == "outside"
    assert dev.refused("files", "add", "/etc/passwd")["code"] == "outside"


def test_without_git_there_is_nothing_to_sync_with(folder):
    folder.ok("start", "dev", "feature.md")
    assert folder.refused("files", "sync")["code"] == "no_git"


def test_a_gate_that_enters_its_phase_leaves_its_fields_out_of_the_phase_before(dev):
    dev.git("switch", "-q", "-c", "feat/x")
    for _ in range(2):
        dev.ok("advance")
    dev.ok("task", "done", "1")
    dev.ok("gate", "run", "lint", "--reason", "a reason", "--", *PASSES)
    phases = {phase["name"]: phase for phase in dev.state()["phases"]}
    assert dev.state()["phase"] == "verification"
    assert set(phases["task_execution"]) == {"name", "status", "started_at", "completed_at"}


def test_what_is_recorded_beside_a_check_is_claimed(dev):
    begin_verification(dev)
    dev.run("gate", "run", "lint", "--", *FAILS)
    dev.git("update-ref", "refs/remotes/origin/feat/x", "HEAD")
    line = ["gate", "record", "pr_created", "--passed", "--also"]
    assert dev.refused(*line, "lint")["code"] == "needs_run"
    dev.ok(*line, "security_review")
    assert gate(dev, "pr_created")["evidence"] == "check"
    assert gate(dev, "security_review")["evidence"] == "claim"


def test_nothing_is_run_for_a_workflow_of_another_worktree(dev, tmp_path):
    workflow = dev.state()["id"]
    dev.git("worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    other = Folder(str(tmp_path / "other"), dev.environment)
    for line in (["gate", "run", "lint"], ["tests", "run"], ["red"]):
        error = other.refused(*line, "-w", workflow, "--", *PASSES)
        hint = f"go on there, or bring it here: holdfast resume {workflow}"
        assert (error["code"], error["hint"]) == ("elsewhere", hint)


def test_in_another_worktree_next_brings_the_workflow_there(dev, tmp_path):
    workflow = dev.state()["id"]
    dev.git("worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    other = Folder(str(tmp_path / "other"), dev.environment)
    following = other.ok("task", "add", "more", "-w", workflow)["next"]
    assert following["command"] == ["holdfast", "resume", workflow]
    assert dev.path in following["about"]
    assert other.ok("show", workflow)["next"] == following
    other.ok(*following["command"][1:])
    assert other.ok("show")["next"]["command"][1] != "resume"


def test_a_claim_is_repeated_after_the_end_and_another_one_is_refused(dev):
    line = ["gate", "record", "spelling", "--passed", "--id", "r1"]
    dev.ok(*line)
    dev.ok("complete", "--force", "--reason", "enough")
    dev.ok(*line)
    assert dev.refused("gate", "record", "spelling", "--failed", "--id", "r1")["code"] == "invalid"
    assert dev.types(dev.ok("log")["events"][0]["stream"]).count("gate_recorded") == 1


# Kills


@pytest.mark.parametrize(
    "words", [("gate", "run", "lint"), ("tests", "run"), ("red",)], ids=lambda words: words[0]
)
def test_a_killed_command_leaves_nothing_running(dev, words):
    if words == ("red",):
        dev.git("switch", "-q", "-c", "feat/x")
        dev.ok("advance")
    script = "echo $$ >pid; (setsid sleep 600 & echo $! >>pid); kill -9 $PPID; exec sleep 600"
    command = [sys.executable, "-m", "holdfast", *words, "--", "sh", "-c", script]
    done = subprocess.run(command, cwd=dev.path, env=dev.environment, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    with open(os.path.join(dev.path, "pid"), encoding="utf-8") as file:
        pids = [int(line) for line in file]
    until = time.monotonic() + 60
    while any(map(os.path.exists, (f"/proc/{pid}" for pid in pids))):
        assert time.monotonic() < until
        time.sleep(0.01)


def fake_git(place, body):
    """Put a program in git's place that runs this first; return the environment of its users."""
    place.write("../bin/git", f'#!/bin/sh\n{body}\nexec {shutil.which("git")} "$@"\n')
    path = os.path.join(os.path.dirname(place.path), "bin")
    os.chmod(os.path.join(path, "git"), 0o755)
    return {**place.environment, "PATH": f"{path}:{os.environ['PATH']}"}


UNREADABLE = {
    "git status fails": lambda place: fake_git(place, 'case "$*" in *status*) exit 128;; esac'),
    "git is gone": lambda place: fake_git(place, "exit 127"),
    "git fails": lambda place: fake_git(place, "exit 128"),
    "git's index is broken": lambda place: place.write(".git/index", "nonsense"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_gate_is_stale_where_nobody_can_tell_whether_it_is_fresh(dev, name):
    dev.ok("gate", "run", "lint", "--", *PASSES)
    assert gate(dev, "lint")["status"] == "completed"
    environment = UNREADABLE[name](dev) or dev.environment
    if name != "git status fails":
        # The files themselves can be compared, without git.
        assert dev.run("gate", "list", "--json", env=environment).code == 0
        dev.write("README.md", "Edited.\n")
    listed = dev.run("gate", "list", "--json", env=environment)
    if listed.code == 0:
        (lint,) = [row for row in listed.json["gates"] if row["name"] == "lint"]
        assert lint["status"] == "stale"
    assert "lint" not in str(dev.run("complete", env=environment).out)
    refused = dev.run("complete", "--json", env=environment)
    assert refused.code != 0
    if refused.json["error"]["code"] == "pending":
        assert "lint" in refused.json["error"]["details"]["pending"]["gates"]


def test_what_cannot_be_told_is_said_and_leads_to_git(dev):
    environment = UNREADABLE["git status fails"](dev)
    answer = dev.run("gate", "run", "lint", "--json", "--", *PASSES, env=environment)
    assert answer.json["gate"]["status"] == "stale"
    assert any("git status fails" in note for note in answer.json["notes"])
    refused = dev.run("complete", "--json", env=environment).json
    assert (
        "nobody can tell whether files changed (git status fails) since"
        in (refused["error"]["message"])
    )
    assert gate(dev, "lint")["status"] == "stale", "a later answer of git makes no run fresh"


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_makes_every_run_stale(dev):
    dev.write("secret.txt", "1\n")
    os.chmod(os.path.join(dev.path, "secret.txt"), 0)
    assert dev.ok("gate", "run", "lint", "--", *PASSES)["gate"]["status"] == "stale"
