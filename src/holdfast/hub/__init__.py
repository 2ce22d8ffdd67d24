"""The hub: where the replicas of a ledger meet, so that work travels to other machines.

A *replica* is one ledger. A *hub* keeps the shared events of all replicas and gives them to each
other: over a git remote (``git.py``), or PostgreSQL (``postgres.py``). ``contract.py`` is what
every hub does. ``exchange.py`` pulls, merges and pushes. How shared events of several replicas make
one state, and what becomes a conflict, is in ``core/sharing.py``.

The local ledger comes first: no change and no look ever waits for a hub.
"""

from __future__ import annotations

import os

from holdfast.core import sharing
from holdfast.core.json_text import dumps
from holdfast.core.refusal import shell_word
from holdfast.core.selection import join_names
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.hub import exchange
from holdfast.hub.contract import GIT, KINDS, LATER, POSTGRES
from holdfast.keeper.replica import id_of, settings_of
from holdfast.storage import ACTIVE, POOL
from holdfast.storage.ledger import HUB
from holdfast.storage.shared_events import SharedEvents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Json
    from holdfast.hub.contract import Hub
    from holdfast.hub.exchange import Exchanged, Progress
    from holdfast.keeper import Keeper
    from holdfast.keeper.store import Store

__all__ = ["Publication", "Sharing"]

_LOCK = "hub.lock"
_STATE = "hub.json"
"""The file beside the ledger with how the last exchange ended."""
_MAX_STATE_BYTES = 10_000
_WAIT_S = 60.0
_MAX_NAME_CHARACTERS = 100


class Publication:
    """What ``add`` would publish, and where."""

    def __init__(self, settings: Fields, workflows: list[Fields], logs: list[str]) -> None:
        self.settings = settings
        self.workflows = workflows
        """The rows of the active workflows."""
        self.logs = logs
        """The kinds of the logs that have entries."""
        self.address: str = settings["where"]
        """Where it leads, such as the address of a git remote."""
        self.is_public: bool | None = None
        """Whether everybody can read it there; ``None`` if that cannot be found out."""

    @property
    def where(self) -> str:
        kind, where = self.settings["kind"], self.settings["where"]
        return f"{kind} {where}" + (f" ({self.address})" if self.address != where else "")

    @property
    def is_doubtful(self) -> bool:
        """Whether a reader should think twice: not only their own people may read it."""
        return self.is_public is not False

    def listed(self) -> list[str]:
        """Return a line for each workflow, and for each log."""
        rows = [f"{row['id']} ({row['title'] or row['subject']})" for row in self.workflows]
        return [*rows, *[f"the log of kind {kind}" for kind in self.logs]]

    def fields(self) -> Fields:
        """Return the plan as answers show it."""
        hub = {key: self.settings[key] for key in ("kind", "where", "name", "fences")}
        workflows = [row["id"] for row in self.workflows]
        return {"hub": hub, "public": self.is_public, "workflows": workflows, "logs": self.logs}


