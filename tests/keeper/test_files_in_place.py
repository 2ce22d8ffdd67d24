"""The mark in the lock's file: the next transaction looks for records that are not in place."""

import contextlib
import errno
import inspect
import json
import os
import shutil
import sqlite3

import pytest

from holdfast.errors import Fault
from holdfast.system import kernel
from holdfast.system.disk import Disk
from support.disks import Died, DyingDisk
from support.workshop import HOME, LEDGER, Workshop

BEFORE_THE_CUT = b"00000000-0000-0000-0000-000000000000"


class UnadoptedEdit:
    """Two workflows, and an edit of the first that a killed writer had not adopted yet."""

    def __init__(self, folder):
        self.shop = Workshop(folder)
        keeper = self.shop.keeper()
        self.other = keeper.start("dev", "b.md").state["id"]
        state = keeper.start("dev", "a.md").state
        self.id, self.record = state["id"], state["record"]
        document = self.shop.document(self.record)
        document["context"]["feature_title"] = "edited"
        parent, name = os.path.split(self.record)
        self.shop.write(f"{parent}/.{name}.holdfast-saved-1", json.dumps(document).encode())
        self.lock = self.shop.path(HOME, "lock")

    def mark(self, data):
        with open(self.lock, "wb") as file:
            file.write(data)

    def is_adopted_by_another_change(self):
        self.shop.keeper().remind("another", workflow=self.other)
        return self.shop.keeper().show(workflow=self.id).state["title"] == "edited"


@pytest.fixture
def unadopted(tmp_path):
    return UnadoptedEdit(tmp_path)


def test_a_mark_of_this_boot_is_believed(unadopted):
    assert not unadopted.is_adopted_by_another_change()


@pytest.mark.parametrize("what", ["gone", "of another boot", "of an earlier event", "cut off"])
def test_without_a_valid_mark_the_last_record_is_looked_at(unadopted, what):
    mark = unadopted.shop.read(unadopted.lock)
    unadopted.mark(
        {
            "gone": b"",
            "of another boot": mark.replace(kernel.boot_id().encode(), BEFORE_THE_CUT),
            "of an earlier event": b"0" * 32 + mark[32:],
            "cut off": mark[:50],
        }[what]
    )
    assert unadopted.is_adopted_by_another_change()


@pytest.mark.parametrize("how", ["replaced", "written"])
def test_a_record_that_changed_since_is_looked_at_whatever_the_mark_says(unadopted, how):
    raw = unadopted.shop.read(unadopted.record)
    if how == "replaced":
        os.rename(unadopted.shop.path(unadopted.record), unadopted.shop.path("aside"))
    unadopted.shop.write(unadopted.record, raw)
    assert unadopted.is_adopted_by_another_change()


def test_a_system_without_boot_ids_looks_every_time(unadopted, monkeypatch):
    monkeypatch.setattr(kernel, "boot_id", lambda: "")
    assert unadopted.is_adopted_by_another_change()


def test_a_stored_state_and_the_events_after_it_are_the_state(tmp_path):
    shop = Workshop(tmp_path)
    workflow = shop.keeper().start("dev", "a.md", tasks=["one"]).state["id"]
    stored = set()
    for number in range(20):
        expected = shop.keeper().remind(f"number {number}").state
        ledger = shop.keeper().store.ledger
        assert ledger.stream(workflow).state == expected
        stored.add(next(ledger.database.rows("SELECT version FROM states"))[0])
    assert len(stored) == 3
    assert shop.keeper().verify(everything=True).ok


def test_a_ledger_whose_events_after_the_state_are_gone_is_damaged(tmp_path):
    shop = Workshop(tmp_path)
    workflow = shop.keeper().start("dev", "a.md").state["id"]
    shop.keeper().remind("one")
    with sqlite3.connect(shop.path(LEDGER)) as connection:
        connection.execute("DROP TRIGGER events_are_never_removed")
        connection.execute("DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)")
    connection.close()
    with pytest.raises(Fault) as caught:
        shop.keeper().show(workflow=workflow)
    assert caught.value.code == "ledger_damaged"
    assert "are missing" in caught.value.message


def test_a_state_that_is_not_what_was_written_is_not_continued(tmp_path):
    shop = Workshop(tmp_path)
    shop.keeper().start("dev", "a.md", tasks=["one"])
    with sqlite3.connect(shop.path(LEDGER)) as connection:
        connection.execute("UPDATE states SET state = replace(state, '\"one\"', '\"two\"')")
    connection.close()
    with pytest.raises(Fault) as caught:
        shop.keeper().remind("onwards")
    assert caught.value.code == "ledger_damaged"


def test_an_event_that_is_missing_in_the_middle_is_noticed(tmp_path):
    shop = Workshop(tmp_path)
    workflow = shop.keeper().start("dev", "a.md").state["id"]
    for text in ("one", "two", "three"):
        shop.keeper().remind(text)
    with sqlite3.connect(shop.path(LEDGER)) as connection:
        connection.execute("DROP TRIGGER events_are_never_removed")
        connection.execute("DELETE FROM events WHERE seq = (SELECT max(seq) - 1 FROM events)")
    connection.close()
    with pytest.raises(Fault) as caught:
        shop.keeper().remind("four", workflow=workflow)
    assert caught.value.code == "ledger_damaged"


def test_a_copied_repository_does_not_believe_the_mark_of_the_original(tmp_path):
    place = UnadoptedEdit(tmp_path / "original")
    shutil.copytree(place.shop.root, tmp_path / "copy")
    place.shop = Workshop(tmp_path / "copy", git=False)
    assert place.is_adopted_by_another_change()


