"""Spans reach a real receiver over HTTP. Nothing waits for it, and nothing is lost by it."""

import json
import os
import signal
import subprocess
import sys

import pytest

import holdfast
from holdfast.keeper import telemetry as keeper_telemetry
from holdfast.layers import telemetry
from holdfast.system import detached
from support.paths import SOURCE
from support.receiver import Receiver

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
NOWHERE = "http://127.0.0.1:9"
"""A port that nobody listens on."""
REFUSALS = {
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    500: "Internal Server Error",
    503: "max retries",
}


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def on(receiver, monkeypatch):
    """The receiver, named in the environment."""
    monkeypatch.setenv(ENDPOINT, receiver.url)
    # A receiver that fails is tried again for a moment only.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    return receiver


@pytest.fixture
def awake(monkeypatch):
    """Let changes start deliveries; return what waits for them."""
    monkeypatch.delenv("HOLDFAST_BACKGROUND")
    monkeypatch.setenv("PYTHONPATH", SOURCE)

    def wait():
        while detached._started:
            detached._started.pop().wait(60)

    yield wait
    wait()


@pytest.fixture
def keeper(shop):
    return shop.keeper()


def work(keeper, subject="Faster"):
    """Start and end a workflow; return the notes on the way."""
    started = keeper.start("custom", subject, phases=["Measure"])
    ended = keeper.complete(workflow=started.state["id"], force=True, reason="enough")
    return [*started.notes, *ended.notes]


def deliver(keeper):
    """Deliver as the process in the background does."""
    keeper.sync(telemetry=True)


def row_of(keeper, **options):
    (row,) = [row for row in keeper.sync(**options)[0] if row["layer"] == "telemetry"]
    return row


def position(keeper):
    with open(os.path.join(keeper.workspace.home, "telemetry.json")) as file:
        return json.load(file)


# Delivering


def test_what_was_done_is_delivered_by_a_process_of_its_own(on, keeper, awake):
    work(keeper)
    awake()
    deliver(keeper)  # The last process may have found the one before it at work.
    phase, workflow = on.only("phase Measure"), on.only("workflow custom")
    assert (phase.parent, phase.trace, workflow.parent) == (workflow.id, workflow.trace, "")
    assert workflow["status"] == "completed"
    assert workflow.end_ms > workflow.start_ms
    assert workflow.resource["service.name"] == "holdfast"
    assert workflow.resource["holdfast.ledger"] == keeper.store.ledger.identity()
    assert workflow.scope == ("holdfast", holdfast.__version__)
    assert {path for path, _ in on.requests} == {"/v1/traces"}


def test_real_commands_join_the_trace_of_whoever_ran_them(on, shop):
    parent = f"00-{TRACE}-{SPAN}-01"
    shop.run("start", "custom", "Faster", "--task", "One", TRACEPARENT=parent)
    shop.run("task", "done", "1", TRACEPARENT="garbage")
    assert shop.run("complete").returncode == 0
    done = shop.run("sync", "--telemetry")
    assert (done.returncode, done.stderr) == (0, b"")
    workflow = on.only("workflow custom")
    assert (workflow.trace, workflow.parent) == (TRACE, SPAN)
    assert {span.trace for span in on.spans} == {TRACE}
    assert {span.name for span in on.spans} == {"task 1", "phase Work", "workflow custom"}


def test_a_failed_gate_arrives_as_an_error(on, keeper):
    keeper.start("custom", "Faster")
    keeper.evidence().run_gate("speed", [sys.executable, "-c", "raise SystemExit(3)"])
    deliver(keeper)
    gate = on.only("gate speed")
    assert gate.has_failed
    assert (gate["exit_code"], gate["passed"], gate["evidence"]) == (3, False, "run")


def test_points_and_links_arrive(on, keeper, monkeypatch):
    keeper.start("custom", "Faster", phases=["Measure"])
    keeper.evidence().add_violation("C1", "LOW", "slow")
    monkeypatch.setenv("TRACEPARENT", f"00-{TRACE}-{SPAN}-01")
    keeper.complete(force=True, reason="enough")
    deliver(keeper)
    expected = {"holdfast.code": "C1", "holdfast.severity": "LOW", "holdfast.details": "slow"}
    assert on.only("phase Measure").points == [("violation_found", expected)]
    assert on.only("workflow custom").links == [(TRACE, SPAN)]


