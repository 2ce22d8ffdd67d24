"""What goes wrong, and how a loop goes on: interruptions, timeouts, blocks, and disagreement."""

import os
import shutil
import subprocess

import pytest

from holdfast import Loops, Refused
from holdfast.core.next_step import turn_of

HOME = ".claude/iterative"
FOLDER = f"{HOME}/user-auth"
STATE = f"{FOLDER}/state.json"
PROGRESS = f"{FOLDER}/progress.md"


def open_login_loop(shop, mode="development", *units):
    loops = Loops(shop.keeper())
    loops.new("user-auth", mode, task="User auth", outcome="People can log in", domain="feature")
    for unit in units:
        loops.plan(None, unit, criteria=f"criteria of {unit[:2]}", max=3)
    return loops


def units_in(state):
    return {task["id"]: task for task in state["tasks"]}


def without_ledger(shop, *, record=True):
    """The ledger is gone; with ``record=False`` so is the record."""
    shutil.rmtree(shop.path(".git/holdfast"))
    if not record:
        os.remove(shop.path(STATE))


def record_content(document):
    """What a record tells, without when and by whom it was written."""
    return {key: document[key] for key in document if key not in ("updated", "_holdfast")}


def lived(shop, mode="development"):
    """A loop in which everything has happened; the one unit left is in its second iteration."""
    mark = "R" if mode == "knowledge" else "T"
    loops = open_login_loop(
        shop, mode, *(f"{mark}{number}: Unit {number}" for number in (1, 2, 3, 4))
    )
    one, two, three, four = (f"{mark}{number}" for number in (1, 2, 3, 4))
    loops.plan(None, two, depends=[one], files=["a.py", "b c.py"], model="haiku")
    loops.iterate(one, did="half\n\n## not a heading", remaining="the other half", blockers="slow")
    loops.iterate(one, did="the rest", signal=f"{one}_DONE")
    loops.confirm(one, issues="no test")
    loops.iterate(one, did="a test", signal=f"{one}_DONE")
    loops.confirm(one)
    loops.verify(one, failed="lint")
    loops.extend(one, 5)
    loops.iterate(one, did="lint", signal=f"{one}_DONE")
    loops.confirm(one)
    loops.verify(one, evidence={"command": "make test", "exit_code": 0})
    loops.block(three, "waits for access")
    for number in range(4):
        loops.iterate(four, did=f"try {number}", remaining="still wrong")
    loops.iterate(two, did="begun", remaining="most of it")
    loops.guardrail(when="dates", problem="local time", solution="UTC")
    return loops


# The four ways of the recovery


def test_after_an_interruption_the_next_session_has_unit_iteration_and_what_remains(shop):
    open_login_loop(shop, "development", "T1: One", "T2: Two").iterate(
        "T1", did="the model", remaining="its tests", blockers="no fixture"
    )
    briefing = shop.keeper(session="another").briefing()
    assert "ITERATION 2 of 3: T1 is in progress" in briefing
    assert "REMAINING: its tests" in briefing
    assert "BLOCKERS: no fixture" in briefing
    next_line = next(line for line in briefing.splitlines() if line.startswith("NEXT: "))
    assert next_line.endswith(": holdfast loop iterate T1 --did DID --signal T1_DONE")
    turn, _ = Loops(shop.keeper()).next()
    assert (turn["unit"], turn["iteration"], turn["remaining"]) == ("T1", 2, "its tests")


def test_the_iteration_after_the_last_makes_a_timeout_with_three_choices(shop):
    loops = open_login_loop(shop, "development", "T1: One", "T2: Two")
    for number in range(3):
        loops.iterate("T1", did=f"try {number}", remaining="still wrong")
    assert loops.next()[0]["turn"] == "timeout"
    receipt = loops.iterate("T1", did="a last try", remaining="still wrong")
    assert units_in(receipt.state)["T1"]["status"] == "timeout"
    said = receipt.notes[-1]
    assert all(choice in said for choice in ("loop extend", "simplify", "see to it yourself"))
    log = shop.read(PROGRESS).decode()
    assert "## T1 - Timeout - " in log
    assert "**Did:** a last try" in log
    assert loops.next()[0]["unit"] == "T2"
    with pytest.raises(Refused, match="it has used its 3 iterations"):
        loops.iterate("T1", did="once more", remaining="x")
    assert units_in(loops.extend("T1", 6).state)["T1"]["status"] == "in_progress"
    assert loops.next()[0]["iteration"] == 4


def test_simpler_criteria_with_more_iterations_let_a_unit_go_on(shop):
    loops = open_login_loop(shop, "development", "T1: One")
    for number in range(4):
        loops.iterate("T1", did=f"try {number}", remaining="still wrong")
    receipt = loops.plan(None, "T1", criteria="only half", max=5)
    assert units_in(receipt.state)["T1"]["status"] == "in_progress"


