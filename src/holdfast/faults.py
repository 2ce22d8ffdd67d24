"""Trouble with storage in words: what was attempted, on what, why not, and the next step."""

from __future__ import annotations

from holdfast.disk import LARGEST
from holdfast.errors import Fault, Refused


def why(error: OSError | Fault) -> str:
    return str(error) if isinstance(error, Fault) else error.strerror or str(error)


def unreadable_ledger(error: OSError) -> Fault:
    return Fault(
        "storage",
        f"the ledger cannot be read: {error.strerror} ({error.filename})",
        "make it an ordinary file that you can read, then run the same command again",
    )


def lost_events(stream: str) -> Fault:
    return Fault("lost_events", f"the ledger has no readable events of {stream}", "holdfast verify")


def record_not_written(place: str, error: OSError) -> Fault:
    return Fault(
        "not_written",
        f"the record {place} cannot be written ({error.strerror}): nothing was recorded",
        "make room, or make its folder writable, then run the same command again",
    )


def too_large(workflow: str, size: int) -> Refused:
    return Refused(
        "too_large",
        f"the record of {workflow} would have {size:,} bytes; {LARGEST:,} are the most: "
        "nothing was recorded",
        "holdfast start another workflow for the rest",
    )


def record_behind(seq: int, error: OSError | Fault) -> Fault:
    return Fault(
        "record_behind",
        f"recorded as event {seq}, but its record could not be put in place ({why(error)})",
        "do not repeat the command: holdfast status brings the record forward",
    )


def outcome_unknown(error: OSError, path: str, event_id: str) -> Fault:
    return Fault(
        "unknown_outcome",
        f"the disk failed while writing {path} ({error.strerror}): "
        "whether this was recorded is unknown",
        f"run the same command again with --id {event_id}: it is applied once",
        id=event_id,
    )


def not_appended(error: OSError, path: str) -> Fault:
    return Fault(
        "not_written",
        f"{path} could not be written ({error.strerror}): nothing was recorded",
        "make room or mend the disk, then run the same command again",
    )


def torn_not_moved(error: OSError) -> Fault:
    return Fault(
        "not_written",
        f"a torn write at the end of the ledger could not be moved ({error.strerror}): "
        "nothing was recorded",
        "make room or mend the disk, then run the same command again",
    )


def newer_file(path: str, version: object) -> Fault:
    return Fault(
        "newer_file",
        f"a newer Holdfast wrote {path} (version {version}); this one would lose what it says",
        "install the newer Holdfast: git pull in its checkout, then pip install .",
        path=path,
    )
