"""Serve one client: read requests, dispatch them to an application, send the responses.

Requests are answered in their order. A call that takes long is answered later, from a thread of its
own, and can be cancelled meanwhile. No message ends the server, however bad it is.
"""

from __future__ import annotations

import gc
import os
import sys

from holdfast import __version__
from holdfast.answers import failure_fields
from holdfast.mcp import messages
from holdfast.mcp.messages import Message, ProtocolError
from holdfast.mcp.stdio import MAX_LINE_BYTES, Pipe, TooLong, raise_on_end_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.types import Fields, Json

_COLLECT_AFTER_OBJECTS = 2_000
"""Keeps the garbage of calls below a megabyte."""
_MAX_SUBSCRIPTIONS = 1_000
_MAX_URI = 2_000


class App:
    """An application: tools and resources for a server to serve."""

    name = ""
    instructions = ""
    is_subscribable = False
    tools: Sequence[Fields] = ()
    templates: Sequence[Fields] = ()
    """Address templates: not every resource is listed."""

    def call(self, name: str, arguments: Fields, context: RequestContext) -> Fields | None:
        """Return a tool's result; ``None`` if it will be given to ``context`` later."""
        raise NotImplementedError

    def resources(self) -> list[Fields]:
        raise NotImplementedError

    def read(self, uri: str) -> list[Fields]:
        """Return the contents of a resource; raise ``ProtocolError`` if there is none."""
        raise NotImplementedError

    def cancel(self, id: Json) -> None:
        """End what runs for this request."""

    def do_due_work(self) -> float | None:
        """Do what was put off and is due; return the seconds until more is due, ``None`` for never.

        It is called before the server waits for a request.
        """
        return None

    def close(self) -> None:
        """End everything that runs."""


class RequestContext:
    """One request, for the application that answers it."""

    def __init__(self, server: Server, request: Message) -> None:
        self._server = server
        self._request = request
        self.id = request.id
        token = request.meta.get("progressToken")
        is_valid = isinstance(token, (str, int)) and not isinstance(token, bool)
        self._progress_token: Json = token if is_valid else None

    def answer(self, result: Fields) -> None:
        self._server.answer(self._request, result)

    def report_progress(self, done: float, message: str) -> None:
        """Tell the client how far a long call is, if it asked for that."""
        if self._progress_token is not None:
            params = {"progressToken": self._progress_token, "progress": done, "message": message}
            self._server.notify("notifications/progress", params)

    def report_change(self, uri: str) -> None:
        """Tell the client that a resource changed, if it subscribed to it."""
        self._server.notify_subscribers(uri)


