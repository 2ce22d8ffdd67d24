"""The bare repository ``hub.git`` beside the ledger, and how git is run for a hub.

What is fetched from a remote goes into a repository of its own, so that the user's repository, its
refs and its ``git log --all`` stay as they are, and its settings have no say in what git does. It
is a cache: whenever git finds it broken, it is made anew, and fetched again.

git is started in a session of its own, without a terminal and without a program that asks, so that
neither git nor ssh can prompt for anything; and with a time limit. The person's own settings
(credential helpers, ssh keys, ``url.*.insteadOf``, proxies) are used as always. Of the user's
repository only the address of a remote is read. No hook and no program is run that a repository
names: not the user's, and not the remote's if that is a folder.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time
from contextlib import contextmanager

from holdfast.core.refusal import shell_word
from holdfast.errors import Fault, Refused
from holdfast.evidence import git
from holdfast.hub.contract import unreachable
from holdfast.hub.events import MAX_REPLICAS, is_replica
from holdfast.workspace.location import names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO

    from holdfast.system.disk import Disk
    from holdfast.workspace.location import Workspace

REFS = "refs/holdfast/v1"
"""Where the refs of the replicas are, one for each; never under ``refs/heads``."""
BUNDLE = ".bundle"
"""How the name of a file ends that is a hub: a stick that is carried from machine to machine."""
_FOLDER = "hub.git"
_LOCK = "hub-git.lock"
_LOCK_WAIT_S = 60.0
_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"
_OPTIONS = (
    f"core.hooksPath={os.devnull}", "core.fsmonitor=false", "core.bigFileThreshold=16m",
    "maintenance.auto=false", "gc.auto=0", "fetch.writeCommitGraph=false",
    "fetch.recurseSubmodules=false", "push.followTags=false", "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
)  # fmt: skip
_USER = re.compile(r"(?<=://)[^/@]*@")
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_ASKPASS": "",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS_REQUIRE": "never",
    "LC_ALL": "C",
}
_RECEIVE = (
    f"git -c core.hooksPath={os.devnull} -c core.fsmonitor=false"
    " -c core.alternateRefsCommand=: -c receive.autogc=false receive-pack"
)
"""How a folder takes what is pushed: without the programs that its settings name."""
_LIST_LIMIT_S = 30.0
_PUBLIC_LIMIT_S = 5.0
_MAX_OUTPUT_BYTES = 4 * 1024 * 1024
_MAX_WHY_CHARACTERS = 300
_AT_ONCE = 400
"""The number of refs that one git fetches: their names fit into a pipe."""
_MAX_APART = 50
_MAX_LOOSE_FILES = 25
"""Files in one of the 256 folders of objects, from which on they are packed."""
_MAX_PACKS = 50
_REMOTE_LINE = re.compile(r"remote\.(.+)\.(pushurl|url)\n(.*)", re.DOTALL)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SSH_ADDRESS = re.compile(r"(?:[^/:@]+@)?([^/:]+):(?!:)(?!//)(.*)", re.DOTALL)
_SECRET = re.compile(r"[a-z+]+://([^/@]*:[^/@]*|[^/@]{16,})@")
_LISTED = re.compile(rf"([0-9a-f]{{40,64}})\t{REFS}/(.+)")
_PUSHED = re.compile(rf"([ +*=!-])\t[^\t]*:{REFS}/([^\t]+)\t(.*)")
_RACED = (
    "non-fast-forward", "fetch first", "stale info", "lock", "incorrect old value",
    "failed to update",
)  # fmt: skip
"""What git says of a ref that another process has changed meanwhile."""
_UNABLE = ("missing necessary objects", "unpacker error")
"""What git says of a remote that has lost what comes before, or cannot write."""
_NO_LOGIN = re.compile(
    r"could not read Username|prompts disabled|[Aa]uthentication failed|returned error: 40[134]"
    r"|not found|HTTP Basic: Access denied"
)


class GitFailed(Exception):
    """git ended with an error, or did not end in time."""

    def __init__(self, why: str, output: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.output = output


class Place:
    """Where the refs of the replicas are: a remote, a folder, or a bundle file."""

    def __init__(self, url: str, where: str, address: str = "") -> None:
        self.url = url
        """The address for git. It may have a password in it, if it is from git's settings."""
        self.where = where
        """The name or the address to show and to remember, without secrets."""
        self.address = _USER.sub("", address or where)
        """The address, without secrets, also of a remote that was named."""
        self.is_path = os.path.isabs(url)
        self.is_bundle = self.is_path and url.endswith(BUNDLE)


