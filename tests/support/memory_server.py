"""A small Memory server with the official SDK, for tests: it keeps its graph in a JSON file.

    python memory_server.py GRAPH.json [--hang N] [--die N] [--refuse] [--plain] [--socket FD]

``--hang N`` never answers the Nth call, ``--die N`` ends the process at it. Each start and each
call is a line in ``GRAPH.json.calls``.
"""

import json
import os
import sys
import time
from typing import Any

from mcp.server.mcpserver import MCPServer
from memory_model import Model

path, *words = sys.argv[1:]
app = MCPServer("memory")
calls = 0


def option(name):
    return int(words[words.index(name) + 1]) if name in words else 0


def noted(line):
    with open(f"{path}.calls", "a", encoding="utf-8") as log:
        log.write(line + "\n")


def graph_of_file():
    model = Model()
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            held = json.load(file)
        model.entities, model.relations = held["entities"], held["relations"]
    return model


def answered(name, argument):
    global calls  # noqa: PLW0603
    calls += 1
    noted(name)
    if option("--hang") == calls:
        time.sleep(3_600)
    if "--refuse" in words:
        raise ValueError("the disk of the server is full")
    model = graph_of_file()
    result = getattr(model, name)(argument)
    with open(f"{path}.tmp", "w", encoding="utf-8") as file:
        json.dump(model.read_graph(), file)
    os.replace(f"{path}.tmp", path)
    if option("--die") == calls:
        os._exit(9)
    return result


@app.tool(structured_output="--plain" not in words)
def open_nodes(names: list[str]) -> dict[str, Any]:
    return answered("open_nodes", names)


@app.tool()
def search_nodes(query: str) -> dict[str, Any]:
    return answered("search_nodes", query)


@app.tool()
def create_entities(entities: list[dict[str, Any]]) -> dict[str, Any]:
    return {"entities": answered("create_entities", entities)}


@app.tool()
def add_observations(observations: list[dict[str, Any]]) -> dict[str, Any]:
    return {"results": answered("add_observations", observations)}


@app.tool()
def delete_observations(deletions: list[dict[str, Any]]) -> dict[str, Any]:
    answered("delete_observations", deletions)
    return {"success": True, "message": "Observations deleted successfully"}


@app.tool()
def delete_entities(entityNames: list[str]) -> dict[str, Any]:  # noqa: N803
    answered("delete_entities", entityNames)
    return {"success": True, "message": "Entities deleted successfully"}


if __name__ == "__main__":
    noted("start")
    if "--socket" in words:
        import socket

        import uvicorn

        served = uvicorn.Server(uvicorn.Config(app.streamable_http_app(), log_level="error"))
        served.run(sockets=[socket.socket(fileno=option("--socket"))])
    else:
        app.run("stdio")
