"""The pages and their addresses: read by the desk, make plain data, render a template.

Whatever a template puts into a page is escaped by Jinja, after ``clean`` has shown by their codes
the characters that nobody can see. What a repository says is text here, and never an address of
another site.
"""

from __future__ import annotations

import os
from functools import partial

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, RedirectResponse, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from holdfast.answers import failure_fields
from holdfast.core import time as times
from holdfast.core.visible import clean
from holdfast.errors import HoldfastError, Refused
from holdfast.web import actions, views
from holdfast.web.live import Live
from holdfast.web.security import Guard, Stopped
from holdfast.web.snapshots import Snapshots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from holdfast.core.types import Fields
    from holdfast.web.desk import Desk
    from holdfast.web.pairing import Pairing
    from holdfast.web.security import Door, Visitor
    from holdfast.web.snapshots import Snapshot

    Handler = Callable[[Request], Awaitable[Response]]

_HERE = os.path.dirname(__file__)
_MAX_WORDS_CHARS = 200
_MAX_RESULTS = 50
_MAX_BOARDS = 16
_BRIEF_CHARS = 12
_PARTS = (("now", ""), ("history", "/history"), ("briefing", "/briefing"), ("time travel", "/at"))
_STATUS = {"not_found": 404, "needs_person": 403, "busy": 503}
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))


