"""What a refusal names as the next command works where it was refused, and leads on."""


def lead_on(place, *words, **values):
    """Run a command that is refused, and what it names as next; return the words of that."""
    answer = place.run(*words, "--json").json
    assert not answer["ok"]
    line = [values.get(word, word) for word in answer["next"]["command"]]
    place.ok(*line[1:])
    return line[1:]


def test_the_one_place_leads_to_the_workflow_that_has_it(repo):
    ada = repo.as_session("ada")
    first = ada.ok("start", "apex", "Login")["workflow"]["id"]
    assert lead_on(ada, "start", "oneshot", "Typo") == ["resume", first]


def test_the_work_of_a_live_session_is_not_offered_to_be_ended(repo):
    repo.as_session("ada").ok("start", "apex", "Login")
    answer = repo.as_session("kim").run("start", "oneshot", "Typo", "--json").json
    error, following = answer["error"], answer["next"]
    assert "the live session ada works on it" in error["message"]
    assert error["details"]["holder"] == "ada"
    assert not any(word in error["hint"] for word in ("complete", "abandon", "--replace"))
    assert following["command"] == ["git", "worktree", "add", "PATH", "-b", "BRANCH"]
    assert set(following["fill"]) == {"PATH", "BRANCH"}
