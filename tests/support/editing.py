"""Records that a person edits, for the tests of what an edit means."""

import copy
import json

import pytest

from holdfast.core.workflow import blank
from holdfast.formats.schema import Invalid
from holdfast.workspace import recipes
from support.strategies import origin_of

AT = "2026-04-01T10:00:00.000Z"
LATER = "2026-04-01T11:30:00+02:00"


def begun(recipe_name, *, at_phase, **fields):
    """Return a workflow of a shipped recipe that has reached a phase."""
    recipe = recipes.load(recipe_name)
    state = blank(f"{recipe_name}-1", recipe, AT)
    names = [phase["name"] for phase in state["phases"]]
    for phase in state["phases"][: names.index(at_phase)]:
        phase |= {"status": "completed", "started_at": AT, "completed_at": AT}
    state["phases"][names.index(at_phase)] |= {"status": "in_progress", "started_at": AT}
    state |= {"phase": at_phase, "record": "some/where/file.json"}
    return state | {"subject": "a subject", "title": "A title"} | fields


class Record:
    """A rendered record, to edit and to parse again."""

    def __init__(self, module, state):
        self.module = module
        self.state = state
        self.document, self.rest = json.loads(json.dumps(module.render(state)))

    def parsed(self):
        return self.module.parse(self.document, copy.deepcopy(self.rest), origin_of(self.state))

    def refused(self):
        with pytest.raises(Invalid) as caught:
            self.parsed()
        return caught.value


def statuses(state):
    return [phase["status"] for phase in state["phases"]]


def changed(before, after):
    """Return the keys of the state that an edit changed."""
    return {key for key in before | after if before.get(key) != after.get(key)}