def test_a_slow_save_is_adopted_although_another_workflow_changes_twice_meanwhile(tmp_path):
    shop = Workshop(tmp_path)
    slow = shop.keeper().start("dev", "a.md").state
    other = shop.keeper().start("dev", "b.md").state
    document = shop.document(slow["record"])
    document["context"]["feature_title"] = "saved slowly"
    with open(shop.path(slow["record"]), "wb", buffering=0) as file:
        file.write(b"{")
        shop.keeper().remind("meanwhile", workflow=slow["id"])
        os.remove(shop.path(other["record"]))
        shop.keeper().remind("adopted, then changed", workflow=other["id"])
        file.seek(0)
        file.write(json.dumps(document).encode())
    for workflow in (other, slow):
        shop.keeper().remind("later", workflow=workflow["id"])
    assert shop.keeper().show(workflow=slow["id"]).state["title"] == "saved slowly"


def test_an_index_that_could_not_be_written_is_mended_by_any_later_change(tmp_path):
    shop = Workshop(tmp_path)
    shop.keeper().start("planning", "something else")

    class Full(Disk):
        def replace_view(self, path, _data, **_options):
            raise OSError(errno.ENOSPC, "full", path)

    started = shop.keeper(disk=Full()).start("dev", "a.md").state["id"]
    shop.keeper().remind("of another format", workflow="something-else")
    listed = shop.document(".claude/workflow-state/index.json")["active_workflows"]
    assert [row["id"] for row in listed] == [started]


@pytest.mark.parametrize("what", ["a pipe", "too large"])
def test_what_is_no_index_does_not_stop_a_change(tmp_path, what):
    shop = Workshop(tmp_path)
    shop.keeper().start("dev", "a.md")
    path = shop.path(".claude/workflow-state/index.json")
    if what == "a pipe":
        os.remove(path)
        os.mkfifo(path)
    else:
        os.truncate(path, 1 << 40)
    assert shop.keeper().remind("x").state["reminders"] == ["x"]
    assert os.path.isfile(path)


def test_verify_reads_one_moment(tmp_path):
    shop = Workshop(tmp_path)
    keeper, writer = shop.keeper(), shop.keeper()
    keeper.start("dev", "a.md")
    database = keeper.store.ledger.database
    with database.reading():
        before = keeper.store.ledger.head_seq
        writer.remind("meanwhile")
        assert keeper.store.ledger.head_seq == before
    assert keeper.store.ledger.head_seq == before + 1


def test_a_row_that_is_older_than_its_events_is_called_damage(tmp_path):
    shop = Workshop(tmp_path)
    shop.keeper().start("dev", "a.md")
    with sqlite3.connect(shop.path(LEDGER)) as connection:
        connection.execute(
            "INSERT INTO events SELECT seq + 1, 'x' || id, at, stream, version + 1, v, type, data,"
            " by, part, prev, hash FROM events ORDER BY seq DESC LIMIT 1"
        )
    connection.close()
    with pytest.raises(Fault) as caught:
        shop.keeper().remind("onwards")
    assert caught.value.code == "ledger_damaged"


class DiesBeforePlacing(Disk):
    def exchange(self, _one, _other):
        raise Died


def test_a_second_kill_does_not_make_the_rest_of_the_files_forgotten(tmp_path):
    point = calls = 0
    while calls >= point:
        point += 1
        shop = Workshop(tmp_path / str(point))
        *left_behind, other = (shop.keeper().start("dev", name).state["id"] for name in "abc")
        killed = shop.keeper(disk=DiesBeforePlacing())
        with contextlib.suppress(Died), killed.session.transaction() as tx:
            for stream in left_behind:
                tx.load(stream)
                tx.do(stream, "add_reminder", {"text": "of both"})
        second = DyingDisk(at=point)
        with contextlib.suppress(Died):
            shop.keeper(disk=second).remind("of the second", workflow=other)
        calls = len(second.calls)
        shop.keeper().remind("of the third", workflow=other)
        for stream in left_behind:
            assert b"of both" in shop.read(f".claude/workflow-state/active/{stream}.json")
    assert point > len(left_behind)


class SavingDisk(Disk):
    """An editor saves the record each time just before it is replaced."""

    def __init__(self, shop, record, saves):
        self.shop, self.record, self.saves = shop, record, saves
        self.depths = []

    def exchange(self, one, other):
        if self.saves and other == self.shop.path(self.record):
            self.saves -= 1
            self.depths.append(sum(call.function == "commit" for call in inspect.stack(0)))
            document = self.shop.document(self.record)
            document["context"][f"save {self.saves}"] = True
            self.shop.write(self.record, json.dumps(document).encode())
        return super().exchange(one, other)


def test_an_editor_that_saves_again_and_again_does_not_hold_a_change(tmp_path):
    shop = Workshop(tmp_path)
    state = shop.keeper().start("dev", "a.md").state
    saved = {f"save {number}" for number in range(12)}
    disk = SavingDisk(shop, state["record"], saves=len(saved))
    keeper = shop.keeper(disk=disk)
    keeper.remind("one")
    assert disk.saves
    for number in range(12):
        keeper.remind(f"number {number}")
    assert max(disk.depths) <= 2
    assert not disk.saves
    state = keeper.show().state
    assert saved <= set(state["context"])
    assert len(state["reminders"]) == 13
