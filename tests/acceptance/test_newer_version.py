"""What a newer Holdfast wrote is never changed, and whoever wants to change it is told.

What an older one wrote is read as it stands: only looking changes nothing.
"""

import json
import os
import sqlite3
import subprocess
import sys

import pytest

from histories import record
from holdfast import Keeper
from holdfast.core.json_text import digest
from holdfast.errors import Fault, refuse_newer
from holdfast.storage import ledger
from holdfast.storage.database import SCHEMA_VERSION

LEDGER = ".git/holdfast/ledger.db"
UPGRADE = "install the newer Holdfast: git pull in its checkout, then pip install ."
LOOKS = [
    *("", "status", "show", "show dev-b25a2dc1", "gate list", "loop status", "initiative show"),
    *("context", "interview show", "delegation list", "forge show", "clean --dry-run"),
]
CHANGES = [
    *("resume", "start tdd x", "task done 1", "advance", "remind x", "set a=1"),
    *("abandon", "gate record lint --passed", "loop new x --mode knowledge", "remember x"),
    *("initiative create Tidy --milestone M1", "forge add build make", "repair"),
]


def contents(folder):
    """Return every file below a folder by its bytes, but for locks, which say nothing.

    Nor do SQLite's shared memory and an empty journal.
    """
    files = {}
    for inner, _, names in os.walk(folder):
        for name in names:
            if name != "lock" and not name.endswith((".lock", "-shm")):
                with open(os.path.join(inner, name), "rb") as file:
                    files[os.path.join(inner, name)] = file.read()
    return {path: data for path, data in files.items() if data or not path.endswith("-wal")}


def change_schema(connection):
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")


def add_event(connection):
    """Add an event as a newer Holdfast would: whole, chained, of a format nobody here knows."""
    query = f"SELECT {ledger.EVENT_COLUMNS} FROM events ORDER BY seq DESC LIMIT 1"
    last = connection.execute(query).fetchone()
    seq, version, stream = last[0] + 1, last[4] + 1, last[3]
    body = (
        seq, "f" * 24, last[2], stream, version, ledger.EVENT_FORMAT + 1, "task_split",
        '{"task":1}', last[8], None, last[11],
    )  # fmt: skip
    row = (*body, digest(ledger.body_of(body).encode()))
    marks = ",".join("?" * len(row))
    connection.execute(f"INSERT INTO events ({ledger.EVENT_COLUMNS}) VALUES ({marks})", row)
    held = connection.execute(f"{ledger.STREAMS} WHERE stream = ?", (stream,)).fetchone()
    columns = dict(zip(ledger.COLUMNS, held, strict=False))
    columns |= {"seq": seq, "version": version, "hash": row[11]}
    state = (stream, version, row[11], json.dumps(ledger.stored_state(held)[1]))
    connection.execute(
        "UPDATE streams SET seq = ?, version = ?, hash = ?, digest = ? WHERE stream = ?",
        (seq, version, row[11], ledger._digest_of(tuple(columns.values())), stream),
    )
    connection.execute(
        "REPLACE INTO states VALUES (?, ?, ?, ?, ?)", (*state, ledger._digest_of(state))
    )


MESSAGES = {
    change_schema: f"(schema {SCHEMA_VERSION + 1}); this one only reads it",
    add_event: f"the ledger has events of format {ledger.EVENT_FORMAT + 1}; "
    "this Holdfast knows up to 1",
}


def work_as_newer(repo, change):
    connection = sqlite3.connect(os.path.join(repo.path, LEDGER), isolation_level=None)
    change(connection)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


@pytest.fixture(params=MESSAGES, ids=lambda change: change.__name__)
def newer(repo, request):
    """Return a workspace that a newer Holdfast has worked in since."""
    repo.ok("start", "dev", "feature.md", "--task", "one")
    work_as_newer(repo, request.param)
    repo.message = MESSAGES[request.param]
    return repo


def test_every_look_shows_what_the_newer_one_wrote_and_leaves_it(newer):
    before = contents(newer.path)
    for line in LOOKS:
        answer = newer.run(*newer.in_json(line.split()))
        assert answer.code == 0 or answer.json["error"]["code"] != "newer_ledger", (line, answer)
    assert newer.state()["tasks"][0]["description"] == "one"
    assert contents(newer.path) == before


@pytest.mark.parametrize("line", CHANGES)
def test_every_change_is_refused_with_the_way_out_and_leaves_it(newer, line):
    before = contents(newer.path)
    error = newer.refused(*line.split(), exit_code=3)
    assert error["code"] == "newer_ledger"
    assert newer.message in error["message"]
    assert error["hint"] == UPGRADE
    assert contents(newer.path) == before


def test_events_that_cannot_be_understood_are_named(repo):
    repo.ok("start", "dev", "feature.md")
    work_as_newer(repo, add_event)
    for line in ("log", "watch --once"):
        answer = repo.run(*line.split())
        assert answer.code == 3, answer
        assert MESSAGES[add_event] in answer.err, answer
    assert MESSAGES[add_event] in repo.run("verify").out


def test_asking_again_in_the_same_process_changes_nothing(newer):
    """A program that uses the library may ask more than once."""
    before = contents(newer.path)
    keeper = Keeper(newer.path)
    for _ in range(3):
        assert keeper.workflows()[0]
        with pytest.raises(Fault) as caught:
            keeper.start("tdd", "x")
        assert caught.value.code == "newer_ledger"
    assert contents(newer.path) == before


