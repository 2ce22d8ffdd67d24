"""``holdfast watch``: the workspace as it moves, for a person who looks on.

It only reads. Between two looks it asks the file system whether anything was written since, and
opens nothing when that is not so. Where nobody can look on, it tells once how things stand.
"""

from __future__ import annotations

import os
import sys

from holdfast.cli.screen import Screen
from holdfast.cli.watch_page import Fresh, page
from holdfast.core.time import iso
from holdfast.errors import HoldfastError, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.cli.shapes import Answer, Arguments
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper
    from holdfast.keeper.overview import Overview

EVENTS = 20
_BESIDE = ("lock", "-wal", "-shm", "-journal")
"""Ends of names in the ledger's folder that say nothing: a look of our own touches them."""


def watch(keeper: Keeper, args: Arguments) -> Answer:
    eye = Eye(keeper, args["workflow"])
    every_s = args["every"] or 1
    if args["once"] or not (args["json"] or _can_be_drawn_on()):
        return {"kind": "watch", "data": eye.look()}
    if args["json"]:
        return {"kind": "stream", "data": _told(eye, every_s)}
    return {"kind": "silence", "data": {}, "code": _drawn(eye, every_s)}


def _can_be_drawn_on() -> bool:
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


class Eye:
    """Looks at a workspace, again only when something in it was written."""

    def __init__(self, keeper: Keeper, workflow: str | None) -> None:
        self._keeper = keeper
        self._workflow = workflow
        self._signs: list[object] = []
        self._records: list[str] = []

    def look(self) -> Fields:
        """All that is shown."""
        before = self._seen()
        root = self._keeper.workspace.root
        if not os.path.isdir(root):
            self._signs = []
            raise Refused(
                "not_found", f"the folder {root} is gone", "run holdfast in a project's folder"
            )
        found = self._keeper.overview()
        if self._workflow is not None:
            self._only(found, self._workflow)
        told = self._keeper.watched(found, workflow=self._workflow, limit=EVENTS)
        self._records = [state["record"] for state in found.states.values()]
        after = self._seen()
        # What was written while we looked may not have been seen: then we look once more.
        self._signs = after if set(before) <= set(after) else []
        return {
            "place": _place(self._keeper),
            "seq": found.seq,
            "states": found.states,
            "unopened": found.unopened,
            "unsettled": found.unsettled,
            "mine": found.mine,
            "initiative": found.initiative,
            "damage": found.damage,
            **told,
        }

    def _only(self, found: Overview, workflow: str) -> None:
        state = found.states.get(workflow) or self._keeper.show(workflow=workflow).state
        found.states, found.unopened = {workflow: state}, 0

    def is_stale(self) -> bool:
        """Whether something was written since the last look."""
        return self._seen() != self._signs

    def _seen(self) -> list[object]:
        workspace = self._keeper.workspace
        signs: list[object] = [os.path.isdir(workspace.root)]
        try:
            with os.scandir(workspace.home) as entries:
                inner = [entry.path for entry in entries if not entry.name.endswith(_BESIDE)]
        except OSError:
            inner = []
        own = [os.path.join(workspace.root, path) for path in self._records]
        head = [] if workspace.git is None else [os.path.join(workspace.git, "HEAD")]
        for path in [*sorted(inner), *own, *head]:
            try:
                found = os.stat(path)
            except OSError:
                signs.append((path, None))
                continue
            signs.append((path, found.st_ino, found.st_size, found.st_mtime_ns))
        return signs


def _place(keeper: Keeper) -> str:
    branch = keeper.workspace.branch()
    name = os.path.basename(keeper.workspace.root) or keeper.workspace.root
    return f"{name} on {branch}" if branch else name


def _told(eye: Eye, every_s: float) -> Iterator[Fields]:
    """A view at once, and one more after every change, until somebody interrupts it."""
    import time

    from holdfast.answers.json import watch_view

    while True:
        yield {"ok": True, **watch_view(eye.look())}
        while not eye.is_stale():
            time.sleep(every_s)


def _drawn(eye: Eye, every_s: float) -> int:
    """Draws until a key or a signal ends it; gives the exit code."""
    import time

    from holdfast.system.terminal import Ended, Terminal

    picture = Picture(eye, lambda: time.time_ns() // 1_000_000, every_s)
    try:
        with Terminal(sys.stdout) as terminal:
            while True:
                size = terminal.size()
                terminal.draw(picture.lines(*size), size)
                if not terminal.wait(every_s):
                    return 0
    except Ended as ended:
        return ended.code


class Picture:
    """What the terminal should show now."""

    def __init__(self, eye: Eye, clock_ms: Callable[[], int], every_s: float) -> None:
        self._eye = eye
        self._clock_ms = clock_ms
        self._fresh = Fresh()
        self._keys = f"q quits{' ' * 4}a look every {every_s:g} s"
        # Whoever asks for a workflow that is not there is told before the screen changes.
        self._view = self._looked(eye.look())

    def lines(self, width: int, height: int) -> list[str]:
        if self._eye.is_stale():
            try:
                self._view = self._looked(self._eye.look())
            except (HoldfastError, OSError) as error:
                self._view = {**self._view, "damage": [str(error)]}
        now_ms = self._clock_ms()
        screen = Screen.of(sys.stdout)
        screen.width, screen.now = width, iso(now_ms)
        return page(screen, self._view, height, self._fresh.keys(now_ms))

    def _looked(self, view: Fields) -> Fields:
        self._fresh.see(view, self._clock_ms())
        return {**view, "keys": self._keys}
