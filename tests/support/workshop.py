"""A workspace for tests: a real git repository, a clock that is set by hand, a workflow of each
format, and helpers that the tests of several promises share.
"""

import json
import math
import os
import random
import sys

from holdfast import Keeper
from support import fork_server
from support.git_template import make_repository
from support.paths import SOURCE

EFFORT = os.environ.get("HOLDFAST_PROMISES", "0.3")
"""The number of cases in relation to a usual ``make promises``, or ``full`` for all of them."""
FULL = EFFORT == "full"
IS_SAMPLE = not FULL and float(EFFORT) <= 1
"""True in ``make test``, which tries only a few of the larger runs."""
SEED = int(os.environ.get("HOLDFAST_SEED", "20260217"))
PATIENCE_S = float(os.environ.get("HOLDFAST_PATIENCE_S", "60"))
"""How long a test waits for what another process should do, before it fails."""
NOON = 1_771_329_600_000  # 2026-02-17T12:00:00Z
DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS
FORMATS = ("verb", "formal", "skill", "loop")
RECIPES = {"verb": "apex", "formal": "planning", "skill": "dev", "loop": "loop-development"}
HOME = ".git/holdfast"
LEDGER = f"{HOME}/ledger.db"


class Clock:
    """A clock in milliseconds that moves on by one second each time it is read."""

    def __init__(self, ms=NOON):
        self.ms = ms

    def __call__(self):
        self.ms += 1_000
        return self.ms


class Workshop:
    """A repository under ``root``, and keepers in it that share one clock and never sleep."""

    def __init__(self, root, *, git=True):
        self.root = os.fspath(root)
        self.clock = Clock()
        self.slept = []
        os.makedirs(self.root, exist_ok=True)
        if git:
            make_repository(self.root)

    def keeper(self, **options):
        settings = {"clock_ms": self.clock, "sleep": self.slept.append, **options}
        return Keeper(self.root, **settings)

    def run(self, *words, **environment):
        """Run a command line as a process of its own."""
        return fork_server.run(
            [sys.executable, "-m", "holdfast", *words],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": SOURCE, "CLAUDE_CODE_SESSION_ID": "", **environment},
            capture_output=True,
            timeout=120,
        )

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def read(self, path):
        with open(self.path(path), "rb") as file:
            return file.read()

    def write(self, path, data):
        os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
        with open(self.path(path), "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())

    def text(self, path):
        return self.read(path).decode()

    def document(self, path):
        return json.loads(self.read(path))

    def beside(self, path):
        """Return the files kept beside a record: their content by name."""
        folder, name = os.path.split(self.path(path))
        return {
            other: self.read(os.path.join(folder, other))
            for other in sorted(os.listdir(folder))
            if other.startswith(name) and other != name
        }

    def edit(self, path, change):
        """Edit a record by hand: ``change`` gets its document; the digest stays as it was."""
        document = self.document(path)
        change(document)
        self.write(path, json.dumps(document, indent=2).encode())

    def files(self, *, without=(".git",)):
        """Return the bytes of every file below the root, by path; of a link, its target."""
        contents = {}
        for folder, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if name not in without]
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), self.root)
                linked = os.path.islink(self.path(path))
                contents[path] = os.readlink(self.path(path)) if linked else self.read(path)
        return contents

    def quarantined(self):
        folder = self.path(HOME, "quarantine")
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        return [self.read(os.path.join(folder, name)) for name in names]


def open_workflow(keeper, record_format, subject="some work", **options):
    """Start a workflow with a value in every field; return its state."""
    settings = {
        "title": f"{subject}, titled",
        "tasks": ["first task", "second task", "third task"],
        "reading": ["@docs/plan.md"],
        "reminders": ["mind the gap"],
        "context": {"ticket": "T-17", "depth": {"a": [1, 2]}},
        **options,
    }
    return keeper.start(RECIPES[record_format], subject, **settings).state


def worked_on(keeper, record_format, subject="some work"):
    """Start a workflow and take a few steps; return its state."""
    workflow = open_workflow(keeper, record_format, subject)["id"]
    keeper.advance(workflow=workflow)
    first = keeper.show(workflow=workflow).state["tasks"][0]["id"]
    keeper.start_task(first, workflow=workflow)
    if record_format == "verb":
        keeper.approve_phase("plan", workflow=workflow)
    return keeper.set_context({"attempt": 2}, workflow=workflow).state


def types(keeper, workflow=None):
    return [event["type"] for event in keeper.log(workflow=workflow)]


def without_time(state):
    """Return the state without its time of update."""
    return {key: value for key, value in state.items() if key not in ("updated_at", "adopted_at")}


def lines_of(keeper):
    """Return the complaints of ``verify``; empty if all is well and up to date."""
    lines = [line for line in keeper.verify().lines if line["level"] not in ("ok", "note")]
    return [f"{line['level']} {line['what']}: {line['message']}" for line in lines]


def many(quick, whole):
    """Return the number of cases: ``quick`` times the effort, at most ``whole``."""
    return whole if FULL else min(whole, _scaled(quick))


def _scaled(count):
    return math.ceil(count * float(EFFORT))


def sampled(items, count, salt=""):
    """Return all items in a full run, else a sample that depends only on the seed."""
    candidates = list(items)
    count = len(candidates) if FULL else _scaled(count)
    if len(candidates) <= count:
        return candidates
    chosen = random.Random(f"{SEED}{salt}").sample(range(len(candidates)), count)
    return [candidates[position] for position in sorted(chosen)]


class OneWorkflow:
    """A workshop with one workflow in it, and its record."""

    def __init__(self, folder, record_format):
        self.shop = Workshop(folder)
        self.format = record_format
        self.state = worked_on(self.shop.keeper(), record_format)
        self.id, self.record = self.state["id"], self.state["record"]
        self.events = len(self.shop.keeper().log())

    def looked(self):
        """Take in the record as it is on the disk; return the state and the notes."""
        receipt = self.shop.keeper().settle(workflow=self.id)
        return receipt.state, receipt.notes

    def raw(self):
        return self.shop.read(self.record)

    def news(self):
        """Return the types of the events since the beginning of the test."""
        return types(self.shop.keeper())[self.events :]

    def last(self):
        return self.shop.keeper().log()[-1]


def edit_document(record_format, document, value="by hand"):
    """Change one value of a document, in the format's own field."""
    if record_format == "verb":
        document["context"] = value
    elif record_format == "loop":
        document["task"] = value
    else:
        document["context"]["attempt"] = value


def edited_value(state):
    """Return the value that ``edit_document`` changes."""
    if state["recipe"]["format"] in ("verb", "loop"):
        return state["title"]
    return state["context"]["attempt"]
