"""Claude Code: a workflow joins the trace of the tool call that started it, at one receiver."""

import http.server
import threading

import pytest

from directives import START, bash

proto = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
SHOWN = "env | grep -c '^OTEL_'"


@pytest.fixture
def receiver():
    """A receiver of spans; ``spans`` has name, trace, id and parent of each that arrived."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/traces":
                server.spans += [
                    (span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
                    for part in proto.ExportTraceServiceRequest.FromString(raw).resource_spans
                    for scoped in part.scope_spans
                    for span in scoped.spans
                ]
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_words):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.spans = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_workflow_stands_below_the_tool_call_that_started_it(claude, receiver):
    url = f"http://127.0.0.1:{receiver.server_port}"
    claude.extra = {
        "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
        "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA": "1",
        # The model's stub is no server of Anthropic's.
        "CLAUDE_CODE_PROPAGATE_TRACEPARENT": "1",
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "HOLDFAST_OTEL_EXPORTER_OTLP_ENDPOINT": url,
    }
    claude.connect()
    claude.say(f"Work. {bash(START)} {bash(SHOWN)} <<say begun>>")
    assert claude.stub.requests[-1].results()[-1].strip().endswith("0"), "OTEL_… is taken away"
    end = "holdfast complete --force --reason enough; holdfast sync"
    claude.go_on(f"End it. {bash(end)} <<say ended>>")
    by_name = {name: rest for name, *rest in receiver.spans if name.startswith("workflow ")}
    trace, _, parent = by_name["workflow dev"]
    calls = {own: of for name, of, own, _ in receiver.spans if name == "claude_code.tool.execution"}
    assert calls[parent] == trace
    (started,) = claude.place.events("workflow_started")
    assert started["by"]["trace"] == f"00-{trace}-{parent}-01"
