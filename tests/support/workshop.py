"""A workspace to try things in: a real git repository, a clock that is set by hand, one workflow
of each format, and the questions that tests of different promises ask alike.
"""

import json
import os
import random
import sys

from holdfast import Keeper
from support import fork_server
from support.git_template import make_repository
from support.paths import SOURCE

EFFORT = os.environ.get("HOLDFAST_PROMISES", "1")
"""How much is tried: so many times what a quick run tries, or ``full``: all of it."""
FULL = EFFORT == "full"
SEED = int(os.environ.get("HOLDFAST_SEED", "20260217"))
NOON = 1_771_329_600_000  # 2026-02-17T12:00:00Z
DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS
FORMATS = ("verb", "formal", "skill", "loop")
RECIPES = {"verb": "apex", "formal": "planning", "skill": "dev", "loop": "loop-development"}
HOME = ".git/holdfast"
LEDGER = f"{HOME}/ledger.db"


class Clock:
    """Milliseconds; every look takes one second."""

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
        """The command line, as a process of its own."""
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
        """Names of the files that were kept beside a record, with what they hold."""
        folder, name = os.path.split(self.path(path))
        return {
            other: self.read(os.path.join(folder, other))
            for other in sorted(os.listdir(folder))
            if other.startswith(name) and other != name
        }

    def edit(self, path, change):
        """Edits a record by hand: ``change`` gets its document; the digest stays as it was."""
        document = self.document(path)
        change(document)
        self.write(path, json.dumps(document, indent=2).encode())

    def files(self, *, without=(".git",)):
        """Every file below the root, with its bytes; a link with where it leads."""
        found = {}
        for folder, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if name not in without]
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), self.root)
                linked = os.path.islink(self.path(path))
                found[path] = os.readlink(self.path(path)) if linked else self.read(path)
        return found

    def quarantined(self):
        folder = self.path(HOME, "quarantine")
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        return [self.read(os.path.join(folder, name)) for name in names]


def open_workflow(keeper, record_format, subject="some work", **options):
    """A workflow of the format with something in every corner; its state."""
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
    """A workflow that has gone a few steps."""
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
    """The state without what every event sets anew."""
    return {key: value for key, value in state.items() if key != "updated_at"}


def lines_of(keeper):
    """What ``verify`` complains about; nothing when all is well and up to date."""
    report = keeper.verify()
    return [
        f"{ln['level']} {ln['what']}: {ln['message']}" for ln in report.lines if ln["level"] != "ok"
    ]


def many(quick, whole):
    """How often something is tried: ``quick`` times the effort, and never more than ``whole``."""
    return whole if FULL else min(whole, quick * int(EFFORT))


def sampled(items, count, salt=""):
    """All of the items in a full run, else some of them: always the same for the same seed."""
    listed = list(items)
    count = len(listed) if FULL else count * int(EFFORT)
    if len(listed) <= count:
        return listed
    chosen = random.Random(f"{SEED}{salt}").sample(range(len(listed)), count)
    return [listed[position] for position in sorted(chosen)]


class OneWorkflow:
    """A workshop with one workflow in it, and its record."""

    def __init__(self, folder, record_format):
        self.shop = Workshop(folder)
        self.format = record_format
        self.state = worked_on(self.shop.keeper(), record_format)
        self.id, self.record = self.state["id"], self.state["record"]
        self.events = len(self.shop.keeper().log())

    def looked(self):
        """The state and the notes after what stands in the record's place was taken in."""
        receipt = self.shop.keeper().settle(workflow=self.id)
        return receipt.state, receipt.notes

    def raw(self):
        return self.shop.read(self.record)

    def news(self):
        """The types of the events since the beginning of the test."""
        return types(self.shop.keeper())[self.events :]

    def last(self):
        return self.shop.keeper().log()[-1]


def edit_document(record_format, document, value="by hand"):
    """One change in the format's own words."""
    if record_format == "verb":
        document["context"] = value
    elif record_format == "loop":
        document["task"] = value
    else:
        document["context"]["attempt"] = value


def edited_value(state):
    """Where the change of ``edit_document`` arrives."""
    if state["recipe"]["format"] in ("verb", "loop"):
        return state["title"]
    return state["context"]["attempt"]
