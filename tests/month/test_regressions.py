"""What months have found, each as a story of its own."""

import json
import os

import pytest

from holdfast import Keeper, Loops
from holdfast.errors import Fault
from holdfast.layers.graph import mcp_delivery
from holdfast.layers.memory import MemorySection
from holdfast.system.disk import Disk
from promises.power import Cut
from support.disks import Died, FailingDisk, RecordingDisk
from support.workshop import YEAR_MS, Workshop, lines_of, open_workflow

PAGES = ".claude/iterative/lo"


def looped(shop, *units):
    Loops(shop.keeper()).new("lo")
    for unit in units:
        Loops(shop.keeper()).plan("lo", unit)
    return shop


class Mortal(Disk):
    """Dies when it is about to make a file, and it is time."""

    def __init__(self, is_time):
        super().__init__()
        self.is_time, self.is_dead = is_time, False

    def create(self, path, data, mode=0o666, *, durable=False):
        self.is_dead = self.is_dead or self.is_time(path)
        if self.is_dead:
            raise Died
        return super().create(path, data, mode, durable=durable)


def test_a_page_that_killed_writers_left_behind_is_no_edit(shop):
    """One died before it remembered what it wrote, the next before it wrote."""
    looped(shop)
    page = f"{PAGES}/tasks.md"

    def is_written(path):
        return "pages/lo.json" in path and b"first words" in shop.read(page)

    with pytest.raises(Died):
        Loops(shop.keeper(disk=Mortal(is_written))).plan("lo", "T1: first words")
    disk = Mortal(lambda path: "/.tasks.md.holdfast-" in path)
    with pytest.raises(Died):
        Loops(shop.keeper(disk=disk)).plan("lo", "T1: better")
    assert b"first words" in shop.read(page)
    state = Loops(shop.keeper()).settle("lo").state
    assert [task["description"] for task in state["tasks"]] == ["better"]
    assert b"better" in shop.read(page)


def test_what_a_page_shows_by_itself_is_no_edit_when_nobody_remembers_it(shop):
    looped(shop, "T1: one")
    shop.keeper().add_task("two", workflow="lo")
    Loops(shop.keeper()).settle("lo")
    os.unlink(shop.path(".git/holdfast/pages/lo.json"))
    before = len(shop.keeper().log())
    Loops(shop.keeper()).settle("lo")
    assert len(shop.keeper().log()) == before


def test_an_edit_of_a_page_is_still_one(shop):
    looped(shop, "T1: first words")
    page = f"{PAGES}/tasks.md"
    shop.write(page, shop.read(page).replace(b"first words", b"by hand"))
    assert Loops(shop.keeper()).settle("lo").state["tasks"][0]["description"] == "by hand"


def left_certain(disk):
    """What a power cut leaves for certain, whatever else it may keep: every choice of a few."""
    cut = Cut(disk, len(disk.log))
    for kept in (lambda _: True, lambda _: False, *(_all_but(one) for one, _ in cut.pending)):
        tree, _ = cut.left(kept, lambda data, _: data)
        yield b"\n".join(data for _, data in tree.values())


def _all_but(lost):
    return lambda entry: entry is not lost


def test_what_people_wrote_beside_a_loop_survives_a_power_cut_after_it_was_archived(shop):
    looped(shop, "T1: one")
    shop.write(f"{PAGES}/notes.md", b"written by a person")
    disk = RecordingDisk(shop.root)
    Loops(shop.keeper(disk=disk)).archive("lo")
    assert all(b"written by a person" in left for left in left_certain(disk))


def test_what_people_wrote_into_a_page_survives_a_power_cut_after_it_was_patched(shop):
    looped(shop, "T1: one")
    page = f"{PAGES}/tasks.md"
    shop.write(page, shop.read(page) + b"\nwritten by a person\n")
    disk = RecordingDisk(shop.root)
    Loops(shop.keeper(disk=disk)).plan("lo", "T2: two")
    assert all(b"written by a person" in left for left in left_certain(disk))


def test_an_archive_that_was_recorded_is_not_said_to_have_failed(shop):
    looped(shop, "T1: one")
    counting = FailingDisk(None)
    probe = Workshop(f"{shop.root}-probe")
    looped(probe, "T1: one")
    Loops(probe.keeper(disk=counting)).archive("lo")
    tried = 0
    for at in range(1, len(counting.calls) + 1):
        copy = looped(Workshop(f"{shop.root}-{at}"), "T1: one")
        try:
            Loops(copy.keeper(disk=FailingDisk(at, 5, once=True))).archive("lo", id="archived")
        except Fault as fault:
            recorded = [event["id"] for event in copy.keeper().log()].count("archived")
            assert not recorded or fault.code in ("record_behind", "unknown_outcome"), fault
            tried += 1
    assert tried


