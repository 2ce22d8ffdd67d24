"""A command whose result is always the same is no evidence, and neither is one that is no text."""

import pytest

from holdfast import Refused
from support.workshop import Workshop

WAYS = {
    "gate run lint": lambda keeper, words: keeper.evidence().run_gate("lint", words),
    "tests run": lambda keeper, words: keeper.evidence().run_tests(words),
    "red": lambda keeper, words: keeper.evidence().take_step("red", words),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "words",
    [["true"], ["/bin/true"], ["echo", "passed"], ["exit", "0"], [" "], ["test", "a\0b"],
     ["test", "a\udcffb"]],
    ids=["true", "a path", "echo", "exit", "empty", "nul", "undecodable"],
)  # fmt: skip
def test_a_command_that_shows_nothing_is_refused_and_not_run(tmp_path, way, words):
    keeper = Workshop(tmp_path, git=False).keeper()
    keeper.start("dev", "a.md", tasks=["one"])
    before = keeper.log()
    with pytest.raises(Refused) as caught:
        WAYS[way](keeper, words)
    assert (caught.value.code, caught.value.hint) == ("invalid", f"holdfast {way} -- COMMAND")
    assert caught.value.message.startswith(f"{way}: ")
    assert keeper.log() == before