class Sharing:
    """The hub of a keeper's repository."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._session = keeper.session
        self._store = keeper.store

    # The hub

    def plan(self, kind: str, where: str = "", name: str = "") -> Publication:
        """Return what a hub would get; raise if there is a hub, or this one cannot be reached."""
        store = self._store
        known = settings_of(store)
        if known is not None:
            raise Refused(
                "exists",
                f"hub add: this repository has a hub: {known['kind']} {known['where']}",
                "holdfast hub remove",
            )
        if kind not in KINDS:
            raise Refused(
                "invalid",
                f"hub add: there are hubs of kind {' and '.join(KINDS)}, not {kind[:40]!r}",
                "holdfast hub add git origin",
            )
        settings: Fields = {"kind": kind, "where": where or _DEFAULTS[kind], "name": name}
        settings["name"] = name or os.uname().nodename[:_MAX_NAME_CHARACTERS] or "here"
        _check_name(settings["name"])
        hub = open_hub(store, settings)
        try:
            settings |= {"where": hub.where, "fences": hub.is_fencing, "cursor": ""}
            hub.reach()
            plan = self._plan(settings)
            plan.address = hub.address
            plan.is_public = hub.is_public()
        except Fault as fault:
            if LATER not in fault.message:
                raise
            again = f"holdfast hub add {kind} {shell_word(hub.where)}"
            why = fault.message.replace(LATER, "nothing is shared yet")
            raise Fault(fault.code, why, again) from None
        finally:
            hub.close()
        return plan

    def _plan(self, settings: Fields) -> Publication:
        store = self._store
        rows = store.ledger.rows(f"{ACTIVE} ORDER BY created_at, stream")
        shown = [name for name in exchange.to_publish(self._session) if name.startswith("_")]
        return Publication({**settings, **_rules(store)}, rows, [name[1:] for name in shown])

    def add(self, plan: Publication, progress: Progress | None = None) -> Exchanged:
        """Use a hub from now on: share what is active, and exchange once."""
        with self._session.transaction() as tx:
            tx.put_fact(HUB, dumps(plan.settings))
            exchange.publish_all(tx, exchange.to_publish(self._session))
            tx.commit(is_asked=True)
        return self.sync(progress=progress)

    def remove(self) -> Fields:
        """Use no hub any more; return its settings. What was shared stays there and here."""
        settings = self._settings("hub remove")
        with self._session.transaction() as tx:
            tx.put_fact(HUB, "")
            tx.commit(is_asked=True)
        return settings

    def status(self) -> Fields:
        """Return the hub, the replicas, what waits to be sent, and how the last exchange ended."""
        store = self._store
        settings = settings_of(store)
        if settings is None:
            return {"hub": None, "replicas": [], "unsent": 0, "conflicts": 0, "held": []}
        events = SharedEvents(store.ledger)
        state = self._state()
        known: Fields = state.get("known", {})
        replicas = events.replicas()
        own = id_of(store)
        unsent = sum(max(0, row["n"] - known.get(row["replica"], 0)) for row in replicas)
        return {
            "hub": {key: settings[key] for key in ("kind", "where", "name", "fences")},
            "replicas": [{**row, "own": row["replica"] == own} for row in replicas],
            "unsent": unsent,
            "conflicts": events.count_conflicts(),
            "held": exchange.held_streams(store),
            "last": {key: value for key, value in state.items() if key != "known"},
        }

    def sync(self, *, wait: bool = False, progress: Progress | None = None) -> Exchanged:
        """Exchange with the hub now; ``wait`` for another exchange that is at work.

        Raise ``Refused`` if there is no hub, ``Fault`` if it cannot be reached or another exchange
        is at work.
        """
        self._settings("hub sync")
        store = self._store
        try:
            lock = store.disk.lock(self._path(_LOCK), _WAIT_S if wait else 0.0)
        except Fault as fault:
            if fault.code != "busy":
                raise
            message = "hub sync: another exchange is at work"
            raise Fault("busy", message, "holdfast hub sync --wait") from None
        try:
            done = self.noted(lambda: self._sync(progress))
        finally:
            store.disk.close(lock)
        done.conflicts = SharedEvents(store.ledger).count_conflicts()
        return done

    def _sync(self, progress: Progress | None) -> Exchanged:
        self._renew_rules()
        hub = open_hub(self._store, self._settings("hub sync"))
        try:
            return self._exchange(hub, progress)
        finally:
            hub.close()

    def noted(self, run: Callable[[], Exchanged]) -> Exchanged:
        """Run an exchange, and keep for ``status`` how it ended."""
        store = self._store
        try:
            done = run()
        except HoldfastError as error:
            self._note_state({"failed": error.message, "at": store.now()}, keep=True)
            raise
        self._note_state({"at": store.now(), "known": SharedEvents(store.ledger).known()})
        return done

    def _exchange(self, hub: Hub, progress: Progress | None) -> Exchanged:
        """Exchange; if the pool is used here, settle who holds what as well."""
        if not self._store.ledger.fact(POOL):
            return exchange.exchange(self._session, hub, progress)
        from holdfast.hub.pool import Pool

        return Pool(self._keeper).exchange(hub, progress)

    def _renew_rules(self) -> None:
        """Store what the settings say of output and of texts that must not travel."""
        settings, rules = self._settings("hub sync"), _rules(self._store)
        if any(settings.get(name) != value for name, value in rules.items()):
            with self._session.transaction() as tx:
                tx.put_fact(HUB, dumps({**settings, **rules}))
                tx.commit()

    def _settings(self, tried: str) -> Fields:
        settings = settings_of(self._store)
        if settings is None:
            raise Refused("no_hub", f"{tried}: there is no hub", "holdfast hub add git origin")
        return settings

    # Conflicts

    def conflicts(self) -> list[Fields]:
        """Return ``id``, ``workflow``, ``command``, ``why``, ``from`` and ``at`` of each.

        ``can_take`` is whether it can be taken now; it can always be dropped.
        """
        return exchange.conflicts(self._session)

    def take(self, conflict: str) -> Fields:
        """Carry out after all what a conflict is about; return the conflict."""
        return exchange.settle(self._session, self._named(conflict), sharing.TAKE, None)

    def drop(self, conflict: str, reason: str) -> Fields:
        """Let go of what a conflict is about; return the conflict."""
        if not reason.strip():
            raise Refused(
                "invalid", "conflicts drop: a reason is missing",
                f"holdfast conflicts drop {conflict} --reason TEXT",
            )  # fmt: skip
        return exchange.settle(self._session, self._named(conflict), sharing.DROP, reason)

    def _named(self, conflict: str) -> str:
        """Return the whole id of the conflict with this id, or with the only one that begins so."""
        ids = [str(one["id"]) for one in self.conflicts()]
        found = [own_id for own_id in ids if own_id.startswith(conflict)]
        if conflict not in ids and len(found) > 1:
            why = f"conflicts: {len(found)} ids begin with {conflict!r}: {join_names(found)}"
            raise Refused("ambiguous", why, "holdfast conflicts")
        return found[0] if len(found) == 1 else conflict

    # How the last exchange ended

    def _path(self, name: str) -> str:
        return os.path.join(self._store.workspace.home, name)

    def _state(self) -> Fields:
        from holdfast.core import json_text

        raw = self._store.disk.read_own(self._path(_STATE), _MAX_STATE_BYTES)
        try:
            state: Json = json_text.loads(raw or b"{}")
        except json_text.BadJson:
            return {}
        return state if isinstance(state, dict) else {}

    def _note_state(self, state: Fields, *, keep: bool = False) -> None:
        before = self._state() if keep else {}
        self._store.disk.replace_view(self._path(_STATE), dumps({**before, **state}).encode())


def _check_name(name: str) -> None:
    """Refuse a name that others could not read on a line."""
    if not name.strip() or not name.isprintable() or len(name) > _MAX_NAME_CHARACTERS:
        raise Refused(
            "invalid",
            f"hub add: a name has 1 to {_MAX_NAME_CHARACTERS} printable characters,"
            f" not {name[:40]!r}",
            "holdfast hub add git --name laptop",
        )


_DEFAULTS = {GIT: "origin", POSTGRES: ""}


def open_hub(store: Store, settings: Fields) -> Hub:
    """Return the hub of these settings; nothing is connected yet."""
    if settings["kind"] == POSTGRES:
        from holdfast.hub.postgres import Postgres

        return Postgres(settings["where"])
    from holdfast.hub.git import GitRemote

    return GitRemote(store.workspace, settings["where"], id_of(store), disk=store.disk)


def _rules(store: Store) -> Fields:
    """Return what the settings say of output, and of texts that must not travel."""
    from holdfast.workspace import settings

    loaded = settings.load(store.workspace.root)
    known = settings_of(store) or {}
    if loaded.hub_redact and loaded.hub_redact != known.get("redact"):
        from holdfast.evidence.masking import check_patterns

        check_patterns(loaded.hub_redact, "hub.redact")
    return {"output": loaded.hub_output, "redact": loaded.hub_redact}
