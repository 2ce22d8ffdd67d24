"""What the tests of the Memory server ask it, and the files that it takes over."""

import json

ARGUMENT = {
    "create_entities": "entities",
    "create_relations": "relations",
    "add_observations": "observations",
    "delete_entities": "entityNames",
    "delete_observations": "deletions",
    "delete_relations": "relations",
    "search_nodes": "query",
    "open_nodes": "names",
}


def entity(name, *observations, kind="T"):
    return {"name": name, "entityType": kind, "observations": list(observations)}


def asked(client, tool, argument=None):
    """The whole result of a call."""
    arguments = {ARGUMENT[tool]: argument} if tool in ARGUMENT else {}
    return client.result("tools/call", {"name": tool, "arguments": arguments})


def jsonl(*entities, relations=()):
    lines = [{"type": "entity", **one} for one in entities]
    lines += [{"type": "relation", **one} for one in relations]
    return "\n".join(json.dumps(line) for line in lines)
