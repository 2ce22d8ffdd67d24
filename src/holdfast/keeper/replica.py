"""This ledger as one replica among others: its name, and the shared events that it makes.

A ledger is a replica as soon as it has a hub. What it carries out on shared work from then on is
stored with a shared event, in the same transaction; sending it is ``hub/exchange.py``. A stream is
shared from its first change on, beginning with its state before that.

A copied folder must not go on under the name of the original: both would make events of the same
number. So the name is valid only in the folder and on the machine in which it was made.
"""

from __future__ import annotations

import os

from holdfast.core import json_text, sharing
from holdfast.core.json_text import dumps
from holdfast.storage.ledger import HUB, REPLICA
from holdfast.storage.shared_events import PUBLISHED, SharedEvents
from holdfast.system import kernel
from holdfast.workspace import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.core.types import Cause, Change, Draft, Fields, SharedEvent
    from holdfast.formats import Aggregate
    from holdfast.keeper.store import Store

_MASK = "[redacted]"
_GIVEN_ID = 24
"""The length of the ids that Holdfast makes. Others may be used on several machines."""


def settings_of(store: Store) -> Fields | None:
    """Return the settings of the hub; ``None`` if there is none."""
    text = store.ledger.fact(HUB)
    return json_text.loads(text) if text else None


class Replica:
    """One replica, in a transaction."""

    def __init__(self, store: Store, hub: Fields) -> None:
        self._store = store
        self.hub = hub
        self.events = SharedEvents(store.ledger)
        self.id = id_of(store)
        self.name: str = hub["name"]
        self._known_patterns: list[str] | None = None
        self._redacted: dict[str, str] = {}
        """By a text of this machine: the text that travels."""

    def begin(self) -> None:
        """Make sure of this replica's id. A new ledger, and a copy of one, get one of their own."""
        if not self.id:
            self.renew()

    def renew(self) -> str:
        """Take a new id, and return it."""
        self.id = new_id()
        known = {"id": self.id, "place": _place(self._store)}
        self._store.ledger.put_fact(REPLICA, dumps(known))
        return self.id

    def stamp(self, stream: str, cause: Cause) -> SharedEvent:
        """Return the next shared event of this replica."""
        lamport, seen = self.events.clock()
        n = seen.get(self.id, 0) + 1
        event: SharedEvent = {
            "replica": self.id, "n": n, "lamport": lamport + 1, "seen": seen,
            "rules": sharing.RULES, "stream": stream, "cause": cause,
        }  # fmt: skip
        if self.hub.get("fences"):
            epoch = self._epoch(stream)
            if epoch:
                event["epoch"] = epoch
        return event

    def _epoch(self, stream: str) -> int:
        """Return the epoch of the hub's lease under which this session works; 0 without one."""
        session = self._store.by.get("session")
        query = "SELECT epoch FROM leases WHERE stream = ? AND holder = ? AND is_hub = 1"
        row = self._store.ledger.database.row(query, (stream, session))
        return row[0] if row is not None else 0

    def cause(self, request: str, kind: str, args: Fields, at: str) -> Cause:
        """Return a cause under the id of its request."""
        is_own = len(request.partition(".")[0]) == _GIVEN_ID
        by = {"name": self.name, "surface": self._store.by["surface"]}
        return {
            "id": request if is_own else f"{request}@{self.id}",
            "at": at, "type": kind, "args": self._without_secrets(args), "by": by,
        }  # fmt: skip

    def travelling(
        self, aggregate: Aggregate, before: Any, stream: str, command: tuple[str, Fields],
        drafts: list[Draft], at: str,
    ) -> tuple[str, Fields] | None:  # fmt: skip
        """Return what travels of a command on a stream; ``None`` if it concerns only us."""

        def after() -> Any:
            state = before
            for draft in drafts:
                event: Any = {**draft, "at": at, "stream": stream}
                state = aggregate.evolve(state, event)
            return state

        output = bool(self.hub.get("output"))
        return sharing.cause_of(*command, drafts, before, after, output=output)

    def published(
        self, stream: str, state: Any, changes: list[Change] | None, at: str
    ) -> tuple[list[Draft], SharedEvent]:
        """Return the event that shares a stream as it stands, or ``changes`` of it."""
        request = os.urandom(12).hex()
        if changes is None:
            output = bool(self.hub.get("output"))
            state = sharing.shared_state(state, output=output)
            cause = self.cause(request, sharing.OPEN, {"state": state}, at)
        else:
            args = {"event": "changed_apart", "changes": changes}
            cause = self.cause(request, sharing.CHANGE, args, at)
        drafts: list[Draft] = [{"type": PUBLISHED, "data": {}}]
        return drafts, self.stamp(stream, cause)

    def changes(self, before: Any, after: Any) -> list[Change]:
        """Return the changes of the shared part of a state."""
        output = bool(self.hub.get("output"))
        was = sharing.shared_state(before, output=output)
        return sharing.changes_between(was, sharing.shared_state(after, output=output))

    def in_full(self, shared: Any, local: Any) -> Any:
        """Return a shared state with the texts of which only a part travelled from here."""
        if not self._has_secrets(local):
            return shared
        return sharing.in_full(shared, local, self._redacting(local))

    def _without_secrets(self, args: Fields) -> Fields:
        """Return arguments without this machine's folders, and without what the settings redact."""
        if not self._has_secrets(args):
            return args
        redacted: Fields = sharing.with_texts(args, self._redacting(args))
        return redacted

    def _has_secrets(self, value: Any) -> bool:
        """Return whether a value may have something that does not travel."""
        if self._patterns():
            return True
        text = dumps(value)
        return any(dumps(folder)[1:-1] in text for folder in self._folders())

    def _folders(self) -> tuple[str, str]:
        return self._store.workspace.root, os.path.expanduser("~")

    def _patterns(self) -> list[str]:
        """Return what the settings redact: those of the last exchange, and those of now."""
        if self._known_patterns is None:
            known = self.hub.get("redact", [])
            now = settings.load(self._store.workspace.root).hub_redact
            self._known_patterns = list(dict.fromkeys([*known, *now]))
        return self._known_patterns

    def _redacting(self, value: Any) -> Callable[[str], str]:
        """Return the function that redacts the texts of a value."""
        texts: dict[str, str] = {}
        sharing.with_texts(value, lambda text: texts.setdefault(text, text))
        fresh = [text for text in texts if text not in self._redacted]
        redacted = [self._without_folders(text) for text in fresh]
        if fresh and self._patterns():
            from holdfast.evidence.masking import replace_matches

            redacted = replace_matches(redacted, self._patterns(), _MASK, "hub.redact")
        self._redacted.update(zip(fresh, redacted, strict=True))
        return self._redacted.__getitem__

    def _without_folders(self, text: str) -> str:
        import re

        root, home = map(re.escape, self._folders())
        text = re.sub(rf"{root}/(?=[^\s'\"])", "", text)
        text = re.sub(rf"{root}(?![\w.-])", ".", text)
        return re.sub(rf"{home}(?![\w.-])", "~", text) if home != "/" else text


def new_id() -> str:
    """Return an id for a replica."""
    return os.urandom(6).hex()


def id_of(store: Store) -> str:
    """Return this replica's id; empty if it has none yet, or a copied ledger has another's."""
    text = store.ledger.fact(REPLICA)
    known: Fields = json_text.loads(text) if text else {}
    return str(known["id"]) if known and known["place"] == _place(store) else ""


def _place(store: Store) -> list[object]:
    """Return what is different in each copy of the ledger: the folder's inode, and the machine."""
    return [kernel.machine_id(), os.stat(store.workspace.home).st_ino]
