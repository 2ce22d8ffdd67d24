"""The last section of ``docs/glossary.md``: every public class, in the words of its docstring."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from handbook.pages import DOCS

if TYPE_CHECKING:
    from pathlib import Path

PAGE = DOCS / "glossary.md"
SOURCE = DOCS.parent / "src" / "holdfast"
_HEADING = "\n## Classes\n"
_HEAD = f"""{_HEADING}
Every public class, by its room. This section is written by `make docs`.

| class | where | |
|---|---|---|
"""


def section() -> str:
    rows = []
    for path in sorted(SOURCE.rglob("*.py")):
        where = path.relative_to(SOURCE).as_posix()
        for node in _classes(path):
            about = (ast.get_docstring(node) or "").partition("\n")[0]
            about = about.replace("``", "`").replace("|", "\\|")
            rows.append(f"| `{node.name}` | `{where}` | {about} |")
    return _HEAD + "\n".join(rows) + "\n"


def _classes(path: Path) -> list[ast.ClassDef]:
    """Return the classes of a module, those that only the type checker sees included."""
    tree = ast.parse(path.read_text("utf-8"))
    nodes = [
        *tree.body,
        *(inner for node in tree.body if isinstance(node, ast.If) for inner in node.body),
    ]
    return [node for node in nodes if isinstance(node, ast.ClassDef) and node.name[0] != "_"]


def _whole() -> str:
    return PAGE.read_text("utf-8").partition(_HEADING)[0] + section()


def stale() -> list[str]:
    return [] if PAGE.read_text("utf-8") == _whole() else [PAGE.name]


def write() -> None:
    PAGE.write_text(_whole(), "utf-8")
