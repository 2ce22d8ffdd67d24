"""The loop of a server: one message after the other, in both eras, and never its end by a bad one.

What is served is an ``App``. Calls are short and answered in their order; only what takes long is
answered later, from a thread of its own, and can be cancelled meanwhile.
"""

from __future__ import annotations

from holdfast import __version__
from holdfast.mcp import messages
from holdfast.mcp.messages import Identified, Message, Wrong
from holdfast.mcp.stdio import ENDING, MAX_LINE, Pipe, TooLong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Json


_COLLECTED_AFTER = 10_000
"""Objects, so that what calls leave behind stays below a megabyte."""


class App:
    """What is served: tools and resources."""

    name = ""
    version = __version__
    instructions = ""
    is_subscribable = False

    def tools(self) -> list[Fields]:
        raise NotImplementedError

    def call(self, name: str, arguments: Fields, talk: Talk) -> Fields | None:
        """A tool's result; nothing where it is given to ``talk`` later."""
        raise NotImplementedError

    def resources(self) -> list[Fields]:
        raise NotImplementedError

    def templates(self) -> list[Fields]:
        return []

    def read(self, uri: str) -> list[Fields]:
        """The contents of a resource; ``Wrong`` where there is none."""
        raise NotImplementedError

    def cancel(self, id: Json) -> None:
        """Ends what was begun for this request, if it still runs."""

    def close(self) -> None:
        """Ends whatever still runs."""


class Talk:
    """One request, for whoever answers it."""

    def __init__(self, server: Server, request: Message) -> None:
        self._server = server
        self.request = request
        token = request.meta.get("progressToken")
        is_one = isinstance(token, (str, int)) and not isinstance(token, bool)
        self.progress_token: Json = token if is_one else None

    def answer(self, result: Fields) -> None:
        self._server.answer(self.request, result)

    def progress(self, done: float, said: str) -> None:
        if self.progress_token is not None:
            told = {"progressToken": self.progress_token, "progress": done, "message": said}
            self._server.tell("notifications/progress", told)

    def changed(self, uri: str) -> None:
        """Tells everybody who asked that a resource is another one now."""
        self._server.tell_subscribers(uri)


