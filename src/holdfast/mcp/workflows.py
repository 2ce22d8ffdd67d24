"""``holdfast mcp``: the workflows of one workspace, for any agent.

Each tool call is one command of the keeper, and resources show a workflow, its briefing and its
events. Only the ledger stays open between calls: other servers, hooks and commands work on the same
workspace meanwhile, so everything else is looked up for each call.

A gate runs in a thread while the server goes on. A run that the client cancels, or whose client is
gone, is ended with all its child processes and is recorded as cancelled. So the ledger knows every
run that began and could be ended.
"""

from __future__ import annotations

import time

from holdfast.answers import with_notes, workflow_view
from holdfast.core import json_text
from holdfast.core.briefing import quoted, quoted_note
from holdfast.core.next_step import step_of_hint
from holdfast.core.visible import clean, clean_json
from holdfast.errors import HoldfastError, Refused
from holdfast.mcp import workflow_tools
from holdfast.mcp.messages import (
    BAD_PARAMS,
    NO_RESOURCE,
    ProtocolError,
    tool_failure,
    tool_result,
)
from holdfast.mcp.server import App

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.next_step import NextStep
    from holdfast.core.types import Fields, Json
    from holdfast.keeper import Keeper
    from holdfast.mcp.server import RequestContext

INSTRUCTIONS = (
    "Holdfast keeps the state of your work, so that it survives a compaction or the end of a "
    "session. Resume at the beginning; report tasks, phases and gates as you go."
)
_URI = "holdfast://workflow/"
_JSON, _TEXT = "application/json", "text/plain"
_RESOURCES = {
    "": (_JSON, "the whole workflow"),
    "/briefing": (_TEXT, "what a session that goes on must know"),
    "/log": (_JSON, "its events, oldest first"),
}
"""Type and description of a resource, by the suffix of its address."""
PROGRESS_INTERVAL_S = 1.0
_KEPT_OUTPUT_BYTES = 400
_MAX_LISTED = 50
"""The number of workflows that are listed; the others have addresses too."""
TEMPLATES: tuple[Fields, ...] = tuple(
    {
        "uriTemplate": f"{_URI}{{id}}{end}",
        "name": f"workflow{end.replace('/', '-')}",
        "description": about,
        "mimeType": mime,
    }
    for end, (mime, about) in _RESOURCES.items()
)


class WorkflowApp(App):
    """The tools and resources of one workspace."""

    name = "holdfast"
    instructions = INSTRUCTIONS
    tools = workflow_tools.TOOLS
    templates = TEMPLATES

    def __init__(self, open_keeper: Callable[[Keeper | None], Keeper]) -> None:
        self._open_sharing = open_keeper
        self._keeper: Keeper | None = None
        self._runs: list[Run] = []
        """A list, because a client may give two requests one id, and both have to be ended."""

    def _open(self) -> Keeper:
        """Open the workspace as it is now, with the ledger that is open already."""
        self._keeper = self._open_sharing(self._keeper)
        return self._keeper

    def call(self, name: str, arguments: Fields, context: RequestContext) -> Fields | None:
        tool = workflow_tools.CALLS.get(name)
        if tool is None:
            data = {"tools": list(workflow_tools.CALLS)}
            raise ProtocolError(BAD_PARAMS, f"Unknown tool: {clean(name[:80])}", data)
        try:
            workflow_tools.check_arguments(name, arguments)
        except Refused as error:
            return tool_failure(error, arguments)
        try:
            if workflow_tools.is_run(name, arguments):
                # A run has a thread of its own, so it needs a ledger of its own.
                run = Run(lambda: self._open_sharing(None), name, arguments, context)
                self._runs = [*[other for other in self._runs if other.thread.is_alive()], run]
                return None
            keeper = self._open()
            fields = tool(keeper, arguments)
            new_answers = keeper.new_answers()
            if new_answers is not None:
                new_answers.seen()
                notes = [*fields.get("notes", ()), *map(quoted_note, new_answers.notes)]
                fields = with_notes(fields, notes)
            return tool_result(fields)
        except Exception as error:  # noqa: BLE001 - every call is answered
            return _failure(error, self._open, name, arguments)

    def cancel(self, id: Json) -> None:
        for run in self._runs:
            if run.id == id:
                run.is_cancelled = True

    def close(self) -> None:
        """Cancel all runs, and wait until each is recorded."""
        for run in self._runs:
            run.is_cancelled = True
        for run in self._runs:
            run.thread.join()

    def resources(self) -> list[Fields]:
        """List the resources of the active workflows, the one that changed last first."""
        rows, _ = self._open().workflows()
        return [
            {
                "uri": f"{_URI}{row['id']}{end}",
                "name": f"{row['id']}{end.replace('/', '-')}",
                "title": quoted(row["title"]) + end.replace("/", " · "),
                "mimeType": mime,
            }
            for row in rows[:_MAX_LISTED]
            for end, (mime, _) in _RESOURCES.items()
        ]

    def read(self, uri: str) -> list[Fields]:
        name, slash, subpath = uri.removeprefix(_URI).partition("/")
        end = slash + subpath
        if not uri.startswith(_URI) or not name or end not in _RESOURCES:
            raise _no_resource(uri, "there is no such address; see resources/templates/list")
        try:
            keeper = self._open()
            if end == "/briefing":
                text = keeper.briefing(workflow=name)
            elif end == "/log":
                text = clean_json(json_text.dumps(keeper.log(workflow=name)))
            else:
                receipt = keeper.show(workflow=name)
                view = workflow_view(receipt.state, receipt.record)
                text = clean_json(json_text.dumps(view))
        except Refused as refused:
            raise _no_resource(uri, refused.message) from None
        return [{"uri": uri, "mimeType": _RESOURCES[end][0], "text": text}]


