"""Loops on the command line: what is refused and why, and what is never lost by it."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from holdfast import Keeper, Loops, Refused

FOLDER = ".claude/iterative"


def planned(place, *units, slug="user-auth"):
    place.ok("loop", "new", slug)
    for unit in units:
        place.ok("loop", "plan", slug, "--unit", unit)


def unit(place, name="T1"):
    return next(task for task in place.state()["tasks"] if task["id"] == name)


def read(place, name, slug="user-auth"):
    with open(os.path.join(place.path, FOLDER, slug, name), encoding="utf-8") as file:
        return file.read()


SLUGS = (
    "..", "a/b", "../up", "a..b", "User", "x" * 300, "archive", "-a", "a-", "a--b", "a b", "é",
    "a.md", "~", "a\nb", ".",
)  # fmt: skip


def test_a_name_that_is_no_folder_is_refused_and_nothing_is_made(repo):
    loops = Loops(Keeper(repo.path))
    for slug in SLUGS:
        for ask in (loops.new, loops.next, loops.show, loops.archive, loops.rebuild):
            with pytest.raises(Refused, match="the name") as caught:
                ask(slug)
            assert (caught.value.code, len(caught.value.message) < 200) == ("invalid", True)
        answer = repo.run("loop", "new", "--json", "--", slug)
        assert (answer.code, answer.json["error"]["hint"]) == (1, "holdfast loop new my-loop")
    assert not repo.has(FOLDER)
    assert sorted(os.listdir(os.path.dirname(repo.path))) == ["home", "work"]


def test_an_empty_name_is_a_mistake_of_the_command_line(repo):
    assert repo.refused("loop", "new", "", exit_code=2)["code"] == "usage"


REFUSED = [
    ("loop new x --mode art", "invalid", "there is no mode 'art'"),
    ("loop plan --unit title", "invalid", "does not begin with a unit from T1"),
    ("loop plan --unit R1:x", "invalid", "does not begin with a unit from T1"),
    ("loop plan --unit T0:x", "invalid", "does not begin with a unit from T1"),
    ("loop plan --unit T12345:x", "invalid", "does not begin with a unit from T1"),
    ("loop plan --unit T3:x --max 5000", "invalid", "the maximum must be 1 to 1000"),
    ("loop plan --unit T3:x --depends T9", "not_found", "'T9', which is not planned"),
    ("loop plan --unit T1 --depends T1", "invalid", "T1 would wait for itself"),
    ("loop plan --unit T1 --depends T2", "invalid", "would wait for itself, through T2"),
    ("loop iterate T9 --did x --remaining y", "not_found", "has no unit 'T9'; it has T1, T2"),
    ("loop iterate T1 --did x", "invalid", "say what remains, or give the unit's signal"),
    ("loop iterate T1 --did x --signal T2_DONE", "invalid", "that is T1_DONE"),
    ("loop iterate T1 --did x --signal DONE", "invalid", "that is T1_DONE"),
    ("loop iterate T2 --did x --remaining y", "wrong_order", "it waits for T1"),
    ("loop confirm T1 --clean", "wrong_order", "it is pending, not confirming"),
    ("loop verify T1 --passed", "wrong_order", "it is pending, not verifying"),
    ("loop verify T1 --run -- test -d .", "wrong_order", "it is pending, not verifying"),
    ("loop unblock T1", "wrong_order", "it is pending"),
    ("loop extend T9 --max 3", "not_found", "has no unit 'T9'"),
    ("loop phase complete", "invalid", "when it is in the archive"),
    ("loop phase party", "not_found", "party"),
    ("task done T1", "wrong_order", "confirmed and verified"),
    ("loop next nothing", "not_found", "there is no workflow 'nothing'"),
    ("loop status nothing", "not_found", "there is no workflow 'nothing'"),
]


def test_what_does_not_fit_is_refused_with_the_next_command(repo):
    planned(repo, "T1: One", "T2: Two")
    repo.ok("loop", "plan", "--unit", "T2", "--depends", "T1")
    before = repo.state()
    for line, code, why in REFUSED:
        error = repo.refused(*line.split())
        assert (error["code"], why in error["message"]) == (code, True), (line, error)
    assert repo.state() == before


def test_every_refusal_of_a_loop_has_a_next_step_that_is_not_the_refused_command(repo):
    answer = repo.run("loop", "iterate", "T1", "--did", "x", "--remaining", "y", "--json")
    assert answer.json["next"]["command"] == ["holdfast", "loop", "new", "SLUG"]
    assert list(answer.json["next"]["fill"]) == ["SLUG"]
    planned(repo, "T1: One", "T2: Two")
    repo.ok("loop", "plan", "--unit", "T2", "--depends", "T1")
    for line, _, _ in REFUSED:
        step = repo.run(*repo.in_json(line.split())).json["next"]
        assert step["command"][0] == "holdfast", (line, step)
        assert step["command"][1:] != line.split()
        assert set(step) >= {"command", "about", "fill"}
    planned(repo, "T1: Other", slug="search")
    step = repo.run("loop", "confirm", "T1", "--clean", "-w", "search", "--json").json["next"]
    assert step["command"][-2:] == ["-w", "search"]


def test_every_answer_about_a_loop_has_the_next_step(repo):
    lines = {
        "loop status": "loop new SLUG",
        "loop new user-auth": "loop plan --unit T1:_TITLE",
        "loop plan --unit T1:_One --verify ls": "loop iterate T1 --did DID --signal T1_DONE",
        "loop status user-auth": "loop iterate T1 --did DID --signal T1_DONE -w user-auth",
        "loop block T1 --reason key": "show",
        "show": "loop unblock T1",
        "loop unblock T1": "loop iterate T1 --did DID --signal T1_DONE",
        "loop extend T1 --max 9": "loop iterate T1 --did DID --signal T1_DONE",
        "loop guardrail add --when a --problem b --solution c":
            "loop iterate T1 --did DID --signal T1_DONE",
        "loop iterate T1 --did all --signal T1_DONE": "loop confirm T1 --clean",
        "loop confirm T1 --clean": "loop verify T1 --run",
        "loop next": "loop verify T1 --run",
        "loop rebuild": "loop verify T1 --run",
        "loop verify T1 --run -- ls": "loop archive",
    }  # fmt: skip
    for line, following in lines.items():
        step = repo.ok(*[word.replace("_", " ") if ":_" in word else word for word in line.split()])
        words = [word.replace("_", " ") if ":_" in word else word for word in following.split()]
        assert step["next"]["command"] == ["holdfast", *words], line
    assert repo.ok("loop", "archive")["next"] is None


def test_a_claim_does_not_take_the_place_of_a_run_that_a_unit_declares(repo):
    planned(repo)
    repo.ok("loop", "plan", "--unit", "T1: One", "--verify", "test -f done")
    repo.ok("loop", "iterate", "T1", "--did", "all", "--signal", "T1_DONE")
    repo.ok("loop", "confirm", "T1", "--clean")
    error = repo.refused("loop", "verify", "T1", "--passed")
    assert (error["code"], error["hint"]) == ("needs_run", "holdfast loop verify T1 --run")
    error = repo.refused("loop", "verify", "T1", "--run", "--", "test", "-d", ".")
    assert error["code"] == "needs_run"
    assert "test -f done" in error["message"]
    answer = repo.run("loop", "verify", "T1", "--run", "--json")
    assert (answer.code, answer.json["error"]["code"]) == (1, "untrusted")
    assert answer.json["next"]["command"] == ["holdfast", "trust"]
    assert answer.json["next"]["by"] == "person"
    # What is typed needs no approval, but it must be that command.
    own = ("loop", "verify", "T1", "--run", "--", "test", "-f", "done")
    answer = repo.run(*repo.in_json(own))
    assert answer.code == 4, answer
    assert answer.json["next"]["command"][:4] == ["holdfast", "loop", "iterate", "T1"]
    assert "fix it" in answer.json["next"]["about"]
    repo.write("done", "")
    repo.ok("loop", "iterate", "T1", "--did", "all", "--signal", "T1_DONE")
    repo.ok("loop", "confirm", "T1", "--clean")
    assert repo.refused("loop", "verify", "T1", "--passed")["code"] == "needs_run"
    repo.ok(*own)
    assert unit(repo)["status"] == "completed"


def test_the_result_of_a_run_cannot_be_edited_away(repo):
    planned(repo, "T1: One")
    repo.ok("loop", "iterate", "T1", "--did", "all", "--signal", "T1_DONE")
    repo.ok("loop", "confirm", "T1", "--clean")
    assert repo.run("loop", "verify", "T1", "--run", "--", "test", "-f", "nowhere").code == 4
    for value in ({"command": "test -f nowhere", "exit_code": 0}, "passed"):
        repo.edit(
            f"{FOLDER}/user-auth/state.json",
            lambda record: record["tasks"]["T1"].update(verification_run=value),  # noqa: B023
        )
        repo.ok("loop", "guardrail", "add", "--when", "a", "--problem", "b", "--solution", "c")
        assert unit(repo)["verification_run"] == {"command": "test -f nowhere", "exit_code": 1}
    shutil.rmtree(os.path.join(repo.path, ".git/holdfast"))
    assert unit(repo)["verification_run"] == {"command": "test -f nowhere", "exit_code": 1}
    shutil.rmtree(os.path.join(repo.path, ".git/holdfast"), ignore_errors=True)
    os.remove(os.path.join(repo.path, FOLDER, "user-auth", "state.json"))
    repo.ok("loop", "rebuild", "user-auth")
    assert unit(repo)["verification_run"] == {"command": "test -f nowhere", "exit_code": 1}


def test_a_commit_must_exist_and_is_listed_with_its_subject(repo):
    planned(repo, "T1: One")
    work = ("loop", "iterate", "T1", "--did", "The model.", "--remaining", "its tests")
    for name in ("4f5e6d7", "--all", "HEAD:README.md", "nothing\x07"):
        error = repo.refused(*work, f"--commit={name}")
        assert error["code"] == "no_commit"
    repo.commit("model.py", "N = 1\n", "Add the model")
    head = repo.git("rev-parse", "HEAD")
    state = repo.ok(*work, "--commit", "HEAD")["workflow"]
    assert state["commits"] == [f"{head[:12]}: Add the model"]
    assert f"**Commit:** {head[:12]}" in read(repo, "progress.md")


LACKING = [
    "loop", "loop dance", "loop guardrail", "loop guardrail ad", "loop new", "loop plan",
    "loop iterate", "loop iterate T1", "loop confirm T1", "loop confirm T1 --clean --issues x",
    "loop verify T1", "loop verify T1 --passed --failed x", "loop verify T1 --passed -- true",
    "loop block T1", "loop extend T1", "loop extend T1 --max lots", "loop run user-auth",
    "loop guardrail add --when x",
]  # fmt: skip


def test_a_unit_can_be_told_to_wait_for_nobody_any_more(repo):
    planned(repo, "T1: One", "T2: Two")
    repo.ok("loop", "plan", "--unit", "T2", "--depends", "T1")
    assert "  - Depends: T1\n" in read(repo, "tasks.md")
    repo.ok("loop", "plan", "--unit", "T2", "--depends", "none")
    assert unit(repo, "T2").get("depends") is None
    assert "  - Depends: T1\n" not in read(repo, "tasks.md")
    assert "T1 (independent)\nT2 (independent)\n" in read(repo, "tasks.md")


def test_a_command_line_that_lacks_something_is_explained(repo):
    for line in LACKING:
        error = repo.refused(*line.split(), exit_code=2)
        assert (error["code"], error["hint"][:9]) == ("usage", "holdfast "), line
    assert not repo.has(".claude")


def test_nothing_becomes_done_without_a_confirmation_and_a_verification(repo):
    planned(repo, "T1: One")
    repo.ok("loop", "iterate", "T1", "--did", "all", "--signal", "<signal>T1_DONE</signal>")
    assert repo.refused("loop", "verify", "T1", "--passed")["code"] == "wrong_order"
    assert repo.refused("loop", "iterate", "T1", "--did", "x", "--remaining", "y")["hint"] == (
        "holdfast loop confirm T1 --clean"
    )
    repo.ok("loop", "confirm", "T1", "--issues", "no test")
    assert (unit(repo)["status"], unit(repo)["remaining"]) == ("in_progress", "no test")
    repo.ok("loop", "iterate", "T1", "--did", "a test", "--signal", "T1_DONE")
    repo.ok("loop", "confirm", "T1", "--clean")
    answer = repo.run(
        "loop", "verify", "T1", "--json", "--run", "--", "sh", "-c", "echo no; exit 3"
    )
    assert (answer.code, answer.json["error"]["code"]) == (4, "failed")
    assert "exit code 3: no" in answer.json["error"]["message"]
    assert unit(repo)["status"] == "in_progress"
    repo.ok("loop", "iterate", "T1", "--did", "mended", "--signal", "T1_DONE")
    repo.ok("loop", "confirm", "T1", "--clean")
    answer = repo.run("loop", "verify", "T1", "--run", "--", "test", "-d", ".")
    assert answer.out.startswith("✓ verification of T1: done")
    found = unit(repo)
    assert (found["status"], found["verification_passed"]) == ("completed", True)
    assert (found["iterations_used"], found["confirmations_used"]) == (3, 3)
    assert "**Exit code:** 3" in read(repo, "progress.md")


def test_without_a_name_the_active_loop_is_meant_and_several_are_named(repo):
    assert repo.refused("loop", "next")["hint"] == "holdfast loop new SLUG"
    planned(repo, "T1: One")
    assert repo.ok("loop", "next")["next"]["loop"] == "user-auth"
    planned(repo, "T1: Other", slug="search")
    error = repo.refused("loop", "next")
    assert (error["code"], error["message"]) == (
        "ambiguous", "several loops are active: search, user-auth; name one with -w",
    )  # fmt: skip
    assert repo.ok("loop", "next", "search")["next"]["title"] == "Other"
    assert repo.ok("loop", "iterate", "T1", "-w", "search", "--did", "a", "--remaining", "b")
    assert [one["id"] for one in repo.ok("loop", "status")["loops"]] == ["search", "user-auth"]
    mine = repo.as_session("s-1")
    mine.ok("resume", "user-auth")
    assert mine.ok("loop", "next")["next"]["loop"] == "user-auth"


def test_a_command_that_is_offered_can_be_pasted_and_means_the_loop_that_was_named(repo):
    planned(repo)
    words = ["holdfast", "loop", "plan", "--unit", "T1: TITLE"]
    assert repo.ok("loop", "next")["next"]["command"] == words
    planned(repo, "T1: Other", slug="search")
    for words in (("search",), ("-w", "search")):
        command = repo.ok("loop", "next", *words)["next"]["command"]
        assert command == [
            "holdfast", "loop", "iterate", "T1", "--did", "DID", "--signal", "T1_DONE", "-w",
            "search",
        ]  # fmt: skip
    repo.ok("loop", "block", "T1", "-w", "search", "--reason", "no access")
    offered = repo.ok("loop", "next", "search")["next"]["command"]
    assert offered == ["holdfast", "loop", "unblock", "T1", "-w", "search"]
    repo.ok(*offered[1:])


def test_where_only_the_folder_of_a_loop_is_left_its_rebuild_is_offered(repo):
    planned(repo, "T1: One")
    repo.ok("loop", "iterate", "T1", "--did", "some", "--remaining", "more")
    shutil.rmtree(os.path.join(repo.path, ".git/holdfast"))
    os.remove(os.path.join(repo.path, FOLDER, "user-auth", "state.json"))
    os.makedirs(os.path.join(repo.path, FOLDER, "No Slug"))
    assert "holdfast loop rebuild user-auth" in repo.run("loop", "status").out
    error = repo.refused("loop", "next")
    assert error["hint"] == "holdfast loop rebuild user-auth"
    assert "has the log of one" in error["message"]
    repo.ok("loop", "rebuild", "user-auth")
    assert repo.ok("loop", "next")["next"]["remaining"] == "more"


def test_the_next_turn_is_told_with_all_it_needs(repo):
    planned(repo)
    repo.ok("loop", "plan", "--unit", "T1: Log in", "--criteria", "tests pass", "--files",
            "a.py, b.py", "--model", "haiku", "--max", "4")  # fmt: skip
    repo.ok("loop", "iterate", "T1", "--did", "form", "--remaining", "token", "--blockers", "slow")
    repo.ok(
        "loop", "guardrail", "add", "--when", "dates", "--problem", "local", "--solution", "UTC"
    )
    text = repo.run("loop", "next").out
    for line in (
        "▶ T1: Log in", "  in progress, iteration 2 of 4", "  criteria: tests pass",
        "  files: a.py, b.py", "  remaining: token", "  blockers: slow", "  model: haiku",
        "  guardrail: when dates: local; UTC",
        "  next: holdfast loop iterate T1 --did DID --signal T1_DONE",
        "    or: holdfast loop iterate T1 --did DID --remaining REMAINING",
    ):  # fmt: skip
        assert line in text.splitlines()
    assert len(text) < 500


def test_stored_text_cannot_drive_a_terminal(repo):
    planned(repo)
    evil = "x\x1b[2J\u202e</signal>\r\nT9"
    repo.ok("loop", "plan", "--unit", f"T1: {evil}", "--criteria", evil)
    repo.ok("loop", "iterate", "T1", "--did", evil, "--remaining", evil, "--blockers", evil)
    repo.ok("loop", "block", "T1", "--reason", evil)
    for words in (("loop", "next"), ("loop", "status"), ("resume",), ("loop", "archive")):
        assert "\x1b" not in repo.run(*words).out
        assert "\u202e" not in repo.run(*words).out


def test_two_processes_on_the_same_unit_lose_nothing(repo):
    planned(repo, "T1: One")
    repo.ok("loop", "extend", "T1", "--max", "20")
    writers = [
        subprocess.Popen(
            [sys.executable, "-m", "holdfast", "loop", "iterate", "T1", "--did", f"part {number}",
             "--remaining", "more"],
            cwd=repo.path, env=repo.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for number in range(8)
    ]  # fmt: skip
    said = [writer.communicate(timeout=120) for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 8, said
    assert unit(repo)["iterations_used"] == 8
    log = read(repo, "progress.md")
    assert sorted(re.findall(r"## T1 - Iteration (\d) - ", log)) == [str(n) for n in range(1, 9)]
    assert sorted(re.findall(r"part (\d)", log)) == [str(n) for n in range(8)]


def test_two_processes_that_confirm_the_same_unit_are_told_apart(repo):
    planned(repo, "T1: One")
    repo.ok("loop", "iterate", "T1", "--did", "all", "--signal", "T1_DONE")
    command = [sys.executable, "-m", "holdfast", "loop", "confirm", "T1", "--clean"]
    both = [
        subprocess.Popen(
            command, cwd=repo.path, env=repo.environment, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    said = [process.communicate(timeout=120)[1].decode() for process in both]
    assert sorted(process.returncode for process in both) == [0, 1]
    assert any("it is verifying, not confirming" in text for text in said)
    assert unit(repo)["confirmations_used"] == 1


def test_a_request_with_an_id_is_an_iteration_once(repo):
    planned(repo, "T1: One")
    words = ("loop", "iterate", "T1", "--did", "a", "--remaining", "b", "--id", "turn-1")
    assert repo.ok(*words)["seqs"] == repo.ok(*words)["seqs"]
    assert unit(repo)["iterations_used"] == 1


def test_where_nothing_can_be_written_a_loop_can_still_be_looked_at(repo):
    planned(repo, "T1: One")
    home = os.path.join(repo.path, ".git/holdfast")
    os.chmod(os.path.join(home, "lock"), 0o400)
    os.chmod(home, 0o500)
    try:
        answer = repo.run("loop", "status", "user-auth", "--json", rights=False)
        assert answer.code == 0, answer
        assert answer.json["loops"][0]["tasks"][0]["id"] == "T1"
    finally:
        os.chmod(home, 0o700)


def test_the_briefing_tells_of_unit_iteration_remaining_blockers_and_guardrails(repo):
    planned(repo, "T1: Log in", "T2: Log out")
    repo.ok("loop", "iterate", "T1", "--did", "form", "--remaining", "token", "--blockers", "slow")
    repo.ok(
        "loop", "guardrail", "add", "--when", "dates", "--problem", "local", "--solution", "UTC"
    )
    repo.ok("loop", "block", "T2", "--reason", "no access")
    briefing = repo.ok("resume")["briefing"].splitlines()
    for line in (
        "TASK 1/2 (T1): Log in (in progress)",
        "ITERATION 2 of 5: T1 is in progress", "REMAINING: token", "BLOCKERS: slow",
        "BLOCKED task T2 (Log out): no access", "GUARDRAILS:", "- when dates: local; instead: UTC",
    ):  # fmt: skip
        assert line in briefing
    step = "holdfast loop iterate T1 --did DID --signal T1_DONE"
    assert f"NEXT: T1 (Log in): work on it; when every criterion is met: {step}" in briefing
