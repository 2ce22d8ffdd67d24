"""Our graph behind the protocol that the reference server speaks, as little of it as there can be.

    python bench/graphloop.py GRAPH.db

So that both are measured by the same client over the same pipes.
"""

from __future__ import annotations

import json
import sys
from json.encoder import encode_basestring as quoted

from holdfast.graph.store import GraphStore

WRAPPED = {
    "create_entities": "entities",
    "create_relations": "relations",
    "add_observations": "results",
}


def main() -> None:
    with GraphStore(sys.argv[1]) as store:
        for line in sys.stdin.buffer:
            asked = json.loads(line)
            if "id" not in asked:
                continue
            called = asked["method"] == "tools/call"
            result = _called(store, asked["params"]) if called else "{}"
            answer = f'{{"jsonrpc":"2.0","id":{asked["id"]},"result":{result}}}\n'
            sys.stdout.buffer.write(answer.encode())
            sys.stdout.buffer.flush()


def _called(store: GraphStore, asked: dict) -> str:
    made = getattr(store, asked["name"])(*asked["arguments"].values())
    wrapped = WRAPPED.get(asked["name"])
    if wrapped is None:
        pretty, content = _pretty(made), _compact(made)
    else:
        pretty = json.dumps(made, ensure_ascii=False, indent=2)
        content = json.dumps({wrapped: made}, ensure_ascii=False, separators=(",", ":"))
    return (
        f'{{"content":[{{"type":"text","text":{quoted(pretty)}}}],"structuredContent":{content}}}'
    )


def _compact(graph: dict) -> str:
    return json.dumps(graph, ensure_ascii=False, separators=(",", ":"))


def _pretty(graph: dict) -> str:
    """As ``json.dumps(graph, indent=2)``, which is not written in C, gives it."""
    return (
        f'{{\n  "entities": {_list([_entity(one) for one in graph["entities"]], 2)},\n'
        f'  "relations": {_list([_relation(one) for one in graph["relations"]], 2)}\n}}'
    )


def _entity(one: dict) -> str:
    told = _list([quoted(text) for text in one["observations"]], 6)
    return (
        f'{{\n      "name": {quoted(one["name"])},\n      "entityType": '
        f'{quoted(one["entityType"])},\n      "observations": {told}\n    }}'
    )


def _relation(one: dict) -> str:
    pairs = [f'      "{key}": {quoted(value)}' for key, value in one.items()]
    return "{\n" + ",\n".join(pairs) + "\n    }"


def _list(items: list[str], deep: int) -> str:
    if not items:
        return "[]"
    space = "\n" + " " * (deep + 2)
    return f"[{space}{f',{space}'.join(items)}\n{' ' * deep}]"


if __name__ == "__main__":
    main()
