"""The guard in front of the pages: it decides which requests reach them.

Every request has to name this server in ``Host``, or a page of another name could point here (DNS
rebinding). One that another page sends is known by its ``Origin`` or by ``Sec-Fetch-Site``. The
address that the terminal shows has a token; whoever opens it gets a cookie, and without a cookie
nothing is shown. A form also carries a word that only our own pages know.

The guard adds the headers that keep a page from running or loading anything that is not ours, and
from being kept or framed.
"""

from __future__ import annotations

import secrets
from hmac import compare_digest
from urllib.parse import parse_qs, parse_qsl

from holdfast.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_FORM_BYTES = 64 * 1024
MAX_FIELDS = 20
_MAX_QUERY_BYTES = 4 * 1024
_MAX_VISITORS = 64
_FORM = "application/x-www-form-urlencoded"
_OPEN = "/static/"
"""Where the stylesheet, the script and the icon are: they tell nothing about anybody's work."""
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
"""What every answer has. Without a referrer policy that names us, forms would have no origin."""


class Visitor:
    """A browser that was let in."""

    __slots__ = ("cookie", "form_word", "is_paired", "notice")

    def __init__(self) -> None:
        self.cookie = secrets.token_urlsafe(32)
        self.form_word = secrets.token_urlsafe(24)
        """Every form of this browser's pages has it."""
        self.is_paired = False
        """True if a person has shown by the terminal's code that this browser is theirs."""
        self.notice: dict[str, str] | None = None
        """The first line of the next page: what came of a form."""

    def say(self, text: str, hint: str = "", *, is_good: bool) -> None:
        """Have the next page say first what came of a form."""
        self.notice = {"kind": "good" if is_good else "bad", "text": text, "hint": hint}


class Door:
    """Who is let in: the token of the address, and the browsers that have shown it."""

    def __init__(self, hosts: list[str], port: int) -> None:
        names = [host.lower() for host in hosts]
        self.hosts = {f"{name}:{port}" for name in names}
        if port == 80:
            self.hosts |= set(names)
        self.origins = {f"http://{host}" for host in self.hosts}
        self.cookie_name = f"holdfast_{port}"
        self.token = secrets.token_urlsafe(32)
        self._ticket = ""
        self._visitors: dict[str, Visitor] = {}

    def ticket(self) -> str:
        """Return a token that lets one browser in, once. Other users can read command lines."""
        self._ticket = secrets.token_urlsafe(32)
        return self._ticket

    def let_in(self, token: str) -> Visitor | None:
        """Return a new visitor if the token is right; else ``None``."""
        encoded = token.encode()
        is_ticket = bool(self._ticket) and compare_digest(encoded, self._ticket.encode())
        if is_ticket:
            self._ticket = ""
        elif not compare_digest(encoded, self.token.encode()):
            return None
        visitor = Visitor()
        self._visitors[visitor.cookie] = visitor
        while len(self._visitors) > _MAX_VISITORS:
            del self._visitors[next(iter(self._visitors))]
        return visitor

    def visitor_of(self, cookies: str) -> Visitor | None:
        """Return the visitor whose cookie is in the header; ``None`` if there is none."""
        for part in cookies.split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie_name and value in self._visitors:
                return self._visitors[value]
        return None


