"""Start a command of Holdfast in the background: nobody waits for it, and nobody reads its output.

What the user has to know, the command leaves in a file beside the ledger.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

SWITCH = "HOLDFAST_BACKGROUND"
"""The environment variable that is ``off`` where nothing may be started."""
_started: list[subprocess.Popen[bytes]] = []
"""The processes that this one has started and not waited for."""


def start_detached(words: list[str], folder: str) -> None:
    """Start ``holdfast`` with these words in a folder. If that fails, do nothing."""
    if os.environ.get(SWITCH) == "off":
        return
    import subprocess

    _started[:] = [process for process in _started if process.poll() is None]
    # Without -P, modules in the workspace would come before those of the interpreter.
    command = [sys.executable, "-P", "-m", "holdfast", *words]
    null = subprocess.DEVNULL
    try:
        process = subprocess.Popen(  # noqa: S603 - our own program, by our interpreter
            command, cwd=folder, stdin=null, stdout=null, stderr=null, start_new_session=True
        )
    except OSError:
        return
    _started.append(process)
