"""``holdfast watch``: what happens in a workspace, drawn until a key or a signal ends it.

Looking only reads; keys change what a person decides, after a question. Between two looks it asks
the file system whether anything was written since, and opens nothing if not. Without a terminal to
draw on, it shows the workspace once. The parts are in ``cli/watching``.
"""

from __future__ import annotations

import os
import sys
import time

from holdfast import answers
from holdfast.cli.answer import Answer, Silence, StreamAnswer
from holdfast.cli.main import open_keeper
from holdfast.cli.parser import WORKFLOW, Parameter, Usage, command
from holdfast.cli.watching.frame import list_page
from holdfast.cli.watching.poller import OpenKeepers, Poller, Pollers
from holdfast.cli.watching.terminal import Terminal
from holdfast.cli.watching.viewer import Viewer
from holdfast.core.durations import duration_ms
from holdfast.core.next_step import current_task, next_fields
from holdfast.workspace.repositories import repositories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.cli.parser import Arguments
    from holdfast.core.types import Fields, Workflow
    from holdfast.keeper import Keeper
    from holdfast.workspace.location import Workspace


@command(
    "watch: see workflows move; keys approve, block and search, until q or Ctrl-C",
    WORKFLOW,
    Parameter("--all", "all of your repositories, not only this one"),
    Parameter("--every SECONDS", "how often to look (default 1)", kind="count"),
    Parameter("--once", "show it once and end, as without a terminal"),
    "holdfast watch",
    "holdfast watch --all",
    "holdfast watch dev-1f2e3d4c --every 5",
)
def watch(keeper: Keeper, args: Arguments) -> Answer:
    if args["all"] and args["workflow"] is not None:
        message = "`holdfast watch` takes either the workflow's ID or --all"
        raise Usage(message, "holdfast help watch")
    keepers = OpenKeepers(lambda root: open_keeper(args, root), keeper)
    clock_ms = keeper.store.now_ms
    pollers = Pollers(lambda: _list_pollers(keeper, keepers, args), clock_ms)
    every_s = args["every"] or 1
    if args["json"] and not args["once"]:
        return StreamAnswer(_poll_forever(pollers, args, clock_ms, every_s), lambda *_: "")
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    if args["once"] or not is_terminal or os.environ.get("TERM") == "dumb":
        views = pollers.first_views()
        return Answer(
            lambda: json_fields(views, args, clock_ms()),
            lambda screen: list_page(screen, views, None, changed=set()),
        )
    # A workflow that does not exist is refused here, before the screen changes.
    viewer = Viewer(pollers, keepers, clock_ms, is_everywhere=args["all"])
    terminal = Terminal(sys.stdout)
    try:
        with terminal:
            _run(viewer, terminal, every_s)
    except KeyboardInterrupt:
        return Silence(code=128 + terminal.ended_by)
    return Silence()


def _run(viewer: Viewer, terminal: Terminal, every_s: float) -> None:
    """Draw, and take keys, until one of these ends it."""

    def draw() -> None:
        terminal.draw(viewer.lines(*terminal.size()))

    draw()
    while True:
        for key in terminal.wait(every_s):
            was_asking = viewer.prompt
            if not viewer.press(key):
                return
            if viewer.prompt not in (None, was_asking):
                # What was typed before the question is no answer to it.
                terminal.forget_keys()
                break
        draw()
        if viewer.is_searching:
            viewer.search(draw)
            draw()


def _list_pollers(keeper: Keeper, keepers: OpenKeepers, args: Arguments) -> list[Poller]:
    """Return a poller for each repository that is watched; this one comes first."""
    own = keeper.workspace
    if not args["all"]:
        return [Poller(own, lambda: keeper, args["workflow"])]
    listed = [place for place in repositories() if place.home != own.home]
    if own.has_ledger() and not own.has_foreign_ledger():
        listed.insert(0, own)
    return [_poller(place, keepers) for place in listed]


def _poller(workspace: Workspace, keepers: OpenKeepers) -> Poller:
    return Poller(workspace, lambda: keepers.keeper(workspace.root))


def _poll_forever(
    pollers: Pollers, args: Arguments, clock_ms: Callable[[], int], every_s: float
) -> Iterator[Fields]:
    """Yield the views at once, and again after every change."""
    views = pollers.first_views()
    while True:
        yield {"ok": True, **json_fields(views, args, clock_ms())}
        while not pollers.is_stale():
            time.sleep(every_s)
        views = pollers.views()


def json_fields(views: list[Fields], args: Arguments, now_ms: int) -> Fields:
    """Return the JSON answer: the view, or with ``--all`` one of each repository."""
    shown = [answers.watched(view, _progress(view, now_ms)) for view in views]
    if not args["all"]:
        return shown[0]
    places = [{"folder": view["root"], "name": view["name"]} for view in views]
    return {"repositories": [{**a, **b} for a, b in zip(places, shown, strict=True)]}


def _progress(view: Fields, now_ms: int) -> list[Fields]:
    """Return of each workflow what is next, and how long its phases and its task have taken."""
    return [
        {"workflow": name, "next": next_fields(view["steps"][name]), **_durations(state, now_ms)}
        for name, state in view["states"].items()
    ]


def _durations(state: Workflow, now_ms: int) -> Fields:
    task = current_task(state)
    return {
        "phases": [
            {"name": phase["name"], "duration_ms": duration_ms(state, phase, now_ms)}
            for phase in state["phases"]
        ],
        "task": None
        if task is None
        else {"id": task["id"], "duration_ms": duration_ms(state, task, now_ms)},
    }
