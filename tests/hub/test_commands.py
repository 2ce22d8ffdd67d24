"""Sharing as it is typed: who is asked before anything is published, and what evidence is worth on
another machine.
"""

from __future__ import annotations

import socket
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.command_line import Folder

PATIENCE_S = 30


@pytest.fixture
def public_remote(tmp_path: Path) -> Iterator[str]:
    """The address of a repository that everybody can read."""
    remote = tmp_path / "open.git"
    subprocess.run(["git", "init", "-q", "--bare", str(remote)], check=True)
    (remote / "git-daemon-export-ok").touch()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["git", "daemon", "--listen=127.0.0.1", f"--port={port}", f"--base-path={tmp_path}"]
    daemon = subprocess.Popen([*words, "--reuseaddr", "--enable=receive-pack", str(tmp_path)])
    address = f"git://127.0.0.1:{port}/open.git"
    ask = ["git", "ls-remote", address]
    try:
        end = time.monotonic() + PATIENCE_S
        while subprocess.run(ask, check=False, capture_output=True).returncode:
            assert time.monotonic() < end
        yield address
    finally:
        daemon.terminate()
        daemon.wait()


def test_a_public_remote_is_used_only_by_whoever_says_so(repo: Folder, public_remote: str) -> None:
    repo.ok("start", "dev", "docs/login.md", "--title", "Login")
    shown = repo.run("hub", "add", "git", public_remote, "--dry-run").out
    assert "everybody can read it there" in shown
    error = repo.refused("hub", "add", "git", public_remote, "--yes")
    assert error["code"] == "public_hub"
    assert error["hint"].endswith("--public")
    assert repo.ok("hub", "status")["hub"] is None
    assert repo.git("ls-remote", public_remote) == ""
    asked = repo.refused("hub", "add", "git", public_remote, "--public")
    assert "nobody was asked" in asked["message"]
    assert repo.ok("hub", "add", "git", public_remote, "--public", "--yes")["pushed"] == 1


def test_the_next_command_of_a_refusal_can_be_pasted_and_shares(
    repo: Folder, public_remote: str, tmp_path: Path
) -> None:
    stick = str(tmp_path / "a stick & more.bundle")
    asked = repo.refused("hub", "add", "git", stick, "--name", "desk")
    assert asked["hint"] == f"holdfast hub add git '{stick}' --name desk --yes"
    asked = repo.refused("hub", "add", "git", public_remote, "--public")
    assert asked["hint"] == f"holdfast hub add git {public_remote} --public --yes"
    error = repo.refused("hub", "add", "git", public_remote, "--yes")
    assert error["hint"] == f"holdfast hub add git {public_remote} --yes --public"


class TestEvidenceFromElsewhere:
    @pytest.fixture
    def laptop(self, repo: Folder) -> Folder:
        """A laptop that has the desk's work, with a gate that passed at the desk."""
        repo.git("clone", "-q", "--bare", ".", "../hub.git")
        repo.git("remote", "add", "origin", "../hub.git")
        started = repo.ok("start", "dev", "docs/login.md", "--title", "Login")
        repo.ok("gate", "run", "lint", "--", "sh", "-c", "echo all is well")
        repo.ok("hub", "add", "git", "--name", "desk", "--yes")
        repo.git("clone", "-q", "../hub.git", "../laptop")
        laptop = repo.at("..", "laptop")
        laptop.ok("hub", "add", "git", "--name", "laptop", "--yes")
        laptop.ok("resume", started["workflow"]["id"])
        return laptop

    def test_it_counts_for_the_tree_that_it_was_made_on(self, laptop: Folder) -> None:
        (gate,) = [row for row in laptop.ok("gate", "list")["gates"] if row["name"] == "lint"]
        assert (gate["status"], gate["machine"]) == ("completed", "desk")
        assert "output_tail" not in gate
        assert "on desk" in laptop.run("gate", "list").out

    def test_its_output_travels_if_the_settings_let_it(self, repo: Folder, laptop: Folder) -> None:
        repo.write(".claude/holdfast.toml", "[hub]\noutput = true\n")
        repo.ok("hub", "sync")
        repo.ok("gate", "run", "lint", "--", "sh", "-c", "echo all is well")
        repo.ok("hub", "sync")
        laptop.ok("hub", "sync")
        (gate,) = [row for row in laptop.ok("gate", "list")["gates"] if row["name"] == "lint"]
        assert (gate["machine"], gate["output_tail"]) == ("desk", "all is well")

    def test_it_is_stale_for_every_other_tree(self, laptop: Folder) -> None:
        laptop.write("README.md", "Another project.\n")
        (gate,) = [row for row in laptop.ok("gate", "list")["gates"] if row["name"] == "lint"]
        assert (gate["status"], gate["machine"]) == ("stale", "desk")
        assert "lint" in laptop.refused("complete")["details"]["pending"]["gates"]