def find_place(root: str, where: str) -> Place:
    """Return the place that a person named: a remote, an address or a path.

    Raise ``Refused`` if there is none, or if its address has a password.
    """
    if not where or where.startswith("-") or not where.isprintable():
        raise Refused("invalid", f"hub: {where[:40]!r} is no remote", "git remote -v")
    if _ADDRESS.match(where) or (_SSH_ADDRESS.fullmatch(where) and where[0] not in "./~"):
        if _SECRET.match(where):
            raise Refused(
                "secret",
                "hub: the address has a password or a token in it, which would be stored",
                "leave it out; git asks a credential helper: git help credentials",
            )
        return Place(where, where)
    if "/" not in where and not where.endswith(BUNDLE):
        url = _url_of_remote(root, where)
        if url is not None:
            is_address = _ADDRESS.match(url) or _SSH_ADDRESS.fullmatch(url) or "::" in url
            return Place(url if is_address else os.path.join(root, url), where, url)
    path = os.path.abspath(os.path.expanduser(where))
    if "/" not in where and not os.path.exists(path) and not where.endswith(BUNDLE):
        raise Refused(
            "not_found",
            f"hub: this repository has no remote {where!r}",
            f"git remote add {where} URL",
        )
    return Place(path, path)


def _url_of_remote(root: str, name: str) -> str | None:
    """Return the address of a remote in the user's repository: the one it is pushed to."""
    found: dict[str, str] = {}
    output = git.ask(root, "config", "-z", "--get-regexp", r"^remote\..*\.(push)?url$") or b""
    for entry in output.decode(errors="surrogateescape").split("\0"):
        line = _REMOTE_LINE.fullmatch(entry)
        if line and line[1] == name:
            found.setdefault(line[2], line[3])
    return found.get("pushurl", found.get("url"))


