"""``holdfast`` alone: what is going on here, and what is likely next. It changes nothing."""

import os
import shutil
import subprocess
import sys

import pytest

from support.paths import SOURCE

LEDGER = ".git/holdfast/ledger.db"


def everything(place):
    """Every file below a folder, with its bytes; the memory that SQLite shares is no file."""
    found = {}
    for folder, _, names in os.walk(place.path):
        for name in names:
            if name == "ledger.db-shm":
                continue
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.join(folder, name)] = file.read()
    return found


def ask_without_trace(place, *words):
    """The answer as text and as JSON; neither leaves a trace."""
    before = everything(place)
    text = place.run(*words)
    answer = place.ok(*words)
    assert text.code == 0, text
    assert everything(place) == before
    assert 1 <= len(answer["next"]) <= 3
    for row in answer["next"]:
        assert row["command"] in text.out
    return text.out, answer


def commands(answer):
    return [row["command"] for row in answer["next"]]


def test_where_nothing_was_begun_it_says_how_to_begin(repo):
    text, answer = ask_without_trace(repo)
    assert text.startswith("work · branch main\nNo workflow is active here.\n")
    assert commands(answer) == ["holdfast start RECIPE SUBJECT", "holdfast init", "holdfast demo"]
    assert (answer["workflows"], answer["mine"], answer["git"]) == ([], None, True)


def test_after_init_it_is_not_offered_again(repo):
    repo.ok("init")
    _, answer = ask_without_trace(repo)
    assert commands(answer) == [
        "holdfast start RECIPE SUBJECT",
        "holdfast recipes",
        "holdfast demo",
    ]


def test_outside_of_git_it_says_so_and_makes_no_folder(folder):
    text, answer = ask_without_trace(folder)
    assert text.startswith("work · not a git repository\n")
    assert (answer["git"], answer["branch"]) == (False, None)
    assert not folder.has(".claude")


def test_one_workflow_is_told_with_its_next_step(repo):
    repo.ok("start", "dev", "login.md", "--task", "Check the password")
    _, answer = ask_without_trace(repo)
    branch = "holdfast advance --branch BRANCH"
    assert commands(answer) == [branch, "holdfast resume", "holdfast watch"]
    assert answer["mine"] == answer["workflows"][0]["id"]
    repo.ok("advance")
    repo.ok("advance", "--branch", "feat/login")
    assert commands(ask_without_trace(repo)[1])[0] == "holdfast red -- COMMAND"
    repo.ok("red", "--", "test", "-f", ".")
    assert commands(ask_without_trace(repo)[1])[0] == "holdfast green"


def test_of_several_none_is_taken_but_the_newest_is_named(repo):
    repo.ok("start", "tdd", "one")
    newest = repo.ok("start", "tdd", "two")["workflow"]["id"]
    text, answer = ask_without_trace(repo)
    assert (answer["mine"], len(answer["workflows"])) == (None, 2)
    assert commands(answer) == [
        f"holdfast resume {newest}",
        f"holdfast show {newest}",
        "holdfast watch",
    ]
    other = answer["workflows"][1]["id"]
    assert (
        commands(ask_without_trace(repo, "-w", other)[1])[0]
        == f"holdfast red -w {other} -- COMMAND"
    )
    assert other in text


def test_many_workflows_are_not_all_listed(repo):
    for number in range(10):
        repo.ok("start", "tdd", f"subject {number}")
    text, answer = ask_without_trace(repo)
    assert len(answer["workflows"]) == 10
    assert "and 2 more: holdfast status" in text


def test_an_initiative_gives_one_of_the_next_steps(repo):
    repo.ok("initiative", "create", "Tidy", "--milestone", "M1:Map")
    text, answer = ask_without_trace(repo)
    assert "initiative Tidy" in text
    assert commands(answer)[0] == "holdfast initiative start M1"
    repo.ok("start", "tdd", "one")
    assert commands(ask_without_trace(repo)[1])[2] == "holdfast initiative start M1"
    # An edit of its record is seen by somebody who only looks, and recorded by the next change.
    path = os.path.join(repo.path, ".claude/initiative.json")
    with open(path, encoding="utf-8") as file:
        edited = file.read().replace("Map", "Chart")
    repo.write(".claude/initiative.json", edited)
    assert ask_without_trace(repo)[1]["initiative"]["milestones"][0]["title"] == "Chart"
    events = len(repo.types())
    repo.ok("initiative", "start", "M1")
    assert repo.types()[events:] == ["record_edited", "milestone_started"]


