"""The workflow aggregate. The docstring of ``state`` describes how it works.

Importing the package enters the commands and events of all its modules.
"""

from __future__ import annotations

from holdfast.core.workflow import evidence, lifecycle, tasks
from holdfast.core.workflow.state import (
    DECIDE,
    EVOLVE,
    OPENING,
    decide,
    evolve,
)

__all__ = [
    "DECIDE",
    "EVOLVE",
    "OPENING",
    "decide",
    "evidence",
    "evolve",
    "lifecycle",
    "tasks",
]
