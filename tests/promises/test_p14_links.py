"""Promise 14: nothing climbs out of the workspace by a name or a link."""

import json
import os
import sqlite3
import subprocess

import pytest

from holdfast import Fault, Refused
from holdfast.core.json_text import digest
from holdfast.storage.ledger import EVENT_COLUMNS, body_of
from support.workshop import FORMATS, RECIPES, Workshop, open_workflow, worked_on

pytestmark = pytest.mark.promise(14)

HOME = ".git/holdfast"
FOLDERS = {
    "verb": ".claude",
    "formal": "untracked",
    "skill": ".claude/workflow-state",
    "loop": ".claude/iterative",
}
each_format = pytest.mark.parametrize("record_format", FORMATS)


class Outside:
    """A folder beside the workspace, and what lies in it."""

    def __init__(self, path):
        self.shop = Workshop(path, git=False)
        self.shop.write("precious.txt", b"precious")
        self.shop.write("record.json", b'{"precious": true}')
        self.before = self.listing()

    @property
    def path(self):
        return self.shop.root

    def listing(self):
        found = {"": sorted(os.listdir(self.shop.root))}
        for folder, folders, names in os.walk(self.shop.root):
            for name in [*folders, *names]:
                path = os.path.join(folder, name)
                found[path] = (os.lstat(path).st_mode, os.lstat(path).st_mtime_ns)
        return {**found, **self.shop.files()}

    def check(self):
        assert self.listing() == self.before


@pytest.fixture
def outside(tmp_path):
    return Outside(tmp_path / "outside")


def every_command(shop, record_format="skill", workflow="dev-1a2b3c4d"):
    """What a user would do; the refusals and faults that came of it."""
    attempts = [
        lambda k: k.start(RECIPES[record_format], "a subject", tasks=["one"]),
        lambda k: k.workflows(),
        lambda k: k.show(workflow=workflow),
        lambda k: k.resume(workflow=workflow),
        lambda k: k.remind("text", workflow=workflow),
        lambda k: k.complete(force=True, reason="r", workflow=workflow),
        lambda k: k.log(),
        lambda k: k.verify(),
        lambda k: k.repair(),
        lambda k: k.workflows(),
        lambda k: k.remind("text", workflow=workflow),
        lambda k: k.complete(force=True, reason="r", workflow=workflow),
    ]
    answers = []
    for attempt in attempts:
        try:
            attempt(shop.keeper())
        except (Refused, Fault) as error:
            answers.append(error)
    return answers


def check_said(answers):
    said = [answer for answer in answers if answer.code in ("outside", "not_writable", "storage")]
    assert said, [answer.message for answer in answers]
    for answer in said:
        assert "workspace" in answer.message or "link" in answer.message.lower()
        assert answer.hint


@each_format
@pytest.mark.parametrize("dangling", [False, True], ids=["to a folder", "to nothing"])
def test_a_folder_that_leads_out_is_refused(record_format, dangling, shop, outside):
    link = shop.path(FOLDERS[record_format])
    os.makedirs(os.path.dirname(link), exist_ok=True)
    os.symlink(os.path.join(outside.path, "new") if dangling else outside.path, link)
    answers = every_command(shop, record_format)
    check_said(answers)
    outside.check()


@each_format
def test_a_folder_that_becomes_a_link_later_is_refused(record_format, shop, outside):
    state = worked_on(shop.keeper(), record_format)
    folder = shop.path(FOLDERS[record_format])
    if record_format == "verb":
        folder = shop.path(".claude")
    os.rename(folder, folder + "-was")
    os.symlink(outside.path, folder)
    answers = every_command(shop, record_format, state["id"])
    check_said(answers)
    outside.check()


