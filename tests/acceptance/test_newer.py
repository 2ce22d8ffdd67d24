"""What a newer Holdfast wrote is refused clearly, with a next step, and stays as it is.

What an older one wrote is read as it stands: reading migrates nothing.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys

import pytest

from histories import record
from holdfast import Keeper, jsontext
from holdfast.errors import Fault
from holdfast.graph import sql
from holdfast.ledger import lines

HOME = ".claude/holdfast"
LEDGER = f"{HOME}/ledger.ndjson"
HISTORIES = sorted(
    name
    for name in os.listdir(record.HERE)
    if os.path.isfile(os.path.join(record.HERE, name, "ledger.ndjson"))
)
UPGRADE = "install the newer Holdfast: git pull in its checkout, then pip install ."
COMMANDS = [
    *("", "status", "show", "show dev-b25a2dc1", "resume", "log", "log dev-b25a2dc1"),
    *("watch --once", "start tdd x", "task done 1", "advance", "remind x", "set a=1", "complete"),
    *("abandon", "gate list", "gate run lint -- true", "loop new x --mode knowledge", "loop next"),
    *("loop status", "initiative create Tidy --milestone M1", "initiative show", "context"),
    *("remember x", "forge add build make", "interview show", "delegation list", "clean"),
    *("verify", "repair"),
]


def contents(folder):
    """Every file below a folder by its bytes, but for locks, which say nothing."""
    found = {}
    for inner, _, names in os.walk(folder):
        for name in names:
            if name != "lock" and not name.endswith(".lock"):
                with open(os.path.join(inner, name), "rb") as file:
                    found[os.path.join(inner, name)] = file.read()
    return found


def newer_line(path):
    """A line as a newer Holdfast would append it: whole, chained, of a schema nobody here knows."""
    with open(path, "rb") as file:
        last = jsontext.loads(file.read().rstrip(b"\n").rpartition(b"\n")[2])
    event = {key: value for key, value in last.items() if key not in ("hash", "part")}
    event.update(seq=last["seq"] + 1, id="f" * 24, version=last["version"] + 1, prev=last["hash"])
    event.update(v=lines.SCHEMA + 1, type="task_split", data={"task": 1})
    return lines.encode({"seq": event.pop("seq"), **event})[0]


@pytest.fixture
def newer(repo):
    """A workspace that a newer Holdfast has worked in since."""
    repo.ok("start", "dev", "feature.md", "--task", "one")
    path = os.path.join(repo.path, LEDGER)
    line = newer_line(path)
    with open(path, "ab") as file:
        file.write(line)
    return repo


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_refuses_a_newer_ledger_and_leaves_it(newer, line):
    before = contents(newer.path)
    words = line.split()
    error = newer.refused(*words, exit_code=3)
    assert error["code"] == "newer_ledger"
    assert error["message"] == "the ledger has events of schema 2; this Holdfast knows up to 1"
    assert error["hint"] == UPGRADE
    assert contents(newer.path) == before


def test_asking_again_in_the_same_process_changes_nothing(newer):
    """A program that uses the library may ask more than once."""
    before = contents(newer.path)
    keeper = Keeper(newer.path)
    for _ in range(3):
        for ask in (keeper.workflows, keeper.verify, lambda: keeper.start("tdd", "x")):
            with pytest.raises(Fault) as caught:
                ask()
            assert caught.value.code == "newer_ledger"
    assert contents(newer.path) == before


def test_a_ledger_that_becomes_newer_under_an_open_keeper_is_refused(repo):
    repo.ok("start", "dev", "feature.md", "--task", "one")
    keeper = Keeper(repo.path)
    assert keeper.workflows()[0]
    path = os.path.join(repo.path, LEDGER)
    line = newer_line(path)
    with open(path, "ab") as file:
        file.write(line)
    before = contents(repo.path)
    for _ in range(2):
        with pytest.raises(Fault):
            keeper.complete_task(1)
    assert contents(repo.path) == before


def test_a_closed_segment_of_a_newer_one_is_refused_too(newer):
    path = os.path.join(newer.path, LEDGER)
    with open(path, "rb") as file:
        count = file.read().count(b"\n")
    shutil.move(path, os.path.join(newer.path, HOME, f"ledger-{1:010}-{count:010}.ndjson"))
    shutil.rmtree(os.path.join(newer.path, ".git", "holdfast"))
    before = contents(newer.path)
    for line in ("status", "start tdd x", "verify"):
        assert newer.refused(*line.split(), exit_code=3)["code"] == "newer_ledger"
    assert contents(newer.path) == before


def test_a_hook_on_a_newer_ledger_holds_nobody_up(newer):
    before = contents(newer.path)
    call = {"hook_event_name": "SessionStart", "session_id": "s", "cwd": newer.path}
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "hook"],
        cwd=newer.path,
        env=newer.environment,
        input=json.dumps({**call, "source": "startup"}).encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    after = contents(newer.path)
    assert b"events of schema 2" in after.pop(os.path.join(newer.path, HOME, "hook.log"))
    assert after == before


def test_a_newer_graph_is_told_and_left(repo):
    repo.ok("start", "dev", "feature.md")
    repo.ok("sync")
    path = os.path.join(repo.path, HOME, "graph.db")
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {sql.VERSION + 1}")
    connection.close()
    with open(path, "rb") as file:
        before = file.read()
    answer = repo.run("sync", "--json")
    assert answer.code == 3
    (row,) = [row for row in answer.json["layers"] if row["layer"] == "L3"]
    assert row["error"]["code"] == "newer_graph"
    assert row["error"]["hint"] == "install that version, or move the file away"
    view = repo.ok("watch", "--once")
    assert {row["layer"]: row["status"] for row in view["layers"]}["L3"] == "unavailable"
    repo.ok("task", "add", "the work goes on")
    with open(path, "rb") as file:
        assert file.read() == before


def test_a_newer_record_is_no_edit_and_is_kept(repo):
    name = repo.ok("start", "dev", "feature.md", "--task", "one")["workflow"]["record"]
    path = os.path.join(repo.path, name)
    with open(path, encoding="utf-8") as file:
        text = file.read().replace('"version": "1.0"', '"version": "2.0"')
    repo.write(name, text)
    (note,) = repo.ok("show")["notes"]
    assert "line 2: _schema.version must be 1.0: another version of Holdfast" in note
    kept = note.partition("kept as ")[2].split(",")[0].split(";")[0]
    with open(os.path.join(os.path.dirname(path), kept), encoding="utf-8") as file:
        assert file.read() == text


def test_a_newer_record_without_a_ledger_is_left_where_it_is(repo):
    document = {"_schema": {"version": "2.0", "skill": "dev"}, "workflow": {"id": "dev-1"}}
    name = ".claude/workflow-state/active/dev-1.json"
    repo.write(name, json.dumps(document))
    answer = repo.ok("status")
    assert answer["workflows"] == []
    assert "left as it is" in answer["notes"][0]
    assert repo.record(name) == document


def test_a_catalog_of_another_version_is_passed_over_and_left(repo):
    repo.ok("start", "dev", "feature.md", "--task", "one")
    path = os.path.join(repo.path, LEDGER)
    with open(path, "rb") as file:
        count = file.read().count(b"\n")
    shutil.move(path, os.path.join(repo.path, HOME, f"ledger-{1:010}-{count:010}.ndjson"))
    shutil.rmtree(os.path.join(repo.path, ".git", "holdfast"))
    catalog = f"{HOME}/catalog.ndjson"
    repo.write(catalog, '{"format":"catalog","version":2}\n{"row":"dev-1"}\n')
    before = contents(os.path.join(repo.path, HOME))
    assert [row["tasks_total"] for row in repo.ok("status")["workflows"]] == [1]
    assert contents(os.path.join(repo.path, HOME)) == before


def test_settings_for_a_newer_one_are_refused_by_their_key(repo):
    repo.ok("start", "dev", "feature.md")
    repo.write(".claude/holdfast.toml", 'colour = "always"\n')
    error = repo.refused("start", "tdd", "x")
    assert error["code"] == "bad_settings"
    assert "colour: is unknown" in error["message"]
    assert "if it is for a newer Holdfast: git pull in its checkout" in error["hint"]


def test_newer_approvals_are_not_written_over(repo):
    folder = os.path.join(repo.environment["HOME"], ".config", "holdfast")
    os.makedirs(folder)
    path = os.path.join(folder, "trusted.json")
    text = '{"version": 2, "people": {}}\n'
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    error = repo.refused("trust", "--revoke", exit_code=3)
    assert (error["code"], error["hint"]) == ("newer_file", UPGRADE)
    assert path in error["message"]
    with open(path, encoding="utf-8") as file:
        assert file.read() == text


def test_what_a_newer_init_remembers_is_not_written_over(repo):
    repo.ok("init")
    (path,) = [
        name for name in contents(repo.environment["HOME"]) if name.endswith("installed.json")
    ] or [name for name in contents(repo.path) if name.endswith("installed.json")]
    with open(path, encoding="utf-8") as file:
        text = file.read().replace('"version": 1', '"version": 2')
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    before = contents(repo.path)
    error = repo.refused("uninstall", exit_code=3)
    assert (error["code"], error["hint"]) == ("newer_file", UPGRADE)
    assert contents(repo.path) == before


# What is older


@pytest.fixture
def lived_in(folder):
    """A workspace with everything in it: every event type, every record, the graph."""
    keeper = record.live(folder.path)
    keeper.workflows()
    return folder


def test_only_looking_changes_no_byte_of_anything(lived_in):
    before = contents(lived_in.path)
    for line in ("", "watch --once", "log", "verify", "recipes", "trust --list", "clean --dry-run"):
        assert lived_in.run(*line.split()).code == 0, line
    after = contents(lived_in.path)
    assert {name: data for name, data in after.items() if "graph.db" not in name} == {
        name: data for name, data in before.items() if "graph.db" not in name
    }


@pytest.mark.parametrize("version", HISTORIES)
def test_a_ledger_of_an_older_version_is_read_and_not_rewritten(folder, version):
    source = os.path.join(record.HERE, version, "ledger.ndjson")
    os.makedirs(os.path.join(folder.path, HOME))
    shutil.copy(source, os.path.join(folder.path, LEDGER))
    before = contents(folder.path)
    for line in ("", "log", "watch --once"):
        answer = folder.run(*line.split())
        assert answer.code == 0, answer
    assert contents(folder.path) == before
    # A listing brings the records back, which are views, and appends at most what has expired.
    assert folder.run("status").code == 0
    assert contents(folder.path)[os.path.join(folder.path, LEDGER)].startswith(
        before[os.path.join(folder.path, LEDGER)]
    )
