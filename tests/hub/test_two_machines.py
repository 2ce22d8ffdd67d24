"""Stories of one piece of work on two machines, over a bare git repository between them."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from holdfast import Fault, Initiatives, Keeper, Loops, Refused, Sharing
from holdfast.core import sharing
from support.machines import Machine, git

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = "docs/login.md"


@pytest.fixture
def machines(tmp_path: Path) -> tuple[Machine, Machine]:
    remote = tmp_path / "hub.git"
    git("init", "-q", "--bare", str(remote))
    return Machine(tmp_path / "desk", "desk", remote), Machine(
        tmp_path / "laptop", "laptop", remote
    )


@pytest.fixture
def shared(machines: tuple[Machine, Machine]) -> tuple[Machine, Machine, str]:
    """Two machines with the same workflow, which was begun at the first."""
    desk, laptop = machines
    receipt = desk.keeper.start("dev", PAGE, title="Login", tasks=["Check it", "Ask for it"])
    desk.share()
    laptop.share()
    return desk, laptop, receipt.state["id"]


def test_work_begun_at_the_desk_goes_on_at_the_laptop(
    shared: tuple[Machine, Machine, str],
) -> None:
    desk, laptop, name = shared
    assert laptop.rows()[name]["worktree"] == "@desk"
    receipt = laptop.keeper.resume(workflow=name)
    assert f"{name} moved here from desk" in receipt.notes
    assert receipt.record is not None
    record = json.loads((laptop.folder / receipt.record).read_text())
    assert [task["description"] for task in record["tasks"]] == ["Check it", "Ask for it"]
    laptop.keeper.remind("Never log a password", workflow=name)
    laptop.sync()
    desk.sync()
    assert desk.keeper.show(workflow=name).state["reminders"] == ["Never log a password"]
    assert ", on laptop" in desk.keeper.briefing(workflow=name)
    assert desk.digests() == laptop.digests() != {}


def test_the_branch_of_the_work_comes_along(shared: tuple[Machine, Machine, str]) -> None:
    desk, laptop, name = shared
    git("-C", str(desk.folder), "switch", "-q", "-c", "login")
    desk.keeper.advance(workflow=name)
    desk.keeper.advance(workflow=name)
    desk.sync()
    laptop.sync()
    receipt = laptop.keeper.resume(workflow=name)
    assert receipt.state["branch"] == "login"
    assert "BRANCH MISMATCH" in laptop.keeper.briefing(workflow=name)


def test_what_both_add_offline_is_there_on_both(shared: tuple[Machine, Machine, str]) -> None:
    desk, laptop, name = shared
    desk.keeper.remind("from the desk", workflow=name)
    laptop.keeper.remind("from the laptop", workflow=name)
    for machine in (desk, laptop, desk):
        machine.sync()
    for machine in (desk, laptop):
        reminders = machine.keeper.show(workflow=name).state["reminders"]
        assert sorted(reminders) == ["from the desk", "from the laptop"]
    assert desk.digests() == laptop.digests()


def test_an_answer_at_the_laptop_reaches_the_session_at_the_desk(
    shared: tuple[Machine, Machine, str],
) -> None:
    desk, laptop, name = shared
    asker = Keeper(str(desk.folder), session="ada")
    asker.ask("Which database?", ["Postgres", "SQLite"], blocking=True, workflow=name)
    desk.sync()
    laptop.sync()
    assert [row["text"] for row in laptop.keeper.open_questions()] == ["Which database?"]
    laptop.keeper.answer(1, "2")
    laptop.sync()
    assert asker.open_questions() != []
    desk.sync()
    assert asker.open_questions() == []
    told = asker.new_answers()
    assert told is not None
    assert told.notes == [f"question 1 of {name} (Which database?) was answered: SQLite"]
    (question,) = desk.keeper.show(workflow=name).state["questions"]
    assert question["answered_by"] == {"surface": "library"}
    assert desk.digests() == laptop.digests()


class TestNumbersOfTasks:
    """Two machines that add tasks under one number: nobody does the wrong one."""

    @pytest.fixture
    def renumbered(self, shared: tuple[Machine, Machine, str]) -> tuple[Keeper, str]:
        """The keeper at which task 3 has become task 4."""
        desk, laptop, name = shared
        desk.keeper.add_tasks(["from the desk"], workflow=name)
        laptop.keeper.add_tasks(["from the laptop"], workflow=name)
        for machine in (desk, laptop, desk):
            machine.sync()
        tasks = [
            str(task["description"]) for task in desk.keeper.show(workflow=name).state["tasks"]
        ]
        last = desk if tasks[-1] == "from the desk" else laptop
        return last.keeper, name

    def test_an_earlier_number_is_refused_until_the_next_briefing(
        self, renumbered: tuple[Keeper, str]
    ) -> None:
        keeper, name = renumbered
        with pytest.raises(Refused, match="task 3 was 'from the") as caught:
            keeper.start_task(3, workflow=name)
        assert (caught.value.code, caught.value.hint) == ("renumbered", f"holdfast resume {name}")
        keeper.resume(workflow=name)
        keeper.start_task(3, workflow=name)

    def test_other_numbers_are_taken_as_ever(self, renumbered: tuple[Keeper, str]) -> None:
        keeper, name = renumbered
        keeper.start_task(1, workflow=name)
        keeper.start_task(4, workflow=name)

    def test_a_task_that_was_only_edited_elsewhere_keeps_its_number(
        self, shared: tuple[Machine, Machine, str]
    ) -> None:
        desk, laptop, name = shared
        desk.keeper.edit_task(1, "Check it twice", workflow=name)
        desk.sync()
        laptop.sync()
        laptop.keeper.start_task(1, workflow=name)


class TestConflicts:
    @pytest.fixture
    def apart(self, shared: tuple[Machine, Machine, str]) -> tuple[Machine, Machine, str]:
        """The laptop abandoned the work while the desk went on with it."""
        desk, laptop, name = shared
        laptop.keeper.abandon("not needed", workflow=name)
        desk.keeper.remind("go on", workflow=name)
        for machine in (laptop, desk, laptop):
            machine.sync()
        return desk, laptop, name

    def test_an_ending_that_did_not_know_of_the_work_ends_nothing(
        self, apart: tuple[Machine, Machine, str]
    ) -> None:
        desk, laptop, name = apart
        for machine in (desk, laptop):
            assert machine.rows()[name]["status"] == "in_progress"
            (conflict,) = machine.sharing.conflicts()
            assert conflict["workflow"] == name
            assert conflict["command"] == "abandon workflow (not needed)"
            assert conflict["from"] == "laptop"
            assert conflict.pop("can_take")
            assert machine.keeper.show(workflow=name).state["conflicts"] == [conflict]
        assert desk.sharing.conflicts() == laptop.sharing.conflicts()

    def test_a_conflict_is_in_the_briefing_and_in_status(
        self, apart: tuple[Machine, Machine, str]
    ) -> None:
        desk, _, name = apart
        (conflict,) = desk.sharing.conflicts()
        text = desk.keeper.briefing(workflow=name)
        assert f"CONFLICT {conflict['id'][:8]}: abandon workflow (not needed), from laptop" in text
        assert "holdfast conflicts shows which can be taken" in text
        _, notes = desk.keeper.workflows()
        assert "1 conflict between several machines: holdfast conflicts" in notes

    def test_a_conflict_that_is_taken_is_carried_out_everywhere(
        self, apart: tuple[Machine, Machine, str]
    ) -> None:
        desk, laptop, name = apart
        (conflict,) = desk.sharing.conflicts()
        desk.sharing.take(conflict["id"][:8])
        assert name not in desk.rows()
        desk.sync()
        laptop.sync()
        assert name not in laptop.rows()
        assert desk.sharing.conflicts() == laptop.sharing.conflicts() == []
        assert desk.digests() == laptop.digests()

    def test_a_conflict_that_is_dropped_is_over_everywhere(
        self, apart: tuple[Machine, Machine, str]
    ) -> None:
        desk, laptop, name = apart
        (conflict,) = laptop.sharing.conflicts()
        laptop.sharing.drop(conflict["id"], "the desk goes on")
        laptop.sync()
        desk.sync()
        for machine in (desk, laptop):
            assert machine.sharing.conflicts() == []
            assert machine.rows()[name]["status"] == "in_progress"
            assert "CONFLICT" not in machine.keeper.briefing(workflow=name)

    def test_taking_and_dropping_at_once_ends_in_the_same_state(
        self, apart: tuple[Machine, Machine, str]
    ) -> None:
        desk, laptop, _ = apart
        (conflict,) = desk.sharing.conflicts()
        desk.sharing.take(conflict["id"])
        laptop.sharing.drop(conflict["id"], "the desk goes on")
        for machine in (laptop, desk, laptop, desk):
            machine.sync()
        assert desk.digests() == laptop.digests()
        assert desk.sharing.conflicts() == laptop.sharing.conflicts()

    def test_what_makes_no_sense_any_more_can_only_be_dropped(
        self, shared: tuple[Machine, Machine, str]
    ) -> None:
        desk, laptop, name = shared
        desk.keeper.add_tasks(["Check the code"], workflow=name)
        for machine in (desk, laptop):
            machine.sync()
        for machine in (desk, laptop):
            machine.keeper.complete_task("1", workflow=name)
        for machine in (desk, laptop, desk):
            machine.sync()
        (conflict,) = desk.sharing.conflicts()
        assert not conflict["can_take"]
        with pytest.raises(Refused, match=r"1 of .* is completed already") as refused:
            desk.sharing.take(conflict["id"])
        assert refused.value.hint.startswith("holdfast conflicts drop")

    def test_a_conflict_that_nobody_knows_is_named(
        self, apart: tuple[Machine, Machine, str]
    ) -> None:
        with pytest.raises(Refused, match="no open conflict 'nosuch'"):
            apart[0].sharing.take("nosuch")

    def test_dropping_asks_for_a_reason(self, apart: tuple[Machine, Machine, str]) -> None:
        (conflict,) = apart[0].sharing.conflicts()
        with pytest.raises(Refused, match="reason"):
            apart[0].sharing.drop(conflict["id"], " ")


def test_two_that_start_the_same_work_offline_are_told(
    machines: tuple[Machine, Machine],
) -> None:
    desk, laptop = machines
    desk.share()
    laptop.share()
    name = desk.keeper.start("dev", PAGE, title="Login", tasks=["One"]).state["id"]
    laptop.keeper.start("dev", PAGE, title="Login", tasks=["Another"])
    for machine in (desk, laptop, desk):
        machine.sync()
    assert desk.digests() == laptop.digests()
    (conflict,) = desk.sharing.conflicts()
    assert conflict["workflow"] == name


def test_what_only_a_machine_knows_does_not_travel(
    shared: tuple[Machine, Machine, str], tmp_path: Path
) -> None:
    desk, laptop, name = shared
    desk.keeper.remind(f"see {desk.folder}/notes.md", workflow=name)
    desk.keeper.evidence().run_gate(
        "lint", ["sh", "-c", "echo a-word-of-; echo output"], workflow=name
    )
    desk.sync()
    laptop.sync()
    text = "\n".join(laptop.keeper.export())
    assert str(desk.folder) not in text
    assert r"a-word-of-\noutput" not in text
    gate = laptop.keeper.show(workflow=name).state["gates"]["lint"]
    assert gate["machine"] == "desk"
    assert len(gate["output_digest"]) > 8
    assert "output_tail" in desk.keeper.show(workflow=name).state["gates"]["lint"]


def test_a_run_that_follows_one_of_another_machine_is_its_own(
    shared: tuple[Machine, Machine, str],
) -> None:
    desk, laptop, name = shared
    desk.keeper.evidence().run_gate("lint", ["test", "-d", "."], workflow=name)
    desk.keeper.evidence().run_tests(["test", "-d", "."], workflow=name)
    desk.sync()
    laptop.sync()
    laptop.keeper.resume(workflow=name)
    laptop.keeper.evidence().run_gate("lint", ["test", "-d", "."], workflow=name)
    laptop.keeper.evidence().run_tests(["test", "-d", "."], workflow=name)
    for machine in (laptop, desk):
        machine.sync()
        state = machine.keeper.show(workflow=name).state
        expected = None if machine is laptop else "laptop"
        assert state["gates"]["lint"].get("machine") == expected
        assert state["tests"].get("machine") == expected


def test_an_edit_of_a_record_keeps_the_work_alive_on_all_machines(
    shared: tuple[Machine, Machine, str],
) -> None:
    desk, laptop, name = shared
    before = laptop.rows()[name]["updated_at"]
    record = desk.folder / str(desk.rows()[name]["record"])
    fields = json.loads(record.read_text())
    fields["tasks"][0]["description"] = "Edited by hand"
    record.write_text(json.dumps(fields))
    desk.sync()
    laptop.sync()
    state = laptop.keeper.show(workflow=name).state
    assert state["tasks"][0]["description"] == "Edited by hand"
    assert laptop.rows()[name]["updated_at"] > before


def test_a_machine_that_imported_the_work_takes_nobodys_evidence_away(
    shared: tuple[Machine, Machine, str], tmp_path: Path
) -> None:
    desk, laptop, name = shared
    for machine in (desk, laptop):
        machine.keeper.start_task(1, workflow=name)
    desk.keeper.evidence().run_gate("lint", ["test", "-d", "."], workflow=name)
    for machine in (desk, laptop, desk):
        machine.sync()
    export = tmp_path / "export.jsonl"
    export.write_text("\n".join(desk.keeper.export()) + "\n")
    third = Machine(tmp_path / "third", "third", tmp_path / "hub.git")
    third.keeper.import_file(str(export))
    third.share()
    assert len(third.sharing.conflicts()) == 1
    desk.sync()
    assert desk.keeper.show(workflow=name).state["gates"]["lint"]["evidence"] == "run"


def test_a_value_that_both_machines_set_is_a_conflict_that_can_be_taken(
    shared: tuple[Machine, Machine, str],
) -> None:
    desk, laptop, name = shared
    for machine in (desk, laptop):
        machine.keeper.rename(f"Of the {machine.name}", workflow=name)
        machine.keeper.set_context({"owner": machine.name}, workflow=name)
    for machine in (desk, laptop, desk):
        machine.sync()
    whys = {one["why"] for one in desk.sharing.conflicts()}
    assert whys == {"title was changed as well", "context.owner was changed as well"}
    other = desk.sharing.conflicts()[0]["from"]
    for conflict in desk.sharing.conflicts():
        desk.sharing.take(conflict["id"])
    for machine in (desk, laptop):
        machine.sync()
    for machine in (desk, laptop):
        state = machine.keeper.show(workflow=name).state
        assert (state["title"], state["context"]["owner"]) == (f"Of the {other}", other)
    assert desk.digests() == laptop.digests()


class TestUndo:
    """``undo`` takes back what was done here, never what came from another machine."""

    def test_the_work_of_others_that_came_in_last_stays(
        self, shared: tuple[Machine, Machine, str]
    ) -> None:
        desk, laptop, name = shared
        laptop.keeper.remind("from the laptop", workflow=name)
        desk.keeper.remind("from the desk", workflow=name)
        desk.sync()
        laptop.sync()
        receipt = laptop.keeper.undo(workflow=name)
        assert receipt.undone is not None
        assert receipt.undone["back"] == ["reminder is gone: from the laptop"]
        assert receipt.state["reminders"] == ["from the desk"]

    def test_a_conflict_stays_settled(self, shared: tuple[Machine, Machine, str]) -> None:
        desk, laptop, name = shared
        for machine in (desk, laptop):
            machine.keeper.start_task(1, workflow=name)
        desk.sync()
        laptop.sync()
        laptop.sharing.drop(laptop.sharing.conflicts()[0]["id"], "done twice")
        with pytest.raises(Refused, match="a conflict stays settled"):
            laptop.keeper.undo(workflow=name)


def test_a_conflict_names_what_it_is_about(shared: tuple[Machine, Machine, str]) -> None:
    desk, laptop, name = shared
    for machine, colour in ((desk, "red"), (laptop, "blue")):
        machine.keeper.set_context({"colour": colour}, workflow=name)
        Initiatives(machine.keeper).create("Doors", [f"M1: Measure {colour}"])
    for machine in (desk, laptop):
        machine.sync()
    conflicts = {conflict["command"] for conflict in laptop.sharing.conflicts()}
    assert conflicts == {"create initiative Doors", "set context colour"}


def test_what_both_name_apart_is_listed_in_one_order(
    shared: tuple[Machine, Machine, str],
) -> None:
    desk, laptop, name = shared
    desk.keeper.set_context({"colour": "red"}, workflow=name)
    laptop.keeper.set_context({"shape": "round"}, workflow=name)
    for machine, initiative in ((desk, "Doors"), (laptop, "Windows")):
        Initiatives(machine.keeper).create(initiative, ["M1: Measure"])
    for machine in (desk, laptop, desk):
        machine.sync()
    for names, number in (
        ([list(Initiatives(machine.keeper).all()["all"]) for machine in (desk, laptop)], 2),
        (
            [
                list(machine.keeper.show(workflow=name).state["context"])
                for machine in (desk, laptop)
            ],
            4,
        ),
    ):
        assert names[0] == names[1]
        assert len(names[0]) == number


def test_an_undo_and_an_edit_by_hand_are_in_the_history_everywhere(
    shared: tuple[Machine, Machine, str],
) -> None:
    desk, laptop, name = shared
    desk.keeper.remind("Ask Ada", workflow=name)
    desk.keeper.undo(workflow=name)
    record = desk.folder / ".claude" / "workflow-state" / "active" / f"{name}.json"
    record.write_text(record.read_text().replace('"Check it"', '"Check it all"'))
    desk.sync()
    laptop.sync()
    histories = [machine.keeper.show(workflow=name).state["history"] for machine in (desk, laptop)]
    assert histories[0] == histories[1]
    assert [entry["event"] for entry in histories[0]][-2:] == ["change_undone", "record_edited"]


def test_only_what_is_new_counts_as_received(shared: tuple[Machine, Machine, str]) -> None:
    desk, laptop, name = shared
    desk.keeper.remind("one more", workflow=name)
    desk.sync()
    laptop.sharing.remove()
    done = laptop.sharing.add(laptop.sharing.plan("git", "origin", "laptop"))
    assert (done.pulled, done.streams) == (1, [name])


def test_settings_redact_what_must_not_travel(machines: tuple[Machine, Machine]) -> None:
    desk, laptop = machines
    settings = desk.folder / ".claude" / "holdfast.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('[hub]\nredact = ["ACME-[0-9]+"]\n')
    name = desk.keeper.start("dev", PAGE, title="Login for ACME-12").state["id"]
    desk.share()
    laptop.share()
    assert laptop.rows()[name]["title"] == "Login for [redacted]"
    assert desk.rows()[name]["title"] == "Login for ACME-12"
    desk.keeper.add_tasks(["Ask ACME-3", "Ask ACME-4"], workflow=name)
    desk.keeper.evidence().run_gate("lint", ["test", "-d", str(desk.folder)], workflow=name)
    laptop.keeper.add_tasks(["Elsewhere"], workflow=name)
    for machine in (desk, laptop, desk):
        machine.sync()
    state = desk.keeper.show(workflow=name).state
    texts = {task["description"] for task in state["tasks"]}
    assert texts == {"Ask ACME-3", "Ask ACME-4", "Elsewhere"}
    assert state["title"] == "Login for ACME-12"
    assert state["gates"]["lint"]["command"] == f"test -d {desk.folder}"
    desk.sharing.remove()
    assert desk.share().sync().pushed == 0


def test_a_new_rule_counts_from_the_next_change_on(shared: tuple[Machine, Machine, str]) -> None:
    desk, laptop, name = shared
    settings = desk.folder / ".claude" / "holdfast.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('[hub]\nredact = ["ACME-[0-9]+"]\n')
    keeper = Keeper(str(settings.parent.parent))
    keeper.remind("See ACME-7", workflow=name)
    Sharing(keeper).sync()
    laptop.sync()
    assert laptop.keeper.show(workflow=name).state["reminders"] == ["See [redacted]"]


def test_a_rule_that_is_no_expression_is_refused(shared: tuple[Machine, Machine, str]) -> None:
    desk, _, name = shared
    settings = desk.folder / ".claude" / "holdfast.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('[hub]\nredact = ["ACME-[0-9"]\n')
    with pytest.raises(Refused, match=r"hub\.redact: not a regular expression"):
        desk.sync()
    with pytest.raises(Refused, match=r"hub\.redact: not a regular expression: pattern 1"):
        desk.keeper.remind("anything", workflow=name)


def test_a_rule_that_takes_too_long_is_refused(shared: tuple[Machine, Machine, str]) -> None:
    desk, _, name = shared
    settings = desk.folder / ".claude" / "holdfast.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('[hub]\nredact = ["(a+)+$"]\n')
    with pytest.raises(Refused, match=r"hub\.redact: the patterns take more than 2 s"):
        desk.keeper.remind("a" * 40 + "!", workflow=name)


def test_folders_of_the_machine_are_told_from_others_that_begin_alike(
    shared: tuple[Machine, Machine, str],
) -> None:
    desk, laptop, name = shared
    root = desk.folder
    desk.keeper.remind(f"cd {root} && cat {root}/a {root}-old/b {root}/", workflow=name)
    desk.sync()
    laptop.sync()
    shown = laptop.keeper.show(workflow=name).state["reminders"]
    assert shown == [f"cd . && cat a {root}-old/b ./"]


def test_a_copied_folder_gets_a_name_of_its_own(
    shared: tuple[Machine, Machine, str], tmp_path: Path
) -> None:
    desk, laptop, name = shared
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", str(desk.folder), str(copy)], check=True)
    keeper = Keeper(str(copy))
    keeper.remind("from the copy", workflow=name)
    desk.keeper.remind("from the desk", workflow=name)
    Sharing(keeper).sync()
    for machine in (desk, laptop, desk):
        machine.sync()
    Sharing(keeper).sync()
    reminders = laptop.keeper.show(workflow=name).state["reminders"]
    assert sorted(reminders) == ["from the copy", "from the desk"]
    assert len({row["replica"] for row in laptop.sharing.status()["replicas"]}) == 2
    assert keeper.show(workflow=name).state["reminders"] == reminders


@pytest.mark.parametrize("is_noticed_first", [True, False])
def test_nothing_is_doubled_after_a_backup_was_restored(
    shared: tuple[Machine, Machine, str], tmp_path: Path, *, is_noticed_first: bool
) -> None:
    desk, laptop, name = shared
    home, backup = str(desk.folder / ".git" / "holdfast"), str(tmp_path / "backup")
    subprocess.run(["cp", "-a", home, backup], check=True)
    desk.keeper.remind("after the backup", workflow=name)
    desk.keeper.add_tasks(["after the backup"], workflow=name)
    desk.sync()
    subprocess.run(f"rm -rf {home}/* && cp -a {backup}/. {home}", shell=True, check=True)
    desk.keeper = Keeper(str(desk.folder))
    desk.sharing = Sharing(desk.keeper)
    if is_noticed_first:
        desk.sync()
    desk.keeper.remind("after the restore", workflow=name)
    for machine in (desk, laptop, desk):
        machine.sync()
    for machine in (desk, laptop):
        state = machine.keeper.show(workflow=name).state
        assert [task["description"] for task in state["tasks"]][2:] == ["after the backup"]
        assert state["reminders"] == ["after the backup", "after the restore"]
        assert machine.sharing.conflicts() == []
    assert desk.digests() == laptop.digests()


@pytest.mark.parametrize("is_first", [True, False], ids=["copy first", "desk first"])
def test_a_copy_of_a_restored_backup_loses_and_doubles_nothing(
    shared: tuple[Machine, Machine, str], tmp_path: Path, *, is_first: bool
) -> None:
    desk, laptop, name = shared
    home, backup = str(desk.folder / ".git" / "holdfast"), str(tmp_path / "backup")
    subprocess.run(["cp", "-a", home, backup], check=True)
    desk.keeper.remind("after the backup", workflow=name)
    desk.sync()
    subprocess.run(f"rm -rf {home}/* && cp -a {backup}/. {home}", shell=True, check=True)
    desk.keeper = Keeper(str(desk.folder))
    desk.sharing = Sharing(desk.keeper)
    desk.keeper.add_tasks(["after the restore"], workflow=name)
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", str(desk.folder), str(copy)], check=True)
    keeper = Keeper(str(copy))
    keeper.add_tasks(["from the copy"], workflow=name)
    machines = [Sharing(keeper), desk] if is_first else [desk, Sharing(keeper)]
    for machine in (*machines, laptop, *machines, laptop):
        machine.sync()
    added = ["after the restore", "from the copy"]
    for each in (desk.keeper, laptop.keeper, keeper):
        state = each.show(workflow=name).state
        assert sorted(task["description"] for task in state["tasks"][2:]) == added
        assert state["reminders"] == ["after the backup"]
        assert Sharing(each).conflicts() == []
        assert [line["level"] for line in each.verify().lines] == ["ok"]
    assert desk.digests() == laptop.digests()


def test_without_the_hub_everything_goes_on(
    shared: tuple[Machine, Machine, str], tmp_path: Path
) -> None:
    desk, laptop, name = shared
    os.rename(tmp_path / "hub.git", tmp_path / "away.git")
    desk.keeper.remind("offline", workflow=name)
    with pytest.raises(Exception, match="cannot be reached"):
        desk.sync()
    status = desk.sharing.status()
    assert status["unsent"] == 1
    assert "cannot be reached" in status["last"]["failed"]
    os.rename(tmp_path / "away.git", tmp_path / "hub.git")
    desk.sync()
    laptop.sync()
    assert laptop.keeper.show(workflow=name).state["reminders"] == ["offline"]
    assert desk.sharing.status()["unsent"] == 0


@contextmanager
def newer_holdfast() -> Iterator[None]:
    """Let both machines have a Holdfast whose rules an earlier one does not know."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharing, "RULES", 2)
        patch.setattr(sharing, "KNOWN_RULES", (1, 2))
        yield


