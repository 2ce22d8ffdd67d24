"""What the board shows of one repository, read again only after something there was written.

Whether something was, the file system says: nothing is opened for that. A look that found the
ledger's files and the records of the shown workflows as they were takes what was read before. What
time alone changes, such as a workflow that expires, is seen after ``_MAX_AGE_S``.
"""

from __future__ import annotations

import os
import threading
from time import monotonic

from holdfast.core.refusal import Refusal
from holdfast.errors import HoldfastError
from holdfast.hub import Sharing
from holdfast.initiatives import Initiatives
from holdfast.keeper.logs import FINAL, initiative_view
from holdfast.web import cards
from holdfast.web.event_words import event_row
from holdfast.workspace.location import person_path
from holdfast.workspace.trust import FILE as APPROVALS
from holdfast.workspace.trust import describe_gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper
    from holdfast.web.desk import Desk, ListedRepository

    Signs = dict[str, tuple[int, int, int] | None]

PAGE = 48
"""The number of active workflows on one page of a board, of one repository."""
_MAX_ENDED, _MAX_EVENTS, _MAX_ASKING = 8, 12, 20
_MAX_AGE_S = 60.0
_MAX_CARDS = 20_000
"""The number of workflows whose cards are kept; those of more are made again."""
_LEDGER_FILES = ("ledger.db", "ledger.db-wal", "hub.json")


class Snapshot:
    """A repository at one moment; ``fault`` says why it could not be read."""

    def __init__(self, repository: ListedRepository) -> None:
        self.key = repository.key
        self.name = repository.name
        self.root = repository.root
        self.seq = 0
        self.cards: list[Fields] = []
        self.asking: list[Fields] = []
        """Cards of workflows that have questions and are on a later page."""
        self.ended: list[Fields] = []
        self.events: list[Fields] = []
        self.initiatives: list[Fields] = []
        self.requests: list[Fields] = []
        """Commands that the repository asks to run, and that nobody has approved."""
        self.hub: Fields | None = None
        self.active = 0
        self.next: list[object] | None = None
        self.fault = ""
        self.records: Signs = {}
        """The records of the shown workflows, as they were before they were read."""


class Snapshots:
    """The newest snapshot of each repository."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._kept: dict[str, tuple[Signs, float, Snapshot]] = {}
        self._cards: dict[tuple[str, str], tuple[list[object], Fields]] = {}
        self._lock = threading.Lock()

    def of(self, repository: ListedRepository) -> Snapshot:
        """Return the repository as it is now."""
        kept = self._kept.get(repository.home)
        if kept is not None:
            signs, at, snapshot = kept
            if monotonic() - at < _MAX_AGE_S and self.signs(repository) == signs:
                return snapshot
        # What is written while it is read may not be seen, so the signs are those before.
        before = {path: _sign(path) for path in _ledger_files(repository)}
        snapshot = Snapshot(repository)
        try:
            self._fill(snapshot, repository)
        except (HoldfastError, OSError) as error:
            snapshot.fault = str(error)
        self._kept[repository.home] = before | snapshot.records, monotonic(), snapshot
        return snapshot

    def known(self, repository: ListedRepository) -> Snapshot | None:
        """Return the last snapshot of a repository, without another look at it."""
        kept = self._kept.get(repository.home)
        return None if kept is None else kept[2]

    def signs(self, repository: ListedRepository) -> Signs:
        """Return what the file system says of the files that a change would write."""
        kept = self._kept.get(repository.home)
        return {path: _sign(path) for path in (kept[0] if kept else _ledger_files(repository))}

    def page(self, repository: ListedRepository, before: tuple[str, int]) -> Snapshot:
        """Return a later page of a repository's active workflows, without anything else."""
        snapshot = Snapshot(repository)
        try:
            keeper = self._desk.keeper(repository)
            self._read_rows(snapshot, repository, keeper, before)
        except (HoldfastError, OSError) as error:
            snapshot.fault = str(error)
        return snapshot

    def _fill(self, snapshot: Snapshot, repository: ListedRepository) -> None:
        keeper = self._desk.keeper(repository)
        self._read_rows(snapshot, repository, keeper, None)
        for event in keeper.log(limit=_MAX_EVENTS)[::-1]:
            snapshot.events.append({**_place(repository), **event_row(event)})
        self._read_questions(snapshot, repository, keeper)
        hub = Sharing(keeper).status()
        snapshot.hub = hub if hub["hub"] is not None else None
        if keeper.has_initiatives():
            snapshot.initiatives = _initiatives(repository, keeper)
        snapshot.requests = _requests(repository, keeper, snapshot.cards)
        keeper.drain_notes()

    def _read_rows(
        self, snapshot: Snapshot, repository: ListedRepository, keeper: Keeper,
        before: tuple[str, int] | None,
    ) -> None:  # fmt: skip
        board = keeper.board(most=PAGE, before=before, most_ended=_MAX_ENDED)
        snapshot.seq, snapshot.active = board["seq"], board["active"]
        snapshot.next = board["next"]
        for row in board["rows"]:
            if row["path"] is not None:
                snapshot.records[row["path"]] = row["file"]
            card = self._card(repository, keeper, row)
            if card is None or not card["is_active"]:
                snapshot.active -= 1  # It has run out, or its record was removed.
                continue
            is_live = card["holder"] in board["live"]
            snapshot.cards.append({**card, **_place(repository), "is_live": is_live})
        mark_conflicts(keeper, snapshot.cards)
        names = ("id", "recipe", "title", "status", "updated_at")
        for row in board["ended"]:
            snapshot.ended.append({**_place(repository), **{name: row[name] for name in names}})

    def _read_questions(
        self, snapshot: Snapshot, repository: ListedRepository, keeper: Keeper
    ) -> None:
        shown = {card["id"] for card in snapshot.cards}
        asking = dict.fromkeys(question["workflow"] for question in keeper.open_questions())
        for name in [name for name in asking if name not in shown][:_MAX_ASKING]:
            state = keeper.peek(workflow=name)
            if not isinstance(state, Refusal):
                snapshot.asking.append({**cards.card(state), **_place(repository)})
        mark_conflicts(keeper, snapshot.asking)

    def _card(self, repository: ListedRepository, keeper: Keeper, row: Fields) -> Fields | None:
        """Return a workflow's card, the one from before if its state is the same."""
        key = repository.home, row["id"]
        kept = self._cards.get(key)
        if kept is not None and kept[0] == row["stamp"]:
            return kept[1]
        state = keeper.peek(workflow=row["id"])
        if isinstance(state, Refusal):
            return None
        card = cards.card(state)
        with self._lock:
            self._cards[key] = row["stamp"], card
            while len(self._cards) > _MAX_CARDS:
                del self._cards[next(iter(self._cards))]
        return card


