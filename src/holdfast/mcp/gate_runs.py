"""Run gates while the server goes on: each in a thread, with its progress, until it ends.

A run that the client cancels, or whose client is gone, is ended with all its child processes and is
recorded as cancelled. So the ledger knows every run that began and could be ended.
"""

from __future__ import annotations

import threading
import time

from holdfast.answers.json import failed_run
from holdfast.core.briefing import quoted
from holdfast.mcp.tools import tool_failure, tool_result
from holdfast.mcp.workflow_tools import changed, target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Json
    from holdfast.keeper import Keeper
    from holdfast.mcp.server import RequestContext

PROGRESS_INTERVAL_S = 1.0
_KEPT_OUTPUT_BYTES = 400


class GateRuns:
    """All runs of one server."""

    def __init__(self) -> None:
        self._runs: list[_GateRun] = []

    def start(
        self, open_keeper: Callable[[], Keeper], arguments: Fields, context: RequestContext
    ) -> None:
        run = _GateRun(open_keeper, arguments, context)
        # A list, because a client may give two requests one id, and both have to be ended.
        self._runs = [other for other in self._runs if other.thread.is_alive()]
        self._runs.append(run)
        run.thread.start()

    def cancel(self, id: Json) -> None:
        for run in self._runs:
            if run.id == id:
                run.cancelled.set()

    def end(self) -> None:
        """Cancel all runs, and wait until each is recorded."""
        for run in self._runs:
            run.cancelled.set()
        for run in self._runs:
            run.thread.join()


class _GateRun:
    def __init__(
        self, open_keeper: Callable[[], Keeper], arguments: Fields, context: RequestContext
    ) -> None:
        self._open = open_keeper
        self._arguments = arguments
        self._context = context
        self.id = context.id
        self._started_s = time.monotonic()
        self._reported_s = -PROGRESS_INTERVAL_S
        self._output = b""
        self.cancelled = threading.Event()
        self.thread = threading.Thread(target=self._work)

    def _work(self) -> None:
        try:
            result = tool_result(self._run_gate())
        except Exception as error:  # noqa: BLE001 - every call is answered
            result = tool_failure(error, self._arguments)
        if not self.cancelled.is_set():
            self._context.answer(result)

    def _run_gate(self) -> Fields:
        name = self._arguments["gate"]
        receipt = self._open().run_gate(
            name,
            timeout=self._arguments.get("timeout"),
            echo=self._take_output,
            is_cancelled=self._is_cancelled,
            **target(self._arguments),
        )
        gate = {"name": name, **receipt.state["gates"][name]}
        fields = changed(receipt, gate=gate)
        if gate["passed"]:
            return fields
        error = failed_run(f"gate {name}", gate)
        return {**fields, "ok": False, "error": error}

    def _take_output(self, chunk: bytes) -> None:
        self._output = (self._output + chunk)[-_KEPT_OUTPUT_BYTES:]

    def _is_cancelled(self) -> bool:
        """Return True if the run has to end. It is polled, so progress is reported here too."""
        passed_s = time.monotonic() - self._started_s
        is_due = passed_s - self._reported_s >= PROGRESS_INTERVAL_S
        if is_due and not self.cancelled.is_set():
            self._reported_s = passed_s
            last_line = self._output.decode(errors="replace").rstrip().rpartition("\n")[2]
            self._context.report_progress(round(passed_s, 3), quoted(last_line, 120))
        return self.cancelled.is_set()
