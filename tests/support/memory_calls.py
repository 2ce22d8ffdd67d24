"""Calls to the Memory server, and files that it imports, for its tests."""

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


def call_tool(client, tool, argument=None):
    """Call a tool; return the whole result."""
    arguments = {ARGUMENT[tool]: argument} if tool in ARGUMENT else {}
    return client.result("tools/call", {"name": tool, "arguments": arguments})


def jsonl(*entities, relations=()):
    lines = [{"type": "entity", **fields} for fields in entities]
    lines += [{"type": "relation", **fields} for fields in relations]
    return "\n".join(json.dumps(line) for line in lines)
