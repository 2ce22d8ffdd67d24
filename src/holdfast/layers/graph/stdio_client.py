"""A client of a Memory server that is a process: MCP over its pipes, one JSON value a line.

It needs nothing but the standard library, so a plain installation can deliver to such a server. It
calls tools one after another. What else the server sends is answered as far as it has to be.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from contextlib import suppress

from holdfast.core import json_text
from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from holdfast.core.types import Fields
    from holdfast.workspace.trust import ConfiguredServer

_VERSION = "2025-06-18"
_INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""What a server gets of the environment, besides what its settings name."""
_MAX_ANSWER_BYTES = 64 * 1024 * 1024
_CHUNK_BYTES = 1 << 16
_GRACE_S = 2.0
"""The time that a server has to end after its input was closed."""
_NO_METHOD = -32601


class Unreachable(Exception):
    """The server failed; the message has the reason."""


class ToolResult:
    """What a tool answered: its value if the server sent one, its text, and whether it failed."""

    __slots__ = ("is_error", "text", "value")

    def __init__(self, value: Fields | None, text: str, *, is_error: bool) -> None:
        self.value = value
        self.text = text
        self.is_error = is_error


class StdioClient:
    """A started server: ``with StdioClient(server, folder, limit_s) as client``.

    Methods raise ``Unreachable`` if it fails, or if ``limit_s`` seconds have passed since the
    start.
    """

    def __init__(self, server: ConfiguredServer, folder: str, limit_s: float) -> None:
        self._limit_s = limit_s
        self._deadline = time.monotonic() + limit_s
        self._requests = 0
        self._unread = bytearray()
        environment = {key: os.environ[key] for key in _INHERITED if key in os.environ}
        try:
            self._process = subprocess.Popen(  # noqa: S603 - a person has approved it
                [server.command, *server.args],
                cwd=folder,
                env={**environment, **server.environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise Unreachable(f"{type(error).__name__}: {error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)

    def __enter__(self) -> Self:
        try:
            info = {"name": "holdfast", "version": "1"}
            hello = {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": info}
            self._request("initialize", hello)
            self._send({"method": "notifications/initialized"})
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def call(self, tool: str, arguments: Fields) -> ToolResult:
        """Call a tool."""
        result = self._request("tools/call", {"name": tool, "arguments": arguments})
        parts = result.get("content")
        texts = [
            part["text"]
            for part in (parts if isinstance(parts, list) else [])
            if isinstance(part, dict) and isinstance(part.get("text"), str)
        ]
        value = result.get("structuredContent")
        return ToolResult(
            value if isinstance(value, dict) else None,
            "".join(texts[:1]),
            is_error=result.get("isError") is True,
        )

    def _request(self, method: str, params: Fields) -> Fields:
        self._requests += 1
        self._send({"id": self._requests, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" in message:
                self._answer(message)
            elif message.get("id") == self._requests:
                error = message.get("error")
                if isinstance(error, dict):
                    raise Unreachable(f"it refused {method}: {error.get('message')}")
                result = message.get("result")
                return result if isinstance(result, dict) else {}

    def _answer(self, request: Fields) -> None:
        """Answer what the server asks: it may ping, and this client can do nothing else."""
        if "id" not in request:
            return
        if request["method"] == "ping":
            self._send({"id": request["id"], "result": {}})
        else:
            error = {"code": _NO_METHOD, "message": "this client does not have it"}
            self._send({"id": request["id"], "error": error})

    def _send(self, message: Fields) -> None:
        data = memoryview(f"{json_text.dumps({'jsonrpc': '2.0', **message})}\n".encode())
        while data:
            self._wait(select.POLLOUT, self._in)
            try:
                data = data[os.write(self._in, data) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._has_ended() from error

    def _receive(self) -> Fields:
        """Return the next message; skip lines that are none."""
        while True:
            line, newline, rest = self._unread.partition(b"\n")
            if newline:
                self._unread = rest
                with suppress(json_text.BadJson):
                    message: Any = json_text.loads(bytes(line))
                    if isinstance(message, dict):
                        return message
                continue
            self._wait(select.POLLIN, self._out)
            data = os.read(self._out, _CHUNK_BYTES)
            if not data:
                raise self._has_ended()
            self._unread += data
            if len(self._unread) > _MAX_ANSWER_BYTES:
                raise Unreachable(f"its answer has more than {_MAX_ANSWER_BYTES:,} bytes")

    def _wait(self, event: int, fd: int) -> None:
        poll = select.poll()
        poll.register(fd, event)
        if not poll.poll(max(0.0, self._deadline - time.monotonic()) * 1_000):
            raise Unreachable(f"it did not answer within {self._limit_s:g} s")

    def _has_ended(self) -> Unreachable:
        try:
            code = self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            return Unreachable("it closed its pipes")
        return Unreachable(f"it ended with exit code {code}")

    def _end(self) -> None:
        """Close the server's pipes, and end what has not ended soon after that."""
        process = self._process
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        # The server leads a session: programs that it started end with it.
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def graph_of(result: ToolResult) -> Fields:
    """Return the value of an answer; an older server sends it as text only.

    Raise ``Unreachable`` if it is not one.
    """
    try:
        value = json_text.loads(result.text.encode()) if result.value is None else result.value
        return {key: value[key] for key in ("entities", "relations")}
    except (json_text.BadJson, LookupError, TypeError, HoldfastError) as error:
        raise Unreachable("it answered with what is no graph") from error
