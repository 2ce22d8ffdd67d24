"""Completion in the real shells: a script is loaded, Tab is pressed, and a line is run.

On the way of these shells ``holdfast`` is a stand-in: asked for a completion it is the real one,
anything else that it is called with it writes down. So what arrives is what the shell made of the
line, and a name that a shell would run would be seen to run.
"""

import json
import os
import select
import shutil
import subprocess
import sys
import time

import pytest

from holdfast.cli.commands.completion import SHELLS
from holdfast.cli.parser import load_all

COMMANDS = load_all()
PATIENCE_S = 60
STAND_IN = """\
#!{python}
import json, os, sys
if sys.argv[1:2] == ["completion"]:
    os.execv(sys.executable, [sys.executable, "-m", "holdfast", *sys.argv[1:]])
with open({heard!r}, "a") as file:
    print(json.dumps(sys.argv[1:]), file=file)
print("RAN", "IT")
"""
ON_A_TERMINAL = "import pty, sys; pty.spawn(sys.argv[1:])"

ASK = {
    # The last word of the line is completed; a candidate is printed on a line of its own.
    "bash": """\
eval "$(holdfast completion bash)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_holdfast
printf '%s\\n' "${COMPREPLY[@]}"
""",
    "zsh": """\
compdef() { : }
compadd() { print -rl -- "${(@P)@[-1]}" }
eval "$(holdfast completion zsh)"
words=("$@") CURRENT=$#
_holdfast
""",
    "fish": """\
holdfast completion fish | source
complete -C (string join -- ' ' (string escape -- $argv[1..-2]) $argv[-1])
""",
}
START = {
    "bash": ["bash", "--noprofile", "--rcfile", "{rc}", "-i"],
    "zsh": ["zsh", "-d", "-i"],
    "fish": ["fish", "--no-config", "-i", "-C", "source {rc}"],
}
RC = {
    "bash": "PS1='READY'\nsource <(holdfast completion bash)\n",
    "zsh": """\
PS1='READY'
autoload -Uz compinit
compinit -u -D
source <(holdfast completion zsh)
""",
    "fish": "function fish_prompt; echo -n READY; end\nholdfast completion fish | source\n",
}

HOSTILE = (
    "10 $(touch pwned)",
    "11 `touch pwned`",
    "12;touch pwned",
    "13&touch pwned",
    "14|touch pwned>pwned",
    '15\'s "both" quotes',
    "16 ends with '",
    '17 ends with "',
    "18 ends with \\",
    "19 !! and !touch",
    "20 * ? [a] {b,c} ~ #",
    "21  two  spaces",
    "22 é 日本 😀",
    "23=a:b",
    "24 %s %n \\n \\x41 (x) <y>",
)
INVISIBLE = ("25\ntouch pwned", "26\x1b[2J", "27\ttab", "28\u202egnp")


