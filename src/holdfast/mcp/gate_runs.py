"""Run a gate in a thread while the server goes on, and report its progress until it ends.

A run that the client cancels, or whose client is gone, is ended with all its child processes and is
recorded as cancelled. So the ledger knows every run that began and could be ended.
"""

from __future__ import annotations

import time
from threading import Event, Thread

from holdfast.answers import failed_run
from holdfast.core.briefing import quoted
from holdfast.mcp.tools import tool_failure, tool_result
from holdfast.mcp.workflow_tools import changed, target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper
    from holdfast.mcp.server import RequestContext

PROGRESS_INTERVAL_S = 1.0
_KEPT_OUTPUT_BYTES = 400


class GateRun(Thread):
    """One run. ``cancelled`` ends it."""

    def __init__(
        self, open_keeper: Callable[[], Keeper], arguments: Fields, context: RequestContext
    ) -> None:
        super().__init__()
        self._open = open_keeper
        self._arguments = arguments
        self._context = context
        self.id = context.id
        self._started_s = time.monotonic()
        self._reported_s = -PROGRESS_INTERVAL_S
        self._output = b""
        self.cancelled = Event()

    def run(self) -> None:
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
