"""Promise 13: a repository of a stranger executes nothing, and leaks nothing, before approval.

Commands, hooks and servers are run in every repository of the corpus, and strace says what that
did: which programs were started, what was opened, what was changed, whether anybody was called.
With full effort everything is run everywhere.
"""

import json
import os
import shutil
import sys

import pytest

from holdfast.cli.parser import load_all
from holdfast.hooks.handlers import EVENTS
from promises.clones import GIT, SECRET, Clone
from promises.repositories import REPOSITORIES
from promises.strace import cannot_trace
from promises.watched import python_places, watch
from support.hook_client import ENTRY
from support.paths import SOURCE
from support.workshop import FULL, sampled

COMMANDS = load_all()
pytestmark = pytest.mark.promise(13)

CANNOT = cannot_trace()
FIRST = ("status", "resume", "event SessionStart")
TELLING = {
    "recipes_with_gates": ("start ship it", "gate run lint"),
    "settings_that_trust": ("start ship it", "gate run lint"),
    "a_graph_that_a_server_keeps": ("start dev docs/x.md --task one", "sync"),
    "a_graph_far_away": ("start dev docs/x.md --task one", "sync"),
    "settings_of_clients": ("doctor", "init", "uninstall"),
    "a_loop_that_wants_to_be_verified": ("loop verify T1 --run", "loop rebuild other"),
    **dict.fromkeys(
        ("a_ledger_of_a_stranger", "an_archive_with_a_ledger"),
        ("resume", "gate run lint", "event SessionStart"),
    ),
    **dict.fromkeys(
        [name for name in REPOSITORIES if name.startswith(("git_", "inner_git_", "a_submodule"))],
        (
            "start dev docs/x.md --task one",
            "gate run lint -- test -e README.md",
            "files sync",
            "commit -m x",
        ),
    ),
    "records_that_are_links": ("doctor", "uninstall", "event Stop"),
    "locks_and_logs_that_are_links": ("doctor", "status"),
    "spares_that_are_links": ("start apex it", "task add two", "remember x --kind preference"),
    "a_folder_of_holdfast_that_is_elsewhere": ("doctor", "start dev docs/x.md --task one"),
    "an_initiative_whose_files_are_links": ("initiative recover trap", "initiative sync"),
    "initiatives_elsewhere": ("initiative recover trap", "files sync"),
    "a_memory_by_local_settings_of_an_archive": ("remember short --kind preference", "sync"),
    "a_memory_by_local_settings": ("start apex it", "remember short --kind preference", "sync"),
    "a_memory_by_settings_and_a_link": ("remember short --kind preference", "sync"),
    "a_memory_that_is_elsewhere": ("remember short --kind preference", "sync"),
    "a_loop_whose_pages_are_links": ("loop iterate T1 --did x", "event PostToolUse"),
    "a_journal_that_names_others_files": ("uninstall",),
    "pipes_and_devices": ("resume", "context", "event SessionStart"),
    "files_without_end": ("context", "loop rebuild trap", "event Stop"),
}
"""What a repository is after; where nothing is said, what everybody does first."""
LINES = (
    "status", "watch --once", "show", "resume", "log", "recipes", "recipes show ship",
    "recipes show dev",
    "context", "gate list", "gate run lint", "gate run test", "gate run lint -- true",
    "gate run lint -- test -e README.md", "tests run -- test -e README.md", "tests run", "red",
    "red -- test -e README.md", "commit -m x", "trust", "trust --list", "verify", "doctor", "clean",
    "export", "import README.md",
    "violation list", "interview show",
    "delegation list", "forge show", "initiative show", "loop status", "loop next", "loop run trap",
    "memory search words", "memory export out.jsonl", "hook --explain SessionStart",
    "hook --explain PreCompact", "hook --explain Stop", "completion bash holdfast show ''",
    "start ship it", "start dev docs/x.md --task one", "start planning it", "start apex it",
    "task add two", "task start 1", "task done 1 --commit 4f5e6d7", "advance", "remind x",
    "ask x --choice y --blocking", "answer 1 1", "ask z", "ask --withdraw 2",
    "set a=1",
    "read @../outside/secret.txt", "read @README.md", "gate record lint --passed",
    "violation add V-1 LOW slow", "phase start plan", "files add README.md", "files sync",
    "remember short --kind preference", "forge add build make", "interview skip fix --reason x",
    "delegation record --agent a --outcome ok", "loop new trap --mode knowledge --outcome x",
    "loop plan trap --unit R1:Go", "loop brief trap --outcome y", "loop iterate T1 --did x",
    "loop verify T1 --run",
    "loop verify T1", "loop rebuild trap", "loop rebuild other", "loop archive trap --force",
    "initiative create Trap --milestone M1 --files", "initiative recover trap", "initiative sync",
    "initiative start M1", "initiative task M1 one --done", "initiative complete M1",
    "pool ready", "pool take", "pool give trap", "pool reap", "pool change trap --label x",
    "report", "report --format html", "pr --yes", "search words", "statusline",
    "hub add git nowhere --yes", "hub status", "hub sync", "hub remove", "conflicts",
    "conflicts take x", "conflicts drop x --reason y",
    "initiative archive", "sync", "repair", "init", "init --local", "init --agent gemini",
    "init --agent codex", "uninstall", "abandon --reason x", "complete --force --reason x",
)  # fmt: skip
OTHERS = ("mcp", "mcp memory", *(f"event {name}" for name in EVENTS))
MAY_READ = (
    "/usr", "/lib", "/lib64", "/proc", "/dev/null", "/dev/urandom", "/etc/ld.so.cache",
    "/etc/locale.alias", "/etc/localtime", "/etc/ssl/openssl.cnf", "/dev/zero", "/dev/full",
    "/dev/random",
)  # fmt: skip
"""What every program reads; and devices, which are opened to see that they are no files."""
MAY_READ_AT_HOME = (
    ".config", ".claude", ".claude.json", ".codex", ".gemini", ".local/share/holdfast",
    ".local/state/holdfast", ".profile",
)  # fmt: skip
MAY_WRITE_AT_HOME = (".config/holdfast", ".local", ".claude/projects", ".codex")
"""Approvals, the graph that is everybody's, the list of ledgers, what a client remembers of a
project, and what Codex' sandbox may write, which ``init --agent codex`` adds."""