class Server:
    """The server of one client, from its first line to its last."""

    def __init__(self, app: App, pipe: Pipe) -> None:
        self._app = app
        self._pipe = pipe
        self._subscribed: set[str] = set()
        self._listening: dict[Json, set[str]] = {}
        """Resources by subscription id, for clients of the stateless era."""
        self._methods: dict[str, Callable[[Message], Fields | None]] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": lambda _: {},
            "tools/list": lambda _: {"tools": app.tools},
            "tools/call": self._call,
            "resources/list": lambda _: {"resources": app.resources()},
            "resources/templates/list": lambda _: {"resourceTemplates": app.templates},
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
            for line in self._pipe.lines(self._do_due_work):
                self._handle(line)
        finally:
            self._app.close()

    def _do_due_work(self) -> float | None:
        try:
            return self._app.do_due_work()
        except Exception as error:  # noqa: BLE001 - nothing ends the server
            sys.stderr.write(f"holdfast mcp: {failure_fields(error)['message']}\n")
            return None

    def _handle(self, line: bytes | TooLong) -> None:
        request: Message | None = None
        try:
            request = _parse(line)
            result = None if request is None else self._dispatch(request)
        except ProtocolError as error:
            self._pipe.send(messages.error_response(error, request))
        except Exception as error:  # noqa: BLE001 - every request is answered
            fields = failure_fields(error)
            message = f"{fields['message']}; {fields['hint']}"
            bug = ProtocolError(messages.INTERNAL, message, fields)
            self._pipe.send(messages.error_response(bug, request))
        else:
            if request is not None and result is not None:
                self.answer(request, result)

    def _dispatch(self, request: Message) -> Fields | None:
        """Return the result of a request; ``None`` for a notification, or if it comes later."""
        if not request.has_id:
            cancelled = request.params.get("requestId")
            if request.method == "notifications/cancelled" and isinstance(cancelled, (str, int)):
                self._listening.pop(cancelled, None)
                self._app.cancel(cancelled)
            return None
        request.check_version()
        method = self._methods.get(request.method)
        if method is None:
            data = {"method": request.method[:80]}
            raise ProtocolError(messages.NO_METHOD, "Method not found", data)
        return method(request)

    def answer(self, request: Message, result: Fields) -> None:
        self._pipe.send(messages.response(request, result, self._info()))

    def notify(self, method: str, params: Fields) -> None:
        self._pipe.send({"jsonrpc": "2.0", "method": method, "params": params})

    def notify_subscribers(self, uri: str) -> None:
        method = "notifications/resources/updated"
        if uri in self._subscribed:
            self.notify(method, {"uri": uri})
        for request_id, uris in self._listening.items():
            if uri in uris:
                self.notify(method, {"uri": uri, "_meta": {messages.SUBSCRIPTION_KEY: request_id}})

    # Methods

    def _info(self) -> Fields:
        return {"name": self._app.name, "version": __version__}

    def _capabilities(self) -> Fields:
        resources = {"subscribe": True} if self._app.is_subscribable else {}
        fields: Fields = {"capabilities": {"tools": {}, "resources": resources}}
        if self._app.instructions:
            fields["instructions"] = self._app.instructions
        return fields

    def _initialize(self, request: Message) -> Fields:
        requested = request.text("protocolVersion")
        version = requested if requested in messages.HANDSHAKE else messages.HANDSHAKE[-1]
        return {"protocolVersion": version, "serverInfo": self._info(), **self._capabilities()}

    def _discover(self, _request: Message) -> Fields:
        return {"supportedVersions": list(messages.VERSIONS), **self._capabilities()}

    def _call(self, request: Message) -> Fields | None:
        arguments = request.params.get("arguments", {})
        if not isinstance(arguments, dict):
            message = "tools/call: params.arguments must be an object"
            raise ProtocolError(messages.BAD_PARAMS, message)
        return self._app.call(request.text("name"), arguments, RequestContext(self, request))

    def _subscribe(self, request: Message) -> Fields:
        uri = request.text("uri")
        self._check_room(len(self._subscribed | {uri}), [uri])
        self._subscribed.add(uri)
        return {}

    def _unsubscribe(self, request: Message) -> Fields:
        self._subscribed.discard(request.text("uri"))
        return {}

    def _check_room(self, number: int, uris: list[str]) -> None:
        """Raise ``ProtocolError`` if a client subscribes to more than can be remembered."""
        if number > _MAX_SUBSCRIPTIONS or any(len(uri) > _MAX_URI for uri in uris):
            message = (
                f"at most {_MAX_SUBSCRIPTIONS} subscriptions are kept, to addresses of at most "
                f"{_MAX_URI} characters"
            )
            raise ProtocolError(messages.BAD_PARAMS, message)

    def _listen(self, request: Message) -> None:
        filters = request.params.get("notifications")
        uris = filters.get("resourceSubscriptions") if isinstance(filters, dict) else None
        uris = [uri for uri in uris if isinstance(uri, str)] if isinstance(uris, list) else []
        others = [listed for key, listed in self._listening.items() if key != request.id]
        self._check_room(len(others) + sum(map(len, others)) + 1 + len(uris), uris)
        self._listening[request.id] = set(uris)
        accepted = {"resourceSubscriptions": uris} if uris else {}
        meta = {messages.SUBSCRIPTION_KEY: request.id}
        params = {"notifications": accepted, "_meta": meta}
        self.notify("notifications/subscriptions/acknowledged", params)


def _parse(line: bytes | TooLong) -> Message | None:
    if isinstance(line, TooLong):
        raise ProtocolError(
            messages.BAD_REQUEST,
            f"Invalid request: a line of {line.length} bytes; at most {MAX_LINE_BYTES} are read",
            id=messages.find_id(line.head, line.tail),
        )
    return messages.parse(line) if line.strip() else None


def serve(app: App) -> None:
    """Serve standard input and output until the client closes them or ends the process."""
    # A command ends before there is garbage to collect; a server lives on. But collecting must not
    # walk through every large answer.
    gc.enable()
    gc.set_threshold(_COLLECT_AFTER_OBJECTS)
    raise_on_end_signals()
    try:
        with Pipe() as pipe:
            Server(app, pipe).serve()
    except KeyboardInterrupt:
        return


def project_folder() -> str:
    """Return the client's project folder: it may start its servers somewhere else."""
    folder = os.environ.get("CLAUDE_PROJECT_DIR", "")
    return folder if os.path.isdir(folder) else "."
