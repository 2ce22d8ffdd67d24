"""Promise 9: a hand edit is never silently overwritten, whenever it is saved.

A disk that stops before and after each of its calls lets an editor save the record at every step of
a transition: by a rename, as most editors do, or into the same file; of the record as it was before
the transition, or as it stands at that moment.
"""

import contextlib
import itertools
import json
import os
import subprocess

import pytest

from holdfast.system.disk import Disk
from support.disks import Died
from support.editors import LIMITS
from support.workshop import FORMATS, SEED, Workshop, edit_document, lines_of, sampled, worked_on

pytestmark = pytest.mark.promise(9)

SAMPLE = 14
TAKING_IN = 30
"""More steps than it takes to take an edit in."""
HAND = "written by hand"
CALLS = [name for name in vars(Disk) if not name.startswith("_")]


class Stepping(Disk):
    """A disk that calls ``act`` at one of its steps; the steps are before and after each call."""

    def __init__(self, at=None, act=None, dies_at=None):
        super().__init__()
        self.step = -1
        self.dies_at = dies_at
        self.at = at
        self.act = act

    def pass_step(self):
        self.step += 1
        if self.step == self.at:
            self.act()
        if self.dies_at is not None and self.step >= self.dies_at:
            raise Died


def stepping(name):
    def call(self, *args, **options):
        if name in ("close", "unlock"):
            # The kernel closes what a dead process had open.
            return getattr(Disk, name)(self, *args)
        self.pass_step()
        done = getattr(Disk, name)(self, *args, **options)
        try:
            self.pass_step()
        except Died:
            if name == "lock":
                os.close(done)
            raise
        return done

    return call


for each in CALLS:
    setattr(Stepping, each, stepping(each))

TRANSITIONS = {
    "remind": lambda keeper, workflow: keeper.remind("meanwhile", workflow=workflow),
    "advance": lambda keeper, workflow: keeper.advance(workflow=workflow),
    "complete": lambda keeper, workflow: keeper.complete(
        "done", force=True, reason="enough", workflow=workflow
    ),
    "settle": lambda keeper, workflow: keeper.settle(workflow=workflow),
    "repair": lambda keeper, _workflow: keeper.repair(),
}


def hand_edited(record_format, document):
    edit_document(record_format, document, HAND)
    if record_format == "formal":
        document["key_reminders"].append(HAND)
    return json.dumps(document, indent=1).encode()


def is_told(state):
    return HAND in (state["title"], state["context"].get("attempt"))


class Scene:
    """One workflow, one transition, and an editor that saves at one step of it."""

    def __init__(self, folder, record_format, *, from_now, in_place):
        self.shop = Workshop(folder, git=False)
        self.format = record_format
        state = worked_on(self.shop.keeper(), record_format)
        self.id, self.record = state["id"], state["record"]
        self.opened = self.shop.read(self.record)
        self.from_now, self.in_place = from_now, in_place
        self.saved = None

    def save(self):
        """What the editor does; it makes the folder if it is gone."""
        path = self.shop.path(self.record)
        raw = self.opened
        if self.from_now and os.path.exists(path) and os.path.getsize(path):
            raw = self.shop.read(self.record)
        self.saved = hand_edited(self.format, json.loads(raw))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if self.in_place:
            with open(path, "wb") as file:
                file.write(self.saved)
        else:
            self.shop.write(self.record + "~", self.saved)
            os.replace(path + "~", path)

    def forget_mark(self):
        """Empty the lock's file: a killed writer did not mark its files as in place."""
        os.truncate(os.path.join(self.shop.keeper().workspace.home, "lock"), 0)

    def kept(self):
        """Names of the files, other than the record, that hold what was saved."""
        files = self.shop.files().items()
        return [os.path.basename(path) for path, data in files if data == self.saved]


def steps_of(folder, record_format, transition):
    scene = Scene(folder, record_format, from_now=False, in_place=False)
    disk = Stepping()
    keeper = scene.shop.keeper(disk=disk)
    disk.step = -1
    TRANSITIONS[transition](keeper, scene.id)
    return disk.step + 1