def requests(*calls):
    """What a client says to a server, from its greeting on."""
    told = [("initialize", {"protocolVersion": "2025-06-18"}), ("tools/list", {}), *calls]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(told)
    ]
    return "\n".join(lines).encode() + b"\n"


def call(name, **arguments):
    return "tools/call", {"name": name, "arguments": arguments}


GIVEN = {
    "mcp": requests(
        ("resources/list", {}), call("status", show=True), call("resume"),
        call("gate", action="run", gate="lint"), call("start", recipe="ship", subject="it"),
        call("gate", action="run", gate="lint"), call("task", action="add", description="x"),
        ("resources/read", {"uri": "holdfast://../../outside/secret.txt"}),
    ),
    "mcp memory": requests(call("read_graph"), call("search_nodes", query="a")),
}  # fmt: skip


class Visitor:
    """A person, or a client, who does things in a clone and is watched."""

    def __init__(self, clone):
        self.clone = clone
        self.log = os.path.join(clone.base, "trace")
        os.makedirs(os.path.join(clone.home, ".config"), exist_ok=True)
        programs = os.path.join(clone.base, "bin")
        os.makedirs(programs)
        self.program = os.path.join(programs, "holdfast")
        with open(self.program, "w") as file:
            file.write(
                f"#!{sys.executable}\nimport sys\nfrom holdfast.cli.main import main\n"
                "sys.exit(main())\n"
            )
        os.chmod(self.program, 0o755)
        git = os.path.dirname(shutil.which("git"))
        self.environment = {
            **GIT, "HOME": clone.home, "LANG": "C.UTF-8", "PYTHONPATH": SOURCE,
            "PYTHONDONTWRITEBYTECODE": "1", "PATH": f"{programs}:{git}:/bin",
        }  # fmt: skip

    def does(self, line, start):
        where = self.clone.path(start)
        given = GIVEN.get(line, b"")
        words = [self.program, *(word.strip("'") for word in line.split())]
        if line.startswith("event "):
            words = [sys.executable, "-I", "-S", ENTRY]
            given = self.event(line.removeprefix("event "), where)
        return watch(words, self.log, given, cwd=where, env=self.environment)

    def event(self, name, where):
        told = {
            "hook_event_name": name, "cwd": where, "session_id": "session-1", "source": "startup",
            "tool_name": "Read", "tool_input": {"file_path": f"{where}/secret.md"},
            "stop_hook_active": False, "trigger": "auto", "transcript_path": "",
        }  # fmt: skip
        return json.dumps(told).encode()

    def misdeeds(self, line, seen):
        """Everything that should not have happened."""
        clone = self.clone
        yield from (f"started {said[:200]}" for said in seen.started if not self.may_start(said))
        yield from (f"called {said[:200]}" for said in seen.called)
        yield from (f"read {path}" for path in sorted(seen.read) if not self.may_read(path))
        yield from (f"changed {path}" for path in sorted(seen.changed) if not self.may_change(path))
        if os.path.lexists(clone.ran):
            yield "ran what the repository brought"
        if SECRET in seen.output:
            yield "told the secret"
        if "Traceback" in seen.output or '"internal"' in seen.output or "itself:" in seen.output:
            yield f"broke: {seen.output[-1500:]}"
        if seen.code not in (0, 1, 2, 3, 4) or (line.startswith("event ") and seen.code):
            yield f"ended with {seen.code}: {seen.output[-300:]}"

    def may_start(self, said):
        program, _, rest = said.partition(", ")
        path = program.strip('"')
        if path == self.program or os.path.realpath(path) == os.path.realpath(sys.executable):
            return "-m" not in rest.split('"')[:4]
        if os.path.basename(path) == "git":
            return clone_safe(path, self.clone.root)
        if os.path.basename(path) == "test":
            return rest.startswith('["test", "-e", "README.md"]')
        return path in ("/bin/true", "/usr/bin/true", "/bin/sh") and "true" in rest

    def may_read(self, path):
        clone = self.clone
        if is_below(path, clone.root) or is_below(path, os.path.dirname(self.program)):
            return True
        if path.startswith("pipe:"):
            return True
        if is_below(path, clone.home):
            return any(is_below(path, os.path.join(clone.home, one)) for one in MAY_READ_AT_HOME)
        if is_below(path, clone.base):
            return path == clone.base or is_below(path, f"{clone.base}/other/.git")
        own = (*MAY_READ, *python_places(), SOURCE, os.path.dirname(SOURCE))
        return any(is_below(path, one) for one in own)

    def may_change(self, path):
        clone = self.clone
        if is_below(path, clone.root) or path in (os.devnull, "/dev/tty"):
            return True
        if is_below(path, SOURCE) and "__pycache__" in path:
            return True
        allowed = [os.path.join(clone.home, one) for one in MAY_WRITE_AT_HOME]
        return path == f"{clone.home}/.claude" or any(is_below(path, one) for one in allowed)


