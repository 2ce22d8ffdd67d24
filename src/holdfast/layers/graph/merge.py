"""Merge what another program wrote into the file of a graph with what changed in the graph since.

Pure: three values in, one graph out. Entities, their types, observations and relations are merged
one by one. What only one side has is judged as follows:

- only in the file: it was added there, unless the graph deleted it and has not written that yet;
- only in the graph: it was deleted in the file, unless the graph added it and has not written that
  yet, or has written it only just now: a program that read the file before did not see it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.layers.graph import Entity, Graph, Key, Relation


class OwnChanges:
    """The changes of the graph since the other program may have read the file."""

    def __init__(self, unsaved: set[Key], recent: set[Key], *, is_complete: bool) -> None:
        self.unsaved = unsaved
        """Keys that were added or deleted, and are not in the file yet."""
        self.recent = recent
        """Keys that were added or deleted, and were written to the file not long ago."""
        self.is_complete = is_complete
        """True if nothing else changed and the file is whole; else nothing counts as deleted."""

    def keep_theirs(self, key: Key) -> bool:
        """Return True if what only the file has is added to the graph."""
        return key not in self.unsaved

    def keep_ours(self, key: Key) -> bool:
        """Return True if what only the graph has stays in it."""
        return not self.is_complete or self.has(key)

    def has(self, key: Key) -> bool:
        return key in self.unsaved or key in self.recent


def merge(theirs: Graph, ours: Graph, own: OwnChanges) -> Graph:
    """Return the graph that has the changes of both sides, in the order of the file.

    Several entities of one name are one entity in several pieces: an observation counts as
    present on a side if any piece there has it.
    """
    our_texts, their_texts = _texts_by_name(ours), _texts_by_name(theirs)
    waiting: dict[str, list[Entity]] = {}
    for entity in ours["entities"]:
        waiting.setdefault(entity["name"], []).append(entity)
    entities: list[Entity] = []
    for entity in theirs["entities"]:
        name = entity["name"]
        if name not in our_texts:
            if own.keep_theirs(("entity", name, "", "")):
                entities.append(entity)
            continue
        same = waiting[name].pop(0) if waiting[name] else entity
        kept = [
            text
            for text in entity["observations"]
            if text in our_texts[name] or own.keep_theirs(("observation", name, text, ""))
        ]
        kind = (same if own.has(("type", name, "", "")) else entity)["entityType"]
        added = _texts_kept(same, own, their_texts[name])
        entities.append({"name": name, "entityType": kind, "observations": kept + added})
    for entity in (left for pieces in waiting.values() for left in pieces):
        name, kind = entity["name"], entity["entityType"]
        if own.keep_ours(("entity", name, "", "")):
            texts = _texts_kept(entity, own, set())
            entities.append({"name": name, "entityType": kind, "observations": texts})
    theirs_too = set(map(_key, theirs["relations"]))
    ours_too = set(map(_key, ours["relations"]))
    relations = [
        relation
        for relation in theirs["relations"]
        if _key(relation) in ours_too or own.keep_theirs(_key(relation))
    ]
    relations += [
        relation
        for relation in ours["relations"]
        if _key(relation) not in theirs_too and own.keep_ours(_key(relation))
    ]
    return {"entities": entities, "relations": relations}


def _texts_by_name(graph: Graph) -> dict[str, set[str]]:
    texts: dict[str, set[str]] = {}
    for entity in graph["entities"]:
        texts.setdefault(entity["name"], set()).update(entity["observations"])
    return texts


def _texts_kept(ours: Entity, own: OwnChanges, theirs: set[str]) -> list[str]:
    return [
        text
        for text in ours["observations"]
        if text not in theirs and own.keep_ours(("observation", ours["name"], text, ""))
    ]


def _key(relation: Relation) -> Key:
    return "relation", relation["from"], relation["to"], relation["relationType"]
