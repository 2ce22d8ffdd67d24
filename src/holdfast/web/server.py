"""The server: it listens at one address, and ends well by SIGINT and SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from contextlib import nullcontext

import uvicorn

from holdfast.errors import Fault
from holdfast.web.desk import Desk
from holdfast.web.pages import Pages
from holdfast.web.pairing import Pairing
from holdfast.web.security import Door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_BACKLOG = 128
_MAX_CONNECTIONS = 200
_GRACE_S = 2


class Site:
    """One server: where it listens, who is let in, and its end.

    ``show_code`` gets every code that pairs a browser; ``why_not_pair`` says why none is.
    """

    def __init__(
        self, host: str, port: int, folder: str, *, show_code: Callable[[str], None],
        why_not_pair: str, is_person: bool,
    ) -> None:  # fmt: skip
        self._socket = _listen(host, port)
        self.port = self._socket.getsockname()[1]
        self._host = f"[{host}]" if ":" in host else host
        names = ["127.0.0.1", "localhost", "[::1]"] if host in _LOOPBACK else [self._host]
        self._door = Door(names, self.port)
        self._desk = Desk(folder, is_person=is_person)
        self._pairing = Pairing(show_code, why_not_pair)

    def address(self, *, once: bool = False) -> str:
        """Return the address with a token in it, valid for one browser or for all."""
        token = self._door.ticket() if once else self._door.token
        return f"http://{self._host}:{self.port}/?token={token}"

    def serve(self, begin: Callable[[], None]) -> None:
        """Serve until SIGINT or SIGTERM; call ``begin`` once these end it well."""
        try:
            asyncio.run(self._serve(begin))
        finally:
            self._desk.close()

    async def _serve(self, begin: Callable[[], None]) -> None:
        pages = Pages(self._desk, self._door, self._pairing, lambda: time.time_ns() // 1_000_000)
        config = uvicorn.Config(
            pages.application(), log_config=None, access_log=False, server_header=False,
            lifespan="off", ws="none", http="h11", loop="asyncio", proxy_headers=False,
            limit_concurrency=_MAX_CONNECTIONS, timeout_graceful_shutdown=_GRACE_S,
        )  # fmt: skip
        server = uvicorn.Server(config)
        # Its own handlers would end the process by the signal once more.
        server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]

        def end() -> None:
            pages.live.close()
            server.should_exit = True

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end)
        begin()
        await server.serve(sockets=[self._socket])


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    return host in _LOOPBACK


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((host, port))
        server.listen(_BACKLOG)
    except OSError as error:
        server.close()
        why = f"web: nothing can listen at {host}:{port} ({error.strerror or error})"
        raise Fault("not_served", why, "holdfast web --port 0 takes a free one") from error
    return server