class TestEventsOfANewerHoldfast:
    def test_they_hold_their_stream_back_until_the_upgrade(
        self, shared: tuple[Machine, Machine, str]
    ) -> None:
        desk, laptop, name = shared
        other = desk.keeper.start("dev", "docs/other.md").state["id"]
        with newer_holdfast():
            desk.keeper.remind("decided by newer rules", workflow=name)
            begun = desk.keeper.start("dev", "docs/newer.md").state["id"]
            desk.keeper.remind("decided by newer rules", workflow=begun)
            desk.sync()
        laptop.sync()
        laptop.keeper.remind("made meanwhile", workflow=name)
        laptop.sync()
        assert laptop.sharing.status()["held"] == [name, begun]
        assert laptop.keeper.show(workflow=name).state["reminders"] == ["made meanwhile"]
        assert other in laptop.rows()
        assert begun not in laptop.rows()
        with newer_holdfast():
            desk.sync()
            assert sorted(laptop.sync().streams) == sorted([name, begun])
            assert laptop.sharing.status()["held"] == []
            assert laptop.rows()[begun]["worktree"] == "@desk"
            assert desk.digests() == laptop.digests()
        reminders = laptop.keeper.show(workflow=name).state["reminders"]
        assert reminders == ["decided by newer rules", "made meanwhile"]

    def test_whoever_looks_is_told(self, shared: tuple[Machine, Machine, str]) -> None:
        desk, laptop, name = shared
        with newer_holdfast():
            desk.keeper.remind("decided by newer rules", workflow=name)
            desk.sync()
        laptop.sync()
        assert laptop.keeper.drain_notes() == [
            f"{name}: events of a newer Holdfast are held back until it is installed here"
        ]
        _, notes = laptop.keeper.workflows()
        assert "events of a newer Holdfast are held back: holdfast hub status" in notes


