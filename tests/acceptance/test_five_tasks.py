"""Five tasks by the skill dev: how many calls of Holdfast they take."""

import sys

from support.follower import PARSE, UNITTEST, number_test, repository

MOST = 25


def test_five_tasks_by_the_skill_take_at_most_25_calls(folder):
    project = repository(folder)
    tasks = "".join(f"- [ ] Part {number}\n" for number in range(1, 6))
    project.write("docs/parts.md", f"# Parts\n\n{tasks}")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "plan")
    calls = []

    def call(*words):
        calls.append(words)
        return project.ok(*words)

    call("start", "dev", "docs/parts.md", "--read", "@docs/parts.md")
    project.git("switch", "-q", "-c", "feat/parts")
    for number in range(1, 6):
        project.write(f"test_{number}.py", number_test(number))
        call("red", *(["--", *UNITTEST] if number == 1 else []))
        project.write("app.py", f"N = {number}\n")
        call("green")
        project.write("app.py", f"N = {number}  # the number of parts\n")
        call("refactor")
        project.git("add", "-A")
        call("commit", "-m", f"Part {number}")
    call("gate", "run", "lint", "--", *PARSE)
    call("gate", "record", "security_review", "--also", "code_simplifier", "--passed")
    project.git("push", "-q", "origin", "HEAD")
    call("gate", "record", "pr_created", "--passed", "pr_number=1", "pr_url=https://example.org/1")
    last = call("complete")
    assert last["signal"] == "DEV_COMPLETE: Parts"
    assert len(calls) <= MOST
    workflow = last["workflow"]
    assert {phase["status"] for phase in workflow["phases"]} == {"completed"}
    assert workflow["gates"]["test"]["command"].startswith(sys.executable)
