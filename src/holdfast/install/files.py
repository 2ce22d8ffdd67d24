"""The settings files of clients: where one is, what stands in it, and another text in its place.

Other programs write these files too, and know nothing of our lock. So a file is exchanged, never
overwritten: what stood there at that instant is seen, and counts.
"""

from __future__ import annotations

import os

from holdfast import jsontext
from holdfast.errors import Fault, Refused
from holdfast.install.agents import TEAM, USER
from holdfast.settings import BadSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.disk import Disk
    from holdfast.install.agents import Agent
    from holdfast.install.journal import Entry
    from holdfast.workspace import Workspace

    Prepare = Callable[[bytes | None], bytes | None]
    """From what stands there to what shall stand there; ``None`` is no file."""

BOM = "\ufeff"
_TURNS = 8


class Place:
    """A settings file of a client. ``shown`` is what people know it by."""

    def __init__(self, agent: Agent, scope: str, workspace: Workspace) -> None:
        file = agent.files[scope]
        self.agent = agent
        self.scope = scope
        self.root = None if scope == USER else workspace.root
        self.path = os.path.join(self.root or agent.own_folder(), file)
        self.shown = self.path if scope == USER else file
        self.key = self.path if scope == USER else os.path.join(workspace.name, file)
        """Its name in the journal: all worktrees share one."""

    def target(self) -> str:
        """The file itself, behind links; refused where none can be, or not one of the project's."""
        target = os.path.realpath(self.path)
        if self.root is not None:
            top = os.path.realpath(self.root)
            if os.path.commonpath((top, target)) != top:
                raise Refused(
                    "outside",
                    f"{self.shown} leads out of the workspace {self.root}",
                    "replace the link by a file of its own, or set it up for yourself: "
                    f"holdfast init --agent {self.agent.name} --user",
                )
        if os.path.islink(self.path) and not os.path.exists(self.path):
            raise BadSettings(self.shown, "file", "is a link to nothing")
        if os.path.exists(target) and not os.path.isfile(target):
            raise BadSettings(self.shown, "file", "is not a file")
        folder = os.path.dirname(target)
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise BadSettings(self.shown, "file", f"{folder} is not a folder")
        return target

    def text_of(self, raw: bytes) -> tuple[str, str]:
        """The byte order mark, if there is one, and the text; refused if it is not JSON."""
        if not raw.removeprefix(BOM.encode()).strip():
            return "", "{}\n"
        try:
            jsontext.loads(raw, strict=True)
        except jsontext.BadJson as bad:
            why = f"is not JSON: {bad.why}{_also(bad.why)}"
            raise BadSettings(self.shown, f"line {bad.line}", why) from None
        text = raw.decode()
        return (BOM, text[1:]) if text.startswith(BOM) else ("", text)


def _also(why: str) -> str:
    """For those whose editor lets them: what a parser means by a missing name or value."""
    usual = why.startswith(("expecting", "illegal trailing"))
    return " (comments and trailing commas are not JSON)" if usual else ""


def place_of(agent: Agent, scope: str, workspace: Workspace) -> Place:
    if scope not in agent.files:
        raise Refused(
            "invalid",
            f"{agent.name} has no settings file of the {scope} kind",
            f"holdfast init --agent {agent.name}" + ("" if scope == TEAM else " --user"),
        )
    return Place(agent, scope, workspace)


def settle(disk: Disk, path: str, before: bytes | None, prepare: Prepare) -> None:
    """Puts what ``prepare`` makes of a file in its place, whoever else writes it meanwhile."""
    expected, after = before, prepare(before)
    for turn in range(_TURNS):
        if after == expected:
            _drop_spares(disk, path)
            return
        stood = _put(disk, path, after, _spare(path, turn), is_new=expected is None)
        if stood == expected:
            _drop_spares(disk, path)
            disk.sync_folder(os.path.dirname(path))
            return
        # Somebody saved it since it was read: theirs is the file to begin from.
        expected, after = after, prepare(stood)
    raise Fault("busy", f"{path} is being written all the time", "run the command again", path=path)


def _put(disk: Disk, path: str, data: bytes | None, spare: str, *, is_new: bool) -> bytes | None:
    """Puts it there, and gives back what stood there; that is kept in the spare."""
    if data is None:
        try:
            disk.move(path, spare)
        except FileNotFoundError:
            return None
        return disk.read(spare)
    disk.make_folder(os.path.dirname(path))
    disk.create(spare, data, 0o666 if is_new else 0o600, durable=True)
    disk.match(spare, path)
    return disk.replace(path, spare, is_new=is_new, durable=True)


def _spare(path: str, turn: int) -> str:
    """A name beside the file; git's exclude file has its pattern."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.holdfast-{turn}")


def _drop_spares(disk: Disk, path: str) -> None:
    for turn in range(_TURNS):
        disk.remove(_spare(path, turn))


def clear_spares(disk: Disk, path: str, entry: Entry | None) -> list[str]:
    """Sees to what a killed run left beside the file; gives the names of what had to be kept.

    It holds a text of ours, or what stood there before. What nobody knows was saved by somebody in
    the instant before the run died: it stays, under a name of its own.
    """
    kept = []
    for turn in range(_TURNS):
        spare = _spare(path, turn)
        found = disk.read(spare)
        if not found or (entry is not None and entry.knows(found)) or found == disk.read(path):
            disk.remove(spare)
        else:
            kept.append(f"{path}.found-{turn}")
            disk.move(spare, kept[-1])
    return kept
