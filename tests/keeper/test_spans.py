"""Which spans the events of a workflow become, and that the same events become the same ones."""

import json
import subprocess
import sys

import pytest

from holdfast import Loops
from holdfast.core.spans import MAX_POINTS
from holdfast.keeper import telemetry
from holdfast.keeper.telemetry import MAX_TEXT
from support.machines import Machine, exchange_until_quiet, git

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
OTHER = "a" * 32
PARENT = f"00-{TRACE}-{SPAN}-01"
PASS = [sys.executable, "-c", "import os; print(os.getpid())"]
FAIL = [sys.executable, "-c", "print('what it printed'); raise SystemExit(3)"]


def spans_of(keeper, after=0, upto=None):
    """Return the spans of the ledger as they are delivered, in the order in which they ended."""
    store = keeper.store
    parts = telemetry.batches(store, after, store.ledger.head_seq if upto is None else upto)
    return [span for _, spans in parts for span in spans]


def fields(span):
    return {name: getattr(span, name) for name in span.__slots__}


def names(spans):
    return [span.name for span in spans]


def named(spans, name):
    (span,) = [span for span in spans if span.name == name]
    return span


def value(span, name):
    return span.attributes.get(f"holdfast.{name}")


@pytest.fixture
def keeper(shop):
    return shop.keeper(session="ada-1")


def finish(keeper):
    return keeper.complete(force=True, reason="enough")


def test_a_workflow_has_its_phases_and_they_have_its_tasks(keeper):
    keeper.start("custom", "Faster", phases=["Measure", "Fix"], tasks=["One", "Two"])
    keeper.start_task(1)
    keeper.complete_task(1)
    keeper.advance()
    keeper.complete_task(2)
    assert names(spans_of(keeper)) == ["task 1", "phase Measure", "task 2"]
    keeper.complete()
    spans = spans_of(keeper)
    assert names(spans)[3:] == ["phase Fix", "workflow custom"]
    workflow, measure, fix = (
        named(spans, name) for name in ("workflow custom", "phase Measure", "phase Fix")
    )
    assert workflow.parent == ""
    assert {measure.parent, fix.parent} == {workflow.id}
    assert named(spans, "task 1").parent == measure.id
    assert named(spans, "task 2").parent == fix.id
    assert {span.trace for span in spans} == {workflow.trace}
    assert len({span.id for span in spans}) == len(spans)
    assert measure.start_ms < measure.end_ms <= fix.start_ms < fix.end_ms <= workflow.end_ms
    # A task that was never begun has no length.
    assert named(spans, "task 2").start_ms == named(spans, "task 2").end_ms
    assert (value(workflow, "status"), value(workflow, "title")) == ("completed", "Faster")
    assert (value(workflow, "session"), value(workflow, "surface")) == ("ada-1", "library")
    assert value(named(spans, "task 1"), "text") == "One"


def test_who_reads_again_or_in_parts_gets_the_same_spans(keeper):
    keeper.start("custom", "Faster", phases=["Measure", "Fix"], tasks=["One"])
    keeper.start_task(1)
    keeper.evidence().run_gate("speed", FAIL)
    keeper.evidence().add_violation("C1", "LOW", "slow")
    keeper.complete_task(1)
    keeper.advance()
    finish(keeper)
    whole = [fields(span) for span in spans_of(keeper)]
    assert len(whole) == 5
    for cut in range(keeper.store.ledger.head_seq + 1):
        parts = [*spans_of(keeper, upto=cut), *spans_of(keeper, after=cut)]
        assert [fields(span) for span in parts] == whole


def test_a_workflow_joins_the_trace_that_it_was_started_in_and_links_later_ones(
    keeper, monkeypatch
):
    monkeypatch.setenv("TRACEPARENT", PARENT)
    keeper.start("custom", "Faster", tasks=["One"])
    monkeypatch.setenv("TRACEPARENT", f"00-{OTHER}-{SPAN}-01")
    keeper.remind("Slowly")
    keeper.evidence().run_gate("speed", PASS)
    monkeypatch.setenv("TRACEPARENT", f"00-{TRACE}-{'c' * 16}-01")
    finish(keeper)
    spans = spans_of(keeper)
    workflow = named(spans, "workflow custom")
    assert (workflow.trace, workflow.parent) == (TRACE, SPAN)
    assert workflow.links == [(OTHER, SPAN)]
    assert {span.trace for span in spans} == {TRACE}
    assert named(spans, "gate speed").links == [(OTHER, SPAN)]


@pytest.mark.parametrize("text", ["garbage", "", f"00-{TRACE}-{SPAN}-00", PARENT.upper()])
def test_what_names_no_recorded_span_is_not_joined(keeper, monkeypatch, text):
    monkeypatch.setenv("TRACEPARENT", text)
    keeper.start("custom", "Faster")
    finish(keeper)
    workflow = named(spans_of(keeper), "workflow custom")
    assert (workflow.trace == TRACE, workflow.parent) == (False, "")


