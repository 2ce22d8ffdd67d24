"""The same for pages and files that people share with Holdfast: read, patched, and nothing lost."""

import functools

from fuzz import inputs
from holdfast.core import json_text
from holdfast.errors import HoldfastError
from holdfast.initiatives import BadFile, status_yaml
from holdfast.initiatives import pages as milestone_pages
from holdfast.install.agents import AGENTS, TEAM
from holdfast.install.client_files import ServersFile, SettingsFile
from holdfast.loops import page_model, progress_log
from holdfast.loops.rebuild import rebuild_record
from holdfast.workspace.location import find
from loops import walks

VALUES = {
    "initiative": "Tidy billing",
    "milestone": "M2",
    "status": "in_progress",
    "updated": "2026-04-01T08:00:00.000Z",
}
PROGRESS = {"M1": "completed", "M2": "in_progress"}
AT = "2026-04-01T08:00:00.000Z"


@functools.cache
def _loop():
    return walks.Loop().planned("T1").planned("T2", depends=["T1"]).finished("T1")


def workflow_status(data):
    """The values are there afterwards, and everybody's own lines are too."""
    try:
        after = status_yaml.Status(data).with_values(VALUES, PROGRESS)
    except BadFile as bad:
        assert bad.line >= 1
        raise
    told = status_yaml.Status(after)
    assert (told.milestone, told.status) == (VALUES["milestone"], VALUES["status"])
    assert told.with_values(VALUES, PROGRESS) == after
    comments = [row for row in data.split(b"\n") if row.startswith(b"#")]
    assert [row for row in comments if row.rstrip(b"\r") not in after] == []


@functools.cache
def _initiative():
    milestones = [
        {"id": name, "title": "x", "status": "completed", "tasks": [{"text": "one", "done": True}]}
        for name in ("M1", "M2")
    ]
    return {"name": "Tidy billing", "milestones": milestones}


def milestone_page(data):
    """A tick is one letter; a page that is ours gets rows, and loses none."""
    for name, is_ours in (("", False), ("M1-map.md", True)):
        page = milestone_pages.MilestonePage(data, name)
        milestone_pages.merge_pages([page])
        after = page.ticked(_initiative(), is_own=is_ours)
        old, new = data.replace(b"[ ]", b"[x]"), after.replace(b"[ ]", b"[x]")
        if not is_ours:
            assert new == old
            assert len(after) == len(data)
        assert len(after) >= len(data)
        again = milestone_pages.MilestonePage(after, name)
        assert again.ticked(_initiative(), is_own=is_ours) == after


def loop_units(data):
    text = data.decode("utf-8", "surrogateescape")
    for mode in walks.MODES:
        told, complaints = page_model.read_units(text, mode)
        assert all(one.startswith("line ") for one in complaints)
        assert len({unit["id"] for unit in told}) == len(told)
    # What the first time could not be understood may be by the second, with the units that came.
    twice = page_model.patch_units(page_model.patch_units(text, _loop().state), _loop().state)
    assert page_model.patch_units(twice, _loop().state) == twice


def loop_pages(data):
    """The brief, the lessons, and all pages together."""
    text = data.decode("utf-8", "surrogateescape")
    page_model.read_brief(text)
    page_model.read_guardrails(text)
    state = {**_loop().state, "guardrails": [{"name": "a", "when": "b"}]}
    once = page_model.patch_guardrails(text, state)
    assert once.startswith(text)
    assert page_model.patch_guardrails(once, state) == once
    document, _ = rebuild_record(text, text, text, text, "x", "development", lambda _: None)
    assert document["slug"] == "x"


def loop_log(data):
    """What is appended is found again, so that it is appended once."""
    text = data.decode("utf-8", "surrogateescape")
    progress_log.without_cut_entries(progress_log.read_entries(text))
    whole = text + progress_log.LogComparison(text, _loop().events).addition()
    assert progress_log.LogComparison(whole, _loop().events).addition() == ""


@functools.cache
def _client_files():
    here = find(inputs.workspace())
    found = [SettingsFile(agent, TEAM, here, enforce=True) for agent in AGENTS.values()]
    return [*found, ServersFile(AGENTS["claude"], here)]


def client_settings(data):
    """Put in twice is put in once; taken out again, nothing of anybody's is gone."""
    answers = []
    for file in _client_files():
        try:
            new = file.with_ours(data, None)
        except HoldfastError as error:
            answers.append(error)
            continue
        assert file.with_ours(new, None) == new
        left = file.without_ours(new, None)
        assert file.without_ours(file.with_ours(left, None), None) == left
        if b"holdfast" not in data and b"hooks" not in data and b"mcpServers" not in data:
            before = data if data.removeprefix(b"\xef\xbb\xbf").strip() else b"{}"
            assert json_text.loads(left) == json_text.loads(before)
    if answers:
        raise answers[0]
