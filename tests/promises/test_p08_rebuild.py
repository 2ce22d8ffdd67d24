"""Promise 8: every view rebuilds byte for byte from the ledger; and, the other way round, one
record is enough to go on when the ledger is gone.
"""

import os
import random
import shutil
import sqlite3

import pytest

from holdfast import Refused
from holdfast.core.workflow.edits import as_adopted
from holdfast.storage.skill_index import rows_in
from support.git_template import run_git
from support.workshop import (
    FORMATS,
    RECIPES,
    SEED,
    Workshop,
    lines_of,
    many,
    types,
    without_time,
    worked_on,
)

pytestmark = pytest.mark.promise(8)

WALKS = many(3, 40)
STEPS = 100
HOME = ".git/holdfast"
OTHERS = {"verb": "oneshot", "formal": "custom", "skill": "tdd", "loop": "loop-knowledge"}


@pytest.fixture(params=range(WALKS))
def walked_shop(request, tmp_path, tmp_path_factory):
    """A workspace in which a lot has happened, and no formal record's absence means anything."""
    seed = SEED + request.param
    first = tmp_path_factory.getbasetemp() / f"walk-{seed}"
    if not first.exists():
        walked = Walk(first, seed).shop
        finish(walked, ended_in_last_phase(walked))
        walked.keeper().repair()
        first.with_suffix(".clock").write_text(str(walked.clock.ms))
    shutil.copytree(first, tmp_path / "copy")
    copy = Workshop(tmp_path / "copy", git=False)
    copy.clock.ms = int(first.with_suffix(".clock").read_text())
    copy.seed = seed
    return copy


class Walk:
    """A random history over several workflows of all formats, by commands and by hand."""

    def __init__(self, folder, seed):
        self.chance = random.Random(seed)
        self.shop = Workshop(folder)
        self.done = 0
        for number in range(STEPS):
            self.keeper = self.shop.keeper(session=self.chance.choice([None, "one", "two"]))
            try:
                self.step(number)
            except Refused:
                continue
            self.done += 1

    def step(self, number):
        rows, _ = self.keeper.workflows()
        if len(rows) < 3 or self.chance.random() < 0.08:
            self.open(number)
            return
        row = self.chance.choice(rows)
        self.chance.choice(
            [self.move, self.move, self.work, self.work, self.tell, self.edit, self.end, self.back]
        )(row["id"], number)

    def open(self, number):
        record_format = self.chance.choice(FORMATS)
        recipe = self.chance.choice([RECIPES, OTHERS])[record_format]
        subject = f"subject {self.chance.randrange(6)}"
        tasks = [f"task {n} of {number}" for n in range(self.chance.randrange(4))]
        self.keeper.start(recipe, subject, tasks=tasks, context={"n": number})

    def move(self, workflow, number):
        state = self.keeper.show(workflow=workflow).state
        name = self.chance.choice(state["phases"])["name"]
        act = self.chance.choice(
            [
                self.keeper.advance,
                self.keeper.advance,
                lambda **aim: self.keeper.approve_phase(state["phase"], **aim),
                lambda **aim: self.keeper.start_phase(name, {"n": number}, **aim),
                lambda **aim: self.keeper.block_phase(name, {"reason": "why"}, **aim),
                lambda **aim: self.keeper.unblock_phase(name, **aim),
                lambda **aim: self.keeper.start_step(f"step {number}", **aim),
            ]
        )
        act(workflow=workflow)

    def work(self, workflow, number):
        state = self.keeper.show(workflow=workflow).state
        self.keeper.add_task(f"another {number}", workflow=workflow)
        task = self.chance.choice([*state["tasks"], {"id": 1}])["id"]
        act = self.chance.choice(
            [
                self.keeper.start_task,
                self.keeper.start_task,
                self.keeper.complete_task,
                lambda one, **aim: self.keeper.block_task(one, "it cannot", **aim),
            ]
        )
        act(task, workflow=workflow)

    def tell(self, workflow, number):
        self.keeper.remind(f"reminder {number}", workflow=workflow)
        self.keeper.require_reading(f"@docs/{number}.md", workflow=workflow)
        self.keeper.set_context({f"key {number % 7}": [number, {"deep": None}]}, workflow=workflow)

    def edit(self, workflow, number):
        record = self.keeper.show(workflow=workflow).state["record"]
        self.shop.edit(record, lambda document: document.update({f"x-{number % 3}": number}))

    def end(self, workflow, _number):
        how = self.chance.choice(["complete", "abandon", "expire"])
        if how == "complete":
            self.keeper.complete("done", force=True, reason="enough", workflow=workflow)
        elif how == "abandon":
            self.keeper.abandon("no", workflow=workflow)
        else:
            self.shop.clock.ms += 3_600_000 * 20

    def back(self, _workflow, _number):
        streams = sorted({event["stream"] for event in self.keeper.log()})
        self.keeper.resume(workflow=self.chance.choice(streams))


