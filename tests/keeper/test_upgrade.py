"""A ledger of version 0.1 is taken in by a person's import alone, once, and its files stay."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from histories import record
from holdfast import Refused
from promises import strace
from support.paths import SOURCE
from support.workshop import Workshop, lines_of, sampled

OLD_FOLDER = ".claude/holdfast"
OLD = f"{OLD_FOLDER}/ledger.ndjson"
IMPORT = ["import", OLD_FOLDER]
HISTORY = os.path.join(record.HERE, "0.1.0", "ledger.ndjson")
COMMANDS = [
    *("", "status", "show dev-b4c2cccf", "log", "verify", "context", "export", "watch --once"),
    *("remember x", "start tdd x", "remind x -w dev-b4c2cccf", "resume dev-b4c2cccf", "repair"),
    *("initiative show", "interview show", "loop status", "hook", "clean", "doctor"),
]
HOOK = {"hook_event_name": "SessionStart", "session_id": "s", "source": "startup"}


def old_lines():
    with open(HISTORY, "rb") as file:
        return file.read().splitlines(keepends=True)


@pytest.fixture
def old_shop(shop):
    """A workshop with the ledger of 0.1 in it."""
    return put_old_ledger(shop)


def put_old_ledger(shop, lines=None):
    shop.write(OLD, b"".join(old_lines() if lines is None else lines))
    return shop


def take_in(shop, folder=OLD_FOLDER):
    """Import the old ledger; return the notes."""
    keeper = shop.keeper()
    keeper.import_file(shop.path(folder))
    return keeper.drain_notes()


def taken_in(shop):
    """Return the events that came from the old ledger."""
    own = [json.loads(line)["id"] for line in old_lines()]
    return [event for event in shop.keeper().log() if event["id"] in own]


def check_taken_in_once(shop):
    events = [json.loads(line) for line in old_lines()]
    assert taken_in(shop) == events
    log = shop.keeper().log()
    claims = [event for event in log if event["by"]["surface"] == "import"]
    assert len({event["stream"] for event in claims}) == len(claims)
    assert len({event["id"] for event in log}) == len(log)
    assert shop.read(OLD) == b"".join(old_lines())


@pytest.mark.parametrize("line", COMMANDS)
def test_no_other_command_takes_it_in(old_shop, line):
    words = [sys.executable, "-m", "holdfast", *line.split()]
    given = json.dumps({**HOOK, "cwd": old_shop.root}).encode() if line == "hook" else b""
    done = subprocess.run(
        words, cwd=old_shop.root, input=given, capture_output=True, check=False,
        env={**os.environ, "PYTHONPATH": SOURCE, "CLAUDE_CODE_SESSION_ID": ""},
    )  # fmt: skip
    assert b"error in Holdfast itself" not in done.stdout + done.stderr, done
    assert taken_in(old_shop) == []


def test_the_import_that_takes_it_in_is_named_until_something_is_recorded(old_shop):
    _, notes = old_shop.keeper().workflows()
    (note,) = [note for note in notes if "version 0.1" in note]
    assert note.endswith("it is not believed; if it is yours, do this first: "
                         f"holdfast import {OLD_FOLDER}")  # fmt: skip
    assert take_in(old_shop) == []
    check_taken_in_once(old_shop)
    assert [note for note in old_shop.keeper().workflows()[1] if "0.1" in note] == []


def test_a_repeated_import_takes_in_nothing(old_shop):
    take_in(old_shop)
    before = old_shop.keeper().log()
    take_in(old_shop)
    assert old_shop.keeper().log() == before


def test_the_records_stand_again_and_the_work_goes_on(old_shop):
    take_in(old_shop)
    rows, _ = old_shop.keeper().workflows()
    assert rows
    for row in rows:
        assert os.path.exists(old_shop.path(row["record"]))
        old_shop.keeper().remind("goes on", workflow=row["id"])
    assert lines_of(old_shop.keeper()) == []


def test_outside_git_the_new_ledger_lies_beside_the_old_one(tmp_path):
    shop = put_old_ledger(Workshop(tmp_path, git=False))
    take_in(shop)
    check_taken_in_once(shop)
    assert {"ledger.db", "ledger.ndjson"} <= set(os.listdir(shop.path(".claude/holdfast")))


def test_closed_segments_are_read_in_their_order(tmp_path):
    shop = Workshop(tmp_path)
    lines = old_lines()
    first, second = len(lines) // 3, 2 * len(lines) // 3
    folder = ".claude/holdfast"
    shop.write(f"{folder}/ledger-{1:010}-{first:010}.ndjson", b"".join(lines[:first]))
    shop.write(f"{folder}/ledger-{first + 1:010}-{second:010}.ndjson",
               b"".join(lines[first:second]))  # fmt: skip
    shop.write(OLD, b"".join(lines[second:]))
    take_in(shop)
    assert len(taken_in(shop)) == len(lines)
    assert shop.keeper().verify().ok


def test_what_git_clean_left_in_gits_folder_is_enough(tmp_path):
    shop = Workshop(tmp_path)
    shop.write(".git/holdfast/ledger.ndjson", b"".join(old_lines()))
    take_in(shop, ".git/holdfast")
    assert len(taken_in(shop)) == len(old_lines())


def test_a_linked_worktree_takes_in_the_ledger_of_the_main_one(old_shop, tmp_path):
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-C", old_shop.root]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "begin"], check=True)
    side = tmp_path / "side"
    subprocess.run([*git, "worktree", "add", "-q", "-b", "side", str(side)], check=True)
    other = Workshop(side, git=False)
    (note,) = [note for note in other.keeper().workflows()[1] if "version 0.1" in note]
    other.keeper().import_file(other.path(note.rpartition(" ")[2]))
    check_taken_in_once(old_shop)


def test_a_damaged_line_is_left_out_and_named_and_the_rest_is_taken_in(tmp_path):
    lines = old_lines()
    lines[20] = lines[20].replace(b'"', b"'", 1)
    shop = put_old_ledger(Workshop(tmp_path), lines)
    assert take_in(shop) == ["1 of its lines are not events and were left out"]
    assert len(taken_in(shop)) == len(lines) - 1
    assert not shop.keeper().verify().ok
    assert shop.keeper().repair().ok
    assert shop.keeper().verify().ok


@pytest.mark.parametrize("cut", [1, 40, 400])
def test_a_torn_end_takes_only_the_last_commit_along(tmp_path, cut):
    raw = b"".join(old_lines())
    shop = put_old_ledger(Workshop(tmp_path), [raw[:-cut]])
    take_in(shop)
    events = taken_in(shop)
    assert len(old_lines()) - 8 < len(events) < len(old_lines()) + 1
    assert shop.keeper().verify().ok


@pytest.mark.parametrize("text", [b"", b"\n", b"nonsense\n", b"\x00" * 4096])
def test_a_file_without_an_event_is_no_ledger(tmp_path, text):
    shop = put_old_ledger(Workshop(tmp_path), [text])
    with pytest.raises(Refused, match=r"has no ledger of version 0\.1"):
        take_in(shop)
    shop.keeper().start("dev", "a.md")
    assert lines_of(shop.keeper()) == []


def test_two_that_come_at_once_take_it_in_once(old_shop):
    words = [sys.executable, "-m", "holdfast", *IMPORT]
    env = {**os.environ, "PYTHONPATH": SOURCE}
    running = [
        subprocess.Popen(words, cwd=old_shop.root, env=env, stdout=subprocess.DEVNULL)
        for _ in range(6)
    ]
    assert [process.wait(60) for process in running] == [0] * 6
    check_taken_in_once(old_shop)
    assert lines_of(old_shop.keeper()) == []


def test_killed_at_any_point_it_is_taken_in_exactly_once(tmp_path, not_shown, tally):
    why = strace.cannot_trace()
    if why:
        not_shown(f"promise 1, the upgrade from 0.1: {why}")
    log = str(tmp_path / "strace.log")
    root = tmp_path / "work"
    points = strace.points(put_old_ledger(Workshop(root)).root, log, IMPORT)
    chosen = sampled(points, 25, "upgrade")
    for point in chosen:
        shutil.rmtree(root)
        shop = put_old_ledger(Workshop(root))
        strace.kill(shop.root, log, IMPORT, point)
        take_in(shop)
        check_taken_in_once(shop)
        assert shop.keeper().verify().ok, point
        shop.keeper().remember("the next change brings the records forward")
        assert lines_of(shop.keeper()) == [], point
    tally("upgrade from 0.1", points=len(chosen))
