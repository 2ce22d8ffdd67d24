"""The hooks' log: one line per fault, beside the ledger, in at most two files."""

from __future__ import annotations

import os
import time

from holdfast.core.time import iso
from holdfast.errors import HoldfastError
from holdfast.system.disk import Disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.workspace.location import Workspace

NAME = "hook.log"
MAX_BYTES = 256 * 1024
_MAX_MESSAGE = 500


def append(workspace: Workspace, error: BaseException) -> None:
    """Add a line to the log; do nothing if there is no ledger, or if that fails."""
    if not os.path.isdir(workspace.home):
        return
    path = os.path.join(workspace.home, NAME)
    disk = Disk()
    try:
        workspace.check_links(workspace.home)
        if os.path.exists(path) and os.path.getsize(path) > MAX_BYTES:
            disk.move(path, f"{path}.1")
        disk.extend(path, f"{_line(error)}\n".encode(errors="replace"), is_own=True)
    except (HoldfastError, OSError):
        return


def _line(error: BaseException) -> str:
    """Return time, type, message and source line of an error."""
    at = iso(time.time_ns() // 1_000_000)
    line = f"{at} {type(error).__name__}: {' '.join(str(error).split())[:_MAX_MESSAGE]}"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return line
    return f"{line} ({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})"