def test_a_milestone_is_begun_with_a_workflow_and_completed_after_it(repo):
    repo.ok("initiative", "create", "Tidy", "--milestone", "M1:Map", "--milestone", "M2:Sweep")
    repo.ok("initiative", "start", "M1")
    begin, end = "holdfast start RECIPE SUBJECT --milestone M1", "holdfast initiative complete M1"
    assert commands(ask_without_trace(repo)[1]) == [begin, end, "holdfast recipes"]
    other = repo.ok("start", "tdd", "something else")["workflow"]["id"]
    assert commands(ask_without_trace(repo)[1])[2] == begin
    repo.ok("abandon", "-w", other)
    mine = repo.ok("start", "tdd", "one", "--milestone", "M1")["workflow"]["id"]
    assert commands(ask_without_trace(repo)[1]) == [
        "holdfast red -- COMMAND",
        "holdfast resume",
        "holdfast watch",
    ]
    repo.ok("complete", "-w", mine, "--force", "--reason", "enough")
    assert commands(ask_without_trace(repo)[1])[0] == end
    repo.ok("initiative", "complete", "M1")
    assert commands(ask_without_trace(repo)[1])[0] == "holdfast initiative start M2"


def test_a_loop_is_gone_on_with_by_its_turn(repo):
    repo.ok("loop", "new", "survey", "--mode", "knowledge", "--outcome", "Understood")
    repo.ok("loop", "plan", "survey", "--unit", "R1:Sources", "--criteria", "three")
    assert commands(ask_without_trace(repo)[1])[0].startswith("holdfast loop ")


def test_what_ended_can_be_brought_back(repo):
    name = repo.ok("start", "tdd", "one")["workflow"]["id"]
    repo.ok("abandon")
    assert commands(ask_without_trace(repo)[1])[0] == f"holdfast resume {name}"
    repo.ok("resume", name)
    repo.ok("complete", "--force", "--reason", "enough")
    assert commands(ask_without_trace(repo)[1])[0] == "holdfast start RECIPE SUBJECT"


def test_on_another_branch_it_says_where_the_work_is(repo):
    repo.ok("start", "planning", "one")
    repo.git("switch", "-q", "-c", "other")
    text, answer = ask_without_trace(repo)
    assert answer["mine"] is None
    assert "is for branch main; this is other" in text
    name = answer["workflows"][0]["id"]
    assert commands(answer) == [
        "git switch main",
        f"holdfast resume {name}",
        f"holdfast show {name}",
    ]


def test_on_another_branch_a_session_is_shown_the_way_back_first(repo):
    ada = repo.as_session("ada", os.getpid())
    ada.ok("start", "planning", "one", "--task", "Look")
    ada.git("switch", "-q", "-c", "other")
    found = commands(ask_without_trace(ada)[1])
    assert found == ["git switch main", "holdfast advance", "holdfast resume"]
    ada.git("switch", "-q", "main")
    assert commands(ask_without_trace(ada)[1])[0] == "holdfast advance"


def test_the_branch_of_another_worktree_is_no_way_to_go(repo):
    repo.ok("start", "planning", "one")
    repo.git("worktree", "add", "-q", "../search", "-b", "search")
    found = commands(ask_without_trace(repo.at("..", "search"))[1])
    assert found[0].startswith("holdfast resume ")


def test_an_edited_record_is_shown_and_left_to_the_next_change(repo):
    repo.git("switch", "-q", "-c", "feat/x")
    record = repo.ok("start", "dev", "x", "--task", "Old")["workflow"]["record"]
    for _ in range(2):
        repo.ok("advance")
    with open(os.path.join(repo.path, record), encoding="utf-8") as file:
        repo.write(record, file.read().replace('"Old"', '"New"'))
    text, answer = ask_without_trace(repo)
    assert "task 1 (New)" in text
    assert answer["notes"][0].endswith("its next change adopts that")
    assert "record_edited" not in repo.types()
    repo.ok("task", "start", "1")
    assert repo.types().count("record_edited") == 1
    assert "notes" not in ask_without_trace(repo)[1]


