"""What deliveries in the background have in common: they end in time, and leave notes.

Nobody sees what a process in the background prints. So it leaves a note in a file beside the
ledger, and the next change says it, once. Another file has what was said last and still holds.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.layers import LayerSource

_MAX_NOTE_BYTES = 4_000


def repeat(deliver_once: Callable[[], bool], limit_s: int) -> None:
    """Deliver until that returns True. Raise ``TimeoutError`` when the time is over."""
    import signal

    def give_up(*_: object) -> None:
        raise TimeoutError(f"no delivery takes more than {limit_s} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(limit_s)
    try:
        while not deliver_once():
            pass
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class DeliveryNotes:
    """The notes of one kind of delivery; ``name`` is what its files begin with."""

    def __init__(self, source: LayerSource, name: str) -> None:
        self._source = source
        self._note = os.path.join(source.workspace.home, f"{name}.note")
        """What the next change has to say."""
        self._last = os.path.join(source.workspace.home, f"{name}.told")

    def last_note(self) -> str:
        """Return what was said last and still holds."""
        return self._read(self._last)

    def say(self) -> None:
        """Note what the last delivery met, if that was not said yet."""
        text = self._read(self._note)
        if not text:
            return
        try:
            self._source.disk.move(self._note, self._last)
        except OSError:
            return  # Another process says it.
        self._source.note(text)

    def say_once(self, text: str) -> None:
        """Note a text, unless it is what was said last."""
        if text != self.last_note():
            self.say_no_more(text)
            self._source.note(text)

    def settle(self, trouble: str, recovered: str) -> None:
        """Leave a note for the next change: on trouble that it did not say yet, or on its end.

        ``recovered`` is what to say about the end; empty if it goes without saying.
        """
        disk, last = self._source.disk, self.last_note()
        news = trouble or recovered
        if not trouble:
            disk.remove(self._last)
        if news and news not in (self._read(self._note), last):
            disk.replace_view(self._note, news.encode()[:_MAX_NOTE_BYTES])
        elif not news:
            disk.remove(self._note)

    def say_no_more(self, trouble: str) -> None:
        """Remember trouble that was said in another way, so that no change says it again."""
        self._source.disk.remove(self._note)
        if trouble:
            self._source.disk.replace_view(self._last, trouble.encode()[:_MAX_NOTE_BYTES])
        else:
            self._source.disk.remove(self._last)

    def _read(self, path: str) -> str:
        has_file = os.path.lexists(path)
        raw = self._source.disk.read_own(path, _MAX_NOTE_BYTES) if has_file else None
        return (raw or b"").decode(errors="replace")
