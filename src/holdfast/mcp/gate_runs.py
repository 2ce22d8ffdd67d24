"""Gates that run while the server goes on: each in a thread, with its progress, until it is ended.

A run that is cancelled, by the client or because the client is gone, is ended with everything that
it started, and recorded as cancelled: the ledger knows of every run that began and could be ended.
"""

from __future__ import annotations

import threading
import time

from holdfast.answers.json import failed_run
from holdfast.core.briefing import quoted
from holdfast.mcp import workflows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Json
    from holdfast.keeper import Keeper
    from holdfast.mcp.server import Talk

EVERY_S = 1.0
_SEEN = 400


class Runs:
    """All runs of one server."""

    def __init__(self) -> None:
        self._running: list[_Run] = []

    def begin(self, open_keeper: Callable[[], Keeper], arguments: Fields, talk: Talk) -> None:
        run = _Run(open_keeper, arguments, talk)
        # A client may give two requests one id: both are known, and ended.
        self._running = [other for other in self._running if other.thread.is_alive()]
        self._running.append(run)
        run.thread.start()

    def cancel(self, id: Json) -> None:
        for run in self._running:
            if run.id == id:
                run.cancelled.set()

    def end(self) -> None:
        """Ends them all, and waits until each is recorded."""
        for run in self._running:
            run.cancelled.set()
        for run in self._running:
            run.thread.join()


class _Run:
    def __init__(self, open_keeper: Callable[[], Keeper], arguments: Fields, talk: Talk) -> None:
        self._open = open_keeper
        self._arguments = arguments
        self._talk = talk
        self.id = talk.request.id
        self._begun = time.monotonic()
        self._told = -EVERY_S
        self._seen = b""
        self.cancelled = threading.Event()
        self.thread = threading.Thread(target=self._work)

    def _work(self) -> None:
        try:
            result = workflows.told(self._gate())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is answered
            result = workflows.failed(error, self._arguments)
        if not self.cancelled.is_set():
            self._talk.answer(result)

    def _gate(self) -> Fields:
        given = self._arguments
        name = given["gate"]
        receipt = self._open().run_gate(
            name,
            timeout=given.get("timeout"),
            echo=self._hear,
            is_cancelled=self._is_cancelled,
            **workflows.aim(given),
        )
        gate = {"name": name, **receipt.state["gates"][name]}
        fields = workflows.changed(receipt, gate=gate)
        if gate["passed"]:
            return fields
        error = failed_run(f"gate {name}", gate)
        return {**fields, "ok": False, "error": error}

    def _hear(self, chunk: bytes) -> None:
        self._seen = (self._seen + chunk)[-_SEEN:]

    def _is_cancelled(self) -> bool:
        """Asked again and again while it runs; so the client hears of it at times."""
        passed_s = time.monotonic() - self._begun
        if passed_s - self._told >= EVERY_S and not self.cancelled.is_set():
            self._told = passed_s
            last = self._seen.decode(errors="replace").rstrip().rpartition("\n")[2]
            self._talk.progress(round(passed_s, 3), quoted(last, 120))
        return self.cancelled.is_set()