def mark_conflicts(keeper: Keeper, shown: list[Fields]) -> None:
    """Mark each conflict on these cards with ``can_take``: not every one can be carried out."""
    marked = [card for card in shown if any(wait["kind"] == "conflict" for wait in card["waits"])]
    if not marked:
        return
    takeable = {one["id"] for one in Sharing(keeper).conflicts() if one["can_take"]}
    for card in marked:
        card["waits"] = [_with_can_take(wait, takeable) for wait in card["waits"]]


def _with_can_take(wait: Fields, takeable: set[str]) -> Fields:
    if wait["kind"] != "conflict":
        return wait
    can_take = wait["conflict"] in takeable
    text = wait["text"] if can_take else f"{wait['text']} (can only be dropped)"
    return {**wait, "can_take": can_take, "text": text}


def _requests(repository: ListedRepository, keeper: Keeper, shown: list[Fields]) -> list[Fields]:
    """Return the commands that wait for a person's approval, those of the shown workflows only."""
    asking = [card["id"] for card in shown if card["asks_to_run"]]
    if not (asking or keeper.workspace.has_settings()):
        return []
    requests, _ = keeper.untrusted_commands(asking)
    return [
        {**_place(repository), "gate": describe_gate(one.gate), "command": one.command,
         "source": one.source}
        for one in requests
        if not one.approved
    ]  # fmt: skip


def _place(repository: ListedRepository) -> Fields:
    return {"repository": repository.key, "repository_name": repository.name}


def _ledger_files(repository: ListedRepository) -> list[str]:
    """Return the paths of files one of which changes with everything but an edit of a record."""
    git = os.path.dirname(repository.home)
    return [
        repository.root,
        *[os.path.join(repository.home, name) for name in _LEDGER_FILES],
        os.path.join(git, "HEAD"),
        os.path.join(person_path(), APPROVALS),
    ]


def _sign(path: str) -> tuple[int, int, int] | None:
    try:
        stat = os.lstat(path)
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _initiatives(repository: ListedRepository, keeper: Keeper) -> list[Fields]:
    """Return the initiatives that are not over, the current one first."""
    state = Initiatives(keeper).all()
    keys = sorted(state["all"], key=lambda key: key != state["current"])
    open_ones = [key for key in keys if state["all"][key]["status"] not in FINAL]
    return [
        {**_place(repository), **_initiative(initiative_view(key, state["all"][key]))}
        for key in open_ones
    ]


def _initiative(view: Fields) -> Fields:
    milestones = [
        {
            "id": one["id"],
            "title": one["title"],
            "status": one["status"],
            "at": one.get("completed_at") or one.get("started_at") or "",
            "done": sum(bool(task["done"]) for task in one["tasks"]),
            "total": len(one["tasks"]),
            "is_current": one["id"] == view["current_milestone"],
        }
        for one in view["milestones"]
    ]
    names = ("name", "status", "completed", "total")
    reason = (view.get("reason") or "") if view["status"] == "blocked" else ""
    return {**{name: view[name] for name in names}, "reason": reason, "milestones": milestones}
