"""A move to another file system, which the kernel does not make: a copy, then the original goes.

The copy gets its name when it is whole and on the disk, so a kill leaves nothing half done under a
name that somebody reads.
"""

from __future__ import annotations

import os
import shutil


def move(source: str, target: str) -> None:
    """Moves a file, a link or a folder to a name that is free."""
    folder, name = os.path.split(target)
    spare = os.path.join(folder, f".{name}.holdfast-moving")
    _remove(spare)
    if _is_folder(source):
        shutil.copytree(source, spare, symlinks=True)
    else:
        shutil.copy2(source, spare, follow_symlinks=False)
    os.sync()
    os.rename(spare, target)
    _remove(source)


def _remove(path: str) -> None:
    if _is_folder(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)