NONE = (b"", b"{}")


def settled(shop):
    """Return every record and the index.

    What an expired verb workflow leaves, ``{}``, and an index without workflows say what no file
    says, and do not come back.
    """
    files = shop.files()
    return {
        path: data
        for path, data in files.items()
        if ".saved-" not in path and data.strip() not in NONE and rows_in(data) != []
    }


def ended_in_last_phase(shop):
    """Formal workflows whose record, when it is removed, says that they are completed."""
    ids = []
    for row in shop.keeper().workflows()[0]:
        state = shop.keeper().show(workflow=row["id"]).state
        last = state["phases"] and state["phase"] == state["phases"][-1]["name"]
        if row["format"] == "formal" and last:
            ids.append(row["id"])
    return ids


def finish(shop, ids):
    for workflow in ids:
        shop.keeper().abandon("so that its record means nothing", workflow=workflow)


def remove_views(shop):
    for path in list(shop.files()):
        os.unlink(shop.path(path))


@pytest.mark.parametrize("way", ["removed", "emptied", "with their folders"])
def test_deleted_views_come_back_byte_for_byte(walked_shop, way):
    before = settled(walked_shop)
    events = walked_shop.keeper().log()
    assert len(events) > STEPS
    assert len(before) > 1
    if way == "emptied":
        for path in before:
            walked_shop.write(path, b"")
    elif way == "removed":
        remove_views(walked_shop)
    else:
        shutil.rmtree(walked_shop.path(".claude"))
        shutil.rmtree(walked_shop.path("untracked"), ignore_errors=True)
    walked_shop.keeper().repair()
    assert settled(walked_shop) == before, f"seed {walked_shop.seed}"
    assert walked_shop.keeper().log() == events
    assert lines_of(walked_shop.keeper()) == []


def test_the_tables_of_the_ledger_come_back_as_they_were(walked_shop):
    before = tables(walked_shop)
    with sqlite3.connect(walked_shop.path(HOME, "ledger.db")) as connection:
        for table in ("states", "streams", "records"):
            connection.execute(f"DELETE FROM {table}")
    connection.close()
    assert walked_shop.keeper().repair().ok
    assert tables(walked_shop) == before, f"seed {walked_shop.seed}"
    assert lines_of(walked_shop.keeper()) == []


def tables(shop):
    """Return every stream with its state, as readers load it."""
    streams = shop.keeper().store.ledger.states("true")
    return {stream.row["stream"]: (stream.row, stream.state) for stream in streams}


def test_active_records_come_back_with_a_change_and_no_look_needs_them(walked_shop):
    rows, _ = walked_shop.keeper().workflows()
    before = {row["record"]: walked_shop.read(row["record"]) for row in rows}
    remove_views(walked_shop)
    again, notes = walked_shop.keeper().workflows()
    assert again == rows
    assert len([note for note in notes if "its next change rebuilds it" in note]) == len(before)
    for row in rows:
        walked_shop.keeper().settle(workflow=row["id"])
    assert {path: walked_shop.read(path) for path in before} == before, f"seed {walked_shop.seed}"


