"""The repositories that the pages show, and the threads in which their keepers work.

A keeper belongs to one thread. Several threads read, each with the keepers that it used last, so a
slow look does not hold up the others. One thread makes all changes. It never closes a ledger that
it has written: the last writer to close one would move its journal while others may be writing.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

from holdfast.core.json_text import digest
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.keeper import Keeper
from holdfast.workspace import repositories
from holdfast.workspace.location import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Concatenate, ParamSpec, TypeVar

    from holdfast.workspace.location import Workspace

    P = ParamSpec("P")
    T = TypeVar("T")

_READERS = 4
_MAX_OPEN = 12
"""The number of ledgers that one reading thread keeps open."""
_LIST_AGE_S = 5.0
"""The time after which the list of repositories is read again."""
_KEY_CHARS = 8


class ListedRepository:
    """One repository: its key in addresses, its name for people, and where it is."""

    __slots__ = ("home", "key", "name", "project", "root")

    def __init__(self, workspace: Workspace, name: str) -> None:
        self.root = workspace.root
        self.project = workspace.project
        self.home = workspace.home
        self.name = name
        self.key = digest(os.fsencode(self.home))[:_KEY_CHARS]


class Desk:
    """Opens keepers of this person's repositories, and runs functions with them."""

    def __init__(
        self, folder: str, *, is_person: bool, clock_ms: Callable[[], int] | None = None
    ) -> None:
        self._folder = folder
        self._clock_ms = clock_ms
        self._is_person = is_person
        self._listed: dict[str, ListedRepository] = {}
        self._roots: dict[str, str] = {}
        """The folders of all repositories that were ever listed: those that are gone are named."""
        self._listed_at: float | None = None
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="read")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="write")
        self._local = threading.local()
        self._written: dict[str, Keeper] = {}

    def list(self) -> list[ListedRepository]:
        """Return the repositories, in the order of their paths. Ask in a thread: it reads files."""
        now = monotonic()
        if self._listed_at is None or now - self._listed_at > _LIST_AGE_S:
            known = repositories.repositories()
            here = self._here()
            if here is not None and here.home not in [workspace.home for workspace in known]:
                known.insert(0, here)
            names = repositories.short_names(workspace.project for workspace in known)
            listed = [ListedRepository(one, names[one.project]) for one in known]
            self._listed = {repository.key: repository for repository in listed}
            self._roots |= {repository.key: repository.root for repository in listed}
            self._listed_at = now
        return list(self._listed.values())

    def _here(self) -> Workspace | None:
        """Return the workspace that the server was started in, if it has a ledger."""
        try:
            workspace = find(self._folder)
        except (HoldfastError, OSError):
            return None
        is_own = workspace.has_ledger() and not workspace.has_foreign_ledger()
        return workspace if is_own else None

    def find(self, key: str) -> ListedRepository:
        """Return the repository with this key; raise ``Refused`` if there is none."""
        if key not in self._listed:
            self._listed_at = None
            self.list()
        if key not in self._listed:
            root = self._roots.get(key)
            what = (
                f"there is no repository {key[:40]!r}"
                if root is None
                else f"the folder {root} is gone"
            )
            raise Refused("not_found", what, "go back to the board")
        return self._listed[key]

    async def read(
        self, function: Callable[Concatenate[Desk, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a function that only reads, in one of the threads for that."""
        return await self._run(self._readers, function, *args, **kwargs)

    async def write(
        self, key: str, function: Callable[Concatenate[Keeper, P], T], *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:  # fmt: skip
        """Run a function that changes something in a repository, after all others that do."""

        def change(desk: Desk) -> T:
            repository = desk.find(key)
            keeper = desk._open(repository, desk._written.get(repository.home))
            desk._written[repository.home] = keeper
            return function(keeper, *args, **kwargs)

        return await self._run(self._writer, change)

    async def _run(
        self, threads: ThreadPoolExecutor, function: Callable[..., T], *args: Any, **kwargs: Any
    ) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(threads, lambda: function(self, *args, **kwargs))

    def keeper(self, repository: ListedRepository) -> Keeper:
        """Return a keeper for looking at a repository, for this thread alone."""
        opened: dict[str, Keeper] = self._local.__dict__.setdefault("opened", {})
        keeper = self._open(repository, opened.pop(repository.home, None))
        opened[repository.home] = keeper  # The one that was used last is the last one.
        while len(opened) > _MAX_OPEN:
            del opened[next(iter(opened))]
        return keeper

    def _open(self, repository: ListedRepository, before: Keeper | None) -> Keeper:
        if not os.path.isdir(repository.root):
            message = f"the folder {repository.root} is gone"
            raise Fault("storage", message, "bring it back, or open another repository")
        return Keeper(
            repository.root, by="web", share=before, is_person=self._is_person,
            clock_ms=self._clock_ms,
        )  # fmt: skip

    def close(self) -> None:
        """Wait for the change that is being made, and take no more of them."""
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._writer.shutdown(wait=True, cancel_futures=True)