def test_a_keeper_that_lives_long_sees_what_others_did_meanwhile(shop):
    lasting = shop.keeper()
    lasting.remember("before")
    lasting.learnings()
    shop.keeper().interviews().skip("dev", "no time")
    lasting.interviews().skip("dev", "no time either")
    assert lines_of(shop.keeper()) == []
    versions = [e["version"] for e in shop.keeper().log() if e["stream"] == "_interview"]
    assert versions == [1, 2]


def test_a_record_of_which_a_power_cut_left_nothing_is_made_anew_by_the_next_change(shop):
    shop.keeper().remember("something")
    path = ".claude/learnings.json"
    shop.write(path, bytes(len(shop.read(path))))
    assert [entry["text"] for entry in shop.keeper().learnings()] == ["something"]
    shop.keeper().remember("more")
    assert lines_of(shop.keeper()) == []


def test_a_section_of_the_memory_that_comes_and_goes_leaves_no_more_than_one_line():
    raw = b"# Mine\n"
    for _ in range(3):
        raw = MemorySection(raw, "key").with_lines(["- a line"])
        assert raw.startswith(b"# Mine\n\n<!-- holdfast:begin")
        raw = MemorySection(raw, "key").with_lines([])
    assert raw == b"# Mine\n\n"


def test_a_clock_that_is_set_back_does_not_leave_a_server_alone_for_a_year(shop, monkeypatch):
    from types import SimpleNamespace

    shop.keeper().remember("something")
    server = SimpleNamespace(name="memory", text="memory-server")
    monkeypatch.setattr(mcp_delivery, "_approved_server", lambda _store, _name: server)

    def down(*_):
        raise mcp_delivery.Unreachable("it is down")

    shop.clock.ms += YEAR_MS
    keeper = Keeper(shop.root, clock_ms=shop.clock, sleep=lambda _: None)
    monkeypatch.setattr(mcp_delivery, "reach", down)
    assert mcp_delivery.deliver(keeper.store, "memory")["why"]
    shop.clock.ms -= YEAR_MS
    asked = []
    monkeypatch.setattr(mcp_delivery, "reach", lambda *_: asked.append(1) or 0)
    mcp_delivery.deliver(keeper.store, "memory")
    assert asked


def test_an_edit_that_a_sync_takes_in_does_not_wait_for_the_lock_that_the_sync_holds(
    shop, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOLDFAST_MEMORY", str(tmp_path / "MEMORY.md"))
    state = open_workflow(shop.keeper(), "verb")
    shop.edit(state["record"], lambda document: document.update(context="by hand"))

    class Impatient(Disk):
        def lock(self, path, _wait_s):
            return super().lock(path, 0)

    rows, notes = shop.keeper(disk=Impatient()).sync()
    assert [row["status"] for row in rows if row["layer"] == "L2"] != ["unavailable"], notes
    assert not [note for note in notes if "unavailable" in note]


@pytest.mark.parametrize("way", ["resume", "start"])
def test_an_edit_saved_while_a_session_is_bound_is_in_the_record(shop, way):
    state = open_workflow(shop.keeper(), "skill")
    shop.keeper(session="other").start("tdd", "something else")
    keeper = shop.keeper(session="mine")
    bind = keeper.session.binding

    def binding(tx, found):
        shop.edit(state["record"], lambda document: document.update({"x-note": "by hand"}))
        return bind(tx, found)

    keeper.session.binding = binding
    if way == "resume":
        keeper.resume(workflow=state["id"])
    else:
        keeper.start("dev", "some work")
    after = shop.keeper().settle(workflow=state["id"]).state
    assert after["extra"]["x-note"] == "by hand"
    assert lines_of(shop.keeper()) == []


def test_an_edit_of_a_completed_copy_that_is_saved_after_a_resume_completes_nothing(shop):
    state = open_workflow(shop.keeper(), "verb")
    shop.keeper().complete(force=True, reason="enough", workflow=state["id"])
    copy = shop.document(state["record"])
    shop.keeper().resume(workflow=state["id"])
    copy["x-note"] = "by hand"
    shop.write(state["record"], json.dumps(copy).encode())
    after = shop.keeper().show(workflow=state["id"]).state
    assert (after["status"], after["extra"]["x-note"]) == ("in_progress", "by hand")


def test_what_cannot_be_read_where_an_archived_loop_stands_is_kept_by_a_resume(shop):
    looped(shop, "T1: one")
    record = Loops(shop.keeper()).archive("lo").state["record"]
    shop.write(record, b'{"by hand": ')
    notes = shop.keeper().resume(workflow="lo").notes
    kept = [path for path, data in shop.files().items() if data == b'{"by hand": ']
    assert kept
    assert any(os.path.basename(path) in note for path in kept for note in notes)
    assert lines_of(shop.keeper()) == []