def test_the_states_in_the_records_are_those_of_the_ledger(walked_shop):
    rows, _ = walked_shop.keeper().workflows()
    told = {row["id"]: walked_shop.keeper().show(workflow=row["id"]).state for row in rows}
    remove_views(walked_shop)
    assert {one: walked_shop.keeper().show(workflow=one).state for one in told} == told
    assert all("behind" in line for line in lines_of(walked_shop.keeper()))


# The other way round


@pytest.mark.parametrize("way", ["status", "resume", "command", "start"])
@pytest.mark.parametrize("record_format", FORMATS)
@pytest.mark.parametrize("left", ["nothing", "the journal", "the lock"])
def test_with_the_ledger_gone_one_record_is_enough(record_format, way, left, tmp_path):
    shop = Workshop(tmp_path)
    state = worked_on(shop.keeper(), record_format)
    for number in range(12):
        state = shop.keeper().remind(f"reminder {number}", workflow=state["id"]).state
    kept = {"nothing": (), "the journal": ("-wal", "-shm"), "the lock": ("lock",)}[left]
    for name in os.listdir(shop.path(HOME)):
        if not name.endswith(kept or "/"):
            os.unlink(shop.path(HOME, name))
    if left == "nothing":
        os.rmdir(shop.path(HOME))
    if way == "status":
        rows, notes = shop.keeper().workflows()
        assert [row["id"] for row in rows] == [state["id"]]
        assert any("is not in the ledger yet" in note for note in notes)
        shop.keeper().settle(workflow=state["id"])
    elif way == "resume":
        assert shop.keeper().resume().state["id"] == state["id"]
    elif way == "start" and record_format != "formal":
        again = shop.keeper().start(RECIPES[record_format], "some work")
        assert again.resumed
        assert again.state["id"] == state["id"]
    elif way == "command":
        shop.keeper().remind("and on", workflow=state["id"])
        state["reminders"].append("and on")
    after = shop.keeper().settle(workflow=state["id"]).state
    state = as_adopted(state)
    for key in ("phase", "phases", "tasks", "reminders", "context", "subject", "title", "status"):
        assert after[key] == state[key], key
    assert types(shop.keeper())[0] == "record_adopted"
    assert lines_of(shop.keeper()) == []


@pytest.mark.parametrize("record_format", FORMATS)
def test_a_walk_of_one_workflow_survives_the_loss_of_the_ledger_at_any_point(
    record_format, tmp_path
):
    shop = Workshop(tmp_path)
    state = worked_on(shop.keeper(), record_format)
    for number in range(4):
        shutil.rmtree(shop.path(HOME))
        after = shop.keeper().show(workflow=state["id"]).state
        assert without_time(after) == without_time(as_adopted(state))
        state = shop.keeper().set_context({"loss": number}, workflow=state["id"]).state


# git clean


@pytest.mark.parametrize("look", ["status", "show", "log"])
def test_git_clean_is_not_the_end(look, tmp_path):
    shop = Walk(tmp_path, SEED + 77).shop
    rows, _ = shop.keeper().workflows()
    # An edit that was not adopted is only in the record.
    told = {row["id"]: shop.keeper().settle(workflow=row["id"]).state for row in rows}
    events = shop.keeper().log()
    run_git(shop.root, "clean", "-fdxq")
    assert not os.path.exists(shop.path(".claude"))
    if look == "log":
        assert shop.keeper().log() == events
    if look == "show":
        shop.keeper().show(workflow=rows[0]["id"])
    again, _ = shop.keeper().workflows()
    assert {row["id"] for row in again} == set(told)
    assert {one: shop.keeper().show(workflow=one).state for one in told} == told
    assert shop.keeper().log() == events
    shop.keeper().repair()
    assert lines_of(shop.keeper()) == []
    events = shop.keeper().log()  # A repair records what has expired.
    shop.keeper().remind("afterwards", workflow=rows[0]["id"])
    run_git(shop.root, "clean", "-fdxq")
    assert len(shop.keeper().log()) == len(events) + 1
