"""Promise 4, further: rows that somebody changed with SQL. ``verify`` names every one of them.

Events with a right hash may still say what no Holdfast ever wrote: somebody forged them, or a
mistake of ours did. Every command answers, and ``repair`` gives up what makes no sense.
"""

import copy
import json
import os
import random
import sqlite3

import pytest

from holdfast import Fault, Keeper
from holdfast.adopt import findings
from holdfast.cli import main as cli
from holdfast.core.json_text import digest
from holdfast.storage.ledger import EVENT_COLUMNS, body_of
from holdfast.system.disk import Disk
from holdfast.workspace.location import sign_ledger
from support.workshop import SEED, Workshop, many

pytestmark = pytest.mark.promise(4)

HISTORIES = os.path.join(os.path.dirname(os.path.dirname(__file__)), "histories")
EXPORT = os.path.join(HISTORIES, "0.2", "export.ndjson")
LEDGER = ".claude/holdfast/ledger.db"
OTHERS = (None, True, 7, -1, "x", "", [], ["x"], [[]], {}, {"a": 1}, [{"a": [1]}])
FIXED = ("seq", "v", "prev", "hash")
KINDS = (int, str, str, str, int, int, str, str, str, str, str)
"""What the columns of an event hold."""
SAMPLE = many(80, 1_600)
ASKED = (
    ("status",),
    ("status", "--json"),
    ("log",),
    ("verify",),
    ("export",),
    ("remind", "be kind"),
    ("repair",),
    ("verify", "--json"),
    ("status",),
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Return the bytes of a ledger in which everything happened, and its events."""
    shop = Workshop(tmp_path_factory.mktemp("forged"), git=False)
    keeper = shop.keeper()
    keeper.import_file(EXPORT)
    events = keeper.log()
    with sqlite3.connect(shop.path(LEDGER)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return shop.read(LEDGER), events


class Forger:
    """Somebody who changes the rows of a ledger, and leaves its triggers as they were."""

    def __init__(self, shop, ledger):
        shop.write(LEDGER, ledger)
        sign_ledger(os.path.dirname(shop.path(LEDGER)), Disk())
        self.connection = sqlite3.connect(shop.path(LEDGER), isolation_level=None)

    def __enter__(self):
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        self.triggers = self.connection.execute(query).fetchall()
        for name, _ in self.triggers:
            self.connection.execute(f"DROP TRIGGER {name}")
        return self.connection

    def __exit__(self, *_):
        for _, text in self.triggers:
            self.connection.execute(text)
        self.connection.close()


def rows_of(events):
    """Return the rows of events, each with a right hash and a right ``prev``."""
    prev, rows = "", []
    for event in events:
        body = (
            *(event[name] for name in ("seq", "id", "at", "stream", "version", "v", "type")),
            *(json.dumps(event[name], separators=(",", ":")) for name in ("data", "by")),
            None, prev,
        )  # fmt: skip
        plain = tuple(
            one if type(one) is kind or one is None else json.dumps(one)
            for one, kind in zip(body, KINDS, strict=True)
        )
        prev = digest(body_of(plain).encode())
        rows.append((*plain, prev))
    return rows


def put_events(shop, ledger, events):
    """Replace the events of a ledger; return False if its schema does not allow them."""
    marks = ",".join("?" * 12)
    with Forger(shop, ledger) as connection:
        connection.execute("DELETE FROM events")
        try:
            connection.executemany(
                f"INSERT INTO events ({EVENT_COLUMNS}) VALUES ({marks})", rows_of(events)
            )
        except (sqlite3.IntegrityError, TypeError):  # NULL, which no column takes, has no text
            return False
    return True


def places(value, path=()):
    """Yield every place in a JSON value."""
    if path:
        yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def forgeries(events):
    """Yield each place of each event, with each other value."""
    for number, event in enumerate(events):
        for path in places({key: event[key] for key in event if key not in FIXED}):
            for other in OTHERS:
                yield number, path, other


def forged(events, number, path, other):
    changed = copy.deepcopy(events)
    target = changed[number]
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = copy.deepcopy(other)
    return changed


class Line:
    """The command line in this process."""

    def __init__(self, shop, monkeypatch, capsys):
        self.capsys = capsys
        monkeypatch.chdir(shop.root)
        monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "")
        # Nobody is saving a record here.
        monkeypatch.setattr(findings, "_REREAD_AFTER_S", 0)

    def run(self, *words):
        code = cli.main(list(words))
        answer = self.capsys.readouterr()
        text = answer.out + answer.err
        assert "an error in Holdfast itself" not in text, (words, text)
        return code, text


def ask_everything(line, streams):
    for words in ASKED[:5]:
        line.run(*words)
    for stream in streams:
        line.run("show", stream)
        line.run("resume", stream)
    for words in ASKED[5:]:
        line.run(*words)


@pytest.mark.parametrize("part", range(4))
def test_whatever_an_event_says_every_command_answers(part, quick, sound, monkeypatch, capsys):
    ledger, events = sound
    chosen = random.Random(SEED).sample(list(forgeries(events)), SAMPLE)[part::4]
    streams = list(dict.fromkeys(event["stream"] for event in events))
    for count, (number, path, other) in enumerate(chosen):
        shop = Workshop(os.path.join(quick, str(count)), git=False)
        if not put_events(shop, ledger, forged(events, number, path, other)):
            continue
        try:
            ask_everything(Line(shop, monkeypatch, capsys), streams)
        except BaseException as error:
            error.add_note(f"event {number + 1} {events[number]['type']}: {path} is {other!r}")
            raise


NONSENSE = [
    ("workflow_started", ["recipe"], 7),
    ("workflow_started", ["recipe", "format"], "store"),
    ("workflow_started", ["recipe", "phases"], [5]),
    ("workflow_started", ["record"], ["x"]),
    ("workflow_resumed", ["session"], ["x"]),
    ("phase_started", ["phase"], "nowhere"),
    ("task_added", ["description"], {"a": 1}),
    ("task_started", ["task"], {"a": 1}),
    ("reading_required", ["path"], [[]]),
    ("gate_recorded", ["gate"], 5),
    ("violation_found", [], {}),
    ("record_edited", ["changes"], [[["phases"], [], 5]]),
    ("record_adopted", ["state", "tasks"], "none"),
]


def first(events, event_type):
    return next(number for number, event in enumerate(events) if event["type"] == event_type)


@pytest.mark.parametrize(("event_type", "path", "value"), NONSENSE)
def test_what_makes_no_sense_is_named_by_its_event_and_can_be_given_up(
    tmp_path, sound, monkeypatch, capsys, event_type, path, value
):
    ledger, events = sound
    shop = Workshop(tmp_path, git=False)
    number = first(events, event_type)
    assert put_events(shop, ledger, forged(events, number, ("data", *path), value))
    line = Line(shop, monkeypatch, capsys)
    code, text = line.run("verify")
    assert code == 1
    assert f"event {number + 1} makes no sense and is left out" in text
    line.run("repair")
    assert line.run("verify")[0] == 0


def test_data_that_is_a_list_is_no_event(tmp_path, sound, monkeypatch, capsys):
    ledger, events = sound
    shop = Workshop(tmp_path, git=False)
    assert put_events(shop, ledger, forged(events, 9, ("data",), [1]))
    line = Line(shop, monkeypatch, capsys)
    code, text = line.run("verify")
    assert code == 1
    assert "event 10 is not what was written" in text
    line.run("repair")
    assert line.run("verify")[0] == 0


FORGERIES = {
    "an event's data": "UPDATE events SET data = replace(data, 'one', 'two') WHERE seq = 3",
    "an event's time": "UPDATE events SET at = '2020-01-01T00:00:00.000Z' WHERE seq = 4",
    "an event's author": """UPDATE events SET by = '{"surface":"else"}' WHERE seq = 2""",
    "the last event": "DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)",
    "an event in between": "DELETE FROM events WHERE seq = 3",
    "a state": "UPDATE states SET state = replace(state, 'in_progress', 'completed')",
    "a row": "UPDATE streams SET status = 'completed' WHERE kind = 'workflow'",
    "a row's place": "UPDATE streams SET record = 'README.md' WHERE kind = 'workflow'",
    "a state is gone": "DELETE FROM states",
    "a row is gone": "DELETE FROM streams",
    "an invented stream": "INSERT INTO streams SELECT 'invented', kind, seq, version, hash, recipe,"
    " format, subject, title, status, phase, phase_status, phase_index, phase_total, tasks_done,"
    " tasks_total, branch, floating, worktree, 'x.json', NULL, NULL, NULL, ttl, NULL, NULL, NULL,"
    " created_at, updated_at, digest FROM streams WHERE kind = 'workflow' LIMIT 1",
    "no triggers": "DROP TRIGGER events_are_never_removed",
    "no index": "DROP INDEX active_by_worktree",
}


@pytest.mark.parametrize("what", FORGERIES)
def test_every_change_of_a_row_is_named_and_repaired(tmp_path, what):
    shop = Workshop(tmp_path, git=False)
    keeper = shop.keeper()
    dev = keeper.start("dev", "one.md", tasks=["one"]).state["id"]
    keeper.start("planning", "two")
    before = keeper.complete_task(1, workflow=dev).state
    if what == "no triggers":
        with sqlite3.connect(shop.path(LEDGER)) as connection:
            connection.execute(FORGERIES[what])
        connection.close()
    else:
        with Forger(shop, read_whole(shop)) as connection:
            connection.execute(FORGERIES[what])
    damaged = read_whole(shop)
    assert not shop.keeper().verify().ok
    report = shop.keeper().repair()
    assert report.ok, report.lines
    assert shop.keeper().verify().ok
    files = shop.files().items()
    beside = ("-wal", "-shm")
    kept = [data for path, data in files if ".damaged-" in path and not path.endswith(beside)]
    assert kept in ([], [damaged])
    after = shop.keeper().show(workflow=dev).state
    assert (after["tasks"], after["status"]) == (before["tasks"], "in_progress")
    shop.keeper().add_task("goes on", workflow=dev)


def read_whole(shop):
    """Return the ledger's bytes, its journal moved into it."""
    connection = sqlite3.connect(shop.path(LEDGER))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return shop.read(LEDGER)


def test_an_event_is_neither_changed_nor_removed_by_accident(tmp_path):
    shop = Workshop(tmp_path, git=False)
    shop.keeper().start("dev", "one.md")
    with sqlite3.connect(shop.path(LEDGER)) as connection:
        for statement in ("UPDATE events SET at = ''", "DELETE FROM events"):
            with pytest.raises(sqlite3.IntegrityError, match="an event is never"):
                connection.execute(statement)
    connection.close()


def test_a_workflow_without_a_beginning_is_not_in_the_way_of_the_others(tmp_path):
    shop = Workshop(tmp_path, git=False)
    keeper = shop.keeper()
    lost = keeper.start("tdd", "lost").state
    kept = keeper.start("planning", "kept").state
    keeper.remind("the last word", workflow=lost["id"])
    events = keeper.log()
    events[0]["data"]["recipe"] = 7
    assert put_events(shop, read_whole(shop), events)
    os.remove(shop.path(lost["record"]))
    assert shop.keeper().repair().ok
    assert shop.keeper().remind("on", workflow=kept["id"]).state["reminders"] == ["on"]
    # Its last state was whole.
    assert shop.keeper().show(workflow=lost["id"]).state["reminders"] == ["the last word"]


def test_a_workflow_of_which_nothing_is_left_is_given_up_once(tmp_path):
    shop = Workshop(tmp_path, git=False)
    lost = shop.keeper().start("tdd", "lost").state
    events = shop.keeper().log()
    events[0]["data"]["recipe"] = 7
    assert put_events(shop, read_whole(shop), events)
    with Forger(shop, read_whole(shop)) as connection:
        for table in ("streams", "states"):
            connection.execute(f"DELETE FROM {table}")
    os.remove(shop.path(lost["record"]))
    report = shop.keeper().repair()
    assert report.ok, report.lines
    assert any("given up" in line["message"] for line in report.lines)
    events = shop.keeper().log()
    report = shop.keeper().repair()
    assert [line["level"] for line in report.lines] == ["ok"]
    assert shop.keeper().log() == events


def test_a_damaged_state_is_never_built_upon(tmp_path):
    shop = Workshop(tmp_path, git=False)
    keeper = shop.keeper()
    first_id = keeper.start("dev", "one.md", tasks=["one"]).state["id"]
    other = keeper.start("planning", "two").state["id"]
    with Forger(shop, read_whole(shop)) as connection:
        connection.execute(
            "UPDATE states SET state = replace(state, 'pending', 'completed') WHERE stream = ?",
            (first_id,),
        )
    with pytest.raises(Fault) as caught:
        Keeper(shop.root).start_task(1, workflow=first_id)
    assert caught.value.code == "ledger_damaged"
    assert shop.keeper().remind("goes on", workflow=other).state["reminders"] == ["goes on"]


def test_a_number_far_ahead_is_not_counted_up_to(tmp_path, sound):
    ledger, events = sound
    shop = Workshop(tmp_path, git=False)
    changed = copy.deepcopy(events)
    changed[-1]["seq"] = 10**15
    assert put_events(shop, ledger, changed)
    assert any("are missing" in line["message"] for line in shop.keeper().verify().lines)
    assert shop.keeper().repair().ok
