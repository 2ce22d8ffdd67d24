"""What a client's own transcript tells and its hooks do not.

Gemini CLI says before every turn that it may sum up, and never that it did. When it does, it writes
all messages of the conversation anew, as one line of the transcript. Where a transcript has another
form, nothing is found, and all is as if there were none.
"""

from __future__ import annotations

import os

from holdfast.core.time import epoch_ms

_START = b'\n{"sessionId":'
_ANEW = b'\n{"$set":{"messages":['
_MESSAGE = b'\n{"id":'
_AT = b'"lastUpdated":"'
_MAX_BYTES = 8 * 1024 * 1024


def summed_up_at(path: str, kept: str) -> str:
    """When the messages were last written anew without ``kept``; empty when they were not."""
    tail = _tail(path)
    place = tail.rfind(_ANEW)
    if place < 0 or kept.encode() in tail[place:]:
        return ""
    # A client that starts writes what there is in the same way, before its first message.
    started = max(0, tail.rfind(_START, 0, place))
    if tail.find(_MESSAGE, started, place) < 0:
        return ""
    line = tail[place + 1 :].partition(b"\n")[0]
    said = line.rpartition(_AT)[2].partition(b'"')[0].decode(errors="replace")[:40]
    return said if epoch_ms(said) is not None else ""


def _tail(path: str) -> bytes:
    if not os.path.isfile(path):
        return b""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _MAX_BYTES))
            return file.read(_MAX_BYTES)
    except OSError:
        return b""
