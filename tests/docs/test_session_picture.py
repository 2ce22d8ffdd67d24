"""The recorded session of the README is what the commands answer today."""

import re
from html import unescape

import pytest

import session
from support.paths import ROOT

SVG = (ROOT / "docs" / "session.svg").read_text("utf-8")
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def played():
    return session.played()


def words(text):
    return text.replace(" ", "")


def test_the_picture_says_what_the_commands_answer(played):
    shown = [
        words(unescape(re.sub("<[^>]*>", "", line))) for line in SVG.splitlines() if "<text" in line
    ]
    told = []
    for step, answer in played:
        told += [f"$ {step}", *answer]
    assert shown == [words(ESCAPES.sub("", line)) for line in told]


def test_the_picture_is_made_by_the_script_alone(played):
    assert session.drawn(played) == SVG, "run: python tools/session.py"


def test_it_shows_a_kill_a_new_session_a_refusal_and_a_sound_ledger(played):
    answers = {step: "\n".join(answer) for step, answer in played}
    assert answers["./agent.sh"].endswith("Killed")
    assert "Resuming: Task 2/2" in answers["holdfast resume"]
    assert "still needs" in answers["holdfast complete"]
    assert "sound" in answers["holdfast verify"]


def test_the_picture_needs_nothing_from_elsewhere():
    assert not re.search(
        r"<script|<image|@import|url\((?!#)|https?://(?!www\.w3\.org/2000/svg)", SVG
    )
    assert "prefers-color-scheme:dark" in SVG
    assert len(SVG) < 40_000