@each_format
@pytest.mark.parametrize("target", ["record.json", "missing.json"])
def test_a_record_that_is_a_link_is_refused(record_format, target, shop, outside):
    state = worked_on(shop.keeper(), record_format)
    os.unlink(shop.path(state["record"]))
    os.symlink(os.path.join(outside.path, target), shop.path(state["record"]))
    answers = every_command(shop, record_format, state["id"])
    check_said(answers)
    assert any(state["record"] in answer.message for answer in answers)
    outside.check()
    os.unlink(shop.path(state["record"]))
    assert shop.keeper().show(workflow=state["id"]).state == state


@each_format
def test_a_link_where_a_strangers_record_would_stand_is_not_followed(record_format, shop, outside):
    """A cloned repository may bring a link to any file of its user."""
    record = worked_on(Workshop(shop.root + "-other").keeper(), record_format)["record"]
    os.makedirs(os.path.dirname(shop.path(record)), exist_ok=True)
    os.symlink(os.path.join(outside.path, "record.json"), shop.path(record))
    every_command(shop, record_format)
    outside.check()
    assert not any(
        b"precious" in data
        for path, data in shop.files().items()
        if path != record and isinstance(data, bytes)
    )


@pytest.mark.parametrize("furnished", [False, True])
@pytest.mark.parametrize("look", ["status", "start", "log", "verify", "repair"])
def test_a_ledger_folder_that_leads_out_is_refused(furnished, look, shop, outside, tmp_path):
    if furnished:
        other = Workshop(tmp_path / "other")
        worked_on(other.keeper(), "skill")
        for path, data in other.files(without=()).items():
            if path.startswith(HOME):
                outside.shop.write(os.path.basename(path), data)
        outside.before = outside.listing()
    os.symlink(outside.path, shop.path(HOME))
    looks = {
        "status": lambda k: k.workflows(),
        "start": lambda k: k.start("dev", "a subject"),
        "log": lambda k: k.log(),
        "verify": lambda k: k.verify(),
        "repair": lambda k: k.repair(),
    }
    with pytest.raises((Refused, Fault)) as caught:
        looks[look](shop.keeper())
    assert caught.value.code == "outside"
    assert "holdfast" in caught.value.message
    outside.check()


@pytest.mark.parametrize(
    "name", ["ledger.db", "ledger.db-wal", "ledger.db-shm", "lock", "ledger.db.new", "recovering"]
)
def test_a_file_of_the_ledger_that_is_a_link_changes_nothing_outside(name, shop, outside):
    state = worked_on(shop.keeper(), "skill")
    if os.path.exists(shop.path(HOME, name)):
        os.unlink(shop.path(HOME, name))
    os.symlink(os.path.join(outside.path, "precious.txt"), shop.path(HOME, name))
    every_command(shop, "skill", state["id"])
    outside.check()


def test_a_folder_of_recovery_that_leads_out_is_not_filled(shop, outside):
    state = worked_on(shop.keeper(), "skill")
    os.symlink(outside.path, shop.path(HOME, "recovering"))
    with open(shop.path(HOME, "ledger.db"), "r+b") as file:
        file.write(b"no database at all")
    every_command(shop, "skill", state["id"])
    outside.check()


@each_format
def test_a_spare_that_is_a_link_is_not_written_through(record_format, shop, outside):
    state = worked_on(shop.keeper(), record_format)
    folder, name = os.path.split(shop.path(state["record"]))
    os.symlink(
        os.path.join(outside.path, "precious.txt"), os.path.join(folder, f".{name}.holdfast")
    )
    shop.keeper().remind("afterwards", workflow=state["id"])
    outside.check()
    assert shop.keeper().show(workflow=state["id"]).state["reminders"][-1] == "afterwards"


@each_format
def test_links_that_stay_inside_are_fine(record_format, shop):
    folder = FOLDERS[record_format]
    os.makedirs(shop.path("inside"))
    os.makedirs(os.path.dirname(shop.path(folder)), exist_ok=True)
    os.symlink(shop.path("inside"), shop.path(folder))
    state = worked_on(shop.keeper(), record_format)
    assert shop.keeper().show(workflow=state["id"]).state == state


