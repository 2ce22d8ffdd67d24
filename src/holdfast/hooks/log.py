"""The hook's log: a line for each fault, beside the ledger, and never more than two files of it."""

from __future__ import annotations

import os
import time

from holdfast.core.time import iso
from holdfast.errors import HoldfastError
from holdfast.system.disk import Disk
from holdfast.workspace.location import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.workspace.location import Workspace

NAME = "hook.log"
MAX_BYTES = 256 * 1024


def write_in(folder: str, error: BaseException) -> None:
    """Adds a line to the log of the workspace that a folder belongs to."""
    try:
        write(find(folder), error)
    except (HoldfastError, OSError):
        return


def write(workspace: Workspace, error: BaseException) -> None:
    """Adds a line; a log that cannot be written is no reason for another fault."""
    if not os.path.isdir(workspace.home):
        return
    path = os.path.join(workspace.home, NAME)
    disk = Disk()
    try:
        workspace.check_home()
        if os.path.exists(path) and os.path.getsize(path) > MAX_BYTES:
            disk.move(path, f"{path}.1")
        fd, _ = disk.open_append(path)
        try:
            disk.write(fd, f"{_line(error)}\n".encode(errors="replace"))
        finally:
            disk.close(fd)
    except (HoldfastError, OSError):
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
