"""``holdfast web`` for tests: a real process, and clients that speak plain HTTP to it."""

import http.client
import re
import select
import signal
import subprocess
import sys
import time
from urllib.parse import parse_qs, quote, urlencode, urlsplit

DEADLINE_S = 60
WORD = re.compile(r'name="word" value="([^"]+)"')


class WebSite:
    """A running ``holdfast web``, started in a folder."""

    def __init__(self, folder, *options, **environment):
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "web", "--no-open", *options],
            cwd=folder.path, env={**folder.environment, **environment},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
        )  # fmt: skip
        ready, _, _ = select.select([self.process.stdout], [], [], DEADLINE_S)
        assert ready, "nothing was printed"
        self.address = self.process.stdout.readline().decode().strip()
        assert self.address, self.process.stderr.read().decode()

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        if self.process.returncode is None:
            self.end(signal.SIGKILL)

    @property
    def port(self):
        return urlsplit(self.address).port

    @property
    def token(self):
        return parse_qs(urlsplit(self.address).query)["token"][0]

    def end(self, number=signal.SIGTERM):
        """End the process by a signal; return its exit code and what it printed."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, out.decode(), err.decode()

    def visitor(self):
        """Return a browser that was let in."""
        visitor = Visitor(self.port)
        answer = visitor.get(f"/?token={self.token}")
        assert answer.status == 200, answer
        return visitor


class Response:
    """An answer: status, headers by lower-case name, and text."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.text = response.read().decode()

    def __repr__(self):
        return f"<{self.status} {self.headers}\n{self.text[:2000]}>"


class Visitor:
    """A client with a cookie jar for one cookie, which sends what a browser would."""

    def __init__(self, port, host="127.0.0.1"):
        self.port = port
        self.host = f"{host}:{port}"
        self.cookie = ""
        self.word = ""
        """The word that the forms of this visitor's pages have."""

    def ask(self, method, path, headers=None, body=None):
        """Send a request; headers with the value ``None`` are left out."""
        sent = {"Host": self.host, "Cookie": self.cookie, **(headers or {})}
        connection = http.client.HTTPConnection(
            self.host.partition(":")[0], self.port, timeout=DEADLINE_S
        )
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                if value:
                    connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = Response(connection.getresponse())
        finally:
            connection.close()
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def get(self, path, **headers):
        answer = self.ask("GET", path, {k.replace("_", "-"): v for k, v in headers.items()})
        found = WORD.search(answer.text)
        self.word = found[1] if found else self.word
        return answer

    def post(self, path, fields=None, **headers):
        """Send a form as our pages do."""
        form = {"word": self.word, **(fields or {})}
        usual = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": f"http://{self.host}",
        }
        own = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", path, {**usual, **own}, urlencode(form).encode())

    def do(self, path, action, **fields):
        """Send the form of an action on a workflow's page; return what the next page says."""
        self.get(path)
        answer = self.post(f"/do/{path.removeprefix('/w/')}/{action}", {**fields, "back": path})
        if answer.status != 303:
            return answer
        return self.get(answer.headers["location"])

    def path_of(self, title):
        """Return the path of the page of the workflow with this title, as the board has it."""
        board = self.get("/").text
        found = re.search(rf'href="(/w/[^"]+)">{re.escape(title)}</a>', board)
        assert found, board
        return found[1]


def until(condition):
    """Ask until something is true; return it."""
    end = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < end, "it never became true"
    return value


def quoted(text):
    return quote(text, safe="")
