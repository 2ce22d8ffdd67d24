"""What ``verify`` says, in words."""

import os

import pytest

from workshop import Workshop


def test_one_of_a_kind_is_counted_in_the_singular(tmp_path):
    shop = Workshop(tmp_path)
    keeper = shop.keeper()
    keeper.start("custom", "alone", phases=["only"])
    assert keeper.verify().lines[-1]["message"] == "2 events, 1 stream, 1 record"
    assert "1 stream · 1 record · 0 behind · 0 errors" in shop.run("verify").stdout.decode()


@pytest.mark.parametrize("left", range(6))
def test_a_ledger_that_lost_its_end_is_not_sound_as_long_as_a_record_tells(tmp_path, left):
    """The first four lines are one commit: less of it is none."""
    shop = Workshop(tmp_path)
    keeper = shop.keeper()
    record = keeper.start("dev", "a.md", tasks=["one", "two"]).state["record"]
    keeper.complete_task(1)
    path = ".claude/holdfast/ledger.ndjson"
    lines = shop.read(path).splitlines(keepends=True)
    os.truncate(shop.path(path), sum(map(len, lines[:left])))
    found = [(line["level"], line["what"]) for line in shop.keeper().verify().lines]
    wanted = {4: ("error", record), 5: ("ok", "workspace")}
    assert wanted.get(left, ("behind", record)) in found
    rows, notes = shop.keeper().workflows()
    assert [row["tasks_done"] for row in rows] == [1]
    assert any("lost events" in note for note in notes) is (left == 4)
    assert shop.keeper().verify().ok
