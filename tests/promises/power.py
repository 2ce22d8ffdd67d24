"""What a power cut may leave of a recorded run.

The rules are POSIX's, not a particular file system's. Of a file, whatever was written before its
last sync is there; of what was written since, any part may be there, also a later part without an
earlier one. A name's change (made, moved, exchanged, removed) is whole or not at all; it is there
for certain once its folder was synced, and until then it may be there without the ones before it,
except those of the same name. A move is one change of both its folders. A file whose folder is not
there is not there. What was written before a sync that failed may be lost for good: the system
forgets that it was not written, and a later sync does not try it again.
"""

import os
import random

SECTOR = 512


class Cut:
    """The run up to one moment: what is certain, and what is not."""

    def __init__(self, disk, upto):
        self._names, self._folders = disk.at_first
        self._data = {}
        self._synced = {}
        self._forgotten = {}
        self._changes = []
        self.said = []
        for entry in disk.log[:upto]:
            getattr(self, f"_{entry[0]}", self._change)(*entry)
        self.pending = [change for change in self._changes if change[1]]
        self.unsynced = [
            node
            for node, parts in self._data.items()
            if self._synced.get(node, 0) < len(parts) or node in self._forgotten
        ]

    def _said(self, _, *what):
        self.said.append(what)

    def _write(self, kind, node, data):
        self._data.setdefault(node, []).append((kind, data))

    _cut = _over = _write

    def _sync(self, _, node):
        self._synced[node] = len(self._data.get(node, ()))

    def _failed(self, _, node):
        """The parts that a failed sync was about are forgotten."""
        parts = range(self._synced.get(node, 0), len(self._data.get(node, ())))
        self._forgotten.setdefault(node, set()).update(parts)

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
        forgotten = () if data_of is kept else self._forgotten.get(node, ())
        certain = [part for number, part in enumerate(parts[:synced]) if number not in forgotten]
        data = _written(node.first, certain)
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
    buffer = bytearray(data)
    for kind, value in parts:
        _put(buffer, kind, value)
    return bytes(buffer)


def _put(buffer, kind, value):
    if kind == "write":
        buffer += value
    elif kind == "cut":
        del buffer[value:]
        buffer.extend(bytes(value - len(buffer)))
    else:
        for place, piece in value.items():
            buffer.extend(bytes(max(0, place - len(buffer))))
            buffer[place : place + len(piece)] = piece


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
        buffer = bytearray(data)
        for kind, value in parts:
            is_there = kind == "cut" or lots.random() < 0.5
            if is_there:
                _put(buffer, kind, value)
            elif kind == "write":
                buffer += bytes(len(value))
        return bytes(buffer)

    return reordered


def scattered_by(lots):
    """Of what was written, some sectors are there and others are not, wherever they are."""

    def scattered(data, parts):
        buffer = bytearray(data)
        whole = bytearray(data)
        for kind, value in parts:
            pieces = {"over": value, "write": {len(whole): value}, "cut": {}}[kind]
            _put(whole, kind, value)
            if kind == "cut":
                _put(buffer, kind, value)
            for place, piece in pieces.items():
                for at, sector in _sectors(place, piece):
                    if lots.random() < 0.5:
                        _put(buffer, "over", {at: sector})
        return bytes(buffer)

    return scattered


def _sectors(place, piece):
    end = place + len(piece)
    while place < end:
        after = min(end, (place // SECTOR + 1) * SECTOR)
        yield place, piece[len(piece) - (end - place) : len(piece) - (end - after)]
        place = after


def harshest(cut):
    """The tree that has nothing but what is certain."""
    return cut.left(_none, dropped)


def ways(cut, seed, chances):
    """Ways in which the cut may end: the extremes always, then ``chances`` by lot.

    Each is what becomes of the changes of names, and what becomes of the data: for ``Cut.left``.
    """
    lots = random.Random(f"{seed}")
    fates = [dropped, kept, zeroed, torn_by(lots), reordered_by(lots), scattered_by(lots)]
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