@pytest.mark.parametrize("change", MESSAGES, ids=lambda change: change.__name__)
def test_a_ledger_that_becomes_newer_under_an_open_keeper_is_refused(repo, change):
    repo.ok("start", "dev", "feature.md", "--task", "one")
    keeper = Keeper(repo.path)
    keeper.remind("open")
    work_as_newer(repo, change)
    before = contents(repo.path)
    for _ in range(2):
        with pytest.raises(Fault) as caught:
            keeper.complete_task(1)
        assert caught.value.code == "newer_ledger"
    assert contents(repo.path) == before


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
    assert b"feature.md" in done.stdout
    after = contents(newer.path)
    log = after.pop(os.path.join(newer.path, ".git", "holdfast", "hook.log"))
    assert newer.message.encode() in log
    assert after == before


@pytest.mark.parametrize(("name", "number"), [("holdfast_export", 2), ("v", 2)])
def test_an_export_of_a_newer_one_is_refused_and_nothing_is_taken_in(repo, folder, name, number):
    repo.ok("start", "dev", "feature.md")
    lines = repo.run("export").out.splitlines()
    place = 0 if name == "holdfast_export" else 1
    lines[place] = json.dumps({**json.loads(lines[place]), name: number})
    repo.write("newer.ndjson", "\n".join(lines))
    other = repo.at("..", "other")
    answer = other.run("import", os.path.join(repo.path, "newer.ndjson"), "--json")
    assert answer.code in (1, 3)
    assert answer.json["error"]["code"] in ("newer_export", "newer_ledger")
    assert other.ok("log")["events"] == []


def test_a_newer_record_is_no_edit_and_is_kept(repo):
    name = repo.ok("start", "dev", "feature.md", "--task", "one")["workflow"]["record"]
    path = os.path.join(repo.path, name)
    with open(path, encoding="utf-8") as file:
        text = file.read().replace('"version": "1.0"', '"version": "2.0"')
    repo.write(name, text)
    (note,) = repo.ok("show")["notes"]
    assert "line 2: _schema.version must be 1.0: another version of Holdfast" in note
    (note,) = repo.ok("remind", "x")["notes"]
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


def test_settings_for_a_newer_one_are_refused_by_their_key(repo):
    repo.ok("start", "dev", "feature.md")
    repo.write(".claude/holdfast.toml", 'colour = "always"\n')
    error = repo.refused("start", "tdd", "x")
    assert error["code"] == "bad_settings"
    assert "colour: is unknown" in error["message"]
    assert "if it is for a newer Holdfast: git pull in its checkout" in error["hint"]


@pytest.mark.parametrize("version", [2, 1.5e9, "2", "2.0", "next", True])
def test_any_version_but_the_known_one_is_newer(version):
    with pytest.raises(Fault) as caught:
        refuse_newer("trusted.json", version, 1)
    assert caught.value.code == "newer_file"


@pytest.mark.parametrize("version", [None, 1, 0, "1.0", "1.9", 1.0])
def test_a_version_that_is_known_is_read(version):
    refuse_newer("trusted.json", version, 1)


def test_a_newer_index_is_not_written_over(repo):
    repo.ok("start", "dev", "feature.md", "--task", "one", "--task", "two")
    text = '{"schema_version": "2.0", "workflows": {}}\n'
    repo.write(".claude/workflow-state/index.json", text)
    for line in ("task start 1", "start dev other.md", "abandon", "repair", "status"):
        answer = repo.run(*line.split())
        with open(os.path.join(repo.path, ".claude/workflow-state/index.json")) as file:
            assert file.read() == text, (line, answer.out)
    assert "a newer Holdfast wrote" in str(repo.ok("start", "dev", "third.md")["notes"])


@pytest.mark.parametrize("version", ["10.0", "2.0", "next"])
def test_a_record_of_a_newer_format_is_no_edit(repo, version):
    name = repo.ok("start", "dev", "feature.md", "--task", "one")["workflow"]["record"]
    document = repo.record(name)
    document["_schema"]["version"] = version
    document["tasks"] = []
    repo.write(name, json.dumps(document))
    assert repo.state()["tasks"][0]["description"] == "one"


@pytest.mark.parametrize("recipe", ["dev", "apex"])
def test_a_record_with_a_newer_signature_is_no_edit_and_is_kept(repo, recipe):
    name = repo.ok("start", recipe, "feature.md", "--title", "One")["workflow"]["record"]
    document = repo.record(name)
    document["_holdfast"]["v"] = 2
    repo.write(name, json.dumps(document).replace("One", "Two"))
    assert repo.state()["title"] == "One"
    (note,) = repo.ok("remind", "x")["notes"]
    assert "a newer Holdfast wrote it" in note
    assert "kept as" in note


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
    """Return a workspace with everything in it: every event type, every record."""
    record.live(folder.path)
    return folder


def test_only_looking_changes_no_byte_of_anything(lived_in):
    before = contents(lived_in.path)
    for line in (
        *("", "status", "watch --once", "log", "verify", "export", "recipes", "trust --list"),
        *("clean --dry-run", "context", "initiative show", "loop status"),
    ):
        assert lived_in.run(*line.split()).code == 0, line
    assert contents(lived_in.path) == before