def test_removing_the_hub_keeps_the_work(shared: tuple[Machine, Machine, str]) -> None:
    desk, laptop, name = shared
    laptop.sharing.remove()
    assert laptop.sharing.status()["hub"] is None
    laptop.keeper.remind("on my own", workflow=name)
    with pytest.raises(Refused, match="there is no hub"):
        laptop.sync()
    laptop.share()
    desk.sync()
    assert desk.keeper.show(workflow=name).state["reminders"] == ["on my own"]


class TestCommandsFromElsewhere:
    """What another machine ran is repeated here only if a person has approved it, or names it."""

    RUN = ("test", "-d", ".")

    @pytest.fixture
    def here(self, shared: tuple[Machine, Machine, str]) -> tuple[Machine, str]:
        """The laptop, on which nothing was run yet; the desk has run a gate."""
        desk, laptop, name = shared
        desk.keeper.evidence().run_gate("lint", self.RUN, workflow=name)
        desk.sync()
        laptop.sync()
        laptop.keeper.resume(workflow=name)
        return laptop, name

    def test_it_is_not_repeated_by_itself(self, here: tuple[Machine, str]) -> None:
        laptop, name = here
        with pytest.raises(Refused, match="was run on another machine") as caught:
            laptop.keeper.evidence().run_gate("lint", workflow=name)
        assert caught.value.code == "untrusted"
        assert caught.value.details["or_else"] == "holdfast gate run lint -- test -d ."

    def test_whoever_names_it_runs_it_and_can_repeat_it(self, here: tuple[Machine, str]) -> None:
        laptop, name = here
        laptop.keeper.evidence().run_gate("lint", self.RUN, workflow=name)
        receipt = laptop.keeper.evidence().run_gate("lint", workflow=name)
        assert receipt.state["gates"]["lint"]["passed"]

    def test_a_person_can_approve_it(self, here: tuple[Machine, str]) -> None:
        laptop, name = here
        requests, _ = laptop.keeper.untrusted_commands()
        assert [(one.command, one.source) for one in requests] == [
            ("test -d .", "the machine desk")
        ]
        laptop.keeper.approve(["test -d ."])
        laptop.keeper.evidence().run_gate("lint", workflow=name)


