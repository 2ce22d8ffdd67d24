"""An agent that does nothing but what NEXT says: the model in ``test_follow_next``.

It keeps nothing between two requests. What to do is read from the request: the newest ``next:``
of an answer or ``NEXT:`` of a briefing, else the first command of the skill. It does the work that
the step names, with the client's tools, and then runs the command, its words in CAPITALS filled in
by rule. The work is a module with a function for each task; which of them are due it sees from the
task that NEXT names, and for the code from the tests that are there.
"""

import re
import shlex

FEATURE = "docs/greeting.md"
TASKS = ("Greet by name", "Say goodbye")
BRANCH = "feat/greeting"
CODE, TEST = "greeting.py", "test_greeting.py"

_ANSWERED = re.compile(r"^ *next: (?P<command>.+?)(?:   (?P<about>.*))?$", re.MULTILINE)
_BRIEFED = re.compile(r"^NEXT: (?P<about>.*): (?P<command>(?:holdfast|git) .*)$", re.MULTILINE)
_SIGNAL = re.compile(r"^DEV_COMPLETE: .*$", re.MULTILINE)
_READING = re.compile(r"^REQUIRED READING.*\n((?:@.*\n)+)", re.MULTILINE)
_SKILL = re.compile(r"^FEATURE: (\S+)$.*?^```sh\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_TASK = re.compile(r"task (\d+) \((.*?)\)")
_CAPITALS = re.compile(r"\b[A-Z]{3,}\b")

_FUNCTIONS = (
    'def greet(name):\n    return f"Hello, {name}."\n',
    'def part(name):\n    return f"Goodbye, {name}."\n',
)
_TESTS = (
    '    def test_greet(self):\n        self.assertEqual(greeting.greet("Ada"), "Hello, Ada.")\n',
    '    def test_part(self):\n        self.assertEqual(greeting.part("Ada"), "Goodbye, Ada.")\n',
)


def code(number, tidied):
    """The module with this many functions, and type hints in those that were tidied up."""
    functions = [text.replace("(name)", "(name: str) -> str") for text in _FUNCTIONS[:tidied]]
    return "\n\n".join(['"""What to say."""\n', *functions, *_FUNCTIONS[tidied:number]])


def cases(number):
    head = "import unittest\n\nimport greeting\n\n\nclass TestGreeting(unittest.TestCase):\n"
    return head + ("\n".join(_TESTS[:number]) or "    pass\n")


class Step:
    """What is to be done: a command, what it is about, and what must be read first."""

    def __init__(self, command, about="", reading=()):
        self.command = command
        self.about = about
        self.reading = reading


class Follower:
    """The agent. ``place`` is where its client works."""

    def __init__(self, place):
        self.place = place
        self.rests_before = None
        """End the turn when an answer (but not a briefing) names a command that begins so."""
        self.hangs_before = None
        """Never answer in place of running a command that begins so."""
        self.fills_context = False
        """Report with each command but the last that the context is full."""

    def __call__(self, parts, reply):
        """Change the reply to the call that is due, or to the last words of the turn."""
        found, step = _newest(parts)
        if isinstance(step, str):
            reply.text = step
        elif parts[found].kind == "result" and self._is(step, self.rests_before):
            reply.text = "I stop here."
        else:
            calls = [*map(self._read, step.reading), *self._work(step), _bash(_filled(step))]
            done = sum(part.kind == "result" for part in parts[found + 1 :])
            is_worked = done == len(calls) - 1
            reply.hangs = is_worked and self._is(step, self.hangs_before)
            reply.call = None if reply.hangs else calls[done]
            if is_worked and self.fills_context and step.command != "holdfast complete":
                reply.tokens = 99_000

    def _is(self, step, beginning):
        return beginning is not None and step.command.startswith(beginning)

    def _work(self, step):
        """The calls that do what a step is about, before its command is run."""
        if "load_feature" in step.about:
            return [self._read(FEATURE)]
        if step.command.startswith("holdfast red"):
            return self._rewrite(TEST, cases(int(_TASK.search(step.about)[1])))
        number = (self.place.path / TEST).read_text("utf-8").count("def test_")
        if step.command.startswith("holdfast green"):
            return self._rewrite(CODE, code(number, tidied=number - 1))
        if step.command.startswith("holdfast refactor"):
            return self._rewrite(CODE, code(number, tidied=number))
        if step.command.startswith("holdfast commit"):
            return [_bash(f"git add {CODE} {TEST}")]
        if "_review" in step.command or "_simplifier" in step.command:
            return [_bash("git diff main")]
        if "pr_created" in step.command:
            return [_bash("git push -q -u origin HEAD")]
        return []

    def _rewrite(self, name, text):
        """The client wants a file read before it is written."""
        path = str(self.place.path / name)
        return [self._read(name), ("Write", {"file_path": path, "content": text})]

    def _read(self, name):
        return "Read", {"file_path": str(self.place.path / name.removeprefix("@"))}


def _bash(command):
    return "Bash", {"command": command}


def _newest(parts):
    """The place of the newest part that says what is next, and the step; the signal at the end."""
    for found, part in reversed(list(enumerate(parts))):
        if part.role == "assistant":
            continue
        if part.kind == "result" and (signal := _SIGNAL.search(part.text)):
            return found, signal[0]
        pattern = _ANSWERED if part.kind == "result" else _BRIEFED
        for match in reversed(list(pattern.finditer(part.text))):
            reading = _READING.search(part.text, match.end()) if part.kind == "text" else None
            names = reading[1].split() if reading else ()
            return found, Step(match["command"], match["about"] or "", names)
    for found, part in enumerate(parts):
        if part.role == "user" and (skill := _SKILL.search(part.text)):
            return found, Step(skill[2].replace("FEATURE", skill[1]))
    return 0, "Nothing says what is next."


def _filled(step):
    """The command with its words in CAPITALS filled in; one that nobody knows stays."""
    task = _TASK.search(step.about)
    values = {
        "BRANCH": BRANCH,
        "COMMAND": f"python -m {'compileall -q .' if ' lint ' in step.command else 'unittest -q'}",
        "MESSAGE": shlex.quote(task[2]) if task else "MESSAGE",
        "NUMBER": "7",
        "URL": "https://example.org/pull/7",
    }
    return _CAPITALS.sub(lambda word: values.get(word[0], word[0]), step.command)
