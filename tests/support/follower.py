"""An agent that does nothing but what NEXT says, with the capitals filled by rule."""

import sys

from support.hook_client import HookClient
from support.pseudoterminal import Pseudoterminal, skip_below_client

MAX_STEPS = 80
UNITTEST = [sys.executable, "-m", "unittest", "-q"]
PARSE = [sys.executable, "-m", "ast", "app.py"]
IGNORED = "__pycache__/\n"


class Follower:
    """A client in a repository with a remote, working on a workflow that it has started.

    ``stumbles`` are names of commands whose first use goes wrong in the project: ``red`` with a
    test that passes, ``green`` and ``refactor`` with code that fails, ``gate`` with a linter that
    complains.
    """

    def __init__(self, folder, stumbles=(), *, compacts=True):
        self.client = HookClient(folder.path, folder.environment)
        self.stumbles = list(stumbles)
        self.compacts = compacts
        self.steps = []
        """The commands that were run, as lists of words."""
        self.refused = []
        """The answers that were refusals."""
        self.failed = []
        """The commands that ran something which failed."""
        self.features = 0
        self.is_idle = True
        """Whether no test asks for code, so that a commit needs a change of its own."""

    def start(self, *words):
        return self.follow(self._run("start", *words))

    def follow(self, answer):
        """Follow NEXT until there is none; return the last answer."""
        while answer["next"] is not None:
            assert len(self.steps) < MAX_STEPS, self.steps[-6:]
            if self.compacts:
                self._compact(answer["next"])
            answer = self._take(answer["next"])
        return answer

    def _compact(self, step):
        self.client.fire("PreCompact", trigger="auto", custom_instructions=None)
        briefing = self.client.briefed()
        line = next(line for line in briefing.splitlines() if line.startswith("NEXT: "))
        assert " ".join(step["command"][:2]) in line.replace("'", ""), (step, line)

    def _take(self, step):
        if step.get("by") == "person":
            return self._as_person(step)
        name = step["command"][1]
        is_stumbling = name in self.stumbles
        if is_stumbling:
            self.stumbles.remove(name)
        self._work(name, step, is_stumbling=is_stumbling)
        words = self._filled(step)
        if step["command"][0] == "git":
            self.client.git(*words)
            return self._run("show")
        return self._run(*words)

    def _filled(self, step):
        """Return the words after the program, with the capitals replaced."""
        name = step["command"][1:3]
        is_test = name[0] in ("red", "green", "refactor", "tests") or name == ["gate", "run"]
        is_test = is_test and "lint" not in step["command"] and "qa" not in step["command"]
        values = {
            "BRANCH": "feat/followed",
            "MESSAGE": f"Step {len(self.steps)}",
            "TASK": "Greet politely",
            "NUMBER": "7",
            "URL": "https://example.org/7",
            "PATH": ".",
            "REMOTE": "origin",
        }
        assert set(step["fill"]) <= {*values, "COMMAND"}, step
        words = []
        for word in step["command"][1:]:
            if word == "COMMAND":
                words += UNITTEST if is_test else PARSE
                continue
            key, equals, capital = word.rpartition("=")
            is_filled = capital in step["fill"]
            words.append(f"{key}{equals}{values[capital]}" if is_filled else word)
        return words

    def _work(self, name, step, *, is_stumbling):
        """Do what comes before the command: write a test, write code, stage, push."""
        number = self.features
        if name == "red":
            self.is_idle = False
            # A test that is true already shows nothing.
            self.features += not is_stumbling
            self.client.write(f"test_{number}.py", number_test(self.features))
        elif name in ("green", "refactor"):
            self.client.write("app.py", f"N = {-1 if is_stumbling else number}  # {name}\n")
        elif name == "gate" and "lint" in step["command"]:
            self.client.write("app.py", "N = (\n" if is_stumbling else f"N = {number}\n")
        elif name == "commit":
            if self.is_idle:
                self.client.write("notes.md", f"{len(self.steps)}\n")
            self.client.git("add", "-A")
        elif "pr_created" in step["command"]:
            self.client.git("push", "-q", "origin", "HEAD")

    def _as_person(self, step):
        """Let a person run the command in a terminal of their own."""
        skip_below_client()
        command = [sys.executable, "-m", "holdfast", *step["command"][1:]]
        with Pseudoterminal(command, self.client.path, self.client.environment) as terminal:
            assert terminal.ended() == 0, terminal.text
        self.steps.append(step["command"][1:])
        return self._run("show")

    def _run(self, *words):
        answer = self.client.as_session(self.client.session).run(*self.client.in_json(words))
        assert answer.code in (0, 1, 4), answer
        if words[0] != "show":
            self.steps.append(list(words))
        if answer.code == 1:
            self.refused.append(answer.json)
        if answer.code == 4:
            self.failed.append(list(words))
        return answer.json


def number_test(least):
    """Return a module with a test that asks the project's code for a number."""
    return (
        "import unittest\n\nimport app\n\n\nclass Number(unittest.TestCase):\n"
        f"    def test(self):\n        self.assertGreaterEqual(app.N, {least})\n"
    )


def repository(folder):
    """Fill a folder with a project that has a test command, a remote and a feature file."""
    # A file that changes twice within a second would be taken from the cache.
    folder.environment["PYTHONDONTWRITEBYTECODE"] = "1"
    folder.git("init", "-q", "-b", "main")
    remote = f"{folder.path}.git"
    folder.git("init", "-q", "--bare", remote)
    folder.git("remote", "add", "origin", remote)
    folder.write(".gitignore", IGNORED)
    folder.write("app.py", "N = 0\n")
    folder.write("test_app.py", number_test(0))
    folder.write("docs/login.md", "# Log in\n\n- [ ] Greet\n- [x] Plan\n- [ ] Ask for a name\n")
    folder.git("add", "-A")
    folder.git("commit", "-q", "-m", "begin")
    folder.git("push", "-q", "origin", "main")
    return folder
