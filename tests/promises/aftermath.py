"""What is asked of a repository after a fault, by short processes that know nothing of it."""

import json
import os
import re

from promises.journeys import INDEX, ask, history_of, timeless

UNKNOWN = ("not_found", "no_workflow")
_PLACED = re.compile(r'"(seq|base)": \d+')
DELIVERY = "briefing_delivered"


def state_of(root, workflow):
    """The workflow as ``show`` has it, without moments; ``None`` when there is none."""
    code, answer = ask(root, "show", *([workflow] if workflow else []))
    assert code == 0 or answer["error"]["code"] in UNKNOWN, answer
    state = answer.get("workflow")
    if state is not None:
        state["history"] = [entry for entry in state["history"] if entry["event"] != DELIVERY]
    return _placeless(timeless(state))


def record_of(site):
    """The path of the record of a site's workflow."""
    code, answer = ask(site.root, "show", site.workflow)
    assert code == 0, answer
    return os.path.join(site.root, answer["workflow"]["record"])


def events(root):
    code, answer = ask(root, "log")
    assert code == 0, answer
    return answer["events"]


def history(root, workflow=None):
    """What happened, perhaps to one workflow only: version, id, type and data of each event.

    That a briefing was delivered is an event of its own, after the command's: a command that is
    killed in between delivers nothing, and one that is tried again delivers once more.
    """
    listed = [
        event
        for event in events(root)
        if workflow in (None, event["stream"]) and event["type"] != DELIVERY
    ]
    return [(*what[1:4], _placeless(what[4])) for what in history_of(listed)]


def _placeless(value):
    """The value without the places in the ledger that it names: another event may come first."""
    return json.loads(_PLACED.sub(r'"\1": 0', json.dumps(value)))


def ids(root):
    """The ids of all requests, in order."""
    return [event["id"] for event in events(root) if "." not in event["id"]]


def complaints(root, waiting=None):
    """The lines of ``verify`` that are not fine.

    That an index is behind is fine: the next event of a workflow in it brings it forward. So is a
    record with an edit that waits for the next change of its workflow.
    """
    lines = _lines(root)
    fine = [("behind", INDEX), ("behind", waiting)]
    return [line for line in lines if (line["level"], line["what"]) not in fine]


def errors(root):
    """The same without what is merely behind until the next change."""
    return [line for line in _lines(root) if line["level"] != "behind"]


def _lines(root):
    _, answer = ask(root, "verify")
    assert "lines" in answer, answer
    return [line for line in answer["lines"] if line["level"] not in ("ok", "note")]


def is_index_right(root):
    """Whether the index names exactly the active workflows that belong into it."""
    code, answer = ask(root, "status")
    assert code == 0, answer
    active = {row["id"] for row in answer["workflows"] if row["format"] == "skill"}
    path = os.path.join(root, INDEX)
    if not os.path.exists(path):
        return not active
    with open(path) as file:
        return {row["id"] for row in json.load(file)["active_workflows"]} == active
