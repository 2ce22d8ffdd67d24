"""List what Holdfast has, from its own code: commands, events, settings, codes, variables."""

from __future__ import annotations

import ast
import functools
import re
from typing import TYPE_CHECKING, Any

from handbook.pages import ROOT
from holdfast import formats as records
from holdfast.cli.parser import COMMON, GROUPS, load_all
from holdfast.formats import LOGS
from holdfast.hooks import handlers
from holdfast.install.agents import AGENTS
from holdfast.mcp import memory, workflow_tools
from holdfast.storage import skill_index
from holdfast.workspace import recipes as shelf
from holdfast.workspace import settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOURCE = ROOT / "src"
RAISED = ("Refusal", "Refused", "Fault", "_error", "_trouble")
"""Functions whose first argument is the code of an error."""
_ERRORS = ("HoldfastError", "Refused", "Fault")
_VARIABLE = re.compile(r"HOLDFAST_[A-Z_]+[A-Z]")


def commands() -> list[str]:
    return list(load_all())


def groups() -> list[str]:
    load_all()
    return list(GROUPS)


def options(command: str) -> list[str]:
    """Return the options of a command, its own first, with their short forms."""
    every = (*load_all()[command].options, *COMMON)
    return [name for option in every for name in (option.name, option.short) if name]


def own_options(command: str) -> list[str]:
    return [option.name for option in load_all()[command].options]


def hook_events() -> list[str]:
    """Return the events that the hook answers, and those that ``init`` registers."""
    registered = {event for agent in AGENTS.values() for event in (*agent.events, *agent.enforcing)}
    return sorted({*handlers.EVENTS, *registered})


def tool_words() -> dict[str, list[str]]:
    """Return the tools of ``holdfast mcp``, each with the words that choose its action."""
    return {
        tool["name"]: _enums(tool["inputSchema"]["properties"]) for tool in workflow_tools.TOOLS
    }


def _enums(properties: dict[str, Any]) -> list[str]:
    chosen = ("action", "kind")
    return [word for name in chosen for word in properties.get(name, {}).get("enum", ())]


def memory_tools_named() -> list[str]:
    return [tool["name"] for tool in memory.TOOLS]


def setting_keys() -> list[str]:
    """Return every key of the settings, from the errors about unknown keys."""
    keys = []
    for key in _accepted_keys(_refusal({"?": 0})):
        is_table = _refusal({key: 0}).why == "must be a table"
        keys += _keys_of(key) if is_table else [key]
    return sorted(keys)


def _keys_of(table: str) -> list[str]:
    """Return the keys of a table; NAME is a key that people choose."""
    refused = _refusal({table: {"n": {"?": 0}}})
    if not _accepted_keys(refused):
        return [f"{table}.NAME"]
    prefix = f"{table}.NAME" if refused.key == f"{table}.n.?" else table
    return [f"{prefix}.{name}" for name in _accepted_keys(refused)]


def _accepted_keys(refused: settings.BadValue) -> list[str]:
    """Return the keys that an error about an unknown key lists."""
    named = refused.why.partition("known are ")[2]
    return named.split(", ") if named else []


def _refusal(wrong: dict[str, Any]) -> settings.BadValue:
    try:
        settings.check_table(wrong, "", settings._RULES_OF_PERSON)  # noqa: SLF001
    except settings.BadValue as bad:
        return bad
    raise AssertionError("a wrong setting was taken")


def formats() -> list[str]:
    return list(records.FORMATS)


def record_places() -> dict[str, str]:
    """Return the paths of the records other than workflows, by kind."""
    return {**LOGS, "index": skill_index.NAME}


def recipes() -> dict[str, Any]:
    return {name: shelf.load(name) for name in shelf.names()}


def skills() -> list[str]:
    return sorted(path.parent.name for path in (ROOT / "plugin" / "skills").glob("*/SKILL.md"))


@functools.cache
def trees(source: Path = SOURCE) -> dict[Path, ast.Module]:
    paths = sorted(source.rglob("*.py"))
    return {path: ast.parse(path.read_text("utf-8")) for path in paths}


@functools.cache
def error_codes() -> list[str]:
    """Return every error code in the source."""
    return sorted({code for tree in trees().values() for code in codes_in(tree)})


def codes_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and name_of(node.func) in RAISED:
            yield from texts(node.args[0])
        elif isinstance(node, ast.ClassDef) and {*map(name_of, node.bases)} & {*_ERRORS}:
            yield from _given_by_class(node)
        elif isinstance(node, ast.Dict):
            yield from _given_as_fields(node)


def _given_by_class(node: ast.ClassDef) -> Iterator[str]:
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__":
            yield from texts(call.args[0])


def _given_as_fields(node: ast.Dict) -> Iterator[str]:
    """Yield the code in ``{"code": …, "message": …}`` or ``{**error, "code": …}``."""
    keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
    if "code" in keys and ("message" in keys or None in keys):
        yield from texts(node.values[keys.index("code")])


def name_of(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def texts(node: ast.expr) -> list[str]:
    """Return the string values of an expression: a literal, or both branches of a condition."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return [*texts(node.body), *texts(node.orelse)]
    return []


@functools.cache
def variables() -> list[str]:
    """Return the environment variables that the source reads, and all named ``HOLDFAST_…``."""
    names: set[str] = set()
    for tree in trees().values():
        constants = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                names |= set(_VARIABLE.findall(node.value))
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("environ.get"):
                argument = node.args[0]
                if isinstance(argument, ast.Name):
                    argument = constants.get(argument.id, argument)
                names |= set(texts(argument))
    names |= {agent.home[0] for agent in AGENTS.values()}
    return sorted(names)