def test_the_trace_is_stored_with_the_event_and_nowhere_else(keeper, monkeypatch):
    keeper.start("custom", "Faster")
    monkeypatch.setenv("TRACEPARENT", PARENT)
    keeper.remind("Slowly")
    keeper.ask("Fast or right?", ["fast", "right"])
    monkeypatch.delenv("TRACEPARENT")
    keeper.remind("Surely")
    by = {event["type"]: event["by"].get("trace") for event in keeper.log()}
    assert by["question_asked"] == PARENT
    assert [event["by"].get("trace") for event in keeper.log()].count(PARENT) == 2
    assert TRACE not in str(keeper.show().state)
    assert keeper.verify(everything=True).ok


def test_an_export_with_traces_is_imported(keeper, monkeypatch, tmp_path, shop):
    monkeypatch.setenv("TRACEPARENT", PARENT)
    keeper.start("custom", "Faster")
    file = tmp_path / "export.jsonl"
    file.write_text("".join(f"{line}\n" for line in keeper.export()))
    other = type(shop)(tmp_path / "other").keeper()
    other.import_file(str(file))
    assert [event["by"]["trace"] for event in other.log()] == [PARENT] * len(other.log())
    assert other.verify(everything=True).ok


def test_a_gate_that_failed_says_so_and_keeps_its_output_to_itself(keeper):
    keeper.start("custom", "Faster")
    keeper.evidence().run_gate("speed", FAIL)
    keeper.evidence().record_gate("review", passed=True)
    failed, claimed = spans_of(keeper)
    assert failed.error == "the gate speed failed"
    told = {name: value(failed, name) for name in ("gate", "passed", "exit_code", "evidence")}
    assert told == {"gate": "speed", "passed": False, "exit_code": 3, "evidence": "run"}
    assert value(failed, "tree")
    run = next(event for event in keeper.log() if event["type"] == "gate_recorded")["data"]
    assert value(failed, "command") == run["fields"]["command"]
    assert failed.end_ms - failed.start_ms == run["fields"]["duration_ms"]
    assert "what it printed" in run["fields"]["output_tail"]
    assert not [name for name in failed.attributes if "output" in name]
    assert (claimed.error, value(claimed, "evidence")) == (None, "claim")


def test_tests_that_have_to_fail_are_no_error(shop, keeper):
    shop.write("test_it.py", "import unittest\nclass T(unittest.TestCase):\n"
               "    def test_a(self):\n        self.fail('no')\n")  # fmt: skip
    command = [sys.executable, "-m", "unittest", "-v"]
    keeper.start("tdd", "Faster", tasks=["One"])
    keeper.evidence().take_step("red", command)
    keeper.evidence().take_step("green", command)
    red, green = [span for span in spans_of(keeper) if span.name == "tests"]
    assert (red.error, value(red, "expected_failure")) == (None, True)
    assert (green.error, value(green, "expected_failure")) == ("the tests failed", False)


def test_what_happens_meanwhile_is_a_point_on_the_phase(keeper):
    keeper.start("custom", "Faster", phases=["Measure"])
    evidence = keeper.evidence()
    evidence.add_violation("C1", "LOW", "slow")
    keeper.block_phase("Measure", {"reason": "no machine"})
    keeper.unblock_phase("Measure")
    keeper.approve_phase("Measure")
    keeper.do("note_compaction", {"trigger": "auto"})
    evidence.record_gate("speed", passed=False)
    evidence.waive_gate("speed", "known")
    finish(keeper)
    phase = named(spans_of(keeper), "phase Measure")
    assert [name for name, _, _ in phase.points] == [
        "violation_found", "phase_blocked", "phase_unblocked", "phase_approved",
        "context_compacted", "gate_waived",
    ]  # fmt: skip
    assert phase.points[0][2] == {
        "holdfast.code": "C1", "holdfast.severity": "LOW", "holdfast.details": "slow",
    }  # fmt: skip
    assert phase.points[-1][2] == {"holdfast.gate": "speed", "holdfast.reason": "known"}


def test_a_workflow_that_is_resumed_has_another_span_in_the_same_trace(keeper):
    keeper.start("custom", "Faster", phases=["Measure"])
    keeper.abandon()
    keeper.resume(workflow="faster")
    finish(keeper)
    first, second = [span for span in spans_of(keeper) if span.name == "workflow custom"]
    assert (value(first, "status"), value(second, "status")) == ("abandoned", "completed")
    assert second.trace == first.trace
    assert second.links == [(first.trace, first.id)]
    assert (value(first, "resumed"), value(second, "resumed")) == (False, True)
    # The phase that was in progress goes on in a span of its own.
    phases = [span for span in spans_of(keeper) if span.name == "phase Measure"]
    assert [span.parent for span in phases] == [first.id, second.id]


def test_a_workflow_that_is_resumed_within_another_trace_goes_on_there(keeper, monkeypatch):
    keeper.start("custom", "Faster")
    keeper.abandon()
    monkeypatch.setenv("TRACEPARENT", PARENT)
    keeper.resume(workflow="faster")
    finish(keeper)
    first, second = [span for span in spans_of(keeper) if span.name == "workflow custom"]
    assert (second.trace, second.parent) == (TRACE, SPAN)
    assert second.links == [(first.trace, first.id)]


