"""Export and import: a backup and a hand-over. What is not whole is refused whole."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import HoldfastError, Initiatives, Refused
from support.paths import SOURCE
from support.workshop import FORMATS, Workshop, lines_of, types, without_time, worked_on


@pytest.fixture
def full_shop(tmp_path):
    """Return a workspace with a workflow of every format, and something in the logs."""
    shop = Workshop(tmp_path / "here")
    for record_format in FORMATS:
        worked_on(shop.keeper(), record_format, f"the {record_format}")
    shop.keeper().remember("a learning", id="learned")
    shop.keeper().interviews().record("plan", 0.5)
    Initiatives(shop.keeper()).create("Tidy", ["M1: Map"])
    return shop


@pytest.fixture
def other(tmp_path, full_shop):
    """Return an empty workspace of somebody else."""
    other = Workshop(tmp_path / "there")
    other.clock.ms = full_shop.clock.ms
    return other


def exported(shop, workflow=None):
    """Write an export to a file; return its path."""
    path = shop.path("..", f"{os.path.basename(shop.root)}.ndjson")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in shop.keeper().export(workflow=workflow))
    return path


def without_place(state):
    """Return what a state says wherever it is; a claim of an import is an event of its own.

    What a person approved, and what was shown to be done, is so only where it happened.
    """
    kept = {key: value for key, value in without_time(state).items() if key != "worktree"}
    local = ("approved", "claimed", "history")
    phases = [{k: v for k, v in phase.items() if k not in local} for phase in kept["phases"]]
    return {key: value for key, value in kept.items() if key not in local} | {"phases": phases}


def states(shop):
    rows, _ = shop.keeper().workflows()
    return {row["id"]: without_place(shop.keeper().show(workflow=row["id"]).state) for row in rows}


def test_a_whole_ledger_comes_back_elsewhere(full_shop, other):
    done = other.keeper().import_file(exported(full_shop))
    assert done.events == len(full_shop.keeper().log())
    assert other.keeper().log()[: done.events] == full_shop.keeper().log()
    assert states(other) == states(full_shop)
    assert len(states(other)) == len(FORMATS)
    assert [entry["text"] for entry in other.keeper().learnings()] == ["a learning"]
    assert "Tidy" in str(Initiatives(other.keeper()).show())
    assert lines_of(other.keeper()) == []
    for row in other.keeper().workflows()[0]:
        assert os.path.exists(other.path(row["record"]))


@pytest.mark.parametrize("record_format", FORMATS)
def test_one_workflow_is_handed_over_with_its_record(full_shop, other, record_format):
    rows, _ = full_shop.keeper().workflows()
    (row,) = [row for row in rows if row["format"] == record_format]
    path = exported(full_shop, row["id"])
    with open(path, encoding="utf-8") as file:
        header, *_, record, _end = map(json.loads, file)
    assert header["workflow"] == row["id"]
    assert record["record"] == row["record"]
    other.keeper().start("debug" if record_format != "verb" else "dev", "mine")
    other.keeper().import_file(path)
    assert states(other)[row["id"]] == states(full_shop)[row["id"]]
    assert lines_of(other.keeper()) == []
    other.keeper().remind("goes on", workflow=row["id"])


def test_the_same_import_twice_is_once(full_shop, other):
    path = exported(full_shop)
    other.keeper().import_file(path)
    before = other.keeper().log()
    again = other.keeper().import_file(path)
    assert (again.events, again.known) == (0, len(full_shop.keeper().log()))
    assert other.keeper().log() == before
    assert full_shop.keeper().import_file(path).events == 0


def test_a_workflow_goes_there_and_comes_back(full_shop, other):
    (row,) = [row for row in full_shop.keeper().workflows()[0] if row["format"] == "skill"]
    workflow = row["id"]
    other.keeper().import_file(exported(full_shop, workflow))
    other.keeper().complete_task(1, workflow=workflow)
    other.keeper().remind("done there", workflow=workflow)
    full_shop.keeper().import_file(exported(other, workflow))
    state = full_shop.keeper().show(workflow=workflow).state
    assert state["reminders"][-1] == "done there"
    assert state["tasks"][0]["status"] == "completed"
    full_shop.keeper().remind("and back", workflow=workflow)
    other.keeper().import_file(exported(full_shop, workflow))
    assert states(other)[workflow] == states(full_shop)[workflow]
    assert lines_of(full_shop.keeper()) == lines_of(other.keeper()) == []


def test_a_history_that_went_two_ways_is_refused_and_nothing_is_taken_in(full_shop, other):
    (row,) = [row for row in full_shop.keeper().workflows()[0] if row["format"] == "skill"]
    other.keeper().import_file(exported(full_shop))
    other.keeper().remind("there", workflow=row["id"])
    other.keeper().remember("learned there")
    full_shop.keeper().remind("here", workflow=row["id"])
    before = full_shop.keeper().log()
    with pytest.raises(Refused, match="has another history here") as caught:
        full_shop.keeper().import_file(exported(other))
    assert caught.value.code == "conflict"
    assert full_shop.keeper().log() == before
    assert lines_of(full_shop.keeper()) == []


def test_logs_of_two_ledgers_are_put_together(full_shop, other):
    other.keeper().remember("mine")
    other.keeper().import_file(exported(full_shop))
    assert [entry["text"] for entry in other.keeper().learnings()] == ["mine", "a learning"]
    assert lines_of(other.keeper()) == []


def test_what_another_machine_ran_is_a_claim_and_what_was_run_here_stays_evidence(tmp_path):
    here, there = Workshop(tmp_path / "here"), Workshop(tmp_path / "there")
    for shop in (here, there):
        shop.keeper().approve(["true", "exit 0"])
    check = ["test", "-d", "."]
    workflow = here.keeper().start("dev", "a.md").state["id"]
    here.keeper().evidence().run_gate("lint", check, workflow=workflow)
    there.keeper().import_file(exported(here, workflow))
    gates = there.keeper().show(workflow=workflow).state["gates"]
    assert (gates["lint"]["status"], gates["lint"]["evidence"]) == ("completed", "claim")
    assert "exit_code" not in gates["lint"]
    there.keeper().evidence().run_gate("test", check, workflow=workflow)
    here.keeper().import_file(exported(there, workflow))
    gates = here.keeper().show(workflow=workflow).state["gates"]
    assert gates["lint"]["evidence"] == "run"
    assert gates["test"]["evidence"] == "claim"


def test_an_import_of_the_command_line_says_what_it_did(full_shop, other):
    path = exported(full_shop)
    done = other.run("import", path)
    assert f"imported {len(full_shop.keeper().log())} events of " in done.stdout.decode()
    again = other.run("import", path)
    assert "nothing is new in it" in again.stdout.decode()
    with open(path, "rb") as file:
        piped = subprocess.run(
            [sys.executable, "-m", "holdfast", "import", "-", "--json"],
            cwd=other.root, stdin=file, capture_output=True, check=True,
            env={**os.environ, "PYTHONPATH": SOURCE},
        )  # fmt: skip
    assert json.loads(piped.stdout)["events"] == 0


@pytest.mark.parametrize(
    "text",
    [b"", b"\n\n", b"nonsense", b"[]", b"{}", b'{"holdfast_export":"1"}', b'{"holdfast_export":1}',
     b'{"holdfast_export":1,"ledger":3,"workflow":null}', b"\x00\xff", b'{"seq":1}',
     b'{"holdfast_export":1,"version":"0","ledger":"x","workflow":null}\n{"seq":1}'],
)  # fmt: skip
def test_what_is_no_export_is_refused_and_nothing_is_made(tmp_path, text):
    shop = Workshop(tmp_path / "here")
    (tmp_path / "file").write_bytes(text)
    with pytest.raises(Refused, match="is not an export of Holdfast"):
        shop.keeper().import_file(str(tmp_path / "file"))
    assert not os.path.exists(shop.path(".git", "holdfast"))


@pytest.mark.parametrize(
    ("name", "why"),
    [("nowhere.ndjson", "cannot be read"), (".", r"has no ledger of version 0\.1")],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, name, why):
    shop = Workshop(tmp_path)
    with pytest.raises(Refused, match=why):
        shop.keeper().import_file(shop.path(name))


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """Return the lines of an export, and a folder to try them in."""
    folder = tmp_path_factory.mktemp("damaged")
    shop = Workshop(folder / "source")
    keeper = shop.keeper()
    keeper.start("dev", "a.md", tasks=["one"])
    keeper.complete_task(1)
    keeper.remember("ünïcode")
    keeper.start("apex", "b")
    return folder, [line.encode() for line in keeper.export()]


@settings(max_examples=120)
@given(data=st.data())
def test_an_export_with_any_damage_is_taken_in_whole_or_not_at_all(lines, data):
    folder, sound = lines
    kept = list(sound)
    events = [number for number, line in enumerate(sound) if line.startswith(b'{"seq"')]
    number = data.draw(st.sampled_from(events))
    line = bytearray(sound[number])
    how = data.draw(st.sampled_from(["flip", "cut", "drop", "twice", "swap", "retell"]))
    if how == "flip":
        line[data.draw(st.integers(0, len(line) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        kept[number] = bytes(line)
    elif how == "cut":
        kept = [*kept[:number], bytes(line[: data.draw(st.integers(1, len(line) - 1))])]
    elif how == "drop":
        del kept[number]
    elif how == "twice":
        kept.insert(number, kept[number])
    elif how == "swap":
        other = data.draw(st.sampled_from([one for one in events if one != number]))
        kept[number], kept[other] = kept[other], kept[number]
    else:
        event = json.loads(line)
        event["data"] = {"anything": data.draw(st.integers())}
        kept[number] = json.dumps(event).encode()
    path = folder / "damaged.ndjson"
    path.write_bytes(b"\n".join(kept))
    root = folder / str(len(os.listdir(folder)))
    shop = Workshop(root, git=False)
    try:
        shop.keeper().import_file(str(path))
    except HoldfastError as error:
        assert error.code != "internal"
        assert shop.keeper().log() == []
        assert shop.keeper().workflows()[0] == []
    else:
        assert kept == sound or shop.keeper().verify().ok
        assert types(shop.keeper())


def test_an_import_into_a_ledger_that_is_in_use_is_whole_or_not_at_all(lines, tmp_path):
    _, sound = lines
    shop = Workshop(tmp_path / "in use")
    shop.keeper().start("debug", "mine")
    before = shop.keeper().log()
    for number, line in enumerate(sound):
        if not line.startswith(b'{"seq"'):
            continue
        event = json.loads(line)
        event["at"] = "2020-01-01T00:00:00.000Z"
        damaged = [*sound[:number], json.dumps(event).encode(), *sound[number + 1 :]]
        path = tmp_path / "damaged.ndjson"
        path.write_bytes(b"\n".join(damaged))
        with pytest.raises(Refused, match=f"line {number + 1}: its hash does not match"):
            shop.keeper().import_file(str(path))
        assert shop.keeper().log() == before
    assert lines_of(shop.keeper()) == []


@pytest.mark.parametrize("kept", [1, 4, -1])
def test_an_export_that_was_cut_off_is_refused_whole(full_shop, other, kept):
    path = exported(full_shop)
    with open(path, encoding="utf-8") as file:
        lines = file.readlines()
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(lines[:kept])
    with pytest.raises(Refused) as caught:
        other.keeper().import_file(path)
    assert "cut off" in caught.value.message
    assert other.keeper().log() == []
