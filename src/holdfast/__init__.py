"""Holdfast keeps the state of a coding agent's work, so that the next session simply goes on."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.errors import Fault, HoldfastError, Refused
    from holdfast.hub import Sharing
    from holdfast.hub.pool import Pool
    from holdfast.initiatives import Initiatives
    from holdfast.keeper import Keeper, Receipt
    from holdfast.loops import Loops

__version__ = "0.1.0"
__all__ = [
    "Fault",
    "HoldfastError",
    "Initiatives",
    "Keeper",
    "Loops",
    "Pool",
    "Receipt",
    "Refused",
    "Sharing",
    "__version__",
]

_HOMES = {
    "Fault": "holdfast.errors",
    "HoldfastError": "holdfast.errors",
    "Initiatives": "holdfast.initiatives",
    "Keeper": "holdfast.keeper",
    "Loops": "holdfast.loops",
    "Pool": "holdfast.hub.pool",
    "Receipt": "holdfast.keeper",
    "Refused": "holdfast.errors",
    "Sharing": "holdfast.hub",
}


def __getattr__(name: str) -> object:
    """The public names, loaded when they are asked for: a hook that does nothing pays nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