# A ledger that somebody else wrote


def forge(shop, *drafts):
    """Write a ledger in which a stranger says what happened."""
    shop.keeper().remember("there is a ledger")
    prev = ""
    with sqlite3.connect(shop.path(HOME, "ledger.db"), isolation_level=None) as connection:
        for name in ("events_are_never_changed", "events_are_never_removed"):
            connection.execute(f"DROP TRIGGER {name}")
        for table in ("events", "streams", "states", "records"):
            connection.execute(f"DELETE FROM {table}")
        for seq, (stream, kind, data) in enumerate(drafts, 1):
            body = (
                seq, f"id{seq}", "2026-02-17T12:00:00.000Z", stream, seq, 1, kind,
                json.dumps(data), "{}", None, prev,
            )  # fmt: skip
            prev = digest(body_of(body).encode())
            marks = ",".join("?" * 12)
            query = f"INSERT INTO events ({EVENT_COLUMNS}) VALUES ({marks})"
            connection.execute(query, (*body, prev))
    connection.close()


def started_data(record, worktree=".", recipe="skill"):
    return {
        "recipe": {"name": "dev", "format": recipe, "phases": [{"name": "p"}]},
        "subject": "s",
        "title": "t",
        "branch": None,
        "worktree": worktree,
        "record": record,
        "ttl": None,
        "context": {},
        "required_reading": [],
        "reminders": [],
        "session": None,
    }


@pytest.mark.parametrize(
    "record",
    [
        "../outside/new.json",
        "/tmp/holdfast-climbed.json",
        ".claude/../../outside/new.json",
        ".git/hooks/post-checkout",
        "../outside/record.json",
    ],
)
def test_a_forged_ledger_cannot_name_a_record_outside(record, shop, outside):
    if record.startswith("/"):
        record = os.path.join(outside.path, "new.json")
    forge(shop, ("evil", "workflow_started", started_data(record)))
    every_command(shop, workflow="evil")
    outside.check()
    assert not os.path.exists(shop.path(".git/hooks/post-checkout"))


@pytest.mark.parametrize(
    "worktree", ["../../bait", "..", "../worktrees/../../bait", "", "a\0b", "/etc"]
)
def test_a_forged_ledger_cannot_name_a_worktree_outside(worktree, shop, outside):
    shop.write("bait/gitdir", f"{outside.path}/.git\n".encode())
    os.makedirs(shop.path(".git/worktrees"), exist_ok=True)
    data = started_data(".claude/workflow-state/active/evil.json", worktree)
    forge(shop, ("evil", "workflow_started", data))
    every_command(shop, workflow="evil")
    outside.check()


@pytest.mark.parametrize("stream", ["../../../outside/x", "a/../../../../outside/x", "/x", ".."])
def test_a_forged_stream_cannot_name_a_completed_record_outside(stream, shop, outside):
    data = started_data(".claude/workflow-state/active/x.json")
    forge(shop, (stream, "workflow_started", data), (stream, "workflow_completed", {}))
    every_command(shop, workflow=stream)
    outside.check()


def test_another_worktrees_records_stay_in_that_worktree(shop, tmp_path):
    """A real linked worktree: its ledger is shared, its records are its own."""
    git = ["git", "-C", shop.root, "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    subprocess.run(
        [*git, "worktree", "add", "-q", str(tmp_path / "linked")], check=True, capture_output=True
    )
    linked = Workshop(tmp_path / "linked", git=False)
    state = open_workflow(linked.keeper(), "skill")
    assert os.path.exists(linked.path(state["record"]))
    assert not os.path.exists(shop.path(state["record"]))
    assert not os.path.exists(linked.path(".claude/holdfast"))
    shop.keeper().remind("from the main worktree", workflow=state["id"])
    assert linked.document(state["record"])["_holdfast"]["seq"] == len(shop.keeper().log())
