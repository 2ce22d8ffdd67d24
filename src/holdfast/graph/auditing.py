"""The graph's part in ``verify`` and ``repair``; where there is none, SQLite is not even loaded."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.audit.history import Report
    from holdfast.engine import Engine

NAME = "graph.db"


def check(engine: Engine, report: Report) -> None:
    if _is_there(engine):
        from holdfast.graph import checking

        _say(report, checking.check(engine))


def repair(engine: Engine, report: Report) -> None:
    if _is_there(engine):
        from holdfast.graph import checking

        _say(report, checking.repair(engine))


def _is_there(engine: Engine) -> bool:
    return os.path.lexists(os.path.join(engine.workspace.home, NAME))


def _say(report: Report, found: tuple[str, str] | None) -> None:
    if found is not None:
        report.say(found[0], NAME, found[1])
