"""Old ledgers live for ever: every version's history is taken in by every later one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from histories import record
from holdfast import Keeper
from holdfast.core import initiatives, workflow
from holdfast.core.initiatives import EVOLVE

OLD = "ledger.ndjson"
"""The ledger of 0.1, which is imported by its folder; later versions have an export."""
SINCE = {"skipped"}
"""Fields of a state that later versions read from the events of 0.1."""
HISTORIES = sorted(name for name in os.listdir(record.HERE) if name[0].isdigit())


def source(version: str) -> str:
    folder = os.path.join(record.HERE, version)
    name = OLD if os.path.exists(os.path.join(folder, OLD)) else record.EXPORT
    return os.path.join(folder, name)


def events_of(version: str) -> list:
    with open(source(version), encoding="utf-8") as file:
        return [line for line in map(json.loads, file) if "seq" in line]


def open_history(version: str, root: str) -> Keeper:
    """Return a keeper of a workspace that has this history."""
    path = source(version)
    keeper = Keeper(root, clock_ms=record.Clock())
    if path.endswith(OLD):
        home = os.path.join(root, ".claude", "holdfast")
        os.makedirs(home)
        shutil.copy(path, home)
        path = home
    keeper.import_file(path)
    return keeper


@pytest.mark.parametrize("version", HISTORIES)
def test_an_old_history_gives_the_states_it_gave_then(version, tmp_path):
    keeper = open_history(version, str(tmp_path))
    with open(os.path.join(record.HERE, version, "states.json"), encoding="utf-8") as file:
        expected = json.load(file)
    taken_in = [event for event in keeper.log() if event["by"]["surface"] != "import"]
    assert taken_in == events_of(version)
    states = record.states_of(taken_in)
    assert _without_later_fields(version, states) == expected
    for event in taken_in:
        if event["type"] == "workflow_completed":
            state = states[event["stream"]]
            assert state["status"] != "completed" or _skipped(state) == _skipped(event["data"])


def _skipped(fields: dict) -> object:
    return fields.get("skipped")


def _without_later_fields(version: str, states: dict) -> dict:
    later = SINCE if version.startswith("0.1") else set()
    return {
        stream: {name: value for name, value in state.items() if name not in later}
        for stream, state in states.items()
    }


@pytest.mark.parametrize("version", HISTORIES)
def test_what_was_run_then_is_a_claim_now_and_nothing_else_changes(version, tmp_path):
    keeper = open_history(version, str(tmp_path))
    with open(os.path.join(record.HERE, version, "states.json"), encoding="utf-8") as file:
        expected = json.load(file)
    states = record.states_of(keeper.log())
    for stream, state in _without_later_fields(version, states).items():
        names = {name for name in state if state[name] != expected[stream][name]}
        local = {"gates", "tests", "updated_at", "worktree", "history", "session", "phases"}
        assert names <= {*local, "claimed"}, stream
        if "history" in names:
            *earlier, last = state["history"]
            assert (earlier, last["event"]) == (expected[stream]["history"], "record_edited")
        for gate in state.get("gates", {}).values():
            assert gate.get("evidence", "claim") == "claim"
            assert (gate["status"] == "waived", "reason" in gate) == (False, False)


@pytest.mark.parametrize("version", HISTORIES)
def test_an_old_history_is_sound_and_its_records_come_back(version, tmp_path):
    keeper = open_history(version, str(tmp_path))
    assert [line["level"] for line in keeper.verify().lines] == ["ok"]
    rows, _ = keeper.workflows()
    assert rows
    for row in rows:
        assert (tmp_path / row["record"]).is_file()


def test_taking_in_the_ledger_of_0_1_leaves_its_bytes_alone(tmp_path):
    keeper = open_history("0.1.0", str(tmp_path))
    keeper.verify()
    with open(source("0.1.0"), "rb") as file:
        assert (tmp_path / ".claude" / "holdfast" / OLD).read_bytes() == file.read()


def test_the_histories_hold_every_event_type():
    seen = {event["type"] for version in HISTORIES for event in events_of(version)}
    assert set(workflow.EVOLVE) | {"record_adopted"} <= seen
    assert {*initiatives.EVOLVE, *EVOLVE} <= seen


def test_the_recorder_still_runs_and_never_writes_over_a_release(tmp_path):
    script = shutil.copy(record.__file__, tmp_path)
    words = [sys.executable, script, "9.9"]
    subprocess.run(words, check=True, capture_output=True)
    assert sorted(os.listdir(tmp_path / "9.9")) == [record.EXPORT, "states.json"]
    assert subprocess.run(words, check=False, capture_output=True).returncode == 1
