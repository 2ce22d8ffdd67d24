"""Which source is right: by its time, and where times do not tell, by the graph."""

import pytest

from holdfast.core.initiative_sources import Source, correction_text, weigh

NOW = "2026-04-01T12:00:00Z"


def record(at="2026-04-01T10:00:00Z", milestone="M1", status="in_progress", **progress):
    return Source("initiative.json", at, milestone, status, progress)


def yaml(at="2026-04-01T10:00:00Z", milestone="M1", status="in_progress", **progress):
    return Source("WORKFLOW-STATUS.yaml", at, milestone, status, progress)


def graph(at="2026-04-01T10:00:00Z", milestone="M1", status="in_progress", **progress):
    return Source("memory graph", at, milestone, status, progress)


def test_sources_that_say_the_same_need_nothing_whatever_their_times():
    assert weigh([record(), yaml(at="2020-01-01T00:00:00Z")], None, NOW) is None
    assert weigh([record(M1="completed"), yaml(at=None)], graph(), NOW) is None


@pytest.mark.parametrize("differs", [{"milestone": "M2"}, {"status": "blocked"}, {"M1": "pending"}])
@pytest.mark.parametrize(
    ("at", "right"),
    [("2026-04-01T10:02:00Z", "WORKFLOW-STATUS.yaml"), ("2026-04-01T09:58:00Z", "initiative.json")],
)
def test_the_newest_wins(differs, at, right):
    verdict = weigh([record(M1="in_progress"), yaml(at, **differs)], None, NOW)
    assert verdict.authoritative.name == right
    assert len(verdict.stale) == 1
    assert correction_text(verdict.stale, verdict.authoritative) == (
        f"Sync corrected: {verdict.stale[0].name} updated to match {verdict.authoritative.name}"
    )
    assert verdict.warning is None


def test_more_than_five_minutes_apart_warns_which_source_is_stale_and_how_old_it_is():
    within = weigh([record(), yaml("2026-04-01T10:05:00Z", "M2")], None, NOW)
    assert within.warning is None
    beyond = weigh([record(), yaml("2026-04-01T10:05:00.001Z", "M2")], None, NOW)
    assert beyond.warning == (
        "Initiative state may be stale — last updated 2 hours ago (initiative.json)"
    )
    behind = weigh([record(), yaml("2026-04-01T07:00:00Z", "M2")], None, NOW)
    assert behind.warning == (
        "Initiative state may be stale — last updated 5 hours ago (WORKFLOW-STATUS.yaml)"
    )
    agreeing = weigh([record(), yaml("2026-01-01T10:00:00Z")], None, NOW)
    assert agreeing is None


@pytest.mark.parametrize(
    "at", [None, "yesterday", "2026-04-01T10:00:00Z", "2199-01-01T00:00:00Z"], ids=str
)
def test_where_times_do_not_tell_the_graph_breaks_the_tie(at):
    for told, right in (("M2", "WORKFLOW-STATUS.yaml"), ("M1", "initiative.json")):
        verdict = weigh([record(), yaml(at, "M2")], graph(milestone=told), NOW)
        assert verdict.authoritative.name == right


def test_without_a_graph_or_with_one_that_agrees_with_nobody_the_record_is_right():
    for told in (None, graph(milestone="M3")):
        verdict = weigh([record(), yaml(None, "M2")], told, NOW)
        assert verdict.authoritative.name == "initiative.json"


def test_a_graph_that_is_newer_than_the_files_is_right():
    newer = graph("2026-04-01T10:30:00Z", "M2")
    verdict = weigh([record(), yaml()], newer, NOW)
    assert verdict.authoritative.name == "memory graph"
    assert correction_text(verdict.stale, verdict.authoritative) == (
        "Sync corrected: initiative.json, WORKFLOW-STATUS.yaml updated to match memory graph"
    )
    older = graph("2026-04-01T09:30:00Z", "M2")
    assert weigh([record(), yaml()], older, NOW) is None


def test_what_a_source_says_is_kept_whole():
    told = yaml("2026-04-01T09:00:00Z", "M2", "blocked", M1="pending")
    assert told.content() == {
        "milestone": "M2",
        "status": "blocked",
        "updated": "2026-04-01T09:00:00Z",
        "progress": {"M1": "pending"},
    }
