"""Cleaning: what has expired, and records of skill workflows that ended long ago, leave the folder.

Each is an event, and nothing is lost by it: ``holdfast resume ID`` brings the workflow back.
"""

from __future__ import annotations

import os

from holdfast import settings
from holdfast.core import choice, moment
from holdfast.disk import SPARE
from holdfast.errors import HoldfastError
from holdfast.layers import index, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.caller import Caller
    from holdfast.core.shapes import Fields
    from holdfast.engine import Engine

MARK = "cleaned"
EVERY = "1h"


def due(caller: Caller) -> list[Fields]:
    """What would go now: ``id``, ``why`` and ``record`` of each."""
    engine = caller.engine
    kept = settings.load(engine.workspace.root).completed_kept()
    found = []
    for row in caller.rows():
        if caller.is_expired(row):
            found.append(
                {"id": row["id"], "why": f"inactive > {row['ttl']}", "record": row["record"]}
            )
        elif row["format"] == "skill" and row["status"] in ("completed", "abandoned"):
            record = records.module("skill").completed_path(row["id"])
            is_old = moment.is_past(engine.now_ms(), row["updated_at"], kept)
            if is_old and _stands(engine, row["worktree"], record):
                why = f"{row['status']} > {kept} ago"
                found.append({"id": row["id"], "why": why, "record": record})
    return found


def _stands(engine: Engine, worktree: str, record: str) -> bool:
    root = engine.workspace.root_of(worktree)
    return root is not None and os.path.lexists(engine.workspace.inside(root, record))


def clean(caller: Caller) -> list[Fields]:
    """Lets it go, under the lock."""
    engine = caller.engine
    gone = []
    for row in due(caller):
        position = engine.position(row["id"])
        if position is None:
            continue
        # What expired goes by being looked at; an edit of the record since is taken in by it.
        state = caller.current(position)
        if state["status"] in choice.ACTIVE:
            continue
        if state["status"] != "expired":
            engine.commit(state["id"], state, engine.decide(state, "clean_record", {}))
        gone.append(row)
    engine.disk.replace_view(_mark(engine), engine.now().encode())
    engine.close_full_segment()
    home, shown = engine.workspace.home, os.path.join(engine.workspace.root, index.NAME)
    for folder in (home, os.path.join(home, "pages"), os.path.dirname(shown)):
        _sweep(engine, folder)
    return gone


def _sweep(engine: Engine, folder: str) -> None:
    """Removes what killed writers left of views that they had not put in place."""
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        writer = name.removesuffix(SPARE).rpartition(".")[2]
        if name.endswith(SPARE) and writer.isdecimal() and not _is_running(int(writer)):
            engine.disk.remove(os.path.join(folder, name))


def _is_running(process: int) -> bool:
    return os.path.isdir(f"/proc/{process}") or not os.path.isdir("/proc/self")


def clean_at_times(caller: Caller) -> None:
    """The same by itself, at most hourly; whatever goes wrong, what was asked for is done."""
    engine = caller.engine
    try:
        last = (engine.disk.read_own(_mark(engine)) or b"").decode(errors="replace")
        if last and not moment.is_past(engine.now_ms(), last, EVERY):
            return
        for row in clean(caller):
            engine.note(f"{row['id']} left the folder ({row['why']}): holdfast resume {row['id']}")
    except (OSError, HoldfastError) as error:
        engine.note(f"cleaning up did not work ({error})")


def _mark(engine: Engine) -> str:
    return os.path.join(engine.workspace.home, MARK)
