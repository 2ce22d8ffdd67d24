"""Our hooks in a client's settings: which are ours, putting them in, taking them out.

All clients have the same shape: ``hooks`` has an event's groups, a group has a ``matcher`` and its
handlers. A group of our own is added to each event, so that nobody else's is touched.
"""

from __future__ import annotations

import os

from holdfast.install.document import Document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.types import Fields, Json
    from holdfast.install.spans import Node

HOOKS = "hooks"
ENTRY = ("holdfast", "hooks", "entry.py")
_GROUP = {"matcher", "hooks"}
_IN_COMMAND = ("type", "command", "args")


class Misfit(Exception):
    """The settings have another shape than the client's: on which line, and what is wrong there."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line
        self.why = why


class Hook:
    """What is wanted: at which event, for which tools (``None``: whatever it is), what is run."""

    __slots__ = ("event", "handler", "matcher")

    def __init__(self, event: str, matcher: str | None, handler: Fields) -> None:
        self.event = event
        self.matcher = matcher
        self.handler = handler

    def as_group(self) -> Fields:
        lead = {} if self.matcher is None else {"matcher": self.matcher}
        return {**lead, HOOKS: [self.handler]}


class _Found:
    """One of ours: the containers on the way to it, each with the place of the next one in it."""

    __slots__ = ("event", "node", "way")

    def __init__(self, event: str, way: list[tuple[Node, int]]) -> None:
        self.event = event
        self.way = way
        handlers, place = way[-1]
        self.node = handlers.parts[place].node

    @property
    def group(self) -> Fields:
        node: Node = self.way[3][0]
        group: Fields = node.value
        return group


def merged(text: str, wanted: list[Hook]) -> str:
    """The text with exactly these hooks of ours; ``Misfit`` where there is no place for them."""
    document = Document(text)
    _check(document, [hook.event for hook in wanted])
    while (changed := _set_right(document, wanted)) is not None:
        document = Document(changed)
    for hook in wanted:
        if not any(found.event == hook.event for found in _ours(document)):
            document = Document(_with(document, hook))
    return document.text


def stripped(text: str, kept: frozenset[str] = frozenset()) -> str:
    """The text without any of ours. Of what is then empty, only what is ``kept`` stays."""
    document = Document(text)
    while (found := next(_ours(document), None)) is not None:
        document = Document(_without(document, found, kept))
    return document.text


def has_ours(text: str) -> bool:
    return next(_ours(Document(text)), None) is not None


def containers(text: str) -> frozenset[str]:
    """What a text already has of that which we would make: ``hooks``, and events in it."""
    node = Document(text).root
    place = node.index_of(HOOKS)
    if place is None:
        return frozenset()
    return frozenset([HOOKS, *[part.key or "" for part in node.parts[place].node.parts]])


def is_ours(handler: Json) -> bool:
    """Whether a handler starts our hook, in whichever form and from whichever place."""
    if not isinstance(handler, dict) or not isinstance(handler.get("command"), str):
        return False
    args = handler.get("args")
    if args is None:
        words = _words(handler["command"])
    elif isinstance(args, list) and all(isinstance(word, str) for word in args):
        words = [handler["command"], *args]
    else:
        return False
    if len(words) == 2 and words[1] == "hook":
        return os.path.basename(words[0]) == "holdfast"
    is_entry = len(words) > 1 and tuple(words[-1].split(os.sep)[-3:]) == ENTRY
    return is_entry and all(word.startswith("-") for word in words[1:-1])


def _words(command: str) -> list[str]:
    import shlex

    try:
        return shlex.split(command)
    except ValueError:
        return []


def _ours(document: Document) -> Iterator[_Found]:
    """All of ours, wherever they stand; what has another shape is passed over."""
    root = document.root
    top = root.index_of(HOOKS)
    if top is None:
        return
    events = root.parts[top].node
    for at, event in enumerate(events.parts):
        groups = event.node
        for place, group in enumerate(groups.parts if isinstance(groups.value, list) else []):
            inner = group.node.index_of(HOOKS)
            if inner is None:
                continue
            handlers = group.node.parts[inner].node
            steps = [(root, top), (events, at), (groups, place), (group.node, inner)]
            for number, handler in enumerate(handlers.parts):
                if handler.key is None and is_ours(handler.node.value):
                    yield _Found(event.key or "", [*steps, (handlers, number)])


def _set_right(document: Document, wanted: list[Hook]) -> str | None:
    """The text with the first of ours that is not as wanted mended or taken out."""
    asked = {hook.event: hook for hook in wanted}
    seen: set[str] = set()
    for found in _ours(document):
        hook = asked.get(found.event)
        fits = hook is not None and _all_of(hook.matcher) == _all_of(found.group.get("matcher"))
        if hook is None or not fits or found.event in seen:
            return _without(document, found, frozenset([HOOKS, *asked]))
        seen.add(found.event)
        old = found.node.value
        if any(old.get(name) != hook.handler.get(name) for name in _IN_COMMAND):
            rest = {name: value for name, value in old.items() if name not in _IN_COMMAND}
            return document.with_value(found.node, {**hook.handler, **rest})
    return None


def _all_of(matcher: Json) -> Json:
    """The three ways to say that everything matches, as one."""
    return matcher or "*"


def _with(document: Document, hook: Hook) -> str:
    root = document.root
    group = hook.as_group()
    top = root.index_of(HOOKS)
    if top is None:
        return document.with_part([root], HOOKS, {hook.event: [group]})
    events = root.parts[top].node
    place = events.index_of(hook.event)
    if place is None:
        return document.with_part([root, events], hook.event, [group])
    return document.with_part([root, events, events.parts[place].node], None, group)


def _without(document: Document, found: _Found, kept: frozenset[str]) -> str:
    """The text without this one, and without what held nothing else."""
    depth = 4
    if _is_alone(found, 4) and set(found.group) <= _GROUP:
        depth = 2
        if _is_alone(found, 2) and found.event not in kept:
            depth = 1
            if _is_alone(found, 1) and HOOKS not in kept:
                depth = 0
    return document.without_part(*found.way[depth])


def _is_alone(found: _Found, depth: int) -> bool:
    return len(found.way[depth][0].parts) == 1


def _check(document: Document, events: list[str]) -> None:
    """Refuses what a client would not take for hooks either, where ours would have to stand."""
    top = _must_be(document, document.root, dict, "the settings")
    place = top.index_of(HOOKS)
    if place is None:
        return
    hooks = _must_be(document, top.parts[place].node, dict, HOOKS)
    for part in hooks.parts:
        if part.key in events:
            for group in _must_be(document, part.node, list, f"{HOOKS}.{part.key}").parts:
                _check_group(document, group.node, f"{HOOKS}.{part.key}")


def _check_group(document: Document, node: Node, name: str) -> None:
    _must_be(document, node, dict, f"an entry of {name}")
    for part in node.parts:
        if part.key == "matcher":
            _must_be(document, part.node, str, f"matcher of {name}")
        if part.key == HOOKS:
            for handler in _must_be(document, part.node, list, f"hooks of {name}").parts:
                _must_be(document, handler.node, dict, f"a hook of {name}")


_TYPES: dict[type, str] = {dict: "an object", list: "a list", str: "text"}


def _must_be(document: Document, node: Node, kind: type, name: str) -> Node:
    if not isinstance(node.value, kind):
        raise Misfit(document.line_of(node), f"{name} must be {_TYPES[kind]}")
    return node