class Mirror:
    """``hub.git``, and the remote that it is a copy of."""

    def __init__(
        self, workspace: Workspace, place: Place, disk: Disk, list_limit_s: float = _LIST_LIMIT_S,
        limit_s: float = 300.0,
    ) -> None:  # fmt: skip
        self.place = place
        self.path = os.path.join(workspace.home, _FOLDER)
        self._home = workspace.home
        self._root = workspace.root
        self._disk = disk
        self._list_limit_s = list_limit_s
        self._limit_s = limit_s
        self._program = ""
        self._env: dict[str, str] = {}

    # The remote

    def tips(self) -> dict[str, str]:
        """Return the commit of each replica's ref on the remote."""
        place = self.place
        if place.is_path and not os.path.exists(place.url):
            return self._no_tips()
        try:
            words = ("ls-remote", "--refs", "--", place.url, f"{REFS}/*")
            output = self.run(words, limit_s=self._list_limit_s)
        except GitFailed as failed:
            raise self._unreadable(failed.why) from None
        tips: dict[str, str] = {}
        for line in output.decode(errors="replace").splitlines():
            found = _LISTED.fullmatch(line)
            if found and is_replica(found[2]) and len(tips) < MAX_REPLICAS:
                tips[found[2]] = found[1]
        return tips

    def _unreadable(self, why: str) -> Fault:
        """Return the fault of a remote whose refs cannot be listed."""
        where = self.place.where
        if not self.place.is_bundle:
            return unreachable(where, why)
        return Fault(
            "hub_unreachable",
            f"the hub {where} is no bundle that git can read ({why});"
            " what it had is in the ledgers",
            f"mv {shell_word(where)} {shell_word(where + '.damaged')} && holdfast hub sync",
        )

    def _no_tips(self) -> dict[str, str]:
        """Return no refs for a bundle that nobody has written yet; raise ``Fault`` otherwise."""
        place = self.place
        if place.is_bundle and os.path.isdir(os.path.dirname(place.url)):
            return {}
        make = "" if place.is_bundle else f"; to make one: git init --bare {place.url}"
        raise unreachable(place.where, f"there is nothing at {place.url}{make}")

    def fetch(self, tips: dict[str, str]) -> list[str]:
        """Fetch these refs; return the replicas whose refs cannot be fetched.

        Raise ``Fault`` if the remote cannot be reached.
        """
        wanted = [replica for replica, tip in tips.items() if self._tip_here(replica) != tip]
        if not wanted:
            return []
        self.prepare()
        failed = self._fetch_all(wanted)
        if failed and not self.is_sound():
            self.remake()
            failed = self._fetch_all(list(tips))
        if failed:
            self.tips()  # Tell refs that are damaged from a remote that is out of reach.
        self._tidy()
        return failed

    def _fetch_all(self, replicas: list[str]) -> list[str]:
        """Fetch refs together; where that fails each by itself. Return those that failed."""
        failed: list[str] = []
        for start in range(0, len(replicas), _AT_ONCE):
            group = replicas[start : start + _AT_ONCE]
            if self._has_fetched(group):
                continue
            apart = group[:_MAX_APART] if len(group) > 1 else []
            fetched = [replica for replica in apart if self._has_fetched([replica])]
            failed += [replica for replica in group if replica not in fetched]
        return failed

    def _has_fetched(self, replicas: list[str]) -> bool:
        specs = "".join(f"+{REFS}/{replica}:{REFS}/{replica}\n" for replica in replicas)
        words = (
            "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
            "--no-show-forced-updates", "--stdin", "--", self.place.url,
        )  # fmt: skip
        try:
            self.run(words, specs.encode())
        except GitFailed:
            return False
        return True

    def push(self, tips: dict[str, str], forced: str = "", replaces: str = "") -> set[str]:
        """Push refs of ``hub.git``; return the replicas for which another process was faster.

        The ref of the replica ``forced`` is damaged on the remote, where it is at ``replaces``.
        Raise ``Fault`` if the remote cannot be reached, or does not take them.
        """
        names = [f"{REFS}/{replica}" for replica in tips]
        options = ["--porcelain", "--no-verify", "--no-signed", "--recurse-submodules=no"]
        if forced in tips:
            options.append(f"--force-with-lease={REFS}/{forced}:{replaces}")
        if self.place.is_path:
            options.append(f"--receive-pack={_RECEIVE}")
        words = ("push", *options, "--", self.place.url, *[f"{name}:{name}" for name in names])
        try:
            output, why = self.run(words).decode(errors="replace"), ""
        except GitFailed as failed:
            output, why = failed.output, failed.why
        answers = {
            found[2]: (found[1], found[3])
            for line in output.splitlines()
            if (found := _PUSHED.fullmatch(line))
        }
        if why and not any(flag == "!" for flag, _ in answers.values()):
            raise unreachable(self.place.where, why)
        behind = {replica for replica, (flag, _) in answers.items() if flag == "!"}
        for replica in behind:
            reason = answers[replica][1]
            if not any(word in reason for word in _RACED):
                raise self._not_taken(replica, reason, why)
        self._tidy()
        return behind

    def _not_taken(self, replica: str, reason: str, why: str) -> Fault:
        """Return the fault of a remote that does not take a ref; ``why`` are its own words."""
        ref, stays = f"{REFS}/{replica}", "what is recorded here stays here"
        if any(word in reason for word in _UNABLE):
            reason = f"{reason}: {why.removeprefix('remote: ').strip()}"
            message = f"the hub {self.place.where} is damaged or full, and cannot store {ref}"
            hint = "see to the remote (its disk, git fsck), then: holdfast hub sync"
        else:
            message = f"the hub {self.place.where} does not take {ref}"
            hint = "see to the remote's rules for refs, then: holdfast hub sync"
        return Fault("hub_refused", f"{message} ({self._shown(reason)}); {stays}", hint)

    def write_bundle(self, tips: dict[str, str], before: tuple[int, ...]) -> bool:
        """Write the bundle file with these refs; return False if another process changed it.

        ``before`` is the state of the file when its refs were listed.
        """
        path = self.place.url
        spare = f"{path}.new"
        names = "".join(f"{REFS}/{replica}\n" for replica in tips)
        try:
            self._disk.remove(spare)
            self._disk.remove(f"{spare}.lock")
            words = ("bundle", "create", "--quiet", spare, "--stdin")
            self.run(words, names.encode())
            fd = self._disk.open_read(spare)
            try:
                self._disk.sync(fd)
            finally:
                self._disk.close(fd)
            if self.bundle_state() != before:
                self._disk.remove(spare)
                return False
            self._disk.move(spare, path)
            self._disk.sync_folder(os.path.dirname(path))
        except GitFailed as failed:
            raise unreachable(self.place.where, failed.why) from None
        except OSError as error:
            raise unreachable(self.place.where, error.strerror or str(error)) from None
        return True

    def bundle_state(self) -> tuple[int, ...]:
        """Return what changes when the bundle file is replaced; nothing if there is none."""
        try:
            stat = os.stat(self.place.url)
        except OSError:
            return ()
        return stat.st_ino, stat.st_size, stat.st_mtime_ns

    def is_public(self) -> bool | None:
        """Return whether everybody can read the remote: whether git can without a login.

        Of an address for ssh, the one for https is tried. ``None`` if it cannot be found out.
        """
        if self.place.is_path or self.place.url.startswith("file:"):
            return False
        try:
            url = self.run(("ls-remote", "--get-url", "--", self.place.url)).decode().strip()
        except (GitFailed, UnicodeDecodeError):
            return None
        is_https = url.startswith(("https://", "http://", "git://"))
        url = _USER.sub("", url) if is_https else _as_https(url)
        nobody = {
            "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "HOME": self.path,
            "XDG_CONFIG_HOME": self.path, "GIT_CONFIG_COUNT": "0", "GIT_CONFIG_PARAMETERS": "",
        }  # fmt: skip
        words = ("-c", "credential.helper=", "ls-remote", "--", url, "HEAD")
        try:
            self.run(words, limit_s=_PUBLIC_LIMIT_S, variables=nobody)
        except GitFailed as failed:
            return False if _NO_LOGIN.search(failed.output) else None
        return True

    # The copy of it

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let no other process change ``hub.git`` meanwhile."""
        self._disk.make_folder(self._home)
        lock = self._disk.lock(os.path.join(self._home, _LOCK), _LOCK_WAIT_S)
        try:
            yield
        finally:
            self._disk.close(lock)

    def prepare(self) -> None:
        """Make ``hub.git``, unless it is there and has exactly the settings that it should have."""
        config = self._disk.read(os.path.join(self.path, "config"), len(_CONFIG) + 1)
        if config != _CONFIG or os.path.islink(self.path):
            self.remake()

    def remake(self) -> None:
        """Make ``hub.git`` anew, empty."""
        disk = self._disk
        disk.remove_tree(self.path)
        for folder in ("objects", "refs"):
            disk.make_folder(os.path.join(self.path, folder))
        disk.replace_view(os.path.join(self.path, "HEAD"), b"ref: refs/heads/none\n")
        disk.replace_view(os.path.join(self.path, "config"), _CONFIG)

    def is_sound(self) -> bool:
        """Return whether ``hub.git`` is whole.

        The caller holds our lock, so a lock file of git's own was left by a killed one.
        """
        folders = (self.path, os.path.join(self.path, REFS))
        if any(name.endswith(".lock") for folder in folders for name in _names_in(folder)):
            return False
        try:
            self.run(("fsck", "--connectivity-only", "--no-dangling", "--no-progress"))
        except GitFailed:
            return False
        return True

    def _tip_here(self, replica: str) -> str:
        """Return the commit of a ref in ``hub.git``; empty if it is missing, or packed."""
        raw = self._disk.read(os.path.join(self.path, REFS, replica), 100)
        return (raw or b"").decode(errors="replace").strip()

    def tips_here(self) -> dict[str, str]:
        """Return the commit of each ref in ``hub.git``."""
        if not os.path.isdir(self.path):
            return {}
        try:
            output = self.run(("for-each-ref", "--format=%(objectname)%09%(refname)", REFS))
        except GitFailed:
            return {}
        found = map(_LISTED.fullmatch, output.decode(errors="replace").splitlines())
        return {line[2]: line[1] for line in found if line and is_replica(line[2])}

    def _tidy(self) -> None:
        """Pack the objects of ``hub.git`` if there are many files of them."""
        objects = os.path.join(self.path, "objects")
        loose, packed = (len(_names_in(os.path.join(objects, name))) for name in ("17", "pack"))
        if loose > _MAX_LOOSE_FILES or packed > _MAX_PACKS:
            try:
                self.run(("gc", "--quiet"))
            except GitFailed:
                return  # It is tried again after the next exchange.

    # git

    def run(
        self, words: Iterable[str], stdin: bytes = b"", *, limit_s: float | None = None,
        variables: dict[str, str] | None = None,
    ) -> bytes:  # fmt: skip
        """Run git in ``hub.git``; return what it prints. Raise ``GitFailed`` if it fails."""
        deadline = time.monotonic() + (self._limit_s if limit_s is None else limit_s)
        process = self.start(words, variables or {})
        try:
            _write(process.stdin, stdin)
            output, errors, is_late = _read(process, deadline)
            if not is_late:
                try:
                    process.wait(max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    is_late = True
        finally:
            end(process)
        text = errors.decode(errors="replace")
        if is_late:
            raise GitFailed("it does not answer", text)
        if process.returncode != 0:
            shown = output.decode(errors="replace") + text
            raise GitFailed(self._shown(_reason(text)), shown)
        return output

    def start(
        self, words: Iterable[str], variables: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start git in ``hub.git``. Raise ``GitFailed`` if there is none."""
        if not self._program:
            program, env = git.program_and_environment(self._root)
            self._program = program or os.devnull
            self._env = {**env, **_ENVIRONMENT, "GIT_DIR": self.path}
            self._env.pop("SSH_ASKPASS", None)
        options = [word for option in _OPTIONS for word in ("-c", option)]
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(  # noqa: S603 - words are ours, paths and addresses follow them
                [self._program, *options, *words],
                stdin=pipe, stdout=pipe, stderr=pipe, env={**self._env, **(variables or {})},
                cwd=self._home_or_root(), start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise GitFailed(f"git cannot be started: {error.strerror}") from None

    def _home_or_root(self) -> str:
        return self._home if os.path.isdir(self._home) else self._root

    def _shown(self, text: str) -> str:
        """Return what git printed on one short line, without secrets."""
        from holdfast.core.visible import clean
        from holdfast.evidence.masking import mask

        text = mask(text.replace(self.place.url, self.place.where))
        return clean(text.strip()[:_MAX_WHY_CHARACTERS])


def _names_in(folder: str) -> list[str]:
    """Return the names in a folder; none if it does not exist."""
    return names_in(folder) if os.path.isdir(folder) else []


def _as_https(url: str) -> str:
    """Return the address for https of the repository that an address for ssh names."""
    found = _SSH_ADDRESS.fullmatch(url) if "://" not in url else None
    if found:
        return f"https://{found[1]}/{found[2].lstrip('/')}"
    return re.sub(r"^(?:git\+)?ssh://(?:[^/@]*@)?([^/:]+)(?::\d+)?", r"https://\1", url)


def _reason(errors: str) -> str:
    """Return the line of git's errors that says why it failed."""
    lines = [line for line in errors.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "ssh:", "ERROR:"))]
    return (fatal or lines or ["git failed"])[0].removeprefix("fatal: ")


def _write(pipe: IO[bytes] | None, data: bytes) -> None:
    assert pipe is not None
    try:
        pipe.write(data)
        pipe.close()
    except BrokenPipeError:
        return  # git ended before; why, is in what it printed.


def _read(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes, bool]:
    """Return what a process prints, cut off at a limit, and whether it took too long."""
    assert process.stdout is not None
    assert process.stderr is not None
    texts = {pipe.fileno(): bytearray() for pipe in (process.stdout, process.stderr)}
    is_late = False
    with selectors.DefaultSelector() as selector:
        for fd in texts:
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map() and not is_late:
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            is_late = not ready
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                if len(texts[key.fd]) < _MAX_OUTPUT_BYTES:
                    texts[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fd)
    output, errors = texts.values()
    return bytes(output), bytes(errors), is_late


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill git if it still runs, with all processes that it started, and close its pipes."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    for pipe in (process.stdin, process.stdout, process.stderr):
        try:
            if pipe is not None:
                pipe.close()
        except BrokenPipeError:
            pass
    process.wait()
