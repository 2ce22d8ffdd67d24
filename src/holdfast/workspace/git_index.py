"""Find the files of Holdfast that git tracks, by reading git's index.

A tracked record came with a clone, or goes to everybody who clones. Git itself changes it at every
checkout, so it is no place to write to. The index is read only when it has changed.
"""

from __future__ import annotations

import os

from holdfast.system.disk import Disk
from holdfast.workspace.location import OWN_PREFIXES, names_in

_SHORTENED = 4
"""The version of an index whose paths leave out what they share with the path before."""
_ENTRY_BYTES = 62
"""The size of an entry before its path, with SHA-1 names."""
_LENGTH_MASK, _EXTENDED = 0x0FFF, 0x4000
_MAX_BYTES = 64 * 1024 * 1024
_MAX_PATH_BYTES = 4096
_MAX_SHARED = 4
"""The number of parts of a split index that are read. Git removes those that are not used."""


def tracked_files(git: str, common: str, prefixes: tuple[str, ...] = OWN_PREFIXES) -> list[str]:
    """Return the paths in the index of a worktree that begin with one of the prefixes.

    The default are those of Holdfast's files. The index is read as far as that is possible.
    """
    names = [os.path.join(git, "index")]
    # An index may be split: most of its paths are in a file beside it.
    names += [os.path.join(common, name) for name in _shared_names(common)]
    paths: set[str] = set()
    for name in names:
        try:
            data = Disk().read(name, _MAX_BYTES) or b""
        except OSError:
            continue
        if int.from_bytes(data[4:8], "big") == _SHORTENED:
            paths.update(_in_shortened(data, prefixes))
        else:
            paths.update(_in_whole(data, prefixes))
    return sorted(paths)


def _shared_names(common: str) -> list[str]:
    try:
        names = [name for name in names_in(common) if name.startswith("sharedindex.")]
        return names[:_MAX_SHARED]
    except OSError:
        return []


def _in_whole(data: bytes, prefixes: tuple[str, ...]) -> set[str]:
    """Return our paths in an index that has whole paths, each after its flags with its length."""
    paths = set()
    for prefix in map(os.fsencode, prefixes):
        start = data.find(prefix)
        while start >= 0:
            path = data[start : start + _MAX_PATH_BYTES].partition(b"\0")[0]
            flags = (data[start - 2 : start], data[start - 4 : start - 2])
            lengths = [int.from_bytes(field, "big") & _LENGTH_MASK for field in flags]
            if min(len(path), _LENGTH_MASK) in lengths:
                paths.add(path.decode(errors="surrogateescape"))
            start = data.find(prefix, start + 1)
    return paths


def _in_shortened(data: bytes, prefixes: tuple[str, ...]) -> set[str]:
    """Return our paths in an index of version 4, whose every path depends on the one before."""
    paths = set()
    path, at = b"", 12
    for _ in range(int.from_bytes(data[8:12], "big")):
        flags = int.from_bytes(data[at + _ENTRY_BYTES - 2 : at + _ENTRY_BYTES], "big")
        at += _ENTRY_BYTES + (2 if flags & _EXTENDED else 0)
        if at >= len(data):
            break
        strip, at = _number(data, at)
        end = data.find(b"\0", at, at + _MAX_PATH_BYTES)
        path = path[: len(path) - strip] + data[at:end]
        if end < 0 or len(path) > _MAX_PATH_BYTES:
            break  # It is damaged, or its names are longer than those of SHA-1.
        at = end + 1
        name = path.decode(errors="surrogateescape")
        if name.startswith(prefixes):
            paths.add(name)
    return paths


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, as git's packs have it, and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80 and value < _MAX_PATH_BYTES and at + 1 < len(data):
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1
