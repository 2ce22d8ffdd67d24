"""A machine that shares its work: a clone of the project, with a ledger of its own."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from holdfast import Keeper, Sharing
from holdfast.core import sharing
from holdfast.formats import aggregate_of
from holdfast.storage.shared_events import SharedEvents

if TYPE_CHECKING:
    from pathlib import Path

WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")


class Machine:
    """A clone of the project, and its ledger."""

    def __init__(self, folder: Path, name: str, remote: Path | None = None) -> None:
        self.folder = folder
        self.name = name
        git("init", "-q", "-b", "main", str(folder))
        if remote is not None:
            git("-C", str(folder), "remote", "add", "origin", str(remote))
        git("-C", str(folder), *WHO, "commit", "-q", "--allow-empty", "-m", "begin")
        self.keeper = Keeper(str(folder))
        self.sharing = Sharing(self.keeper)

    def share(self) -> Machine:
        self.sharing.add(self.sharing.plan("git", "origin", self.name))
        return self

    def sync(self) -> Any:
        return self.sharing.sync()

    def digests(self) -> dict[str, str]:
        """Return the digest of each stream's shared state."""
        events = SharedEvents(self.keeper.store.ledger)
        streams = {name for name in self.keeper.store.ledger.stream_names() if name != "_ledger"}
        return {
            name: sharing.fold(aggregate_of(name), events.of_stream(name)).digest()
            for name in sorted(streams)
            if events.has(name)
        }

    def rows(self) -> dict[str, dict[str, Any]]:
        return {row["id"]: row for row in self.keeper.workflows(every=True)[0]}


def exchange_until_quiet(machines: list[Machine], most: int = 10) -> int:
    """Exchange until nobody has anything to send or to receive; return how many rounds it took."""
    for number in range(1, most + 1):
        done = [Sharing(Keeper(str(machine.folder))).sync(wait=True) for machine in machines]
        if not any(one.pulled or one.pushed for one in done):
            return number
    raise AssertionError("the machines do not come to rest")


def git(*words: str) -> None:
    subprocess.run(["git", *words], check=True, capture_output=True)
