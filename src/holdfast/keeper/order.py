"""The order of workflows: what has to be completed before another one is taken from the pool."""

from __future__ import annotations

from holdfast.core.refusal import shell_word
from holdfast.core.workflow.pool import find_circle
from holdfast.errors import Refused
from holdfast.formats import is_workflow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.keeper.session import Session
    from holdfast.keeper.store import Store


def after_of(store: Store, name: str) -> list[str]:
    """Return the workflows that another one comes after."""
    stored = store.ledger.stream(name) if is_workflow(name) else None
    return [] if stored is None else list(stored.state.get("after", ()))


def check_order(session: Session, tried: str, name: str, after: Sequence[str]) -> None:
    """Raise ``Refused`` if a workflow is to come after one that is unknown, or after itself."""
    store = session.store
    for other in after:
        if not is_workflow(other) or store.ledger.stream(other) is None:
            raise session.not_found(other)
    circle = find_circle(name, list(after), lambda one: after_of(store, one))
    if circle:
        way = " after ".join(circle[:10])
        hint = "holdfast pool ready"
        if len(circle) > 2:  # Else this change alone would make the circle.
            first, then = map(shell_word, circle[-2:])
            hint = f"holdfast pool change {first} --no-after {then}"
        raise Refused("wrong_order", f"{tried}: {name} would wait for itself: {way}", hint)