class Stopped(Exception):
    """A request that does not reach the pages: the status, and why, in a sentence."""

    def __init__(self, status: int, why: str, hint: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why
        self.hint = hint


class Guard:
    """The application that checks each request before ``app``, and adds headers to its answer.

    ``stop`` returns the answer to a request that was stopped, ``enter`` the one to a right token.
    """

    def __init__(
        self,
        app: ASGIApp,
        door: Door,
        stop: Callable[[Stopped], ASGIApp],
        enter: Callable[[str], ASGIApp],
    ) -> None:
        self._app = app
        self._door = door
        self._stop = stop
        self._enter = enter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        sending = _with_headers(send)
        try:
            app = await self._checked(scope, receive)
        except Stopped as stopped:
            app = self._stop(stopped)
        await app(scope, receive, sending)

    async def _checked(self, scope: Scope, receive: Receive) -> ASGIApp:
        """Return the application that answers; raise ``Stopped`` if none may."""
        headers = _headers_of(scope)
        method, path = scope["method"], scope["path"]
        self._check_sender(method, headers)
        if len(scope["query_string"]) > _MAX_QUERY_BYTES:
            raise Stopped(414, "the address is too long", "shorten it")
        if path.startswith(_OPEN):
            return self._app
        visitor = self._door.visitor_of("; ".join(headers.get("cookie", [])))
        if path == "/" and method == "GET":
            token = _token_in(scope["query_string"].decode("latin-1"))
            if token is not None:
                entered = self._door.let_in(token)
                if entered is None:
                    raise Stopped(403, "this address is not valid any more", _USE_ADDRESS)
                return self._enter(self._cookie_of(entered))
        if visitor is None:
            raise Stopped(403, "this browser has not been let in", _USE_ADDRESS)
        scope["visitor"] = visitor
        if method == "POST":
            scope["form"] = await self._read_form(headers, receive, visitor)
        return self._app

    def _check_sender(self, method: str, headers: dict[str, list[str]]) -> None:
        """Raise ``Stopped`` for a request to another name, or from a page that is not ours."""
        hosts, origins = headers.get("host", []), headers.get("origin", [])
        if len(hosts) != 1 or hosts[0].lower() not in self._door.hosts:
            raise Stopped(421, "this server does not go by that name", _USE_ADDRESS)
        if method not in ("GET", "HEAD", "POST"):
            raise Stopped(405, f"{method[:20]} is not done here", "use the page")
        if any(origin.lower() not in self._door.origins for origin in origins):
            raise Stopped(403, "another page sent this request", _USE_ADDRESS)
        if method == "POST" and len(origins) != 1:
            raise Stopped(403, "nothing shows which page sent this form", "use a current browser")
        is_foreign = headers.get("sec-fetch-site", ["none"])[0] not in ("none", "same-origin")
        is_opened = headers.get("sec-fetch-mode", [""])[0] == "navigate" and method == "GET"
        if is_foreign and not is_opened:
            raise Stopped(403, "another page sent this request", _USE_ADDRESS)

    async def _read_form(
        self, headers: dict[str, list[str]], receive: Receive, visitor: Visitor
    ) -> dict[str, str]:
        """Return the fields of a form; raise ``Stopped`` if it is not one of this visitor's."""
        kind = headers.get("content-type", [""])[0].partition(";")[0].strip().lower()
        if kind != _FORM:
            raise Stopped(415, "this is no form of ours", "use the page")
        raw = await _read_body(receive)
        try:
            fields = parse_qsl(
                raw.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"
            )
        except ValueError:
            why = "the form is not readable"
            raise Stopped(400, why, "use the page, with text in UTF-8") from None
        form = dict(fields)
        if not compare_digest(form.pop("word", "").encode(), visitor.form_word.encode()):
            why = "the form is of another page, or older than this server"
            raise Stopped(403, why, "load the page again, then send the form")
        return form

    def _cookie_of(self, visitor: Visitor) -> str:
        return f"{self._door.cookie_name}={visitor.cookie}; Path=/; HttpOnly; SameSite=Strict"


_USE_ADDRESS = "open the address that `holdfast web` shows in its terminal"


def needs_pairing(why_not: str) -> Refused:
    """Return the refusal of a decision by a browser that is not known to be a person's."""
    hint = why_not or "pair this browser with the code that the terminal shows: /pair"
    return Refused("needs_person", "only a person can decide this", hint)


def _token_in(query: str) -> str | None:
    try:
        tokens = parse_qs(query, max_num_fields=MAX_FIELDS).get("token")
    except ValueError:
        raise Stopped(400, "the address has too many parts", _USE_ADDRESS) from None
    return tokens[0] if tokens else None


async def _read_body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise Stopped(400, "the request was not complete", "send the form again")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_FORM_BYTES:
            raise Stopped(413, f"the form has more than {MAX_FORM_BYTES} bytes", "shorten it")
    return body


def _headers_of(scope: Scope) -> dict[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers


def _with_headers(send: Send) -> Callable[[Message], Awaitable[None]]:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [(k, v) for k, v in message["headers"] if k.decode().lower() not in HEADERS]
            ours = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
            message = {**message, "headers": [*kept, *ours]}
        await send(message)

    return sending
