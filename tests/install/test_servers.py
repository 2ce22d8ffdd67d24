"""The project's ``.mcp.json``: our server among others, in and out again, byte for byte."""

import json
import subprocess

import pytest

from holdfast import install
from holdfast.install import client_files
from holdfast.install.client_files import has_server
from holdfast.workspace.settings import BadSettings

FILE = ".mcp.json"
OURS = client_files.OUR_SERVER
OLD = {"command": "holdfast", "args": ["mcp"]}
OTHER = '{"mcpServers": {"memory": {"command": "npx", "args": ["-y", "x"]}}}\n'


def change_of(outcome):
    return {change.file.name: change.how for change in outcome.changes}.get(FILE)


def test_a_project_without_servers_gets_ours_and_loses_the_file_again(project):
    assert change_of(install.init(project.root)) == "created"
    assert json.loads(project.read(FILE)) == {"mcpServers": {"holdfast": OURS}}
    assert change_of(install.init(project.root)) == "unchanged"
    assert change_of(install.uninstall(project.root)) == "removed"
    assert project.names() == []


@pytest.mark.parametrize(
    "text",
    [
        OTHER,
        "{}",
        '{\n\t"mcpServers": {}\n}\n',
        '{"other": 1}',
        '\ufeff{\r\n  "mcpServers": {\r\n    "a": {"command": "b"}\r\n  }\r\n}\r\n',
        "",
    ],
)
def test_a_file_is_as_it_was_afterwards(project, text):
    project.write(FILE, text)
    assert change_of(install.init(project.root)) == "changed"
    told = json.loads(project.read(FILE).decode("utf-8-sig"))
    assert told["mcpServers"]["holdfast"] == OURS
    assert change_of(install.uninstall(project.root)) == "restored"
    assert project.read(FILE) == text.encode()


def test_what_others_add_since_stays(project):
    project.write(FILE, OTHER)
    install.init(project.root)
    more = json.loads(project.read(FILE))
    more["mcpServers"]["late"] = {"command": "late"}
    project.write(FILE, json.dumps(more))
    assert change_of(install.uninstall(project.root)) == "changed"
    assert sorted(json.loads(project.read(FILE))["mcpServers"]) == ["late", "memory"]


def test_a_server_of_that_name_that_is_somebody_elses_stays(project):
    text = '{"mcpServers": {"holdfast": {"command": "docker", "args": ["run"]}}}'
    project.write(FILE, text)
    assert change_of(install.init(project.root)) == "unchanged"
    assert change_of(install.uninstall(project.root)) is None
    assert project.read(FILE) == text.encode()


@pytest.mark.parametrize("text", ["[]", '{"mcpServers": []}', "{nonsense", '{"a": 1, "a": 2}'])
def test_a_file_that_is_something_else_is_refused_and_nothing_is_written(project, text):
    project.write(FILE, text)
    with pytest.raises(BadSettings):
        install.init(project.root)
    assert project.names() == [FILE]


@pytest.mark.parametrize("options", [{"scope": "local"}, {"agent": "codex"}, {"agent": "gemini"}])
def test_only_the_team_of_claude_code_has_the_file(project, options):
    install.init(project.root, **options)
    assert project.read(FILE) is None


def test_the_command_of_an_earlier_version_is_updated_and_keeps_its_other_fields(project):
    servers = {"mcpServers": {"holdfast": {**OLD, "env": {"A": "b"}}}}
    project.write(FILE, json.dumps(servers))
    assert change_of(install.init(project.root)) == "changed"
    told = json.loads(project.read(FILE))["mcpServers"]["holdfast"]
    assert told == {**OURS, "env": {"A": "b"}}


def talk(lines, path):
    """What the team's server answers to these lines on a machine with this PATH."""
    words = [OURS["command"], *OURS["args"]]
    done = subprocess.run(
        words, input="".join(f"{line}\n" for line in lines), env={"PATH": path},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout


def test_without_holdfast_the_server_offers_nothing_and_does_not_fail():
    first = {"method": "server/discover", "params": {}, "jsonrpc": "2.0", "id": 0}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}}
    told = {"method": "notifications/initialized", "jsonrpc": "2.0"}
    lines = [json.dumps(line, separators=(",", ":")) for line in (first, begin, told)]
    unknown, begun = [json.loads(line) for line in talk(lines, "/usr/bin:/bin").splitlines()]
    assert (unknown["id"], unknown["error"]["code"]) == (0, -32601)
    assert (begun["id"], begun["result"]["capabilities"]) == (1, {})


def test_with_holdfast_the_server_is_holdfast(tmp_path):
    (tmp_path / "holdfast").write_text('#!/bin/sh\necho "ran $*"\n')
    (tmp_path / "holdfast").chmod(0o755)
    assert talk([], f"{tmp_path}:/usr/bin:/bin") == "ran mcp\n"


def test_claude_code_finds_no_variable_to_replace_in_it():
    assert "${" not in json.dumps(OURS)


def test_ours_is_known_by_its_command():
    assert has_server({"mcpServers": {"holdfast": OURS}})
    ours = {"command": "/usr/bin/holdfast", "args": ["mcp"], "env": {}}
    assert has_server({"mcpServers": {"holdfast": ours}})
    for other in (None, {}, {"command": 3}, {"command": "holdfast", "args": ["mcp", "memory"]}):
        assert not has_server({"mcpServers": {"holdfast": other}})
