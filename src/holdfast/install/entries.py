"""Our entries in clients' JSON files: hooks in settings, and a server in ``.mcp.json``.

All clients have the same settings: ``hooks`` maps an event to groups, and a group has a ``matcher``
and its handlers. Ours are in groups of their own, so that no group of another tool is changed. They
are recognised by the command they run: clients reject or drop keys that they do not know. So is our
server: an entry named ``holdfast`` with another command stays.
"""

from __future__ import annotations

import json
import os
import re
import shlex

from holdfast.install.agents import ENTRY, HOOKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.types import Fields, Json

SERVERS_FILE = ".mcp.json"
SERVERS = "mcpServers"
SERVER = "holdfast"
OUR_SERVER: Fields = {"command": SERVER, "args": ["mcp"]}
_GROUP_KEYS = {"matcher", HOOKS}
_COMMAND_KEYS = ("type", "command", "args")
_TYPE_NAMES: dict[type, str] = {dict: "an object", list: "a list", str: "text"}
_DEFAULT_INDENT = "  "
_FIRST_KEY = re.compile(r'\s*\{\s*\n([ \t]*)"')


class Misfit(Exception):
    """Settings of another shape than the client's: the path to the value, and what is wrong."""

    def __init__(self, path: list[str | int], why: str) -> None:
        super().__init__(why)
        self.path = path
        self.why = why


def edit(text: str, change: Callable[[Json], None]) -> str:
    """Return the text after ``change`` edited its value; the same text if the value is equal.

    Keys keep their order. Indentation, line ends and escapes are detected and kept; other white
    space is laid out anew. ``uninstall`` restores the original bytes from the journal.
    """
    value = json.loads(text)
    change(value)
    if value == json.loads(text):
        return text
    body = text.strip()
    indent: str | None = _DEFAULT_INDENT
    separators = (",", ": ")
    if (first := _FIRST_KEY.match(text)) is not None:
        indent = first[1]
    elif "\n" not in body and body != "{}":
        indent = None
        separators = (", ", ": ") if '": ' in body else (",", ":")
    has_escapes = body.isascii() and "\\u" in body
    after = json.dumps(value, indent=indent, separators=separators, ensure_ascii=has_escapes)
    after += "\n" if text.endswith("\n") else ""
    return after.replace("\n", "\r\n") if "\r\n" in text else after


def _object(settings: Json, key: str) -> Fields:
    """Return an object in the settings; an empty one if there is none."""
    value = settings.get(key) if isinstance(settings, dict) else None
    return value if isinstance(value, dict) else {}


# Hooks


def add_hooks(settings: Json, groups: dict[str, Fields]) -> None:
    """Give the settings these groups of ours, by event; raise ``Misfit`` if they do not fit in.

    A handler that runs an older command is updated where it is, and keeps its other fields. Other
    handlers of ours are removed.
    """
    _check_shape(settings, groups)
    present = set()
    for event, group, handler in list(own_handlers(settings)):
        ours = groups.get(event, {})
        is_for_others = (ours.get("matcher") or "*") != (group.get("matcher") or "*")
        if not ours or is_for_others or event in present:
            _remove(settings, event, group, handler, {HOOKS: groups})
            continue
        present.add(event)
        new = ours[HOOKS][0]
        if any(handler.get(key) != new.get(key) for key in _COMMAND_KEYS):
            rest = {key: handler[key] for key in handler if key not in _COMMAND_KEYS}
            handler.clear()
            handler.update({**new, **rest})
    events = settings.setdefault(HOOKS, {})
    for event, group in groups.items():
        if event not in present:
            events.setdefault(event, []).append(group)


def remove_hooks(settings: Json, original: Json) -> None:
    """Remove our hooks, and what is empty without them unless the original settings have it."""
    for event, group, handler in list(own_handlers(settings)):
        _remove(settings, event, group, handler, original)


def own_handlers(settings: Json) -> Iterator[tuple[str, Fields, Fields]]:
    """Yield event, group and handler of each hook of ours; skip what has another shape."""
    for event, groups in _object(settings, HOOKS).items():
        for group in groups if isinstance(groups, list) else ():
            handlers = group.get(HOOKS) if isinstance(group, dict) else None
            for handler in handlers if isinstance(handlers, list) else ():
                if is_our_handler(handler):
                    yield event, group, handler


def is_our_handler(handler: Json) -> bool:
    """Return True if a handler starts our hook, in any form and from any installation."""
    words = words_of(handler)
    if len(words) == 2 and words[1] == "hook":
        return os.path.basename(words[0]) == "holdfast"
    is_entry = len(words) > 1 and tuple(words[-1].split(os.sep)[-3:]) == ENTRY
    return is_entry and all(word.startswith("-") for word in words[1:-1])


def words_of(handler: Json) -> list[str]:
    """Return the command of a handler; empty if it has none that can be understood."""
    if not isinstance(handler, dict) or not isinstance(handler.get("command"), str):
        return []
    args = handler.get("args")
    if args is None:
        try:
            return shlex.split(handler["command"])
        except ValueError:
            return []
    if isinstance(args, list) and all(isinstance(word, str) for word in args):
        return [handler["command"], *args]
    return []


def _remove(settings: Json, event: str, group: Fields, handler: Fields, original: Json) -> None:
    """Remove a handler, and then each container that it leaves empty."""
    events = settings[HOOKS]
    group[HOOKS] = [other for other in group[HOOKS] if other is not handler]
    if group[HOOKS] or not set(group) <= _GROUP_KEYS:
        return
    events[event] = [other for other in events[event] if other is not group]
    if not events[event] and event not in _object(original, HOOKS):
        del events[event]
    if not events and HOOKS not in original:
        del settings[HOOKS]


def _check_shape(settings: Json, groups: dict[str, Fields]) -> None:
    """Raise ``Misfit`` where the client would not accept hooks of these events either."""
    _check_type(settings, dict, [], "the settings")
    _check_type(settings.get(HOOKS, {}), dict, [HOOKS], HOOKS)
    for event, present in settings.get(HOOKS, {}).items():
        if event not in groups:
            continue
        name = f"{HOOKS}.{event}"
        _check_type(present, list, [HOOKS, event], name)
        for index, group in enumerate(present):
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


# The server


def add_server(settings: Json) -> None:
    """Add our server; raise ``Misfit`` if it does not fit in."""
    _check_type(settings, dict, [], "the file")
    servers = settings.setdefault(SERVERS, {})
    _check_type(servers, dict, [SERVERS], SERVERS)
    servers.setdefault(SERVER, OUR_SERVER)


def remove_server(settings: Json, original: Json) -> None:
    """Remove our server, and the object around it if it is then empty, unless it was there."""
    if not has_server(settings):
        return
    del settings[SERVERS][SERVER]
    if not settings[SERVERS] and SERVERS not in original:
        del settings[SERVERS]


def has_server(settings: Json) -> bool:
    """Return True if the settings have a server that runs our command, from any installation."""
    server = _object(settings, SERVERS).get(SERVER)
    if not isinstance(server, dict) or not isinstance(server.get("command"), str):
        return False
    command, args = os.path.basename(server["command"]), server.get("args")
    return {"command": command, "args": args} == OUR_SERVER