def test_a_phase_that_is_begun_again_has_a_span_for_each_time(keeper):
    keeper.start("custom", "Faster", phases=["Measure", "Fix"])
    keeper.advance()
    keeper.start_phase("Measure")
    keeper.advance()
    spans = spans_of(keeper)
    assert names(spans) == ["phase Measure", "phase Fix", "phase Measure"]
    assert value(spans[1], "status") == "pending"


def test_the_units_of_a_loop_have_their_iterations(shop):
    keeper = shop.keeper()
    loops = Loops(keeper)
    loops.new("build", task="Build it")
    loops.plan(None, "T1: Core", max=3)
    loops.iterate("T1", did="began", remaining="the rest")
    loops.iterate("T1", did="ended", signal="T1_DONE")
    loops.confirm("T1")
    loops.verify("T1", failed="one more thing")
    loops.iterate("T1", did="that, too", signal="T1_DONE")
    loops.confirm("T1")
    loops.verify("T1")
    spans = spans_of(keeper)
    unit = named(spans, "unit T1")
    below = [span for span in spans if span.parent == unit.id]
    assert names(below) == [
        "iteration 1", "iteration 2", "confirmation", "verification", "iteration 3",
        "confirmation", "verification",
    ]  # fmt: skip
    assert unit.start_ms == below[0].start_ms < below[0].end_ms <= below[1].start_ms
    assert below[-1].end_ms == unit.end_ms
    assert (below[3].error, below[-1].error) == ("verification found something", None)
    assert value(below[3], "found") == "one more thing"
    assert (value(below[0], "did"), value(unit, "iterations_used")) == ("began", 3)


def test_secrets_in_texts_are_masked_and_long_texts_are_cut(keeper):
    secret = "ghp_" + "a1B2c3D4e5" * 4
    long = f"{'x' * (MAX_TEXT - 10)} {secret} {'y' * 1_000}"
    keeper.start("custom", "Tidy", title=f"Use {secret}", tasks=[f"Remove {secret}", long])
    keeper.evidence().add_violation("C1", "LOW", f"it has {secret}")
    keeper.complete_task(1)
    keeper.complete_task(2)
    finish(keeper)
    spans = spans_of(keeper)
    assert secret[:6] not in str([fields(span) for span in spans])
    assert "[masked]" in value(named(spans, "task 1"), "text")
    assert len(value(named(spans, "task 2"), "text")) == MAX_TEXT


def test_a_span_has_so_many_points_and_links_at_most(keeper, monkeypatch):
    keeper.start("custom", "Faster", phases=["Measure"])
    for number in range(MAX_POINTS + 3):
        monkeypatch.setenv("TRACEPARENT", f"00-{number + 1:032x}-{SPAN}-01")
        keeper.evidence().add_violation("C1", "LOW", f"slow {number}")
    finish(keeper)
    spans = spans_of(keeper)
    assert len(named(spans, "phase Measure").points) == MAX_POINTS
    assert len(named(spans, "workflow custom").links) == MAX_POINTS


def test_an_edit_of_the_record_ends_the_task_that_it_completes(shop):
    keeper = shop.keeper()
    record = keeper.start("dev", "a.md", tasks=["One"]).state["record"]
    keeper.start_task(1)
    document = shop.document(record)
    document["tasks"][0]["status"] = "completed"
    shop.write(record, json.dumps(document))
    keeper.remind("Slowly")
    (span,) = spans_of(keeper)
    assert (span.name, value(span, "status"), value(span, "claimed")) == (
        "task 1", "completed", True,
    )  # fmt: skip


def test_no_trace_travels_and_what_another_machine_ran_is_its_own_to_send(tmp_path, monkeypatch):
    hub = tmp_path / "hub.git"
    git("init", "-q", "--bare", str(hub))
    desk, laptop = (Machine(tmp_path / name, name, hub).share() for name in ("desk", "laptop"))
    monkeypatch.setenv("TRACEPARENT", PARENT)
    desk.keeper.start("custom", "Faster", phases=["Measure", "Fix"], tasks=["One"])
    desk.keeper.evidence().run_gate("speed", PASS)
    monkeypatch.delenv("TRACEPARENT")
    exchange_until_quiet([desk, laptop])
    assert TRACE in str(desk.keeper.log())
    assert laptop.keeper.show(workflow="faster").state["title"] == "Faster"
    assert TRACE not in str(laptop.keeper.log())
    assert TRACE not in everything_in(hub)
    laptop.keeper.complete_task(1, workflow="faster")
    laptop.keeper.advance(workflow="faster")
    exchange_until_quiet([desk, laptop])
    assert set(names(spans_of(laptop.keeper))) == {"task 1", "phase Measure"}
    assert set(names(spans_of(desk.keeper))) == {"gate speed", "task 1", "phase Measure"}


def everything_in(repository):
    """Return the contents of all objects of a repository."""
    command = ["git", "-C", str(repository), "cat-file", "--batch", "--batch-all-objects"]
    done = subprocess.run(command, check=True, capture_output=True)
    return done.stdout.decode(errors="replace")
