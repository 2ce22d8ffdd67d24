"""Adopt what a Memory server knows and the ledger does not, before anything is delivered to it.

The ledger may be new, because the old one was lost, and the server may have the work of another
program. What is delivered replaces values there, so whatever they tell is taken in first: logs,
initiatives, and workflows. A workflow is adopted as an abandoned one, which ``resume ID`` takes up:
another one may have its place.
"""

from __future__ import annotations

from holdfast.core.initiative_sources import initiative_from_pages
from holdfast.core.initiatives import find_key, key_of
from holdfast.errors import HoldfastError
from holdfast.formats import initiatives as record
from holdfast.formats import stream_of
from holdfast.formats.schema import Invalid
from holdfast.keeper import degradation
from holdfast.keeper.checkpoints import GRAPH, read_checkpoints, server_of
from holdfast.layers.graph import entries, mcp_delivery
from holdfast.layers.graph.projection import INITIATIVES, SLOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.initiative_sources import Source
    from holdfast.core.types import Initiative
    from holdfast.keeper.session import Session
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction
    from holdfast.layers.graph.mcp_delivery import RemoteGraph

_REASON = "the memory graph has it, and this ledger had not"
_MAX_WORKFLOWS = 20


def adopt(session: Session, *, at_once: bool) -> bool:
    """Adopt what the configured Memory server knows, if this ledger was never delivered to it.

    ``at_once`` is as in ``mcp_delivery.call``. Return False if the server failed: the delivery,
    which comes next, need not try it again, and reports it.
    """
    store = session.store
    try:
        server = server_of(store)
        if server is None or not store.ledger.head_seq:
            return True
        if not mcp_delivery.is_unknown_to(store, server):
            return True

        def read(graph: RemoteGraph) -> list[Any]:
            return [*graph.open_nodes(list(entries.NAMES))["entities"],
                    *graph.search_nodes(SLOT)["entities"]]  # fmt: skip

        entities = mcp_delivery.call(store, server, read, at_once=at_once)
        checkpoints = read_checkpoints(store)
    except HoldfastError as error:
        return error.code != "graph_unavailable"
    with session.transaction() as tx:
        names = [*_adopt_logs(tx, entities), *_adopt_initiatives(tx, checkpoints)]
        names += _adopt_workflows(tx, entities)
    if names:
        store.note(f"taken in from mcp:{server}, which knew it: {', '.join(names)}")
    return True


def _adopt_logs(tx: Transaction, entities: list[Any]) -> list[str]:
    adopted = []
    for log, found in entries.read_entries(entities).items():
        stream = stream_of(log)
        state = tx.load(stream)
        after = entries.with_entries(state, found)
        if after != state:
            tx.do(stream, "adopt_record", {"state": after})
            tx.commit()
            adopted.append(f"{log} log")
    return adopted


def _adopt_initiatives(tx: Transaction, checkpoints: dict[str, Source]) -> list[str]:
    adopted = []
    for title, source in checkpoints.items():
        state = tx.load(INITIATIVES)
        initiative = _initiative_of(tx.store, title, source)
        if find_key(state, title) is not None or initiative is None:
            continue
        current, key = state["current"], key_of(title)
        args = {"initiative": key, "state": initiative, "sources": [GRAPH]}
        tx.do(INITIATIVES, "recover_initiative", args)
        if current is not None:
            tx.do(INITIATIVES, "use_initiative", {"name": state["all"][current]["name"]})
        tx.commit()
        adopted.append(f"initiative {title}")
    return adopted


def _initiative_of(store: Store, title: str, source: Source) -> Initiative | None:
    """Return the initiative of a checkpoint; ``None`` if it makes no sense."""
    blank = initiative_from_pages(title, [], store.now())
    document, rest = record.render_initiative(blank)
    document |= {
        "status": source.status or document["status"],
        "progress": source.progress,
        "currentMilestone": source.milestone if source.milestone in source.progress else None,
    }
    try:
        return record.parse_initiative(document, rest, store.origin("", store.workspace.name))
    except Invalid:
        return None


def _adopt_workflows(tx: Transaction, entities: list[Any]) -> list[str]:
    store, adopted = tx.store, []
    for entity in degradation.active_in(entities)[:_MAX_WORKFLOWS]:
        state = degradation.rebuild(store, entity)
        if state is None or store.ledger.stream(state["id"]) is not None:
            continue
        stream = state["id"]
        args = {"state": state, "record": state["record"]}
        drafts = tx.decide_new("adopt_record", args)
        tx.append(stream, drafts, ("adopt_record", args), show=False)
        ending = "abandon_workflow", {"reason": _REASON}
        tx.append(stream, tx.decide(stream, *ending), ending, show=False)
        tx.commit()
        adopted.append(f"{stream} (holdfast resume {stream})")
    return adopted