def check_never_gone(scene, transition, step):
    disk = Stepping(step, scene.save)
    keeper = scene.shop.keeper(disk=disk)
    notes = []
    answer = TRANSITIONS[transition](keeper, scene.id)
    notes += getattr(answer, "notes", [line["message"] for line in getattr(answer, "lines", [])])
    if scene.saved is None:
        scene.save()
    for _ in range(2):
        look = scene.shop.keeper().settle(workflow=scene.id)
        notes += look.notes
    told = is_told(look.state)
    adopted = any(
        event["type"] == "record_edited" and HAND in json.dumps(event["data"]["changes"])
        for event in scene.shop.keeper().log()
    )
    kept = scene.kept()
    assert told == adopted
    assert told or kept, "the edit is gone"
    if not told:
        assert all(any(name in note for note in notes) for name in kept), (kept, notes)
    if transition == "remind":
        assert "meanwhile" in look.state["reminders"]
    assert [line for line in lines_of(scene.shop.keeper()) if line.startswith("error")] == []
    return told


@pytest.mark.parametrize("record_format", FORMATS)
@pytest.mark.parametrize("transition", TRANSITIONS)
def test_an_edit_saved_at_every_step_is_adopted_or_kept(record_format, transition, tmp_path, tally):
    count = steps_of(tmp_path / "steps", record_format, transition)
    kinds = list(itertools.product(range(count + 1), (False, True), (False, True)))
    adopted = 0
    chosen = sampled(kinds, SAMPLE, f"{record_format}{transition}")
    for number, (step, from_now, in_place) in enumerate(chosen):
        scene = Scene(tmp_path / str(number), record_format, from_now=from_now, in_place=in_place)
        try:
            adopted += check_never_gone(scene, transition, step)
        except BaseException as error:
            error.add_note(f"seed {SEED}: step {step}, {from_now=}, {in_place=}")
            raise
    if transition in ("remind", "show", "repair"):
        assert adopted == len(chosen), "what is in nobody's way is always taken in"
    tally("hand edits", saved=len(chosen), adopted=adopted)


@pytest.mark.parametrize("record_format", FORMATS)
@pytest.mark.parametrize("transition", ["remind", "complete"])
def test_an_edit_survives_the_death_of_the_writer_that_met_it(record_format, transition, tmp_path):
    """The editor saves at one step, and the process is killed at that step or a later one."""
    count = steps_of(tmp_path / "steps", record_format, transition)
    pairs = [(step, dies) for step in range(count) for dies in range(step, count + TAKING_IN)]
    chosen = sampled(pairs, SAMPLE, f"killed {record_format}{transition}")
    for number, (step, dies_at) in enumerate(chosen):
        scene = Scene(tmp_path / str(number), record_format, from_now=False, in_place=False)
        keeper = scene.shop.keeper(disk=Stepping(step, scene.save, dies_at))
        with contextlib.suppress(Died):
            TRANSITIONS[transition](keeper, scene.id)
        check_not_lost(scene, f"seed {SEED}: step {step}, killed at {dies_at}")


