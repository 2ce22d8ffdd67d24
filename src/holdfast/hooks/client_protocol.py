"""What clients send to a hook, and the answers they expect.

Gemini CLI announces before every turn that it may compact, and never reports that it did. When it
compacts, it writes all messages anew as one line of its transcript: ``compacted_at`` looks for it.
"""

from __future__ import annotations

import os

from holdfast.core.time import epoch_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields

_SESSION_LINE = b'\n{"sessionId":'
_REWRITE_LINE = b'\n{"$set":{"messages":['
_MESSAGE_LINE = b'\n{"id":'
_UPDATED = b'"lastUpdated":"'
_MAX_TRANSCRIPT_BYTES = 8 * 1024 * 1024


def text_field(event: Fields, key: str) -> str:
    """Return a field if it is printable text; empty otherwise."""
    value = event.get(key)
    return value if isinstance(value, str) and value.isprintable() else ""


def is_read_to_end(response: object) -> bool:
    """Return True unless a tool's response says that the file has more lines, or an error.

    A long file is read in several calls; the last one counts.
    """
    if not isinstance(response, dict):
        return True
    if response.get("error") or response.get("is_error"):
        return False
    file = response.get("file")
    fields = file if isinstance(file, dict) else {}
    start, lines, total = (fields.get(key) for key in ("startLine", "numLines", "totalLines"))
    if not (isinstance(start, int) and isinstance(lines, int) and isinstance(total, int)):
        return True
    return start + lines >= total


def context(event: str, text: str) -> Fields:
    """Return the answer that puts a text before the model."""
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def denial(event: str, reason: str) -> Fields:
    """Return the answer that denies a tool call."""
    if event == "BeforeTool":
        return {"decision": "deny", "reason": reason}
    decision = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": {"hookEventName": event, **decision}}


def block(reason: str) -> Fields:
    """Return the answer that keeps an agent from stopping."""
    return {"decision": "block", "reason": reason}


def compacted_at(transcript: str, briefing_mark: str) -> str:
    """Return when Gemini CLI last compacted without keeping ``briefing_mark``; empty if never.

    A transcript of another form counts as one without a compaction.
    """
    tail = _read_tail(transcript)
    rewrite = tail.rfind(_REWRITE_LINE)
    if rewrite < 0 or briefing_mark.encode() in tail[rewrite:]:
        return ""
    # A client that starts writes the messages in the same way, before its first own message.
    session = max(0, tail.rfind(_SESSION_LINE, 0, rewrite))
    if tail.find(_MESSAGE_LINE, session, rewrite) < 0:
        return ""
    line = tail[rewrite + 1 :].partition(b"\n")[0]
    moment = line.rpartition(_UPDATED)[2].partition(b'"')[0].decode(errors="replace")[:40]
    return moment if epoch_ms(moment) is not None else ""


def _read_tail(path: str) -> bytes:
    if not os.path.isfile(path):
        return b""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _MAX_TRANSCRIPT_BYTES))
            return file.read(_MAX_TRANSCRIPT_BYTES)
    except OSError:
        return b""
