"""A session that starts or ends exchanges with the hub in the background, and waits for nothing."""

import os
import time

import pytest

from support.machines import git

BOUND_S = 60


@pytest.fixture
def shared(client, tmp_path):
    """A repository that shares its work over a bare one."""
    hub = tmp_path / "hub.git"
    git("init", "-q", "--bare", str(hub))
    client.ok("start", "dev", "docs/login.md", "--title", "Login")
    client.ok("hub", "add", "git", str(hub), "--name", "desk", "--yes")
    client.environment["HOLDFAST_BACKGROUND"] = ""
    return client


def await_sent(client):
    """Wait until nothing is left to be sent."""
    end = time.monotonic() + BOUND_S
    while (status := client.ok("hub", "status"))["unsent"]:
        assert time.monotonic() < end, status
        time.sleep(0.05)


@pytest.mark.parametrize("event", ["SessionStart", "SessionEnd"])
def test_what_waits_is_sent(shared, event):
    shared.ok("remind", "Never log a password", "--id", "r-1")
    assert shared.ok("hub", "status")["unsent"] == 1
    shared.fire(event, source="startup", reason="other")
    await_sent(shared)


def test_a_hub_that_is_gone_does_not_keep_the_briefing_back(shared, tmp_path):
    os.rename(tmp_path / "hub.git", tmp_path / "away.git")
    assert "WORKFLOW: Login" in shared.briefed("startup")
    end = time.monotonic() + BOUND_S
    while "failed" not in (status := shared.ok("hub", "status"))["last"]:
        assert time.monotonic() < end, status
        time.sleep(0.05)


def test_without_a_hub_nothing_is_started(client, tmp_path):
    client.ok("start", "dev", "docs/login.md", "--title", "Login")
    client.environment["HOLDFAST_BACKGROUND"] = ""
    client.fire("SessionStart", source="startup")
    assert not os.path.exists(os.path.join(client.path, ".git/holdfast/hub.json"))
