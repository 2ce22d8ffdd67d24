"""The real clients, each as a person at a keyboard or a script would run it.

A client has a home and a repository (``place``) and a model (``stub``). ``say`` is one prompt, from
the start of the program to its end; ``go_on`` is one in the session that was last here; ``talk`` is
a process that is told prompt after prompt.
"""

import json
import os
import signal
import subprocess

from dialects import GenerateContent, Messages, Responses
from install import installed, node, package_folder, pinned, why_not
from loopback import proxies
from talks import AgentProtocol, StreamJson

LIMIT_S = 120
KEY = "no-key-is-needed-on-loopback"


class Unavailable(Exception):
    """A client that cannot be installed or started here, and why."""


class Client:
    """What the three have in common: the program, its environment, one run of it."""

    name = ""
    package = ""
    scope = ()

    def __init__(self, place, stub):
        self.place = place
        self.stub = stub
        self.extra = {}
        self._running = []

    def at(self, place):
        """The same client and model in another place."""
        other = type(self)(place, self.stub)
        other._running = self._running
        return other

    def close(self):
        """Ends what a scenario that failed may have left behind."""
        for process in self._running:
            kill(process)

    @classmethod
    def program(cls):
        """The words that start it. A script is run with the Node that is pinned."""
        if installed(cls.package) != pinned()[cls.package]:
            raise Unavailable(f"{cls.package} {pinned()[cls.package]}: {why_not(cls.package)}")
        folder = package_folder(cls.package)
        told = json.loads((folder / "package.json").read_text("utf-8"))["bin"]
        path = str(folder / (told if isinstance(told, str) else told[cls.name]))
        return [str(node() / "node"), path] if path.endswith(".js") else [path]

    @classmethod
    def version(cls):
        try:
            done = subprocess.run(
                [*cls.program(), "--version"],
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Unavailable(f"{cls.package} does not start: {error}") from error
        return next((word for word in done.stdout.split() if word[0].isdigit()), done.stdout)

    def environment(self):
        return {**self.place.environment(), **proxies(), **self.own(), **self.extra}

    def own(self):
        """The variables of this client, and the files it needs in its home."""
        raise NotImplementedError

    def connect(self, *options):
        """Has the client call Holdfast."""
        self.place.run("holdfast", "init", "--agent", self.name, *self.scope, *options)

    def start(self, *words):
        print("$", self.name, *words)
        process = subprocess.Popen(
            [*self.program(), *words],
            cwd=self.place.path, env=self.environment(), start_new_session=True, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._running.append(process)
        return process

    def run(self, *words):
        process = self.start(*words)
        try:
            out, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            kill(process)
            raise
        print(out[-3000:])
        assert process.returncode == 0, f"ended with {process.returncode}"
        return out


def kill(process):
    """As a machine that loses its power: the client and all that it started, at once."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
    process.stdin.close()
    process.stdout.close()


class Claude(Client):
    name = "claude"
    package = "@anthropic-ai/claude-code"
    dialect = Messages
    scope = ("--local",)
    allowed = ("--allowedTools", "Bash,Read,Edit,Write")

    def own(self):
        return {
            "ANTHROPIC_BASE_URL": self.stub.url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_TMPDIR": str(self.place.root / "tmp"),
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        }

    def say(self, prompt, *words):
        return self.run("-p", prompt, "--output-format", "json", *self.allowed, *words)

    def go_on(self, prompt):
        return self.say(prompt, "--continue")

    def talk(self):
        both = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
        return StreamJson(self.start("-p", *both, *self.allowed))


class Codex(Client):
    name = "codex"
    package = "@openai/codex"
    dialect = Responses
    sandbox = "danger-full-access"

    def connect(self, *options):
        self.own()
        super().connect(*options)

    def own(self):
        folder = self.place.home / ".codex"
        folder.mkdir(exist_ok=True)
        if not (folder / "config.toml").exists():
            self._configure(folder / "config.toml")
        # Its tools run in a login shell, which sets the path anew.
        path = self.place.environment()["PATH"]
        (self.place.home / ".profile").write_text(f"PATH='{path}'\n")
        return {"CODEX_HOME": str(folder), "STUB_KEY": KEY}

    def _configure(self, path):
        path.write_text(
            f"""\
model = "gpt-5"
model_provider = "stub"
model_context_window = 100000
model_auto_compact_token_limit = 50000
sandbox_mode = "{self.sandbox}"
[model_providers.stub]
name = "stub"
base_url = "{self.stub.url}/v1"
wire_api = "responses"
env_key = "STUB_KEY"
request_max_retries = 1
stream_max_retries = 1
[projects."{self.place.path}"]
trust_level = "trusted"
[analytics]
enabled = false
"""
        )

    def say(self, prompt, *words):
        return self.run("exec", "--dangerously-bypass-hook-trust", "--json", *words, prompt)

    def go_on(self, prompt):
        return self.say(prompt, "resume", "--last")


class Gemini(Client):
    name = "gemini"
    package = "@google/gemini-cli"
    dialect = GenerateContent
    common = ("-m", "gemini-2.5-flash", "--approval-mode", "yolo")

    def own(self):
        folder = self.place.home / ".gemini"
        folder.mkdir(exist_ok=True)
        told = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "model": {"compressionThreshold": 0.5},
        }
        (folder / "settings.json").write_text(json.dumps(told))
        return {
            "GEMINI_API_KEY": KEY,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GOOGLE_GEMINI_BASE_URL": self.stub.url,
        }

    def say(self, prompt, *words):
        return self.run(*self.common, "-p", prompt, *words)

    def go_on(self, prompt):
        return self.say(prompt, "--resume", "latest")

    def talk(self):
        return AgentProtocol(self.start(*self.common, "--acp"), str(self.place.path))
