"""Move the events of workflows that ended long ago into an archive.

The archive is written and put in place first. Then a new ledger without those events is made beside
the old one, the new ledger and its archives are read again as one chain, and the ledgers are
exchanged. A process that is killed leaves the old ledger or the new one. If it leaves an archive
beside the old one, that ledger still has all its events, and the next ``archive`` removes it.

The rows and the last states of the workflows stay in the ledger, so they are shown, resumed and
started again as before; only their history is read from the archive.
"""

from __future__ import annotations

import os

from holdfast.core import time as times
from holdfast.errors import Fault, Refused
from holdfast.keeper.audit import Chain
from holdfast.storage.archives import ENDING, Tally, write
from holdfast.storage.database import NAME
from holdfast.storage.ledger import ARCHIVED, OWN_STREAM, Ledger
from holdfast.workspace.location import names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.keeper.session import Session
    from holdfast.keeper.store import Store

_FOLDER = "archiving"
_NEW = "new.db"
_MAX_NAMES = 1_000


class Archived:
    """The result: the rows of the workflows, the archive's name, and its number of events."""

    def __init__(self, rows: list[Fields]) -> None:
        self.rows = rows
        self.name = ""
        self.events = 0


def moment(text: str, now_ms: int) -> str:
    """Return the time that a date or an age such as ``90d`` means; else raise ``Refused``."""
    seconds = times.duration_s(text)
    if seconds is not None and now_ms >= seconds * 1_000:
        return times.iso(now_ms - seconds * 1_000)
    day = f"{text}T00:00:00.000Z"
    if len(text) == len("2026-01-31") and times.epoch_ms(day) is not None:
        return day
    raise Refused(
        "invalid",
        f"archive: {text[:40]!r} is not a date",
        "write it like 2026-01-31 (its first moment in UTC), or as an age like 90d",
    )


def list_due(store: Store, before: str) -> list[Fields]:
    """Return the rows of the ended workflows whose last event is older than ``before``."""
    return store.ledger.ended_before(before)


def archive(session: Session, before: str) -> Archived:
    """Move the events of the workflows that ``list_due`` returns.

    Raise ``Fault`` if the ledger or an archive is damaged: nothing is moved then.
    """
    store = session.store
    if not store.ledger.exists():
        return Archived([])
    with session.transaction():
        pass  # Beginning one finishes what a killed writer left.
    ledger = store.ledger
    ledger.acquire()
    try:
        _remove_unlisted(store)
        done = Archived(list_due(store, before))
        if done.rows:
            _move(store, done)
    finally:
        ledger.release()
        _clear(store)
    return done


def _move(store: Store, done: Archived) -> None:
    ledger, disk = store.ledger, store.disk
    folder = _clear(store)
    disk.make_folder(folder, 0o700)
    for lost in ledger.check_archives(is_whole=True):
        raise _not_sound(f"{lost['archive']}: {lost['why']}")
    streams = {row["stream"] for row in done.rows}
    new = os.path.join(folder, _NEW)
    tally = write(new, ledger, streams, disk)
    done.events, done.name = tally.events, _free_name(store)
    _make_ledger(store, folder, streams, tally, done.name)
    if not os.path.isdir(ledger.archives_folder):
        disk.add_folder(ledger.archives_folder, 0o700)
        disk.sync_folder(store.workspace.home)
    disk.move(new, os.path.join(ledger.archives_folder, done.name))
    disk.sync_folder(ledger.archives_folder)
    ledger.database.exchange(os.path.join(folder, NAME))


def _make_ledger(store: Store, folder: str, streams: set[str], tally: Tally, name: str) -> None:
    """Make the new ledger: the events of other streams, every row and state, all facts.

    Raise ``Fault`` unless it is one sound chain with the archives.
    """
    fresh = Ledger(folder, store.disk, 1.0)
    fresh.archives_folder = store.ledger.archives_folder
    fresh.acquire()
    try:
        fresh.begin(store.ledger.identity())
        store.ledger.copy_to(fresh, streams)
        version = store.ledger.last_version(OWN_STREAM)
        data: Fields = {
            "archive": name, "events": tally.events, "workflows": len(streams),
            "first": tally.first, "last": tally.last, "digest": tally.digest,
        }  # fmt: skip
        fresh.insert(
            [{"type": ARCHIVED, "data": data}], stream=OWN_STREAM, version=version, at=store.now(),
            by=store.by, request=os.urandom(12).hex(),
        )  # fmt: skip
        fresh.commit("archive")
        chain = Chain().read(fresh.with_archived(fresh.own_rows(), os.path.join(folder, _NEW)))
        if not chain.is_sound or chain.events + chain.accepted != fresh.head_seq:
            raise _not_sound("its events are not one chain")
        if not fresh.has_whole_tables():
            raise _not_sound("a state is not what was written")
        fresh.database.close()
    finally:
        fresh.release()


def _not_sound(why: str) -> Fault:
    message = f"archive: the ledger is not sound ({why}): nothing was moved"
    return Fault("ledger_damaged", message, "holdfast verify --all")


def _free_name(store: Store) -> str:
    """Return a name for the archive, made from today's date."""
    day = store.now()[:10]
    for number in range(1, _MAX_NAMES):
        name = f"{day}{ENDING}" if number == 1 else f"{day}-{number}{ENDING}"
        if not os.path.lexists(os.path.join(store.ledger.archives_folder, name)):
            return name
    raise Fault("too_many", f"{day} has {_MAX_NAMES} archives", "run the same command tomorrow")


def _remove_unlisted(store: Store) -> None:
    """Remove archives that killed processes left, if the ledger has all of their events."""
    ledger = store.ledger
    archives = ledger.archives()
    if archives is None:
        return
    listed = [data.get("archive") for data in ledger.archived()]
    for name in archives.names():
        try:
            if name not in listed and ledger.has_all_of(name):
                store.disk.remove(os.path.join(ledger.archives_folder, name))
        except Fault:
            continue  # It belongs to another ledger, or is damaged.


def _clear(store: Store) -> str:
    """Remove the new files of a process that was killed or refused; return their folder."""
    folder = os.path.join(store.workspace.home, _FOLDER)
    if os.path.isdir(folder):
        for name in names_in(folder):
            store.disk.remove(os.path.join(folder, name))
        store.disk.remove_folder(folder)
    return folder
