"""Deliver to a Memory server in the background, after a change.

A change must not wait for a server. So when the lock is free again, it starts ``holdfast sync
--background`` and does not wait for it. One such process delivers at a time. Another one that finds
it at work ends at once: the first looks again, after it has let go, for what was recorded
meanwhile. It ends after ``LIMIT_S`` seconds, whatever the server does.

Nobody sees what such a process prints. What the user has to know is left in a file beside the
ledger, and the next change says it, once.
"""

from __future__ import annotations

import os

from holdfast.errors import Fault, HoldfastError
from holdfast.system.detached import start_detached
from holdfast.workspace import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.layers import LayerSource

LIMIT_S = 30
_LOCK_FILE = "graph-mcp.background"
_NOTE_FILE = "graph-mcp.note"
"""What the next change has to say."""
_TOLD_FILE = "graph-mcp.told"
"""What was said last and still holds: that the server is down, or may not be started."""
_MAX_NOTE_BYTES = 4_000


def start(source: LayerSource) -> None:
    """Start a delivery if the graph is kept by a server, and say what an earlier one met."""
    root = source.workspace.root
    if not os.environ.get("HOLDFAST_GRAPH") and not settings.mentions(root, b"mcp:"):
        return
    try:
        if not settings.load(root).graph().startswith("mcp:"):
            return
    except HoldfastError:
        return  # Everything that needs the settings says what is wrong with them.
    _say(source)
    start_detached(["sync", "--background"], root)


def _say(source: LayerSource) -> None:
    """Note what the last delivery met, if that was not said yet."""
    note = _path(source, _NOTE_FILE)
    text = _read(source, note)
    if not text:
        return
    try:
        source.disk.move(note, _path(source, _TOLD_FILE))
    except OSError:
        return  # Another process says it.
    source.note(text)


def deliver(source: LayerSource) -> None:
    """Deliver until the server has everything, fails, or the time is over."""
    import signal

    name = settings.load(source.workspace.root).graph()
    if not name.startswith("mcp:"):
        return
    before = signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(LIMIT_S)
    try:
        while not _deliver_once(source, name.removeprefix("mcp:")):
            pass
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _deliver_once(source: LayerSource, name: str) -> bool:
    """Deliver, unless another process does; return True if nothing is left to do."""
    from holdfast.layers.graph import mcp_delivery

    try:
        lock = source.disk.lock(_path(source, _LOCK_FILE), 0.0)
    except Fault:
        return True
    try:
        delivery = mcp_delivery.deliver(source, name)
        trouble = mcp_delivery.WARNING if delivery["why"] else ""
    except HoldfastError as error:
        trouble = f"the Memory server {name} gets nothing: {error.message}; {error.hint}"
    finally:
        source.disk.close(lock)
    settle(source, trouble)
    return bool(trouble) or source.ledger.head_seq == delivery["seq"]


def settle(source: LayerSource, trouble: str) -> None:
    """Leave a note for the next change: on trouble that it did not say yet, or on its end."""
    from holdfast.layers.graph import mcp_delivery

    note, told = _path(source, _NOTE_FILE), _path(source, _TOLD_FILE)
    last_told = _read(source, told)
    news = trouble
    if not trouble:
        was_down = last_told.startswith(mcp_delivery.WARNING)
        news = mcp_delivery.RECOVERED if was_down else ""
        source.disk.remove(told)
    if news and news not in (_read(source, note), last_told):
        source.disk.replace_view(note, news.encode()[:_MAX_NOTE_BYTES])
    elif not news:
        source.disk.remove(note)


def say_no_more(source: LayerSource, trouble: str) -> None:
    """Remember what ``holdfast sync`` has just said, so that no change says it again."""
    source.disk.remove(_path(source, _NOTE_FILE))
    told = _path(source, _TOLD_FILE)
    if trouble:
        source.disk.replace_view(told, trouble.encode())
    else:
        source.disk.remove(told)


def _give_up(*_: object) -> None:
    raise TimeoutError(f"no delivery takes more than {LIMIT_S} s")


def _path(source: LayerSource, name: str) -> str:
    return os.path.join(source.workspace.home, name)


def _read(source: LayerSource, path: str) -> str:
    raw = source.disk.read_own(path, _MAX_NOTE_BYTES) if os.path.lexists(path) else None
    return (raw or b"").decode(errors="replace")