def _no_resource(uri: str, why: str) -> ProtocolError:
    return ProtocolError(NO_RESOURCE, f"Resource not found: {why}", {"uri": uri[:200]})


def _failure(
    error: Exception, open_keeper: Callable[[], Keeper], tool: str, arguments: Fields
) -> Fields:
    """Return the result of a call that failed, with the next step after a refusal."""

    def find_step(fields: Fields) -> NextStep | None:
        try:
            return workflow_tools.step_after_refusal(open_keeper(), fields, tool, arguments)
        except (HoldfastError, OSError):
            # The refusal is the answer, whatever can be read after it.
            return step_of_hint(fields["hint"])

    return tool_failure(error, arguments, find_step if isinstance(error, Refused) else None)


class Run:
    """A command that runs in a thread of its own. Set ``is_cancelled`` to end it."""

    def __init__(
        self,
        open_keeper: Callable[[], Keeper],
        tool: str,
        arguments: Fields,
        context: RequestContext,
    ) -> None:
        from threading import Thread  # most servers never run a gate

        self._open = open_keeper
        self._tool = tool
        self._arguments = arguments
        self._context = context
        self.id = context.id
        self._started_s = time.monotonic()
        self._reported_s = -PROGRESS_INTERVAL_S
        self._output = b""
        self.is_cancelled = False
        self.thread = Thread(target=self._answer)
        self.thread.start()

    def _answer(self) -> None:
        try:
            result = tool_result(self._run())
        except Exception as error:  # noqa: BLE001 - every call is answered
            result = _failure(error, self._open, self._tool, self._arguments)
        if not self.is_cancelled:
            self._context.answer(result)

    def _run(self) -> Fields:
        options: Fields = {
            "timeout": self._arguments.get("timeout"),
            "echo": self._take_output,
            "is_cancelled": self._report_progress,
            **workflow_tools.target(self._arguments),
        }
        if self._arguments["action"] != "run":
            return workflow_tools.take_step(self._open(), self._arguments["action"], options)
        return workflow_tools.run_gate(self._open(), self._arguments["gate"], options)

    def _take_output(self, chunk: bytes) -> None:
        self._output = (self._output + chunk)[-_KEPT_OUTPUT_BYTES:]

    def _report_progress(self) -> bool:
        """Report progress if it is due; return True if the run has to end."""
        passed_s = time.monotonic() - self._started_s
        is_due = passed_s - self._reported_s >= PROGRESS_INTERVAL_S
        if is_due and not self.is_cancelled:
            self._reported_s = passed_s
            last_line = self._output.decode(errors="replace").rstrip().rpartition("\n")[2]
            self._context.report_progress(round(passed_s, 3), quoted(last_line, 120))
        return self.is_cancelled