class TestBeginning:
    """What ``hub add`` answers when it cannot share."""

    def test_a_remote_out_of_reach_is_to_be_added_again(
        self, machines: tuple[Machine, Machine], tmp_path: Path
    ) -> None:
        desk, _ = machines
        with pytest.raises(Fault, match="nothing is shared yet") as caught:
            desk.sharing.plan("git", str(tmp_path / "no where"))
        assert caught.value.hint == f"holdfast hub add git '{tmp_path}/no where'"

    @pytest.mark.parametrize("name", [" ", "red\x1b[31m", "two\nlines", "x" * 101])
    def test_a_name_that_others_could_not_read_is_refused(
        self, machines: tuple[Machine, Machine], name: str
    ) -> None:
        with pytest.raises(Refused, match="a name has 1 to 100 printable characters"):
            machines[0].sharing.plan("git", "origin", name)


def test_pages_of_a_loop_that_began_on_both_machines_are_no_edits(
    machines: tuple[Machine, Machine],
) -> None:
    for machine in machines:
        machine.share()
        loops = Loops(machine.keeper)
        loops.new("tidy", outcome=f"Tidy at the {machine.name}")
        loops.plan("tidy", unit=f"T1: Sweep the {machine.name}", criteria="clean")
    for machine in (*machines, *machines):
        machine.sync()
    for machine in machines:
        Loops(machine.keeper).plan("tidy", unit="T2: Dust", criteria="clean")
        types = [event["type"] for event in machine.keeper.log(workflow="tidy")]
        assert "context_set" not in types
        assert types.count("unit_planned") == 2
