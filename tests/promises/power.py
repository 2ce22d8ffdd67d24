"""What a power cut may leave of a recorded run.

The rules are POSIX's, not a particular file system's. Of a file, whatever was written before its
last sync is there; of what was written since, any part may be there, also a later part without an
earlier one. A name's change (made, moved, exchanged, removed) is whole or not at all; it is there
for certain once its folder was synced, and until then it may be there without the ones before it,
except those of the same name. A move is one change of both its folders. A file whose folder is not
there is not there.
"""

import os
import random


class Cut:
    """The run up to one moment: what is certain, and what is not."""

    def __init__(self, disk, upto):
        self._names, self._folders = disk.at_first
        self._data = {}
        self._synced = {}
        self._changes = []
        self.said = []
        for entry in disk.log[:upto]:
            getattr(self, f"_{entry[0]}", self._change)(*entry)
        self.pending = [change for change in self._changes if change[1]]
        self.unsynced = [
            node for node, parts in self._data.items() if self._synced.get(node, 0) < len(parts)
        ]

    def _said(self, _, *what):
        self.said.append(what)

    def _write(self, kind, node, data):
        self._data.setdefault(node, []).append((kind, data))

    _cut = _over = _write

    def _sync(self, _, node):
        self._synced[node] = len(self._data.get(node, ()))

    def _sync_folder(self, _, path):
        for _, concerned in self._changes:
            if path in concerned:
                concerned.clear()

    def _hand(self, _, path, node):
        self._changes.append((("hand", path, node), set()))
        for folder in _above(path):
            self._sync_folder("", folder)

    def _change(self, *entry):
        paths = [word for word in entry[1:] if isinstance(word, str)]
        if entry[0] == "link":
            paths = paths[1:]
        self._changes.append((entry, {os.path.dirname(path) for path in paths}))

    def left(self, keeps_change, data_of):
        """The tree that is left: node and bytes by path, and the folders."""
        names, folders = dict(self._names), set(self._folders)
        smooth = dict(self._names)
        lost = set()
        for entry, concerned in self._changes:
            paths = [word for word in entry[1:] if isinstance(word, str)]
            moved = smooth.get(entry[1]) if entry[0] == "move" else None
            _apply(entry, smooth, set())
            if moved is not None and not concerned:
                # A folder that was synced names what was moved into it, whatever it was called.
                names[entry[1]] = moved
            if not concerned or (keeps_change(entry) and lost.isdisjoint(paths)):
                _apply(entry, names, folders)
            else:
                lost.update(paths)
        whole = {folder for folder in folders if _is_reachable(folder, folders)}
        tree = {
            path: (id(node), self._content(node, data_of))
            for path, node in sorted(names.items())
            if os.path.dirname(path) in whole
        }
        return tree, sorted(whole)

    def _content(self, node, data_of):
        parts, synced = self._data.get(node, []), self._synced.get(node, 0)
        data = _written(node.first, parts[:synced])
        return data_of(data, parts[synced:]) if synced < len(parts) else data


def _apply(entry, names, folders):
    """One change of names, if it is possible on what is there."""
    kind, path, *more = entry
    if kind == "mkdir":
        folders.add(path)
    elif kind == "rmdir":
        folders.discard(path)
    elif kind == "create":
        names.setdefault(path, more[0])
    elif kind == "hand":
        names[path] = more[0]
    elif kind == "remove":
        names.pop(path, None)
    elif path not in names:
        return
    elif kind == "link":
        names.setdefault(more[0], names[path])
    elif kind == "move":
        names[more[0]] = names.pop(path)
    elif kind == "exchange" and more[0] in names:
        names[path], names[more[0]] = names[more[0]], names[path]


def _above(path):
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        yield path


def _is_reachable(folder, folders):
    top = min(folders, key=len)
    while folder in folders and folder != top:
        folder = os.path.dirname(folder)
    return folder == top


def _written(data, parts):
    for kind, value in parts:
        data = _with_part(data, kind, value)
    return data


def _with_part(data, kind, value):
    if kind == "write":
        return data + value
    if kind == "cut":
        return data[:value].ljust(value, b"\0")
    for place, piece in value.items():
        data = data[:place].ljust(place, b"\0") + piece + data[place + len(piece) :]
    return data


# What becomes of unsynced data


def dropped(data, _parts):
    return data


def kept(data, parts):
    return _written(data, parts)


def zeroed(data, parts):
    """The size is there, the content is not."""
    size = len(_written(data, parts))
    return data[:size].ljust(size, b"\0")


def torn_by(lots):
    """Kept up to some byte; the last of them, the newline, is a place where much can go wrong."""

    def torn(data, parts):
        whole = _written(data, parts)
        if len(whole) <= len(data):
            return whole
        return whole[: lots.choice([len(whole) - 1, lots.randrange(len(data), len(whole))])]

    return torn


def reordered_by(lots):
    """A later part is there, an earlier one is not."""

    def reordered(data, parts):
        for kind, value in parts:
            is_there = kind == "cut" or lots.random() < 0.5
            if is_there:
                data = _with_part(data, kind, value)
            elif kind == "write":
                data += bytes(len(value))
        return data

    return reordered


def harshest(cut):
    """The tree that has nothing but what is certain."""
    return cut.left(_none, dropped)


def ways(cut, seed, chances):
    """Ways in which the cut may end: the extremes always, then ``chances`` by lot.

    Each is what becomes of the changes of names, and what becomes of the data: for ``Cut.left``.
    """
    lots = random.Random(f"{seed}")
    fates = [dropped, kept, zeroed, torn_by(lots), reordered_by(lots)]
    for fate in fates if cut.unsynced else fates[:1]:
        yield _all, fate
        if cut.pending:
            yield _none, fate
    for entry, _ in cut.pending:
        yield (lambda other, lost=entry: other is not lost), kept
        yield (lambda other, only=entry: other is only), dropped
    for _ in range(chances if cut.pending or cut.unsynced else 0):
        held = {id(entry) for entry, _ in cut.pending if lots.random() < 0.5}
        yield (lambda entry, held=held: id(entry) in held), lots.choice(fates)


def _all(_entry):
    return True


def _none(_entry):
    return False


def materialise(tree, folders, old_root, new_root):
    """Puts a tree that was left of ``old_root`` under ``new_root``."""
    for folder in sorted(folders, key=len):
        os.makedirs(new_root + folder.removeprefix(old_root), exist_ok=True)
    first_name = {}
    for path, (node, data) in tree.items():
        place = new_root + path.removeprefix(old_root)
        if node in first_name:
            os.link(first_name[node], place)
            continue
        first_name[node] = place
        with open(place, "wb") as file:
            file.write(data)