class Shell:
    """A shell of a kind, in a repository."""

    def __init__(self, kind, repo, folder):
        self.kind = kind
        self.repo = repo
        self.heard = folder / "heard"
        self.rc = folder / "home" / ".zshrc"
        tools = folder / "tools"
        tools.mkdir()
        tool = tools / "holdfast"
        tool.write_text(STAND_IN.format(python=sys.executable, heard=str(self.heard)))
        tool.chmod(0o755)
        self.rc.write_text(RC[kind])
        self.environment = {
            **repo.environment,
            "PATH": f"{tools}{os.pathsep}{repo.environment['PATH']}",
            "TERM": "xterm",
            "HISTFILE": os.devnull,
            "fish_features": "no-query-term",
        }

    def offered(self, *words):
        """What the script offers for the last of these words."""
        command = {
            "bash": ["bash", "--norc", "-u", "-c", ASK["bash"], "bash"],
            "zsh": ["zsh", "-f", "-c", ASK["zsh"], "zsh"],
            "fish": ["fish", "--no-config", "-c", ASK["fish"]],
        }[self.kind]
        done = subprocess.run(
            [*command, "holdfast", *words],
            cwd=self.repo.path,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.stderr == "", done
        return [line.partition("\t")[0] for line in done.stdout.splitlines() if line]

    def typed(self, *lines):
        """What the stand-in heard of each line that was typed on a terminal, and then entered."""
        command = [word.format(rc=self.rc) for word in START[self.kind]]
        with subprocess.Popen(
            [sys.executable, "-c", ON_A_TERMINAL, *command],
            cwd=self.repo.path,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as terminal:
            try:
                _until(terminal, "READY")
                for line in lines:
                    _press(terminal, line + "\r")
                    _until(terminal, "RAN IT", "READY")
                _press(terminal, "exit\r")
                terminal.wait(PATIENCE_S)
            finally:
                terminal.kill()
        return [json.loads(line) for line in self.heard.read_text("utf-8").splitlines()]


def _press(terminal, keys):
    terminal.stdin.write(keys.encode())
    terminal.stdin.flush()


def _until(terminal, *marks):
    """Reads what the terminal shows until it has shown the marks, one after the other."""
    seen, waiting = "", list(marks)
    end = time.monotonic() + PATIENCE_S
    while waiting:
        ready, _, _ = select.select([terminal.stdout], [], [], max(0, end - time.monotonic()))
        more = os.read(terminal.stdout.fileno(), 65_536) if ready else b""
        assert more, f"no {waiting[0]!r} after {seen!r}"
        seen += more.decode(errors="replace")
        while waiting and waiting[0] in seen:
            seen = seen.partition(waiting.pop(0))[2]


@pytest.fixture(params=SHELLS)
def shell(request, repo, tmp_path, not_shown):
    if request.param != "bash" and shutil.which(request.param) is None:
        not_shown(f"completion in {request.param}: {request.param} is not installed")
    return Shell(request.param, repo, tmp_path)


@pytest.fixture
def hostile(shell):
    """The shell in a repository in which strangers chose the names."""
    names = [word for name in (*HOSTILE, *INVISIBLE) for word in ("--phase", name)]
    shell.repo.ok("start", "custom", "x", "--title", "$(touch pwned)\n\x1b[2J", *names)
    return shell


def test_commands_options_and_values_are_offered(shell):
    repo = shell.repo
    workflow = repo.ok("start", "dev", "x", "--task", "one", "--task", "two words")["workflow"]
    repo.write("docs/plan.md", "")
    repo.write(".claude/workflows/mine.toml", 'format = "verb"\n[[phases]]\nname = "x"\n')
    assert set(shell.offered("")) == {name.partition(" ")[0] for name in COMMANDS}
    assert "task" in shell.offered("ta")
    assert {"add", "start", "done", "block"} <= set(shell.offered("task", ""))
    assert {"--commit", "--json", "--workflow"} <= set(shell.offered("task", "done", "1", "--"))
    assert {"mine", "dev", "qa-loop"} <= set(shell.offered("start", ""))
    assert {"mine", "dev", "qa-loop"} <= set(shell.offered("recipes", "show", ""))
    assert shell.offered("recipes", "") == ["show"]
    for words in (["show", ""], ["resume", ""], ["log", ""], ["task", "done", "-w", ""]):
        assert shell.offered(*words) == [workflow["id"]]
    assert shell.offered("phase", "start", "") == [phase["name"] for phase in workflow["phases"]]
    for command in ("start", "done", "block", "phase"):
        assert shell.offered("task", command, "") == ["1", "2"]
    for command in ("run", "record"):
        assert set(shell.offered("gate", command, "")) == set(workflow["gates"])
    assert "@docs/" in shell.offered("read", "@")
    assert shell.offered("read", "@docs/") == ["@docs/plan.md"]


def test_without_a_workspace_nothing_is_offered_and_nothing_is_said(shell, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    shell.repo.path = str(tmp_path / "elsewhere")
    for words in (["show", ""], ["task", "done", ""], ["phase", "start", ""], ["nosuch", ""]):
        assert shell.offered(*words) == []
    assert os.listdir(shell.repo.path) == []


def test_names_of_strangers_are_offered_and_nothing_of_them_is_run(hostile):
    offered = hostile.offered("phase", "start", "")
    assert len(offered) == len(HOSTILE)
    if hostile.kind != "bash":
        assert offered == list(HOSTILE)
    hostile.offered("phase", "start", "$(touch pwned)")
    hostile.offered("$(touch pwned)", "`touch pwned`", "")
    assert not hostile.repo.has("pwned")


def test_a_completed_line_says_exactly_the_name(hostile):
    """Each name is completed from its number, at a prompt, and the line is entered."""
    begun = [f"holdfast phase start {name[:2]}\t" for name in HOSTILE]
    heard = hostile.typed(*begun)
    assert [words for words in heard if words[:2] != ["phase", "start"]] == []
    assert [words[2] for words in heard] == list(HOSTILE)
    assert not hostile.repo.has("pwned")


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_name_is_completed_inside_quotes_too(hostile, quote):
    heard = hostile.typed(*[f"holdfast phase start {quote}{name[:2]}\t" for name in HOSTILE])
    assert [words[2:] for words in heard] == [[name] for name in HOSTILE]
    assert not hostile.repo.has("pwned")


def test_a_line_is_completed_word_by_word(shell):
    workflow = shell.repo.ok("start", "dev", "x", "--task", "one")["workflow"]["id"]
    shell.repo.write("docs/a $(touch pwned) b.md", "")
    begun = workflow[:6]
    heard = shell.typed(
        "holdfast rec\tsh\tqa\t",
        f"holdfast show --workflow={begun}\t",
        f"holdfast task don\t1 --comm\tabc -w {begun}\t--js\t",
        "holdfast read @do\ta\t",
        "holdfast start dev docs/a\t",
    )
    assert heard == [
        ["recipes", "show", "qa-loop"],
        ["show", f"--workflow={workflow}"],
        ["task", "done", "1", "--commit", "abc", "-w", workflow, "--json"],
        ["read", "@docs/a $(touch pwned) b.md"],
        ["start", "dev", "docs/a $(touch pwned) b.md"],
    ]
    assert not shell.repo.has("pwned")


def test_a_name_that_is_no_line_is_offered_nowhere(hostile):
    offered = "\n".join(hostile.offered("phase", "start", ""))
    for name in INVISIBLE:
        assert name[:2] not in offered


def test_the_script_of_zsh_can_be_a_file_in_its_function_path(repo, tmp_path, not_shown):
    if shutil.which("zsh") is None:
        not_shown("completion in zsh: zsh is not installed")
    zsh = Shell("zsh", repo, tmp_path)
    script = repo.run("completion", "zsh").out
    (tmp_path / "home" / "_holdfast").write_text(script)
    zsh.rc.write_text("PS1=READY\nfpath=(~ $fpath)\nautoload -Uz compinit\ncompinit -u -D\n")
    assert zsh.typed("holdfast recipes sh\tqa\t", "holdfast recipes sh\ttd\t") == [
        ["recipes", "show", "qa-loop"],
        ["recipes", "show", "tdd"],
    ]