@pytest.mark.parametrize("limit", ["no exchange", "no links", "no leases", "little"])
@pytest.mark.parametrize("record_format", FORMATS)
def test_an_edit_is_adopted_or_kept_on_a_file_system_that_can_do_less(
    record_format, limit, tmp_path, monkeypatch
):
    """At every step; and the writer that met it dies at that step or a later one."""
    LIMITS[limit](monkeypatch)
    count = steps_of(tmp_path / "steps", record_format, "remind")
    chosen = sampled(itertools.product(range(count), (False, True)), SAMPLE // 2, f"{limit} kept")
    for number, (step, in_place) in enumerate(chosen):
        folder = tmp_path / str(number)
        scene = Scene(folder, record_format, from_now=False, in_place=in_place)
        check_never_gone(scene, "remind", step)
    pairs = [(step, dies) for step in range(count) for dies in range(step, count + TAKING_IN)]
    for number, (step, dies_at) in enumerate(sampled(pairs, SAMPLE // 2, f"{limit} killed")):
        folder = tmp_path / f"killed {number}"
        scene = Scene(folder, record_format, from_now=False, in_place=False)
        keeper = scene.shop.keeper(disk=Stepping(step, scene.save, dies_at))
        with contextlib.suppress(Died):
            keeper.remind("meanwhile", workflow=scene.id)
        check_not_lost(scene, f"seed {SEED}: {limit}, step {step}, killed at {dies_at}")


def check_not_lost(scene, case):
    """The very next command takes it in, or says where it is kept."""
    look = scene.shop.keeper().settle(workflow=scene.id)
    kept = [name for name in scene.kept() if ".rejected-" in name]
    said = [name for name in kept if any(name in note for note in look.notes)]
    assert is_told(look.state) or said, f"the edit is gone, or not said; {case}"
    scene.shop.keeper().resume(workflow=scene.id)
    state = scene.shop.keeper().remind("afterwards", workflow=scene.id).state
    assert is_told(state) == is_told(look.state), case
    assert lines_of(scene.shop.keeper()) == [], case
    assert is_told(state) or [name for name in scene.kept() if name in kept], case
    assert not [name for name in scene.shop.files() if "-saved-" in name], case
    reminders = scene.shop.keeper().settle(workflow=scene.id).state["reminders"]
    assert len(reminders) == len(set(reminders)), f"twice; {case}"


@pytest.mark.parametrize("record_format", FORMATS)
def test_a_record_from_elsewhere_that_arrives_at_any_step_is_adopted_or_kept(
    record_format, tmp_path
):
    there = Workshop(tmp_path / "there", git=False)
    elsewhere = worked_on(there.keeper(), record_format)
    there.keeper().remind("told elsewhere", workflow=elsewhere["id"])
    foreign = there.read(elsewhere["record"])
    count = steps_of(tmp_path / "steps", record_format, "remind")
    for step in sampled(range(count), SAMPLE, "elsewhere"):
        scene = Scene(tmp_path / str(step), record_format, from_now=False, in_place=False)
        scene.save = lambda scene=scene: scene.shop.write(scene.record, foreign)
        scene.saved = foreign
        keeper = scene.shop.keeper(disk=Stepping(step, scene.save))
        notes = keeper.remind("meanwhile", workflow=scene.id).notes
        look = scene.shop.keeper().settle(workflow=scene.id)
        told = "told elsewhere" in look.state["reminders"]
        assert told or scene.kept(), f"gone at step {step}"
        assert told or any(name in note for name in scene.kept() for note in notes + look.notes)


@pytest.mark.parametrize("record_format", FORMATS)
def test_what_cannot_be_taken_in_is_kept_at_whatever_step_it_was_saved(record_format, tmp_path):
    count = steps_of(tmp_path / "steps", record_format, "remind")
    for step in sampled(range(count), SAMPLE, "broken"):
        scene = Scene(tmp_path / str(step), record_format, from_now=False, in_place=False)
        scene.saved = b'{"half": '
        scene.save = lambda scene=scene: scene.shop.write(scene.record, scene.saved)
        keeper = scene.shop.keeper(disk=Stepping(step, scene.save))
        notes = keeper.remind("meanwhile", workflow=scene.id).notes
        look = scene.shop.keeper().settle(workflow=scene.id)
        assert look.state["reminders"][-1] == "meanwhile"
        kept = [name for name in scene.kept() if name != os.path.basename(scene.record)]
        assert len(kept) == 1
        assert any(kept[0] in note and "line 1" in note for note in notes + look.notes)


@pytest.mark.parametrize("record_format", FORMATS)
def test_edits_of_many_hands_are_all_told(record_format, tmp_path):
    """Each command meets an edit of the record as it was before the command."""
    count = steps_of(tmp_path / "steps", record_format, "remind")
    shop = Workshop(tmp_path / "shop", git=False)
    state = worked_on(shop.keeper(), record_format)
    for number in range(6):
        document = shop.document(state["record"])
        document[f"x-{number}"] = number
        saved = json.dumps(document).encode()
        step = number * count // 6
        disk = Stepping(step, lambda saved=saved: shop.write(state["record"], saved))
        shop.keeper(disk=disk).remind(f"reminder {number}", workflow=state["id"])
    after = shop.keeper().settle(workflow=state["id"]).state
    assert after["reminders"][-6:] == [f"reminder {number}" for number in range(6)]
    assert {f"x-{number}": number for number in range(6)}.items() <= after["extra"].items()
    assert lines_of(shop.keeper()) == []


@pytest.mark.parametrize("record_format", FORMATS)
def test_git_does_not_see_what_a_killed_writer_leaves_beside_a_record(record_format, tmp_path):
    shop = Workshop(tmp_path)
    record = worked_on(shop.keeper(), record_format)["record"]
    folder, name = os.path.split(record)
    for left in (".holdfast", ".holdfast-saved-1", ".holdfast.old"):
        shop.write(os.path.join(folder, f".{name}{left}"), b"something")
    seen = subprocess.run(
        ["git", "status", "--porcelain"], cwd=shop.root, capture_output=True, check=True
    )
    assert seen.stdout == b""


def test_an_edit_that_stands_between_two_names_is_found_there(tmp_path):
    """Without an exchange the old content has a name of its own for a moment."""
    scene = Scene(tmp_path, "skill", from_now=True, in_place=True)
    folder, name = os.path.split(scene.record)
    scene.save()
    os.rename(scene.shop.path(scene.record), scene.shop.path(folder, f".{name}.holdfast.old"))
    scene.shop.write(scene.record, scene.opened)
    scene.forget_mark()
    assert is_told(scene.shop.keeper().settle(workflow=scene.id).state)
    assert os.listdir(scene.shop.path(folder)) == [name]


@pytest.mark.parametrize("half", [0, 200], ids=["nothing", "half of it"])
@pytest.mark.parametrize("record_format", FORMATS)
def test_whoever_writes_slowly_into_the_file_itself_is_waited_for(record_format, half, tmp_path):
    """``slow > record``: the shell empties the file before the first byte comes."""
    scene = Scene(tmp_path, record_format, from_now=False, in_place=True)
    saved = hand_edited(record_format, json.loads(scene.opened))
    with open(scene.shop.path(scene.record), "wb", buffering=0) as file:
        file.write(saved[:half])
        look = scene.shop.keeper().settle(workflow=scene.id)
        assert any("is being written" in note for note in look.notes)
        scene.shop.keeper().remind("meanwhile", workflow=scene.id)
        scene.shop.keeper().remind("once more", workflow=scene.id)
        file.write(saved[half:])
    state = scene.shop.keeper().settle(workflow=scene.id).state
    assert is_told(state)
    assert {"meanwhile", "once more"} <= set(state["reminders"])
    assert scene.kept() == []
    assert lines_of(scene.shop.keeper()) == []


@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies"])
@pytest.mark.parametrize("record_format", FORMATS)
def test_whoever_had_the_file_open_when_it_was_exchanged_is_waited_for(
    record_format, dies, tmp_path
):
    """Opened before the exchange, emptied before or after it, written after it."""
    scene = Scene(tmp_path, record_format, from_now=False, in_place=True)
    saved = hand_edited(record_format, json.loads(scene.opened))
    with open(scene.shop.path(scene.record), "r+b", buffering=0) as file:
        disk = Stepping()
        disk.exchange = lambda one, other: exchanged(disk, one, other, file, dies=dies)
        with contextlib.suppress(Died):
            scene.shop.keeper(disk=disk).remind("meanwhile", workflow=scene.id)
        file.truncate(0)
        scene.shop.keeper().settle(workflow=scene.id)
        scene.shop.keeper().remind("once more", workflow=scene.id)
        file.write(saved)
    state = scene.shop.keeper().settle(workflow=scene.id).state
    assert is_told(state)
    assert {"meanwhile", "once more"} <= set(state["reminders"])
    assert lines_of(scene.shop.keeper()) == []


def exchanged(disk, one, other, file, *, dies):
    is_done = Disk.exchange(disk, one, other)
    if dies:
        file.truncate(0)
        disk.dies_at = 0
    return is_done


def test_one_edit_waits_while_another_one_is_taken_in(tmp_path):
    scene = Scene(tmp_path, "skill", from_now=False, in_place=True)
    folder, name = os.path.split(scene.record)
    one, other = json.loads(scene.opened), json.loads(scene.opened)
    one["x-one"], other["x-other"] = 1, 2
    scene.shop.write(f"{folder}/.{name}.holdfast-saved-1", json.dumps(one).encode())
    scene.forget_mark()
    with open(scene.shop.path(scene.record), "wb", buffering=0) as file:
        assert scene.shop.keeper().settle(workflow=scene.id).state["extra"] == {"x-one": 1}
        scene.shop.keeper().remind("meanwhile", workflow=scene.id)
        file.write(json.dumps(other).encode())
    extra = scene.shop.keeper().settle(workflow=scene.id).state["extra"]
    assert extra == {"x-one": 1, "x-other": 2}
    assert os.listdir(scene.shop.path(folder)) == [name]


class Restless(Disk):
    """A disk on which somebody changes the record after every look at it."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def read_own(self, path, most=None, **options):
        data = super().read_own(path, most, **options)
        self.change(path)
        return data


def test_a_record_that_never_stands_still_is_not_looked_at_for_ever(tmp_path):
    scene = Scene(tmp_path, "skill", from_now=False, in_place=True)
    looks = []

    def change(path):
        if path.endswith(os.path.basename(scene.record)) and len(looks) < 1_000:
            looks.append(path)
            scene.shop.write(scene.record, b"never the same twice" * len(looks))

    change(scene.record)
    scene.shop.keeper(disk=Restless(change)).settle(workflow=scene.id)
    assert len(looks) < 20