def test_a_damaged_ledger_comes_first(repo):
    repo.ok("start", "dev", "x", "--task", "one")
    repo.write(LEDGER, "nothing that SQLite could read " * 200)
    for end in ("-wal", "-shm"):
        os.remove(os.path.join(repo.path, f"{LEDGER}{end}"))
    text, answer = ask_without_trace(repo)
    (damage,) = answer["damage"]
    assert LEDGER in damage
    assert commands(answer)[:2] == ["holdfast verify", "holdfast repair"]
    assert f"✗ {damage}"[:40] in text


def test_a_ledger_that_cannot_be_read_is_a_fault(repo):
    repo.ok("start", "dev", "x")
    for end in ("", "-wal", "-shm"):
        os.remove(os.path.join(repo.path, f"{LEDGER}{end}"))
    os.makedirs(os.path.join(repo.path, LEDGER))
    assert repo.refused(exit_code=3)["code"] == "storage"


LOADED = """\
import sys
sys.path.insert(0, sys.argv[1])
from holdfast.cli.main import main
code = main(sys.argv[2:])
print(*sorted(sys.modules), sep="\\n", file=sys.stderr)
raise SystemExit(code)
"""


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_it_loads_no_more_than_status_does(repo, words):
    repo.ok("start", "dev", "x", "--task", "one")

    def loaded(*words):
        command = [sys.executable, "-I", "-S", "-c", LOADED, SOURCE, *words]
        done = subprocess.run(
            command, cwd=repo.path, env=repo.environment, capture_output=True, check=True
        )
        return set(done.stderr.decode().split())

    own = {"holdfast.cli.commands.overview", "holdfast.core.next_step"}
    assert loaded(*words) - loaded("status", *words) <= own


def test_where_nothing_can_be_written_it_says_so_and_offers_what_only_looks(repo):
    def looked():
        answer = repo.ok(rights=False)
        assert any("nothing can be written here" in note for note in answer["notes"])
        for command in commands(answer)[:2]:
            done = repo.run(*command.split()[1:], rights=False)
            assert "will not persist" not in done.err
        return commands(answer)

    os.chmod(repo.path, 0o555)
    assert looked() == ["holdfast doctor", "holdfast recipes", "holdfast demo"]
    os.chmod(repo.path, 0o755)
    assert "notes" not in repo.ok(rights=False)
    name = repo.ok("start", "tdd", "x")["workflow"]["id"]
    for folder in (".claude", ".git/holdfast"):
        os.chmod(os.path.join(repo.path, folder), 0o555)
        assert looked() == [f"holdfast show {name}", "holdfast doctor", "holdfast watch"]
        os.chmod(os.path.join(repo.path, folder), 0o755)
    assert commands(repo.ok(rights=False))[0] == "holdfast red -- COMMAND"


def test_a_current_folder_that_is_gone_is_told_in_words(repo):
    gone = repo.at("gone")
    for words in ([], ["status"], ["start", "tdd", "x"], ["init"]):
        os.makedirs(gone.path, exist_ok=True)
        line = 'rmdir "$PWD" && exec "$@"'
        done = subprocess.run(
            ["sh", "-c", line, "sh", sys.executable, "-m", "holdfast", *words],
            cwd=gone.path, env=gone.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 3
        assert done.stderr == ("holdfast: the current folder is gone\n  cd to one that exists\n")


def test_a_record_that_the_ledger_lost_is_named_and_can_be_taken_in(repo):
    state = repo.ok("start", "dev", "a.md")["workflow"]
    shutil.rmtree(os.path.join(repo.path, ".git/holdfast"))
    looked = repo.ok()
    assert f"{state['record']} is not in the ledger yet" in looked["notes"][0]
    assert looked["next"][0]["command"] == f"holdfast resume {state['id']}"
    repo.ok("resume", state["id"])
    assert [row["record"] for row in repo.ok()["workflows"]] == [state["record"]]
