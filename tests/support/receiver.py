"""A receiver of OpenTelemetry: OTLP over HTTP on loopback, with the messages decoded."""

import http.server
import threading

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

LIMIT_S = 60
"""How long an answer is held back at most, if a test does not release it."""


class ReceivedSpan:
    """A span as it arrived."""

    def __init__(self, span, resource, scope):
        self.name = span.name
        self.trace = span.trace_id.hex()
        self.id = span.span_id.hex()
        self.parent = span.parent_span_id.hex()
        self.start_ms = span.start_time_unix_nano // 1_000_000
        self.end_ms = span.end_time_unix_nano // 1_000_000
        self.attributes = _values(span.attributes)
        self.points = [(event.name, _values(event.attributes)) for event in span.events]
        self.links = [(link.trace_id.hex(), link.span_id.hex()) for link in span.links]
        self.has_failed = span.status.code == span.status.STATUS_CODE_ERROR
        self.resource = resource
        self.scope = (scope.name, scope.version)

    def __getitem__(self, name):
        return self.attributes[f"holdfast.{name}"]

    def __repr__(self):
        return f"<{self.name} {self.id} below {self.parent or 'nothing'}>"


def _values(pairs):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


class Receiver:
    """``with Receiver() as receiver``: it listens on ``url`` and keeps what it takes.

    ``status`` is what it answers. While ``is_open`` is not set, it takes requests and answers none.
    ``took`` is set by the first request.
    """

    def __init__(self):
        self.spans = []
        self.requests = []
        """The path and the headers of each request."""
        self.status = 200
        self.is_open = threading.Event()
        self.is_open.set()
        self.took = threading.Event()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self.is_open.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def named(self, name):
        """Return the spans of a name."""
        return [span for span in self.spans if span.name == name]

    def only(self, name):
        (span,) = self.named(name)
        return span

    def _take(self, raw):
        message = trace_service_pb2.ExportTraceServiceRequest.FromString(raw)
        for part in message.resource_spans:
            resource = _values(part.resource.attributes)
            for scoped in part.scope_spans:
                self.spans += [ReceivedSpan(span, resource, scoped.scope) for span in scoped.spans]

    def _handler(receiver):  # noqa: N805 - the handler has a self of its own
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((self.path, dict(self.headers)))
                status = receiver.status
                if status == 200:
                    receiver._take(raw)
                receiver.took.set()
                receiver.is_open.wait(LIMIT_S)
                try:
                    self.send_response(status)
                    self.end_headers()
                except OSError:
                    pass  # Whoever asked is gone.

            def log_message(self, *_words):
                pass

        return Handler