def test_two_thousand_events_are_delivered_in_parts(on, keeper):
    keeper.start("custom", "Faster")
    keeper.add_tasks([f"Task {number}" for number in range(1_000)])
    with keeper.transaction() as change:
        for number in range(1, 1_001):
            change.decide("complete_task", task=number)
        change.commit()
    deliver(keeper)
    assert len({span.id for span in on.spans}) == len(on.spans) == 1_000
    assert len(on.requests) == 4
    assert position(keeper)["seq"] == keeper.store.ledger.head_seq > 2_000


# Switching it on


def test_without_a_receiver_nothing_is_done(keeper, awake):
    assert work(keeper) == []
    deliver(keeper)
    assert detached._started == []
    assert not os.path.exists(os.path.join(keeper.workspace.home, "telemetry.json"))
    assert [row["layer"] for row in keeper.sync()[0]] == ["L2", "L3"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_SDK_DISABLED", "true"),
        ("HOLDFAST_OTEL_SDK_DISABLED", "TRUE"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_TRACES_EXPORTER", "console"),
    ],
)
def test_it_can_be_switched_off(on, keeper, awake, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert work(keeper) == []
    assert detached._started == []
    assert [row["layer"] for row in keeper.sync(everything=True)[0]] == ["L2", "L3"]
    assert on.requests == []


def test_it_begins_with_the_change_that_finds_it_on(receiver, keeper, monkeypatch):
    work(keeper, "Before")
    monkeypatch.setenv(ENDPOINT, receiver.url)
    assert work(keeper, "After") == [telemetry.BEGUN.format(receiver.url)]
    deliver(keeper)
    assert receiver.only("workflow custom")["title"] == "After"
    assert row_of(keeper)["status"] == "current"
    row = row_of(keeper, everything=True)
    assert (row["status"], row["spans"], row["seq"]) == ("delivered", 4, row["events"])
    titles = [span["title"] for span in receiver.named("workflow custom")]
    assert titles == ["After", "Before", "After"]
    assert len({span.id for span in receiver.spans}) == 4


def test_the_variables_of_our_own_go_first(on, keeper, monkeypatch):
    with Receiver() as other:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{on.url}/elsewhere")
        monkeypatch.setenv(f"HOLDFAST_{ENDPOINT}", other.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=theirs")
        monkeypatch.setenv("HOLDFAST_OTEL_EXPORTER_OTLP_HEADERS", "x-key=ours")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
        before = dict(os.environ)
        work(keeper)
        deliver(keeper)
        assert os.environ == before
        assert on.requests == []
        assert [headers["x-key"] for _, headers in other.requests] == ["ours"]
        assert other.only("workflow custom").resource["service.name"] == "shop"


def test_a_password_in_the_address_is_not_shown(on, keeper, monkeypatch):
    monkeypatch.setenv(ENDPOINT, on.url.replace("//", "//ada:hunter22@") + "?key=hunter22")
    assert "hunter22" not in str(work(keeper))
    assert "hunter22" not in str(keeper.sync())
    assert telemetry.target() == on.url


def test_where_the_sdk_is_missing_it_is_said_once(on, shop):
    def run(*words):
        # Without its site-packages, the interpreter has no SDK.
        return subprocess.run(
            [sys.executable, "-S", "-m", "holdfast", *words, "--json"],
            cwd=shop.root, env={**os.environ, "PYTHONPATH": SOURCE}, capture_output=True,
            timeout=60, check=False,
        )  # fmt: skip

    started = json.loads(run("start", "custom", "Faster").stdout)
    (note,) = started["notes"]
    assert "OpenTelemetry's SDK is not installed" in note
    assert "pip install '.[otel]'" in note
    second = json.loads(run("remind", "B").stdout)
    assert (second["ok"], second.get("notes", [])) == (True, [])
    sync = run("sync")
    assert sync.returncode == 3
    assert json.loads(sync.stdout)["layers"][-1]["error"]["code"] == "no_sdk"
    doctor = json.loads(run("doctor").stdout)["checks"]
    (check,) = [check for check in doctor if check["what"] == "telemetry"]
    assert (check["status"], "pip install '.[otel]'" in check["hint"]) == ("bad", True)
    # As soon as it is there, everything since then is delivered.
    assert shop.run("sync").returncode == 0
    shop.run("complete", "--force", "--reason", "enough")
    shop.run("sync", "--telemetry")
    assert on.only("workflow custom")["title"] == "Faster"


def test_a_receiver_that_takes_grpc_is_not_called(on, keeper, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    (note,) = work(keeper)
    assert "takes gRPC" in note
    assert "HOLDFAST_OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf" in note
    monkeypatch.setenv("HOLDFAST_OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    work(keeper, "Again")
    deliver(keeper)
    assert len(on.named("workflow custom")) == 2


def test_doctor_says_how_far_the_receiver_is(on, keeper, shop, monkeypatch):
    def checked():
        checks = json.loads(shop.run("doctor", "--json").stdout)["checks"]
        (check,) = [check for check in checks if check["what"] == "telemetry"]
        return check["status"], check["found"], check["hint"]

    assert checked() == ("good", f"{on.url}: nothing was delivered yet", "")
    work(keeper)
    seq = keeper.store.ledger.head_seq
    assert checked() == ("good", f"{on.url}: {seq} events to be delivered", "")
    deliver(keeper)
    assert checked() == ("good", f"{on.url}: 0 events to be delivered", "")
    on.status = 500
    work(keeper, "Again")
    deliver(keeper)
    status, found, hint = checked()
    assert (status, "Internal Server Error" in found, hint) == ("bad", True, "holdfast sync")


def test_only_the_process_that_delivers_loads_what_it_takes(on, shop):
    names = "[n for n in sys.modules if 'telemetry' in n or 'spans' in n or 'trace_parent' in n]"
    code = f"import sys; from holdfast import Keeper; Keeper().remind('Slowly'); print({names})"

    def loaded(**environment):
        env = {**os.environ, "PYTHONPATH": SOURCE, **environment}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=shop.root, env=env, capture_output=True, check=True,
            timeout=60,
        )  # fmt: skip
        return done.stdout.decode()

    shop.run("start", "custom", "Faster", **{ENDPOINT: ""})
    assert loaded(**{ENDPOINT: ""}) == "[]\n"
    code = code.replace("Slowly", "Softly")
    assert "opentelemetry.sdk" not in loaded()
    assert on.requests == []


# Faults


def test_a_receiver_that_is_down_is_named_once_and_made_up_for(on, keeper, shop, monkeypatch):
    monkeypatch.setenv(ENDPOINT, NOWHERE)
    work(keeper)
    deliver(keeper)
    (note,) = keeper.start("custom", "Again", phases=["Measure"]).notes
    assert note.startswith(f"{telemetry.WARNING} to {NOWHERE}: ")
    deliver(keeper)
    assert keeper.remind("Softly").notes == []
    row = row_of(keeper)
    assert row["error"]["code"] == "telemetry_unavailable"
    assert row["behind"] == keeper.store.ledger.head_seq
    monkeypatch.setenv(ENDPOINT, on.url)
    deliver(keeper)
    assert on.requests == [], "it is left alone for a while"
    shop.clock.ms += telemetry.BACK_OFF_MS
    deliver(keeper)
    assert on.only("workflow custom")["title"] == "Faster"
    assert keeper.remind("Surely").notes == [telemetry.RECOVERED]
    deliver(keeper)
    assert keeper.remind("Safely").notes == []


@pytest.mark.parametrize("status", list(REFUSALS))
def test_a_receiver_that_refuses_loses_nothing(on, keeper, status):
    on.status = status
    work(keeper)
    row = row_of(keeper)
    assert (row["status"], row["behind"]) == ("unavailable", keeper.store.ledger.head_seq)
    assert REFUSALS[status] in row["error"]["message"]
    on.status = 200
    assert row_of(keeper)["spans"] == 2
    assert {span.name for span in on.spans} == {"phase Measure", "workflow custom"}


def test_neither_a_change_nor_a_hook_waits_for_a_receiver_that_hangs(on, shop, awake):
    on.is_open.clear()
    work(shop.keeper())
    assert on.took.wait(60), "a delivery is under way, and hangs"
    assert shop.run("start", "custom", "Again").returncode == 0
    event = {"hook_event_name": "SessionStart", "session_id": "s-1", "cwd": shop.root,
             "source": "startup"}  # fmt: skip
    hook = subprocess.run(
        [sys.executable, "-m", "holdfast", "hook"], cwd=shop.root, input=json.dumps(event).encode(),
        env={**os.environ, "PYTHONPATH": SOURCE}, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert b"WORKFLOW: Again" in hook.stdout
    # Both have answered, and the receiver has not.
    assert not on.is_open.is_set()


def test_a_hook_starts_nothing(on, keeper, awake):
    keeper.start("custom", "Faster")
    awake()
    keeper.store.by = {"surface": "hook"}
    keeper.do("note_compaction", {"trigger": "auto"})
    assert detached._started == []


def test_a_delivery_that_is_killed_is_made_again_with_the_same_spans(on, shop, keeper):
    work(keeper)
    on.is_open.clear()
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "sync", "--telemetry"], cwd=shop.root,
        env={**os.environ, "PYTHONPATH": SOURCE, "OTEL_EXPORTER_OTLP_TIMEOUT": "60"},
    )  # fmt: skip
    assert on.took.wait(60), "the receiver has them, and has not answered"
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    on.is_open.set()
    taken = {span.id for span in on.spans}
    assert position(keeper)["seq"] < keeper.store.ledger.head_seq
    deliver(keeper)
    assert {span.id for span in on.spans} == taken
    assert len(on.spans) == 2 * len(taken) == 4
    assert position(keeper)["seq"] == keeper.store.ledger.head_seq


def test_one_delivers_and_another_ends_at_once(on, keeper):
    work(keeper)
    lock = keeper.store.disk.lock(os.path.join(keeper.workspace.home, telemetry.LOCK_FILE), 0.0)
    deliver(keeper)
    assert on.requests == []
    keeper.store.disk.close(lock)
    deliver(keeper)
    assert len(on.spans) == 2


def test_what_is_done_meanwhile_is_delivered_as_well(on, keeper, shop, monkeypatch):
    work(keeper)
    send = telemetry.Receiver.send

    def sent(receiver, spans):
        if not on.spans:
            work(shop.keeper(), "Again")
        return send(receiver, spans)

    monkeypatch.setattr(telemetry.Receiver, "send", sent)
    deliver(keeper)
    assert [span["title"] for span in on.named("workflow custom")] == ["Faster", "Again"]


def test_it_ends_when_its_time_is_over(on, keeper, monkeypatch):
    work(keeper)
    monkeypatch.setattr(telemetry, "LIMIT_S", 1)
    monkeypatch.setattr(keeper_telemetry, "_deliver_once", lambda _store: False)
    with pytest.raises(TimeoutError):
        deliver(keeper)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"seq": -1}', '{"ledger": "x", "seq": 3}'])
def test_a_lost_position_begins_at_the_newest_event(on, keeper, content):
    work(keeper)
    with open(os.path.join(keeper.workspace.home, "telemetry.json"), "w") as file:
        file.write(content)
    deliver(keeper)
    assert on.requests == []
    work(keeper, "Again")
    deliver(keeper)
    assert on.only("workflow custom")["title"] == "Again"


def test_a_pattern_that_cannot_be_used_holds_spans_back(on, shop, keeper):
    work(keeper)
    shop.write(".claude/holdfast.toml", '[mask]\npatterns = ["("]\n')
    deliver(keeper)
    assert on.requests == []
    assert row_of(keeper)["error"]["code"] == "bad_settings"
    shop.write(".claude/holdfast.toml", '[mask]\npatterns = ["Fast[a-z]+"]\n')
    deliver(keeper)
    assert on.only("workflow custom")["title"] == "[masked]"
