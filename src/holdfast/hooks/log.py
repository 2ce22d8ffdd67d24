"""The hook's log: a line for each fault, beside the ledger, and never more than two files of it."""

from __future__ import annotations

import os
import time

from holdfast.core.moment import iso
from holdfast.disk import Disk

NAME = "hook.log"
MAX_BYTES = 256 * 1024


def write(home: str, error: BaseException) -> None:
    """Adds a line; a log that cannot be written is no reason for another fault."""
    if not home or not os.path.isdir(home):
        return
    path = os.path.join(home, NAME)
    disk = Disk()
    try:
        if os.path.exists(path) and os.path.getsize(path) > MAX_BYTES:
            disk.move(path, f"{path}.1")
        disk.extend(path, f"{_line(error)}\n".encode(errors="replace"))
    except OSError:
        return


def _line(error: BaseException) -> str:
    at = iso(time.time_ns() // 1_000_000)
    said = " ".join(str(error).split())[:500]
    return f"{at} {type(error).__name__}: {said}{_where(error)}"


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f" ({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})"
