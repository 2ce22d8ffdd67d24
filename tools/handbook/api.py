"""The library's reference, ``docs/api.md``: every public method, with its docstring."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from handbook.pages import DOCS

PAGE = DOCS / "api.md"
_HEAD = """\
# The library's methods

This page is written by `make docs` from the methods themselves. [library.md](library.md) tells how
to use them. Arguments behind `*` are given by name. `workflow` is the id of the one that is meant
(default: this session's, else this branch's); `id` names the request, so that a retry is applied
once.
"""
HOMES = {
    "Keeper": ("holdfast.keeper", "`from holdfast import Keeper`; one for each folder and session"),
    "Evidence": ("holdfast.keeper.evidence", "`keeper.evidence()`"),
    "Loops": ("holdfast.loops", "`Loops(keeper)`"),
    "Initiatives": ("holdfast.initiatives", "`Initiatives(keeper)`"),
    "Sharing": ("holdfast.hub", "`Sharing(keeper)`"),
    "Pool": ("holdfast.hub.pool", "`Pool(keeper)`"),
    "Interviews": ("holdfast.keeper.logs", "`keeper.interviews()`"),
    "Delegations": ("holdfast.keeper.logs", "`keeper.delegations()`"),
    "Memory": ("holdfast.layers.memory", "`keeper.memory()`"),
}
_OF_ALL = ("workflow", "id")
_UNPACKED = {"target": _OF_ALL, "choice": ("grep", "since", "types", "task", "by")}
"""Keywords that several methods take, by the name under which they do."""


def markdown() -> str:
    parts = [_HEAD]
    for name, (home, how) in HOMES.items():
        kind = getattr(importlib.import_module(home), name)
        rows = [_row(kind, method) for method in methods(kind)]
        parts.append("\n".join([f"## {name}\n", f"{how}.\n", "| method | |", "|---|---|", *rows]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def methods(kind: Any) -> list[str]:
    return [name for name, _ in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"]


def _row(kind: Any, name: str) -> str:
    method = getattr(kind, name)
    about = " ".join((inspect.getdoc(method) or "").partition("\n\n")[0].split())
    about = about.replace("``", "`").replace("|", "\\|")
    return f"| `{name}({_arguments(method)})` | {about} |"


def _arguments(method: Any) -> str:
    parts: list[str] = []
    for name, parameter in list(inspect.signature(method).parameters.items())[1:]:
        unpacked = _UNPACKED.get(name) if parameter.kind is parameter.VAR_KEYWORD else None
        by_name = unpacked is not None or parameter.kind is parameter.KEYWORD_ONLY
        if by_name and not any(part.startswith("*") for part in parts):
            parts.append("*")
        has_default = parameter.default is not parameter.empty
        default = f"={_default_text(parameter.default)}" if has_default else ""
        if unpacked is not None:
            parts += unpacked
        elif by_name and name in _OF_ALL:
            parts.append(name)
        elif parameter.kind is parameter.VAR_KEYWORD:
            parts.append(f"**{name}")
        elif parameter.kind is parameter.VAR_POSITIONAL:
            parts.append(f"*{name}")
        else:
            parts.append(f"{name}{default}")
    return ", ".join(parts)


def _default_text(default: object) -> str:
    return "…" if callable(default) else repr(default)


def stale() -> list[str]:
    is_same = PAGE.exists() and PAGE.read_text("utf-8") == markdown()
    return [] if is_same else [PAGE.name]


def write() -> None:
    PAGE.write_text(markdown(), "utf-8")