class Pages:
    """The application behind the guard."""

    def __init__(
        self, desk: Desk, door: Door, pairing: Pairing, clock_ms: Callable[[], int]
    ) -> None:
        self._desk = desk
        self._door = door
        self._pairing = pairing
        self._clock_ms = clock_ms
        self._snapshots = Snapshots(desk)
        self.live = Live(desk, self._snapshots)
        self._templates = self._environment()
        self._boards: dict[tuple[object, ...], tuple[list[Snapshot], bytes]] = {}
        """Boards as they were rendered: a live page asks for its own again and again."""

    def application(self) -> ASGIApp:
        """Return the whole application, with the guard in front."""
        get = [
            ("/", self._board),
            ("/live", self._live),
            ("/search", self._search),
            ("/pair", self._pair),
            ("/w/{key}/{workflow}", self._now),
            ("/w/{key}/{workflow}/history", self._history),
            ("/w/{key}/{workflow}/briefing", self._briefing),
            ("/w/{key}/{workflow}/at", self._moment),
            ("/w/{key}/{workflow}/compare", self._compare),
        ]
        post = [("/pair", self._try_code), ("/do/{key}/{workflow}/{action}", self._do)]
        routes = [Route(path, self._answering(handler), methods=["GET"]) for path, handler in get]
        routes += [
            Route(path, self._answering(handler), methods=["POST"]) for path, handler in post
        ]
        mount = Mount("/static", StaticFiles(directory=os.path.join(_HERE, "static")))
        app = Starlette(routes=[*routes, mount], exception_handlers={404: self._nowhere})
        return Guard(app, self._door, self._stopped, self._entered)

    # Rendering

    def _environment(self) -> Environment:
        environment = Environment(
            loader=FileSystemLoader(os.path.join(_HERE, "templates")),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_visible,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        environment.filters |= {
            "age": lambda at: _short_age(self._clock_ms(), at),
            "brief": lambda text: text if len(text) <= _BRIEF_CHARS else f"{text[:_BRIEF_CHARS]}…",
            "lines": _lines,
            "slug": lambda text: "".join(c if c.isalnum() else "-" for c in str(text)),
            "words": lambda text: str(text).replace("_", " "),
        }
        return environment

    def _render(self, request: Request, name: str, status: int = 200, **fields: Any) -> Response:
        visitor: Visitor = request.scope["visitor"]
        notice = None
        if _is_seen(request):
            notice, visitor.notice = visitor.notice, None
        query = request.scope["query_string"].decode("latin-1")
        text = self._templates.get_template(name).render(
            word=visitor.form_word,
            is_paired=visitor.is_paired,
            may_decide=visitor.is_paired,
            why_not_pair=self._pairing.why_not,
            here=request.url.path + (f"?{query}" if query else ""),
            notice=notice,
            **{"page": "", **fields},
        )
        return HTMLResponse(text, status)

    def _alone(self, status: int, **fields: str) -> ASGIApp:
        """Return a page for a browser that was not let in."""
        fields = {"go": "", "hint": "", **fields}
        return HTMLResponse(self._templates.get_template("alone.html").render(**fields), status)

    def _stopped(self, stopped: Stopped) -> ASGIApp:
        why = f"{_sentence(stopped.why)}."
        return self._alone(stopped.status, title="Not shown", why=why, hint=stopped.hint)

    def _entered(self, cookie: str) -> ASGIApp:
        """Return the page that leads to the board without the token in its address.

        It is no redirection: a browser would not send the cookie along if another program opened
        the address.
        """
        page = self._alone(200, title="Holdfast", why="This browser is let in.", go="/")
        assert isinstance(page, HTMLResponse)
        page.headers["set-cookie"] = cookie
        return page

    def _answering(self, handler: Handler) -> Handler:
        """Return the handler with every error as a page."""

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except Exception as error:  # noqa: BLE001 - every request is answered
                fallback = 409 if isinstance(error, Refused) else 500
                fields = failure_fields(error)
                return self._failed(request, fields, _STATUS.get(fields["code"], fallback))

        return answer

    def _failed(self, request: Request, error: Fields, status: int) -> Response:
        title = "Not here" if status == 404 else "Not done"
        why = _sentence(error["message"])
        return self._render(request, "stop.html", status, title=title, why=why, hint=error["hint"])

    async def _nowhere(self, request: Request, _error: Exception) -> Response:
        why = "There is no page at this address."
        if "visitor" not in request.scope:
            return HTMLResponse(why, 404)
        return self._render(request, "stop.html", 404, title="Not here", why=why, hint="")

    # Looking

    async def _board(self, request: Request) -> Response:
        key = request.query_params.get("repository", "")
        before = _cursor(request.query_params.get("before", ""))
        shown = await self._desk.read(views.look, self._snapshots, key, before)
        visitor: Visitor = request.scope["visitor"]
        minute = self._clock_ms() // 60_000
        of_page = (visitor.form_word, visitor.is_paired, str(request.url.query), minute)
        kept = self._boards.get(of_page)
        if kept is not None and kept[0] == shown and visitor.notice is None:
            return HTMLResponse(kept[1])
        is_kept = visitor.notice is None
        board = await self._desk.read(views.board, self._snapshots, shown)
        repository = next((one for one in board["repositories"] if key and one["key"] == key), None)
        response = self._render(
            request, "board.html", page="board", board=board, repository=repository,
            before=before, watch=key or "*", waiting=len(board["waits"]) + len(board["requests"]),
        )  # fmt: skip
        if is_kept:
            self._boards[of_page] = shown, bytes(response.body)
            while len(self._boards) > _MAX_BOARDS:
                del self._boards[next(iter(self._boards))]
        return response

    async def _live(self, _request: Request) -> Response:
        return StreamingResponse(self.live.listen(), media_type="text/event-stream")

    async def _search(self, request: Request) -> Response:
        words = request.query_params.get("q", "")[:_MAX_WORDS_CHARS].strip()
        found = await self._desk.read(views.search, words, _MAX_RESULTS)
        return self._render(
            request, "search.html", page="search", words=words, most=_MAX_RESULTS, **found
        )

    async def _now(self, request: Request) -> Response:
        return await self._workflow(request, "now", views.now)

    async def _history(self, request: Request) -> Response:
        most = _number(request, "most") or views.HISTORY
        read = partial(views.history, most=min(most, views.MAX_HISTORY))
        return await self._workflow(request, "history", read)

    async def _briefing(self, request: Request) -> Response:
        return await self._workflow(request, "briefing", views.briefing)

    async def _moment(self, request: Request) -> Response:
        read = partial(views.moment, seq=_number(request, "seq"), number=_number(request, "n"))
        return await self._workflow(request, "moment", read, part="time travel")

    async def _compare(self, request: Request) -> Response:
        a, b = _number(request, "a"), _number(request, "b")
        if a is None or b is None:
            raise Refused("invalid", "compare: two events are needed", "give the numbers of two")
        return await self._workflow(
            request, "compare", partial(views.compare, a=a, b=b), part="history"
        )

    async def _workflow(
        self, request: Request, name: str, read: Callable[..., Fields], part: str = ""
    ) -> Response:
        """Return a page of one workflow, with the links to its other ones."""
        key, workflow = request.path_params["key"], request.path_params["workflow"]
        fields = await self._desk.read(read, key, workflow)
        tabs = [
            {"name": tab, "href": fields["card"]["href"] + end, "count": 0} for tab, end in _PARTS
        ]
        watch = "" if name in ("moment", "compare") else key
        return self._render(
            request, f"{name}.html", page="workflow", part=part or name, tabs=tabs, watch=watch,
            **fields,
        )  # fmt: skip

    # Doing

    async def _pair(self, request: Request) -> Response:
        return self._render(request, "pair.html", page="pair")

    async def _try_code(self, request: Request) -> Response:
        visitor: Visitor = request.scope["visitor"]
        if self._pairing.pair(visitor, request.scope["form"].get("code", "")):
            visitor.say("This browser is paired.", is_good=True)
            return RedirectResponse("/", 303)
        hint = "the terminal shows the code that is valid now"
        visitor.say("That is not the code.", hint, is_good=False)
        return RedirectResponse("/pair", 303)

    async def _do(self, request: Request) -> Response:
        """Carry out an action; then show the page that it was taken on."""
        params, form = request.path_params, request.scope["form"]
        visitor: Visitor = request.scope["visitor"]
        name = params["action"]
        actions.check(name, is_paired=visitor.is_paired, why_not=self._pairing.why_not)
        back = _own_path(form.pop("back", "")) or "/"
        try:
            done, notes = await self._desk.write(
                params["key"], actions.carry_out, name, params["workflow"], form
            )
        except HoldfastError as error:
            visitor.say(_sentence(error.message), error.hint, is_good=False)
        else:
            visitor.say(" ".join([done, *notes]), is_good=True)
        return RedirectResponse(back, 303)


def _is_seen(request: Request) -> bool:
    """Return whether a person gets to see the page: a live page takes over only its parts."""
    return request.headers.get("sec-fetch-dest", "document") == "document"


def _sentence(message: str) -> str:
    return message[:1].upper() + message[1:]


def _visible(value: object) -> object:
    """Return what a template is to show: text with nothing hidden in it."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _lines(text: str) -> Markup:
    """Return text of several lines for a page, with nothing hidden in any of them."""
    return Markup("\n").join(escape(clean(line)) for line in text.split("\n"))


def _short_age(now_ms: int, at: str) -> str:
    """Return an age such as ``5m`` or ``3d``."""
    then_ms = times.epoch_ms(at)
    if then_ms is None:
        return "?"
    seconds = max(0, now_ms - then_ms) // 1_000
    return next((f"{seconds // size}{unit}" for unit, size in _UNITS if seconds >= size), "now")


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _cursor(text: str) -> tuple[str, int] | None:
    """Return the place from which a page goes on; ``None`` if there is none."""
    at, _, seq = text.rpartition(" ")
    is_number = seq.isascii() and seq.isdigit() and len(seq) < 16
    return (at, int(seq)) if at and is_number else None


def _own_path(text: str) -> str:
    """Return a path of this server; empty if the text is anything else."""
    is_own = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if is_own else ""
