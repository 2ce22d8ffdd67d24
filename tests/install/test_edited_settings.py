"""Somebody else changed the file: theirs stays, ours goes, and nothing is doubled."""

import json
import os

import pytest

from holdfast import install
from holdfast.install.agents import AGENTS, TEAM_HOOK
from holdfast.install.client_files import is_our_handler
from holdfast.system.disk import Disk
from support.settings_samples import FILES

TEAM = ".claude/settings.json"
OURS = [
    {"type": "command", "command": TEAM_HOOK},
    {"type": "command", "command": "holdfast hook"},
    {"type": "command", "command": "/usr/local/bin/holdfast hook", "timeout": 3},
    {"type": "command", "command": "holdfast", "args": ["hook"]},
    {
        "type": "command",
        "command": "/old/python",
        "args": ["-I", "-S", "/x/holdfast/hooks/entry.py"],
    },
    {"type": "command", "command": "'/an old/python' -I -S '/a b/holdfast/hooks/entry.py'"},
]
THEIRS = [
    {"type": "command", "command": "holdfast status"},
    {"type": "command", "command": "holdfast hook; rm x"},
    {"type": "command", "command": "echo holdfast hook"},
    {"type": "command", "command": "holdfast hook --verbose"},
    {"type": "command", "command": "unbalanced 'quote holdfast hook"},
    {"type": "command", "command": "python", "args": ["tests/hooks/entry.py"]},
    {"type": "command", "command": "python", "args": ["x", "/x/holdfast/hooks/entry.py"]},
    {"type": "command", "command": "python", "args": "holdfast/hooks/entry.py"},
    {"type": "command", "command": "holdfast", "args": [1]},
    {"type": "command", "command": 3},
    {"type": "prompt", "prompt": "holdfast hook"},
    "holdfast hook",
    None,
]


@pytest.mark.parametrize("handler", OURS)
def test_ours_is_known_in_every_form(handler):
    assert is_our_handler(handler)


@pytest.mark.parametrize("handler", THEIRS)
def test_what_is_not_exactly_ours_is_not(handler):
    assert not is_our_handler(handler)


@pytest.mark.parametrize("scope", ["team", "local"])
@pytest.mark.parametrize("old", OURS)
def test_an_older_form_is_replaced_in_its_place_and_keeps_what_was_added_to_it(project, scope, old):
    file = AGENTS["claude"].files[scope]
    theirs = {"type": "command", "command": "date"}
    group = {"hooks": [theirs, {**old, "statusMessage": "…", "timeout": 44}]}
    settings = {"hooks": {"SessionStart": [group, {"hooks": [theirs]}]}, "model": "opus"}
    project.write(file, json.dumps(settings, indent=2, ensure_ascii=False))
    project.init(scope=scope)
    text = project.read(file).decode()
    new = json.loads(text)
    assert text == json.dumps(new, indent=2, ensure_ascii=False)
    wanted = AGENTS["claude"].hooks(scope, enforce=False)["SessionStart"]["hooks"][0]
    first, second = new["hooks"]["SessionStart"]
    assert first == {"hooks": [theirs, {**wanted, "statusMessage": "…", "timeout": 44}]}
    assert second == {"hooks": [theirs]}
    assert list(new) == ["hooks", "model"]


def test_one_that_stands_twice_or_under_another_matcher_is_left_once(project):
    ours = {"hooks": [OURS[0]]}
    settings = {"hooks": {"PostToolUse": [{"matcher": "*", **ours}], "SessionStart": [ours, ours]}}
    project.write(TEAM, json.dumps(settings))
    project.init()
    hooks = json.loads(project.read(TEAM))["hooks"]
    assert hooks["SessionStart"] == [ours]
    assert [group["matcher"] for group in hooks["PostToolUse"]] == ["Read"]


@pytest.mark.parametrize("matcher", ["", "*"])
def test_a_matcher_that_matches_everything_is_as_good_as_none(project, matcher):
    project.write(TEAM, json.dumps({"hooks": {"Stop": [{"matcher": matcher, "hooks": [OURS[0]]}]}}))
    project.init(enforce=True)
    assert json.loads(project.read(TEAM))["hooks"]["Stop"][0]["matcher"] == matcher


def edit_settings(project, change):
    settings = json.loads(project.read(TEAM))
    change(settings)
    project.write(TEAM, json.dumps(settings, indent=2, ensure_ascii=False) + "\n")


