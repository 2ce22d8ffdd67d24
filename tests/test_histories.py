"""Old ledgers live for ever: every version's history is replayed by every later one."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from histories import record
from holdfast.core import initiatives, workflow
from holdfast.keeper import Keeper

HISTORIES = sorted(
    name for name in os.listdir(record.HERE) if os.path.isdir(os.path.join(record.HERE, name))
    and name[0].isdigit()
)  # fmt: skip


def opened(version: str, root: str) -> Keeper:
    home = os.path.join(root, ".claude", "holdfast")
    os.makedirs(home)
    shutil.copy(os.path.join(record.HERE, version, "ledger.ndjson"), home)
    return Keeper(root, clock_ms=record.Clock())


@pytest.mark.parametrize("version", HISTORIES)
def test_an_old_ledger_gives_the_states_it_gave_then(version, tmp_path):
    keeper = opened(version, str(tmp_path))
    with open(os.path.join(record.HERE, version, "states.json"), encoding="utf-8") as file:
        expected = json.load(file)
    assert record.states_of(keeper.log()) == expected


@pytest.mark.parametrize("version", HISTORIES)
def test_an_old_ledger_is_sound_and_its_records_come_back(version, tmp_path):
    keeper = opened(version, str(tmp_path))
    assert keeper.verify().ok
    rows, _ = keeper.workflows()
    for row in rows:
        assert (tmp_path / row["record"]).is_file()
    assert [line["level"] for line in keeper.verify().lines] == ["ok"]


def test_reading_an_old_ledger_leaves_its_bytes_alone(tmp_path):
    keeper = opened(HISTORIES[0], str(tmp_path))
    ledger = tmp_path / ".claude" / "holdfast" / "ledger.ndjson"
    before = ledger.read_bytes()
    keeper.log()
    keeper.verify()
    assert ledger.read_bytes() == before


def test_the_histories_hold_every_event_type():
    seen = set()
    for version in HISTORIES:
        with open(os.path.join(record.HERE, version, "ledger.ndjson"), encoding="utf-8") as file:
            seen |= {json.loads(line)["type"] for line in file}
    assert set(workflow.EVOLVE) | {"record_adopted"} <= seen
    assert {*initiatives.EVOLVE, *initiatives.OTHERS} <= seen


def test_the_recorder_still_runs(tmp_path):
    keeper = record.live(str(tmp_path))
    assert keeper.verify().ok