class Server:
    """One client's server, from its first line to its last."""

    def __init__(self, app: App, pipe: Pipe) -> None:
        self._app = app
        self._pipe = pipe
        self._subscribed: set[str] = set()
        self._listening: dict[Json, set[str]] = {}
        """Of the stateless era: the request that asked, and the resources that it asked for."""
        self._methods: dict[str, Callable[[Message], Fields | None]] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": lambda _: {},
            "tools/list": lambda _: {"tools": app.tools()},
            "tools/call": self._call,
            "resources/list": lambda _: {"resources": app.resources()},
            "resources/templates/list": lambda _: {"resourceTemplates": app.templates()},
            "resources/read": lambda request: {"contents": app.read(request.text("uri"))},
        }
        if app.is_subscribable:
            self._methods |= {
                "resources/subscribe": self._subscribe,
                "resources/unsubscribe": self._unsubscribe,
                "subscriptions/listen": self._listen,
            }

    def serve(self) -> None:
        try:
            for line in self._pipe.lines():
                self._take(line)
        finally:
            self._app.close()

    def _take(self, line: bytes | TooLong) -> None:
        try:
            message = _message_of(line)
        except Wrong as wrong:
            self._pipe.send(messages.error(getattr(wrong, "id", None), wrong))
            return
        if message is None:
            return
        if not message.has_id:
            self._notice(message)
            return
        try:
            result = self._result(message)
        except Wrong as wrong:
            self._pipe.send(messages.refusal(message, wrong))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is answered
            self._pipe.send(messages.error(message.id, _unexpected(error)))
        else:
            if result is not None:
                self.answer(message, result)

    def _result(self, request: Message) -> Fields | None:
        request.check()
        method = self._methods.get(request.method)
        if method is None:
            told = {"method": request.method[:80]}
            raise Wrong(messages.NO_METHOD, "Method not found", told)
        return method(request)

    def answer(self, request: Message, result: Fields) -> None:
        self._pipe.send(messages.answer(request, result, self._info()))

    def tell(self, method: str, params: Fields) -> None:
        self._pipe.send(messages.notification(method, params))

    def tell_subscribers(self, uri: str) -> None:
        updated = "notifications/resources/updated"
        if uri in self._subscribed:
            self.tell(updated, {"uri": uri})
        for number, uris in self._listening.items():
            if uri in uris:
                self.tell(updated, {"uri": uri, "_meta": {messages.SUBSCRIPTION_KEY: number}})

    # The methods

    def _info(self) -> Fields:
        return {"name": self._app.name, "version": self._app.version}

    def _offer(self) -> Fields:
        resources = {"subscribe": True} if self._app.is_subscribable else {}
        offer: Fields = {"capabilities": {"tools": {}, "resources": resources}}
        if self._app.instructions:
            offer["instructions"] = self._app.instructions
        return offer

    def _initialize(self, request: Message) -> Fields:
        asked = request.text("protocolVersion")
        version = asked if asked in messages.HANDSHAKE else messages.HANDSHAKE[-1]
        return {"protocolVersion": version, "serverInfo": self._info(), **self._offer()}

    def _discover(self, _request: Message) -> Fields:
        return {"supportedVersions": list(messages.VERSIONS), **self._offer()}

    def _call(self, request: Message) -> Fields | None:
        arguments = request.params.get("arguments", {})
        if not isinstance(arguments, dict):
            raise Wrong(messages.BAD_PARAMS, "tools/call: params.arguments must be an object")
        return self._app.call(request.text("name"), arguments, Talk(self, request))

    def _subscribe(self, request: Message) -> Fields:
        self._subscribed.add(request.text("uri"))
        return {}

    def _unsubscribe(self, request: Message) -> Fields:
        self._subscribed.discard(request.text("uri"))
        return {}

    def _listen(self, request: Message) -> None:
        wanted = request.params.get("notifications")
        asked = wanted.get("resourceSubscriptions") if isinstance(wanted, dict) else None
        uris = [uri for uri in asked if isinstance(uri, str)] if isinstance(asked, list) else []
        self._listening[request.id] = set(uris)
        honored = {"resourceSubscriptions": uris} if uris else {}
        meta = {messages.SUBSCRIPTION_KEY: request.id}
        told = {"notifications": honored, "_meta": meta}
        self.tell("notifications/subscriptions/acknowledged", told)

    def _notice(self, notice: Message) -> None:
        if notice.method == "notifications/cancelled":
            number = notice.params.get("requestId")
            if isinstance(number, (str, int)):
                self._listening.pop(number, None)
                self._app.cancel(number)


def _message_of(line: bytes | TooLong) -> Message | None:
    if isinstance(line, TooLong):
        why = f"Invalid request: a line of {line.length} bytes; at most {MAX_LINE} are read"
        raise Identified(messages.id_of(line.head, line.tail), messages.BAD_REQUEST, why)
    return messages.parsed(line) if line.strip() else None


def _unexpected(error: Exception) -> Wrong:
    from holdfast.answers.failure import failure_fields

    told = failure_fields(error)
    return Wrong(-32603, f"{told['message']}; {told['hint']}", told)


def serve(app: App) -> None:
    """Serves standard input and output until the client closes them, or ends us."""
    import gc

    # A command is over before there is anything to collect, a server is not; but a large answer is
    # no reason to look through all of it.
    gc.enable()
    gc.set_threshold(_COLLECTED_AFTER)
    _end_like_an_interrupt()
    try:
        with Pipe() as pipe:
            Server(app, pipe).serve()
    except KeyboardInterrupt:
        return


def _end_like_an_interrupt() -> None:
    """Lets whoever is asked to end do so in order: what it runs is ended, and recorded, first."""
    import signal

    def end(_signal: int, _frame: object) -> None:
        # Whoever asks twice must not stop what the first one began.
        for number in ENDING:
            signal.signal(number, lambda _signal, _frame: None)
        raise KeyboardInterrupt

    for number in ENDING:
        signal.signal(number, end)