def test_ours_goes_and_what_others_added_stays(project):
    project.write(TEAM, FILES["big"])
    project.init(enforce=True)
    theirs = {"type": "command", "command": "say hello"}

    def change(settings):
        settings["theme"] = "dark"
        settings["hooks"]["SessionStart"][-1]["hooks"].insert(0, theirs)
        settings["hooks"]["SessionEnd"].append({"hooks": [theirs]})
        settings["hooks"]["Stop"].insert(0, {"hooks": [theirs]})

    edit_settings(project, change)
    assert project.how(project.uninstall()) == {TEAM: "changed"}
    expected = json.loads(FILES["big"])
    expected["hooks"]["SessionStart"].append({"hooks": [theirs]})
    expected["hooks"]["SessionEnd"] = [{"hooks": [theirs]}]
    expected["hooks"]["Stop"] = [{"hooks": [theirs]}]
    expected["theme"] = "dark"
    text = project.read(TEAM).decode()
    assert text == json.dumps(expected, indent=2, ensure_ascii=False) + "\n"
    assert project.names() == [".claude", TEAM]


@pytest.mark.parametrize("name", ["empty hooks", "empty events"])
def test_what_was_empty_before_is_left_empty(project, name):
    project.write(TEAM, FILES[name])
    project.init(enforce=True)
    edit_settings(project, lambda settings: settings.update(theme="dark"))
    project.uninstall()
    assert json.loads(project.read(TEAM)) == {**json.loads(FILES[name]), "theme": "dark"}


def test_a_group_with_more_than_ours_to_say_stays(project):
    group = {"description": "mine", "hooks": [OURS[0]]}
    project.write(TEAM, json.dumps({"hooks": {"Foo": [group]}}))
    project.uninstall()
    left = {"hooks": {"Foo": [{"description": "mine", "hooks": []}]}}
    assert json.loads(project.read(TEAM)) == left


def test_a_file_that_init_made_goes_although_it_was_laid_out_anew(project):
    project.init()
    settings = json.loads(project.read(TEAM))
    project.write(TEAM, json.dumps(settings))
    assert project.how(project.uninstall()) == {TEAM: "removed"}
    assert project.names() == []


def test_a_file_that_init_made_stays_when_it_has_something_else(project):
    project.init()
    edit_settings(project, lambda settings: settings.update(model="opus"))
    assert project.how(project.uninstall()) == {TEAM: "changed"}
    assert project.read(TEAM) == b'{\n  "model": "opus"\n}\n'


def test_a_file_with_a_colleagues_hooks_is_left_as_it_is_and_can_be_freed_of_them(project):
    """Their init made it, on another machine: there is no journal of it here."""
    project.write(TEAM, FILES["big"])
    project.init()
    theirs = project.read(TEAM)
    os.remove(project.path(".git/holdfast/installed.json"))
    assert project.how(project.init()) == {TEAM: "unchanged"}
    assert project.how(project.uninstall()) == {TEAM: "changed"}
    assert project.read(TEAM).decode() == FILES["big"]
    project.write(TEAM, theirs)
    project.init(enforce=True)
    project.uninstall()
    assert project.read(TEAM).decode() == FILES["big"]


def test_init_after_somebodys_change_still_ends_where_they_were(project):
    project.write(TEAM, FILES["big"])
    project.init()
    edit_settings(project, lambda settings: settings.update(theme="dark"))
    project.init(enforce=True)
    assert project.how(project.uninstall()) == {TEAM: "restored"}
    expected = {**json.loads(FILES["big"]), "theme": "dark"}
    assert project.read(TEAM).decode() == json.dumps(expected, indent=2, ensure_ascii=False) + "\n"


def test_a_file_that_is_gone_is_not_brought_back(project):
    project.write(TEAM, FILES["big"])
    project.init()
    os.remove(project.path(TEAM))
    assert project.uninstall().changes == []
    assert project.names() == [".claude"]
    assert project.how(project.init()) == {TEAM: "created"}


def test_hooks_that_somebody_took_out_by_hand_are_forgotten(project):
    project.write(TEAM, FILES["big"])
    project.init()
    project.write(TEAM, FILES["four spaces"])
    assert project.uninstall().changes == []
    assert project.read(TEAM).decode() == FILES["four spaces"]
    assert project.names() == [".claude", TEAM]


@pytest.mark.parametrize(
    "journal",
    [
        "",
        "not json",
        "[]",
        '{"files": 3, "folders": 4}',
        '{"files": {"./.claude/settings.json": 3}}',
        '{"files": {"./.claude/settings.json": {"original": 3, "written": [], "before": ""}}}',
        '{"files": {"./.claude/settings.json": {"original": "", "written": 3, "before": ""}}}',
    ],
)
def test_a_journal_that_makes_no_sense_restores_nothing_and_harms_nothing(project, journal):
    project.write(TEAM, FILES["big"])
    project.init()
    project.write(".git/holdfast/installed.json", journal)
    assert project.how(project.uninstall()) == {TEAM: "changed"}
    assert project.read(TEAM).decode() == FILES["big"]


