"""Our hooks in a client's settings: recognise them, add them, remove them.

All clients have the same shape: ``hooks`` maps an event to groups, and a group has a ``matcher``
and its handlers. Ours are in groups of their own, so that no group of another tool is changed.
They are recognised by the command they run: clients reject or drop keys that they do not know.
"""

from __future__ import annotations

import os

from holdfast.install.json_settings import Misfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.types import Fields, Json

HOOKS = "hooks"
ENTRY = ("holdfast", "hooks", "entry.py")
_GROUP_KEYS = {"matcher", "hooks"}
_COMMAND_KEYS = ("type", "command", "args")
_TYPE_NAMES: dict[type, str] = {dict: "an object", list: "a list", str: "text"}


class Hook:
    """A hook to install: the event, the tools it is for (``None`` for all), and the handler."""

    __slots__ = ("event", "handler", "matcher")

    def __init__(self, event: str, matcher: str | None, handler: Fields) -> None:
        self.event = event
        self.matcher = matcher
        self.handler = handler

    def as_group(self) -> Fields:
        matcher = {} if self.matcher is None else {"matcher": self.matcher}
        return {**matcher, HOOKS: [self.handler]}


def add_hooks(settings: Json, hooks: list[Hook]) -> None:
    """Give the settings exactly these hooks of ours; raise ``Misfit`` if they do not fit in.

    A handler that runs an older command is updated where it is, and keeps its other fields.
    """
    by_event = {hook.event: hook for hook in hooks}
    _check_shape(settings, by_event)
    present = set()
    for event, group, handler in list(own_handlers(settings)):
        hook = by_event.get(event)
        is_for_others = hook and (hook.matcher or "*") != (group.get("matcher") or "*")
        if hook is None or is_for_others or event in present:
            _remove(settings, event, group, handler, kept=[HOOKS, *by_event])
            continue
        present.add(event)
        if any(handler.get(key) != hook.handler.get(key) for key in _COMMAND_KEYS):
            rest = {key: handler[key] for key in handler if key not in _COMMAND_KEYS}
            handler.clear()
            handler.update({**hook.handler, **rest})
    events = settings.setdefault(HOOKS, {})
    for hook in hooks:
        if hook.event not in present:
            events.setdefault(hook.event, []).append(hook.as_group())


def remove_hooks(settings: Json, kept: Iterable[str] = ()) -> None:
    """Remove our hooks, and what is empty without them unless its key is in ``kept``."""
    for event, group, handler in list(own_handlers(settings)):
        _remove(settings, event, group, handler, kept)


def own_handlers(settings: Json) -> Iterator[tuple[str, Fields, Fields]]:
    """Yield event, group and handler of each hook of ours; skip what has another shape."""
    events = settings.get(HOOKS) if isinstance(settings, dict) else None
    for event, groups in events.items() if isinstance(events, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            handlers = group.get(HOOKS) if isinstance(group, dict) else None
            for handler in handlers if isinstance(handlers, list) else ():
                if is_ours(handler):
                    yield event, group, handler


def containers(settings: Json) -> frozenset[str]:
    """Return the keys of ``hooks`` and of the events in it, as far as they are there."""
    events = settings.get(HOOKS) if isinstance(settings, dict) else None
    return frozenset([HOOKS, *events]) if isinstance(events, dict) else frozenset()


def is_ours(handler: Json) -> bool:
    """Return True if a handler starts our hook, in any form and from any installation."""
    if not isinstance(handler, dict) or not isinstance(handler.get("command"), str):
        return False
    args = handler.get("args")
    if args is None:
        words = _split(handler["command"])
    elif isinstance(args, list) and all(isinstance(word, str) for word in args):
        words = [handler["command"], *args]
    else:
        return False
    if len(words) == 2 and words[1] == "hook":
        return os.path.basename(words[0]) == "holdfast"
    is_entry = len(words) > 1 and tuple(words[-1].split(os.sep)[-3:]) == ENTRY
    return is_entry and all(word.startswith("-") for word in words[1:-1])


def _split(command: str) -> list[str]:
    import shlex

    try:
        return shlex.split(command)
    except ValueError:
        return []


def _remove(
    settings: Json, event: str, group: Fields, handler: Fields, kept: Iterable[str]
) -> None:
    """Remove a handler, and then each container that it leaves empty."""
    events = settings[HOOKS]
    group[HOOKS] = [other for other in group[HOOKS] if other is not handler]
    if group[HOOKS] or not set(group) <= _GROUP_KEYS:
        return
    events[event] = [other for other in events[event] if other is not group]
    if not events[event] and event not in kept:
        del events[event]
    if not events and HOOKS not in kept:
        del settings[HOOKS]


def _check_shape(settings: Json, events: Iterable[str]) -> None:
    """Raise ``Misfit`` where the client would not accept hooks of these events either."""
    _check_type(settings, dict, [], "the settings")
    if HOOKS not in settings:
        return
    _check_type(settings[HOOKS], dict, [HOOKS], HOOKS)
    for event in [name for name in settings[HOOKS] if name in events]:
        groups, name = settings[HOOKS][event], f"{HOOKS}.{event}"
        _check_type(groups, list, [HOOKS, event], name)
        for index, group in enumerate(groups):
            path: list[str | int] = [HOOKS, event, index]
            _check_type(group, dict, path, f"an entry of {name}")
            _check_type(group.get("matcher", ""), str, [*path, "matcher"], f"matcher of {name}")
            handlers = group.get(HOOKS, [])
            _check_type(handlers, list, [*path, HOOKS], f"hooks of {name}")
            for at, handler in enumerate(handlers):
                _check_type(handler, dict, [*path, HOOKS, at], f"a hook of {name}")


def _check_type(value: Json, kind: type, path: list[str | int], name: str) -> None:
    if not isinstance(value, kind):
        raise Misfit(path, f"{name} must be {_TYPE_NAMES[kind]}")
