"""The keys behind the bytes of a terminal. Pure.

A printable character is a key by itself, all others have a name. An escape sequence may come in
pieces, be cut off, or be one that nobody knows: then it is no key at all, never letters. Pasted
text is one key, so that nothing in it is taken for a command.
"""

from __future__ import annotations

import codecs

_ESCAPE = "\x1b"
_CONTROLS = {
    "\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace", "\x15": "clear",
    "\x17": "clear word", "\x04": "end of input", "\x02": "page up", "\x06": "page down",
    "\x10": "up", "\x0e": "down",
}  # fmt: skip
_FINALS = {
    "A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end",
}  # fmt: skip
_KEYPAD_ENTER = "\x1bOM"
_NUMBERS = {
    "1": "home", "4": "end", "5": "page up", "6": "page down", "7": "home", "8": "end",
}  # fmt: skip
_PASTE_BEGIN, _PASTE_END = "\x1b[200~", "\x1b[201~"
_MAX_SEQUENCE = 32
"""A sequence that is longer is none."""
_MAX_PASTED = 2_000
"""The number of characters of one paste that are kept."""
_MAX_TYPED = 500


class Pasted(str):
    """Text that was pasted."""

    __slots__ = ()


class Keys:
    """Reads keys out of bytes, which come in pieces of any size."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._rest = ""
        """The beginning of a sequence whose end has not come yet."""
        self._pasted: str | None = None
        """What has come of a paste; ``None`` outside of one."""

    @property
    def is_partial(self) -> bool:
        """Return whether more should follow at once: a sequence has only begun."""
        return bool(self._rest) or self._pasted is not None

    def feed(self, data: bytes) -> list[str]:
        """Return the keys that are complete with these bytes."""
        text, self._rest = self._rest + self._decoder.decode(data), ""
        keys: list[str] = []
        while text:
            if self._pasted is not None:
                text = self._paste(text, keys)
            elif text.startswith(_ESCAPE):
                length = _sequence_length(text)
                if not length:
                    self._rest = text
                    break
                self._add(text[:length], keys)
                text = text[length:]
            else:
                self._add(text[0], keys)
                text = text[1:]
        return keys

    def flush(self) -> list[str]:
        """Return the keys of a sequence or a paste whose end did not come in time."""
        rest, pasted = self._rest, self._pasted
        self._rest, self._pasted = "", None
        if pasted is not None:
            return [Pasted(pasted)]
        return ["escape"] if rest == _ESCAPE else []

    def _paste(self, text: str, keys: list[str]) -> str:
        """Take the text of a paste; return what follows it."""
        piece, end, after = text.partition(_PASTE_END)
        assert self._pasted is not None
        if not end:
            # The mark of the end may come in two pieces.
            cut = max(piece.rfind(_ESCAPE), 0) if _ESCAPE in piece[-len(_PASTE_END) :] else None
            self._rest = "" if cut is None else piece[cut:]
            piece = piece[:cut]
        self._pasted = (self._pasted + piece)[:_MAX_PASTED]
        if end:
            keys.append(Pasted(self._pasted))
            self._pasted = None
        return after

    def _add(self, piece: str, keys: list[str]) -> None:
        if piece == _PASTE_BEGIN:
            self._pasted = ""
        elif piece in _CONTROLS:
            keys.append(_CONTROLS[piece])
        elif len(piece) == 1 and piece.isprintable():
            keys.append(piece)
        elif piece == _ESCAPE * 2:
            keys.append("escape")
        elif piece == _KEYPAD_ENTER:
            keys.append("enter")
        elif piece[:2] in ("\x1b[", "\x1bO") and not piece[2:-1].strip("0123456789;"):
            name = _NUMBERS.get(piece[2:-1]) if piece[-1] == "~" else _FINALS.get(piece[-1])
            if name is not None:
                keys.append(name)


def _sequence_length(text: str) -> int:
    """Return the length of the escape sequence that a text begins with; 0 if its end is missing."""
    if len(text) == 1:
        return 0
    if text[1] == "O":
        return 3 if len(text) > 2 else 0
    if text[1] != "[":
        return 2  # Alt and a key, or Escape twice.
    for position in range(2, min(len(text), _MAX_SEQUENCE)):
        if "@" <= text[position] <= "~":
            return position + 1
        if not " " <= text[position] <= "?":
            return position  # It breaks off here.
    return _MAX_SEQUENCE if len(text) >= _MAX_SEQUENCE else 0


def typed(text: str, key: str) -> str:
    """Return a text that is being typed, after a key."""
    if isinstance(key, Pasted):
        text += "".join(char if char.isprintable() else " " for char in key)
    elif key == "backspace":
        text = text[:-1]
    elif key == "clear":
        text = ""
    elif key == "clear word":
        text = text.rstrip().rpartition(" ")[0]
    elif len(key) == 1:
        text += key
    return text[:_MAX_TYPED]