def test_a_blocked_unit_is_documented_and_frees_the_next(shop):
    loops = open_login_loop(shop, "development", "T1: One", "T2: Two", "T3: Three")
    loops.plan(None, "T3", depends=["T1"])
    loops.iterate("T1", did="some", remaining="more")
    loops.block("T1", "waits for access")
    assert "**Reason:** waits for access" in shop.read(PROGRESS).decode()
    turn, _ = loops.next()
    assert (turn["unit"], turn["stuck"]) == ("T2", {"T1": "blocked: waits for access"})
    loops.iterate("T2", did="all", signal="T2_DONE")
    loops.confirm("T2")
    loops.verify("T2")
    turn, _ = loops.next()
    assert (turn["turn"], turn["command"]) == ("wait", ["holdfast", "loop", "unblock", "T1"])
    assert units_in(loops.unblock("T1").state)["T1"]["status"] == "in_progress"
    assert loops.next()[0]["unit"] == "T1"


def test_a_record_that_disagrees_gives_way_to_log_and_git_and_it_is_logged(shop):
    loops = open_login_loop(shop, "development", "T1: One", "T2: Two")
    loops.iterate("T1", did="the model", remaining="its tests")

    def lie(document):
        document["tasks"]["T1"] = {"status": "timeout", "iterations_used": 7, "max_iterations": 3}
        document["phase"] = "deliver"

    shop.edit(STATE, lie)
    receipt = loops.rebuild("user-auth")
    unit = units_in(receipt.state)["T1"]
    assert (unit["status"], unit["iterations_used"], unit["remaining"]) == (
        "in_progress", 1, "its tests",
    )  # fmt: skip
    assert receipt.state["phase"] == "execute"
    said = "T1: status is 'timeout' in the state and 'in_progress' by the log"
    assert f"discrepancy: {said}" in receipt.notes
    moved = "phase is 'deliver' in the state and 'execute' by the log"
    assert f"discrepancy: {moved}" in receipt.notes
    assert said in shop.read(PROGRESS).decode()
    assert loops.rebuild("user-auth").notes == ["user-auth: its state, its pages and git agree"]


def test_a_phase_that_a_person_chose_is_no_disagreement(shop):
    loops = open_login_loop(shop, "development", "T1: One", "T2: Two")
    loops.iterate("T1", did="the model", remaining="its tests")
    loops.phase("verify")
    receipt = loops.rebuild("user-auth")
    assert receipt.notes == ["user-auth: its state, its pages and git agree"]
    assert receipt.state["phase"] == "verify"


# Rebuilding


@pytest.mark.parametrize("mode", ["development", "knowledge"])
@pytest.mark.parametrize("record", [True, False])
def test_with_the_ledger_gone_the_pages_give_the_same_state(shop, mode, record):
    loops = lived(shop, mode)
    before, brief = shop.document(STATE), loops.show().state
    without_ledger(shop, record=record)
    receipt = Loops(shop.keeper()).rebuild()
    assert record_content(shop.document(STATE)) == record_content(before)
    assert [note for note in receipt.notes if "discrepancy" in note] == []
    for key in ("tasks", "guardrails", "context", "title", "phase", "current_task"):
        assert receipt.state[key] == brief[key], key
    kept = [name for name in os.listdir(shop.path(FOLDER)) if "rejected" in name]
    assert len(kept) == record


def test_with_the_ledger_gone_the_record_alone_is_enough_too(shop):
    before = lived(shop).show().state
    without_ledger(shop)
    after = Loops(shop.keeper()).show("user-auth").state
    assert (after["tasks"], after["guardrails"]) == (before["tasks"], before["guardrails"])
    assert turn_of(after)[0]["id"] == "T2"


def test_git_is_trusted_over_the_log(shop):
    def git(*words):
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
        subprocess.run(["git", "-C", shop.root, *who, *words], check=True)

    loops = open_login_loop(shop, "development", "T1: One")
    git("commit", "-qm", "begin", "--allow-empty")
    git("commit", "-qm", "Add the model", "--allow-empty")
    loops.iterate("T1", did="some", remaining="more", commit="HEAD")
    receipt = loops.rebuild("user-auth")
    (line,) = receipt.state["commits"]
    assert line.endswith(": Add the model")
    git("reset", "-q", "--hard", "HEAD~1")
    git("reflog", "expire", "--expire=now", "--all")
    git("gc", "-q", "--prune=now")
    receipt = loops.rebuild("user-auth")
    assert receipt.state["commits"] == []
    assert any(f"git has no commit '{line[:12]}'" in note for note in receipt.notes)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.75, 0.9, 0.99])