def test_a_journal_of_strangers_removes_no_folder_elsewhere(project, tmp_path):
    (tmp_path / "empty").mkdir()
    project.write(TEAM, FILES["big"])
    project.init()
    journal = json.loads(project.read(".git/holdfast/installed.json"))
    journal["folders"] += [str(tmp_path / "empty"), 3, "relative"]
    project.write(".git/holdfast/installed.json", json.dumps(journal))
    project.uninstall()
    assert (tmp_path / "empty").is_dir()


# While we write


class Disturbed(Disk):
    """Somebody saves the file in the instant before ours takes its place."""

    saves = ()

    def replace(self, path, spare, **options):
        if Disturbed.saves and path.endswith("settings.json"):
            data, *Disturbed.saves = Disturbed.saves
            with open(path, "wb") as file:
                file.write(data)
        return super().replace(path, spare, **options)

    def move(self, source, target):
        if Disturbed.saves and source.endswith("settings.json"):
            data, *Disturbed.saves = Disturbed.saves
            with open(source, "wb") as file:
                file.write(data)
        return super().move(source, target)


@pytest.fixture
def disturbed(monkeypatch):
    monkeypatch.setattr(install, "Disk", Disturbed)
    return lambda *saves: setattr(Disturbed, "saves", [save.encode() for save in saves])


@pytest.mark.parametrize("text", [None, FILES["big"]])
@pytest.mark.parametrize("saves", [["one line"], ["one line", "tabs", "minified"]])
def test_what_somebody_saves_while_init_writes_is_kept(project, disturbed, text, saves):
    if text is not None:
        project.write(TEAM, text)
    disturbed(*[FILES[name].replace("opus", name) for name in saves])
    outcome = project.init()
    (change,) = outcome.changes
    last = FILES[saves[-1]].replace("opus", saves[-1])
    assert change.before.decode() == last
    assert json.loads(project.read(TEAM))["model"] == saves[-1]
    assert project.how(project.init()) == {TEAM: "unchanged"}
    project.uninstall()
    assert project.read(TEAM).decode() == last
    kept = [name for name in project.names() if ".found-" in name]
    assert project.names() == [".claude", TEAM, *kept]
    models = [json.loads(project.read(name))["model"] for name in kept]
    # Without a file, ours is first linked and then exchanged: the second save overwrites the first.
    overwritten = 1 if text is None else 0
    assert models == saves[overwritten:-1], "of several saves, all but the last are kept"
    assert all(any(os.path.basename(name) in note for note in outcome.notes) for name in kept)


@pytest.mark.parametrize("text", [None, FILES["big"]])
def test_what_somebody_saves_while_uninstall_writes_is_kept(project, disturbed, text):
    if text is not None:
        project.write(TEAM, text)
    project.init()
    settings = json.loads(project.read(TEAM))
    disturbed(json.dumps({**settings, "model": "theirs"}, indent=2))
    project.uninstall()
    before = json.loads(text or "{}")
    assert json.loads(project.read(TEAM)) == {**before, "model": "theirs"}
    assert project.names() == [".claude", TEAM]


def test_a_file_that_is_written_all_the_time_is_given_up(project, disturbed):
    project.write(TEAM, "{}")
    disturbed(*[f'{{"a": {number}}}' for number in range(20)])
    with pytest.raises(Exception, match="written all the time"):
        project.init()
    Disturbed.saves = ()
    assert json.loads(project.read(TEAM))["a"] in range(20)


def test_what_nobody_knows_beside_the_file_is_kept_under_a_name_of_its_own(project):
    project.write(TEAM, FILES["big"])
    project.write(".claude/.settings.json.holdfast-0", '{"saved": "in the last instant"}')
    project.write(".claude/.settings.json.holdfast-1", "")
    project.write(".claude/.settings.json.holdfast-2", FILES["big"])
    (note, *_) = project.init().notes
    assert note.endswith("settings.json.found-0")
    assert project.read(".claude/settings.json.found-0") == b'{"saved": "in the last instant"}'
    left = [name for name in project.names(".claude") if ".holdfast-" in name]
    assert left == []


@pytest.mark.parametrize("change", ["init", "uninstall"])
def test_a_file_that_is_being_written_is_read_when_that_is_done(project, monkeypatch, change):
    project.write(TEAM, json.dumps({"model": "opus"}))
    if change == "uninstall":
        project.init()
    whole = project.read(TEAM).decode()
    project.write(TEAM, whole[: len(whole) // 2])
    rest = [whole]

    class BeingWritten(Disk):
        def is_being_written(self, path):
            if rest and path.endswith("settings.json"):
                project.write(TEAM, rest.pop())
                return True
            return super().is_being_written(path)

    monkeypatch.setattr(install, "Disk", BeingWritten)
    getattr(project, change)()
    assert json.loads(project.read(TEAM))["model"] == "opus"