def clone_safe(path, root):
    return not is_below(os.path.realpath(path), root)


def is_below(path, folder):
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def kept_secrets(clone):
    """Files of the repository that have the secret in them by now."""
    for folder, folders, names in os.walk(clone.root):
        folders[:] = [name for name in folders if not os.path.islink(os.path.join(folder, name))]
        for name in names:
            path = os.path.join(folder, name)
            if os.path.islink(path) or not os.path.isfile(path) or os.stat(path).st_size > 1 << 24:
                continue
            with open(path, "rb") as file:
                if SECRET.encode() in file.read():
                    yield os.path.relpath(path, clone.root)


def elsewhere(clone):
    """Every file outside of the repository that it could be after, with its bytes."""
    found = {}
    for top in (clone.outside, clone.home, f"{clone.base}/other"):
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                allowed = (os.path.join(clone.home, one) for one in MAY_WRITE_AT_HOME)
                if not any(is_below(path, one) for one in allowed):
                    with open(path, "rb") as file:
                        found[path] = file.read()
            allowed = [os.path.join(clone.home, one) for one in (*MAY_WRITE_AT_HOME, ".config")]
            if folder != f"{clone.home}/.claude" and not any(is_below(folder, a) for a in allowed):
                found[folder] = b""
    return found


def chosen(name):
    """What is run there: what it is after, and then any others in their order."""
    return [*TELLING.get(name, FIRST), *sampled([*LINES, *OTHERS], 2, salt=name)]


@pytest.mark.parametrize("name", REPOSITORIES)
def test_a_stranger_runs_nothing_reads_nothing_and_writes_nothing_elsewhere(
    tmp_path, tally, not_shown, name
):
    if CANNOT:
        not_shown(f"promise 13, hostile repositories: {CANNOT}")
    clone = Clone(tmp_path)
    REPOSITORIES[name](clone)
    visitor = Visitor(clone)
    before = elsewhere(clone)
    found, count = [], 0
    for start in clone.starts if FULL else clone.starts[:1]:
        for line in chosen(name):
            seen = visitor.does(line, start)
            count += 1
            found += [f"{start or '.'}: {line}: {what}" for what in visitor.misdeeds(line, seen)]
    found += [f"the secret is in {path} now" for path in kept_secrets(clone)]
    after = elsewhere(clone)
    found += [f"{path} is another" for path in before if after.get(path) != before[path]]
    found += [f"{path} is new" for path in after if path not in before]
    assert found == []
    tally("hostile repositories", repositories=1, commands=count, misdeeds=len(found))


def test_every_command_is_tried_in_every_repository():
    said = [line.split(" -- ")[0] for line in (*LINES, *OTHERS)]
    tried = {name for name in COMMANDS if any(f"{line} ".startswith(f"{name} ") for line in said)}
    assert set(COMMANDS) - tried <= UNTRIED


UNTRIED = {
    "archive", "initiative rename", "initiative milestone add",
    "help", "demo", "hook", "step", "task block", "task phase", "task unblock", "task edit",
    "task remove", "task reopen", "task move", "unset", "undo", "rename", "phase approve",
    "phase block", "phase skip", "gate waive", "green", "refactor",
    "phase complete", "phase unblock", "violation clear", "delegation escalate",
    "delegation resolve",
    "delegation override", "delegation routing", "interview record", "initiative block",
    "initiative unblock", "initiative finish", "initiative use", "loop block", "loop confirm",
    "loop extend", "loop guardrail add", "loop phase", "loop unblock", "tests record",
    "pool renew", "web",
}  # fmt: skip
"""They go the same way as their neighbours in the list, or look at no repository at all; ``web``
runs until it is ended (``tests/web``)."""
