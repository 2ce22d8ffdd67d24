"""Time: what expires, what ended a while ago, and how all of it comes back."""

import os

from holdfast import Keeper
from support.workshop import DAY_MS, Clock

HOUR_MS = 3_600_000


def aged(place, **options):
    clock = Clock()
    return clock, Keeper(place.path, clock_ms=clock, **options)


def test_ended_records_stay_a_day_and_come_back(repo):
    clock, keeper = aged(repo)
    workflow = keeper.start("dev", "a.md", tasks=["one"]).state["id"]
    keeper.complete_task(1, workflow=workflow)
    before = keeper.complete(force=True, reason="x", workflow=workflow).state
    record = f".claude/workflow-state/completed/{workflow}.json"
    clock.ms += DAY_MS - HOUR_MS
    assert keeper.clean()[0] == []
    clock.ms += 2 * HOUR_MS
    assert [row["id"] for row in keeper.clean(dry_run=True)[0]] == [workflow]
    assert repo.has(record)
    assert [row["id"] for row in keeper.clean()[0]] == [workflow]
    assert not repo.has(record)
    assert keeper.clean()[0] == []
    assert keeper.show(workflow=workflow).state["tasks"] == before["tasks"]
    back = keeper.resume(workflow=workflow).state
    assert (back["status"], back["tasks"]) == ("in_progress", before["tasks"])
    assert repo.has(back["record"])
    assert keeper.verify().ok


def test_an_unattended_workflow_expires_and_comes_back(repo):
    clock, keeper = aged(repo)
    workflow = keeper.start("dev", "a.md", tasks=["one"]).state["id"]
    keeper.start_task_phase(1, "green", force=True, reason="x", workflow=workflow)
    clock.ms += 7 * DAY_MS + HOUR_MS
    assert [row["id"] for row in keeper.clean(dry_run=True)[0]] == [workflow]
    assert [row["id"] for row in keeper.clean()[0]] == [workflow]
    assert not os.listdir(os.path.join(repo.path, ".claude/workflow-state/active"))
    assert repo.indexed_ids() == []
    back = keeper.resume(workflow=workflow).state
    assert back["tasks"][0]["phases"]["green"] == "in_progress"
    assert repo.indexed_ids() == [workflow]


def test_cleaning_happens_by_itself_at_most_hourly(repo):
    clock, keeper = aged(repo)
    workflow = keeper.start("dev", "a.md").state["id"]
    keeper.complete(force=True, reason="x", workflow=workflow)
    record = f".claude/workflow-state/completed/{workflow}.json"
    clock.ms += DAY_MS + HOUR_MS
    notes = keeper.start("tdd", "b").notes
    assert any(f"holdfast resume {workflow}" in note for note in notes)
    assert not repo.has(record)
    other = keeper.start("dev", "c.md", ttl="10m").state["id"]
    clock.ms += HOUR_MS // 2
    keeper.start("tdd", "d")
    assert repo.has(f".claude/workflow-state/active/{other}.json")
    clock.ms += HOUR_MS
    keeper.start("tdd", "e")
    assert not repo.has(f".claude/workflow-state/active/{other}.json")


def test_an_edited_record_that_is_cleaned_is_kept(repo):
    clock, keeper = aged(repo)
    workflow = keeper.start("dev", "a.md").state["id"]
    keeper.complete(force=True, reason="x", workflow=workflow)
    record = f".claude/workflow-state/completed/{workflow}.json"
    repo.edit(record, lambda document: document["context"].update(note="by hand"))
    clock.ms += 2 * DAY_MS
    keeper.clean()
    back = keeper.resume(workflow=workflow).state
    folder = os.path.dirname(os.path.join(repo.path, record))
    kept = [name for name in os.listdir(folder) if "saved" in name]
    assert back["context"].get("note") == "by hand" or kept