def test_a_log_cut_inside_an_entry_is_made_whole_and_nothing_is_lost(shop, share):
    loops = lived(shop)
    whole, before = shop.read(PROGRESS), shop.document(STATE)
    shop.write(PROGRESS, whole[: int(len(whole) * share)])
    loops.settle()
    assert shop.read(PROGRESS).startswith(whole[: int(len(whole) * share)])
    without_ledger(shop, record=False)
    receipt = Loops(shop.keeper()).rebuild("user-auth")
    assert record_content(shop.document(STATE)) == record_content(before)
    assert [note for note in receipt.notes if "discrepancy" in note] == []


def test_a_log_cut_with_the_ledger_gone_gives_what_it_still_tells(shop):
    loops = open_login_loop(shop, "development", "T1: One")
    loops.iterate("T1", did="the model", remaining="its tests")
    loops.iterate("T1", did="the tests", signal="T1_DONE")
    whole = shop.read(PROGRESS)
    shop.write(PROGRESS, whole[: whole.index(b"**Signal") + 14])
    without_ledger(shop, record=False)
    receipt = Loops(shop.keeper()).rebuild("user-auth")
    unit = units_in(receipt.state)["T1"]
    assert (unit["status"], unit["iterations_used"]) == ("in_progress", 2)
    assert any("is not the signal of T1" in note for note in receipt.notes)


def test_a_lost_loop_is_not_overwritten_by_a_new_one(shop):
    lived(shop)
    without_ledger(shop, record=False)
    with pytest.raises(Refused, match="has the log of a loop that is not known here") as caught:
        Loops(shop.keeper()).new("user-auth")
    assert caught.value.hint == "holdfast loop rebuild user-auth"


def test_there_must_be_something_to_rebuild_from(shop):
    with pytest.raises(Refused, match="has neither units nor a log"):
        Loops(shop.keeper()).rebuild("nothing")
    with pytest.raises(Refused, match="loops with a folder here: none"):
        Loops(shop.keeper()).rebuild()


def test_an_unreadable_record_with_the_ledger_gone_is_kept_aside(shop):
    lived(shop)
    before = record_content(shop.document(STATE))
    without_ledger(shop)
    shop.write(STATE, b'{"torn": ')
    Loops(shop.keeper()).rebuild("user-auth")
    assert record_content(shop.document(STATE)) == before
    assert list(shop.beside(STATE).values()) == [b'{"torn": ']


def test_a_log_cut_inside_a_character_still_tells_all_before(shop):
    loops = open_login_loop(shop, "development", "T1: One", "T2: Two")
    loops.iterate("T1", did="all", signal="T1_DONE")
    loops.confirm("T1")
    loops.verify("T1")
    loops.iterate("T2", did="größer", remaining="müde")
    whole, before = shop.read(PROGRESS), shop.document(STATE)
    shop.write(PROGRESS, whole[: whole.index("ü".encode()) + 1])
    loops.rebuild("user-auth")
    assert record_content(shop.document(STATE)) == record_content(before)
    shop.write(PROGRESS, whole[: whole.index("ü".encode()) + 1])
    without_ledger(shop, record=False)
    done = units_in(Loops(shop.keeper()).rebuild("user-auth").state)
    assert (done["T1"]["status"], done["T2"]["iterations_used"]) == ("completed", 1)


def test_a_log_of_any_length_is_told_again(shop):
    loops = open_login_loop(shop, "development", "T1: One")
    loops.iterate("T1", did="all", signal="T1_DONE")
    shop.write(PROGRESS, shop.read(PROGRESS) + b"\n" + b"A note. " * 600_000)
    assert loops.rebuild("user-auth").notes == ["user-auth: its state, its pages and git agree"]


@pytest.mark.parametrize("is_known", [True, False])
def test_without_a_log_that_can_be_read_nothing_is_taken_back(shop, is_known):
    loops = open_login_loop(shop, "development", "T1: One")
    before = loops.iterate("T1", did="all", signal="T1_DONE").state
    os.rename(shop.path(PROGRESS), shop.path("log.md"))
    os.mkdir(shop.path(PROGRESS))
    if not is_known:
        without_ledger(shop, record=False)
    with pytest.raises(Refused, match=r"progress.md is not a file that can be read") as caught:
        Loops(shop.keeper()).rebuild("user-auth")
    assert caught.value.hint.endswith("then: holdfast loop rebuild user-auth")
    os.rmdir(shop.path(PROGRESS))
    os.rename(shop.path("log.md"), shop.path(PROGRESS))
    after = Loops(shop.keeper()).rebuild("user-auth").state
    assert units_in(after)["T1"]["status"] == units_in(before)["T1"]["status"] == "confirming"
