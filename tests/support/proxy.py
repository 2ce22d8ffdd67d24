"""A way to a server that fails as networks do: it cuts, holds back, repeats, or never answers."""

from __future__ import annotations

import socket
import struct
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = 65_536
AT_ONCE = struct.pack("ii", 1, 0)
"""The linger of a socket whose closing is a reset: what was not delivered is lost."""


class Proxy:
    """Forwards connections from a port on loopback to a Unix socket."""

    def __init__(self, target: Path) -> None:
        self._target = str(target)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._gate = threading.Event()
        self._gate.set()
        self.requests: list[bytearray] = []
        """What each client has sent, connection by connection."""
        self.answered = 0
        """The number of bytes that servers have answered."""
        self.is_silent = False
        """True if connections are accepted, and nothing is forwarded."""
        self.cut_after_request_bytes: int | None = None
        self.cut_after_answer_bytes: int | None = None
        """The next connection to reach one of these is cut there; later ones are not."""
        threading.Thread(target=self._accept, daemon=True).start()

    def hold_answers(self) -> None:
        """Hold back what servers answer, until ``let_go``."""
        self._gate.clear()

    def let_go(self) -> None:
        self._gate.set()

    def deliver_again(self, request: bytes) -> bytes:
        """Send what a client had sent once more, on a connection of its own; return the answer."""
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(self._target)
            server.sendall(request)
            server.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: server.recv(BLOCK), b""))

    def close(self) -> None:
        self.let_go()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._open:
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            self._open += [client, server]
            request = bytearray()
            self.requests.append(request)
            if self.is_silent:
                continue
            try:
                server.connect(self._target)
            except OSError:
                client.close()
                continue
            for call in (self._forward, self._answer):
                threading.Thread(target=call, args=(client, server, request), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket, request: bytearray) -> None:
        try:
            while block := client.recv(BLOCK):
                limit = self.cut_after_request_bytes
                if limit is not None and len(request) + len(block) > limit:
                    self.cut_after_request_bytes = None
                    server.sendall(block[: limit - len(request)])
                    _cut(client, server)
                    return
                request += block
                if not self.is_silent:
                    server.sendall(block)
            server.shutdown(socket.SHUT_WR)
        except OSError:
            _cut(client, server)

    def _answer(self, client: socket.socket, server: socket.socket, _request: bytearray) -> None:
        sent = 0
        try:
            while block := server.recv(BLOCK):
                self._gate.wait()
                limit = self.cut_after_answer_bytes
                if limit is not None and sent + len(block) > limit:
                    self.cut_after_answer_bytes = None
                    client.sendall(block[: limit - sent])
                    _cut(client, server)
                    return
                sent += len(block)
                self.answered += len(block)
                client.sendall(block)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            _cut(client, server)


def _cut(*ends: socket.socket) -> None:
    for end in ends:
        try:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        end.close()
