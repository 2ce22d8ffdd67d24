"""A model that is none: it answers on loopback as the prompt tells it, and keeps what it was asked.

A prompt holds directives, which only the newest text of the user counts for:

``<<call TOOL {"json": "input"}>>``  use this tool; several are used one after the other
``<<say TEXT>>``                     and then say this (without it, a fixed sentence)
``<<tokens N>>``                     report that the context has N tokens by now
``<<too-long>>``                     answer that the prompt is too long, until it was summed up
``<<hang>>``                         after the calls, never answer

Whoever sums a conversation up adds an instruction without directives, and gets the fixed sentence.

A scenario that cannot say beforehand what is done gives the stub an ``agent``: a function that gets
the parts of each request, except those that sum up, and changes the reply.
"""

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SUMMARY = "All of this was summed up."
DIRECTIVE = re.compile(r"<<([a-z-]+)(?: (.*?))?>>", re.DOTALL)
ASIDE = re.compile(r"\s*<(system-reminder|hook_context)>.*</\1>\s*", re.DOTALL)
"""What clients put beside the user's own words."""
PATIENCE_S = 60


class Part:
    """A piece of a conversation: whose, what kind (``text``, ``call``, ``result``), its text."""

    def __init__(self, role, kind, text, number=None):
        self.role = role
        self.kind = kind
        self.text = text
        self.number = number
        """Of the reply whose call a result answers, if the API says so."""


class Reply:
    """What the model answers, whatever the words of its API."""

    def __init__(self, number):
        self.number = number
        self.text = SUMMARY
        self.call = None
        self.tokens = 1_000
        self.is_refused = False
        self.hangs = False


class Exchange:
    """One request for an answer, and the answer."""

    def __init__(self, dialect, body, number, agent=None):
        self.body = body
        self.parts = dialect.parts(body)
        self.text = "\n".join(part.text for part in self.parts)
        self.sums_up = dialect.sums_up(self.parts)
        self.reply = reply_to(self.parts, number)
        if agent is not None and not self.sums_up:
            agent(self.parts, self.reply)

    def results(self):
        """What tools answered, newest last."""
        return [part.text for part in self.parts if part.kind == "result"]


def prompts(parts):
    """The places of the user's own words."""
    return [
        place
        for place, part in enumerate(parts)
        if part.role == "user" and part.kind == "text" and not ASIDE.fullmatch(part.text)
    ]


def reply_to(parts, number):
    """What the newest text of the user asks for, given how many calls were answered since."""
    reply = Reply(number)
    texts = prompts(parts)
    newest = texts[-1] if texts else 0
    told = DIRECTIVE.findall(parts[newest].text) if texts else []
    done = sum(part.kind == "result" for part in parts[newest:])
    calls = [given.partition(" ") for name, given in told if name == "call"]
    if done < len(calls):
        tool, _, given = calls[done]
        reply.call = (tool, json.loads(given or "{}"))
    for name, given in told:
        if name == "say":
            reply.text = given
        elif name == "tokens":
            reply.tokens = int(given)
        elif name == "too-long":
            reply.is_refused = not any(SUMMARY in part.text for part in parts)
        elif name == "hang":
            reply.hangs = reply.call is None
    return reply


class Stub:
    """The server: ``requests`` has every exchange, ``strangers`` what was asked besides."""

    def __init__(self, dialect):
        self.dialect = dialect
        self.agent = None
        self.requests = []
        self.strangers = []
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def save(self, path):
        """Leaves what was asked and answered for whoever looks into a failure."""
        told = [{"asked": one.body, "answered": vars(one.reply)} for one in self.requests]
        path.write_text(json.dumps({"requests": told, "strangers": self.strangers}, indent=1))

    def answer(self, path, raw):
        """Status, content type and bytes for what was posted; ``None`` when nobody waits."""
        if self.dialect.counts_tokens(path):
            return 200, "application/json", json.dumps(self.dialect.count(len(raw) // 4)).encode()
        if not self.dialect.asks_model(path):
            self.note(f"POST {path}")
            return 404, "application/json", b"{}"
        with self._changed:
            number = len(self.requests) + 1
            exchange = Exchange(self.dialect, json.loads(raw), number, self.agent)
            self.requests.append(exchange)
            self._changed.notify_all()
        if exchange.reply.hangs:
            self._ended.wait(PATIENCE_S)
            return None
        if exchange.reply.is_refused:
            return 400, "application/json", json.dumps(self.dialect.too_long()).encode()
        return 200, *self.dialect.written(exchange.reply, path, exchange.body)

    def note(self, line):
        with self._changed:
            self.strangers.append(line)

    def wait_for(self, number, wanted=lambda _: True):
        """Returns when this many requests that are wanted have come."""
        until = time.monotonic() + PATIENCE_S
        with self._changed:
            while sum(map(wanted, self.requests)) < number:
                assert self._changed.wait(until - time.monotonic()), "no request came"

    def after_summing_up(self):
        """The very next request after the last one that had the conversation summed up."""
        places = [place for place, one in enumerate(self.requests) if one.sums_up]
        assert places, "nothing was summed up"
        following = self.requests[places[-1] + 1 :]
        assert following, "the model was not asked again"
        return following[0]


def _handler(stub):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            """The tests say what there is to say."""

        def do_HEAD(self):
            self.do_GET()

        def do_GET(self):
            stub.note(f"{self.command} {self.path}")
            self.send(404, "application/json", b"{}")

        def do_POST(self):
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            found = stub.answer(self.path, raw)
            if found is None:
                self.close_connection = True
            else:
                self.send(*found)

        def send(self, status, kind, data):
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    return Handler
