"""The git hub: refs that get lost or are hostile, remotes of every kind, and the user's repository.

What it shares with the other hubs is in ``test_contract.py``.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from holdfast.errors import Fault, Refused
from holdfast.hub import Sharing
from holdfast.hub import git as hub_git
from holdfast.hub.contract import Forked, Held
from holdfast.hub.git import GitRemote
from holdfast.hub.git_mirror import REFS, Mirror, _as_https, find_place
from holdfast.storage.shared_events import SharedEvents
from holdfast.workspace import location
from hub.test_contract import an_event, everything, some
from support.git_template import make_repository, run_git
from support.hubs import machines_on
from support.paths import SOURCE
from support.workshop import Workshop

REMOTE = "remote.git"
PUSH_AND_DIE = """
import os, signal, sys
from holdfast.hub import git, git_mirror
from holdfast.workspace import location
sys.path.insert(0, {tests!r})
from hub.test_contract import some
run, calls = git_mirror.Mirror.run, iter(range(100))
def counted(self, words, *args, **options):
    words = tuple(words)
    print(words[0], flush=True)
    if next(calls) == int(sys.argv[2]):
        if sys.argv[3] == "after":
            run(self, words, *args, **options)
        os.kill(os.getpid(), signal.SIGKILL)
    return run(self, words, *args, **options)
git_mirror.Mirror.run = counted
hub = git.GitRemote(location.find(sys.argv[1]), "origin", "a")
hub.pull("")
hub.push(some("a", 1, 7))
"""


@pytest.fixture
def remote(tmp_path):
    run_git(tmp_path, "init", "-q", "--bare", REMOTE)
    return tmp_path / REMOTE


@pytest.fixture
def meeting(tmp_path, remote):
    made = machines_on(tmp_path, f"../{remote.name}")
    yield made
    made.first.close()
    made.second.close()


def refs_of(repository):
    return run_git(repository, "for-each-ref", "--format=%(refname) %(objectname)").stdout


def commit_files(repository, replica, files, message="holdfast 1 events 1"):
    """Commit files to a replica's ref, as anybody can who may push."""
    ref = f"{REFS}/{replica}"
    stream = [f"commit {ref}\ncommitter X <> 1 +0000\ndata <<END\n{message}\nEND\n".encode()]
    if run_git(repository, "rev-parse", "-q", "--verify", ref, check=False).returncode == 0:
        stream.append(f"from {ref}^0\n".encode())
    for name, data in files.items():
        stream.append(b"M 100644 inline %s\ndata %d\n%s\n" % (name.encode(), len(data), data))
    words = ["git", "-C", os.fspath(repository), "fast-import", "--quiet"]
    subprocess.run(words, input=b"".join(stream), check=True)


def lines(*events):
    return "".join(f"{json.dumps(event)}\n" for event in events).encode()


class TestLostAndRewrittenRefs:
    def test_a_pruned_ref_is_known_to_be_gone_and_can_be_pushed_again(self, meeting, remote):
        meeting.first.push(some("a", 1, 5))
        before = meeting.second.pull("")
        run_git(remote, "update-ref", "-d", f"{REFS}/a")
        pulled = meeting.second.pull(before.cursor)
        assert (pulled.events, pulled.known) == ([], {})
        meeting.second.push(some("a", 1, 5))
        assert sorted(everything(meeting.first)) == [("a", n) for n in range(1, 6)]

    def test_a_ref_that_went_back_is_read_from_its_beginning(self, meeting, remote):
        meeting.first.push(some("a", 1, 2))
        meeting.first.push(some("a", 3, 4))
        before = meeting.second.pull("")
        run_git(remote, "update-ref", f"{REFS}/a", f"{REFS}/a^")
        pulled = meeting.second.pull(before.cursor)
        assert [event["n"] for event in pulled.events] == [1, 2]
        assert pulled.known == {"a": 2}

    def test_a_push_that_lost_a_race_is_made_again_on_top(self, meeting):
        meeting.first.pull("")
        meeting.second.pull("")
        meeting.first.push(some("a", 1, 3))
        assert meeting.second.push(some("a", 1, 5)) == []
        assert sorted(everything(meeting.first)) == [("a", n) for n in range(1, 6)]

    def test_a_race_between_two_ledgers_of_one_name_is_found_out(self, meeting):
        meeting.second.pull("")
        meeting.first.push(some("a", 1, 3))
        other = an_event("a", 1)
        other["cause"]["id"] = "another"
        with pytest.raises(Forked):
            meeting.second.push([other])

    def test_replicas_never_reject_each_others_pushes(self, meeting, monkeypatch):
        rejected = []
        push = Mirror.push

        def watched(self, *args):
            behind = push(self, *args)
            rejected.extend(behind)
            return behind

        monkeypatch.setattr(Mirror, "push", watched)
        for hub in (meeting.first, meeting.second):
            hub.pull("")
        for n in range(1, 11):
            meeting.first.push(some("a", n, n))
            meeting.second.push(some("b", n, n))
        assert rejected == []
        assert len(everything(meeting.first)) == 20

    def test_a_broken_hub_git_is_made_anew(self, meeting, tmp_path):
        meeting.first.push(some("a", 1, 3))
        cursor = meeting.second.pull("").cursor
        objects = tmp_path / "b" / ".git" / "holdfast" / "hub.git" / "objects"
        for path in objects.glob("??/*"):
            path.chmod(0o600)
            path.write_bytes(b"damaged")
        meeting.first.push(some("a", 4, 5))
        assert meeting.second.pull(cursor).known == {"a": 5}
        assert len(everything(meeting.second)) == 5
        meeting.second.push(some("b", 1, 1))
        assert ("b", 1) in everything(meeting.first)

    @pytest.mark.parametrize("kind", ["commit", "blob"])
    def test_what_is_missing_in_hub_git_alone_is_fetched_again(self, meeting, tmp_path, kind):
        meeting.first.push(some("a", 1, 3))
        meeting.second.pull("")
        mirror = tmp_path / "b" / ".git" / "holdfast" / "hub.git"
        name = f"{REFS}/a" if kind == "commit" else f"{REFS}/a:events"
        lost = run_git(mirror, "rev-parse", name).stdout.strip()
        (mirror / "objects" / lost[:2] / lost[2:]).unlink()
        pulled = meeting.second.pull("")
        assert (len(pulled.events), list(pulled.flaws)) == (3, [])

    def test_a_lock_that_a_killed_git_left_is_no_obstacle(self, meeting, tmp_path):
        meeting.first.push(some("a", 1, 3))
        cursor = meeting.second.pull("").cursor
        refs = tmp_path / "b" / ".git" / "holdfast" / "hub.git" / REFS
        (refs / "a.lock").write_text("")
        (refs / "b.lock").write_text("")
        meeting.first.push(some("a", 4, 5))
        assert [event["n"] for event in meeting.second.pull(cursor).events][-2:] == [4, 5]
        assert meeting.second.push(some("b", 1, 1)) == []

    def test_a_large_hub_is_read_in_parts_by_any_process(self, meeting, monkeypatch, tmp_path):
        monkeypatch.setattr("holdfast.hub.git_commits.PULL_EVENTS", 4)
        for name in "ab":
            meeting.first.push(some(name, 1, 3))
            meeting.first.push(some(name, 4, 5))
        cursor, seen, parts = "", [], 0
        while True:
            hub = GitRemote(location.find(os.fspath(tmp_path / "b")), "origin", "b")
            pulled = hub.pull(cursor)
            hub.close()
            seen += [(event["replica"], event["n"]) for event in pulled.events]
            cursor, parts = pulled.cursor, parts + 1
            if pulled.is_all:
                break
        assert parts == 3
        assert sorted(seen) == [(name, n) for name in "ab" for n in range(1, 6)]
        assert seen == sorted(seen, key=lambda event: event[::-1]), "in the order of the fold"

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_a_push_that_is_killed_anywhere_loses_and_doubles_nothing(
        self, meeting, tmp_path, when, tally
    ):
        code = PUSH_AND_DIE.format(tests=os.path.dirname(os.path.dirname(__file__)))
        root, kills = tmp_path / "a", 0
        for point in range(10):
            words = [sys.executable, "-c", code, os.fspath(root), str(point), when]
            env = {**os.environ, "PYTHONPATH": SOURCE}
            done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
            kills += done.returncode == -signal.SIGKILL
            meeting.first.push(some("a", 1, 7))
            events = meeting.second.pull("").events
            assert [event["n"] for event in events] == list(range(1, 8))
            if done.returncode == 0:
                break
            run_git(tmp_path / REMOTE, "update-ref", "-d", f"{REFS}/a")
            meeting.first.pull("")
        assert kills == point >= 3, done.stdout + done.stderr
        tally("kills of a push to git", kills=kills)


class TestHostileRefs:
    @pytest.mark.parametrize(
        "data",
        [
            b"{",
            b"[]\n",
            b'"text"\n',
            b"\xff\xfe\n",
            b"[" * 100_000 + b"\n",
            b'{"replica": "c", "n": 1, "n": 1}\n',
            lines({**an_event("c", 1), "replica": "d"}),
            lines({**an_event("c", 1), "n": True}),
            lines({**an_event("c", 1), "lamport": 2**80}),
            lines({**an_event("c", 1), "seen": {"../x": 1}}),
            lines({**an_event("c", 1), "cause": {}}),
            lines({key: value for key, value in an_event("c", 1).items() if key != "stream"}),
            lines(an_event("c", 2)),
            lines({**an_event("c", 1), "stream": "\ud800"}),
        ],
    )
    def test_what_is_no_event_is_left_out_and_said(self, meeting, remote, data):
        meeting.first.push(some("a", 1, 2))
        commit_files(remote, "c", {"events": data})
        pulled = meeting.second.pull("")
        assert [event["replica"] for event in pulled.events] == ["a", "a"]
        assert pulled.known == {"a": 2}
        assert any(f"{REFS}/c was left out" in flaw for flaw in pulled.flaws)
        again = meeting.second.pull(pulled.cursor)
        assert (again.events, list(again.flaws)) == ([], []), "it is said once"

    def test_the_good_part_of_a_damaged_ref_counts(self, meeting, remote):
        commit_files(remote, "c", {"events": lines(*some("c", 1, 2))})
        commit_files(remote, "c", {"events": b"damaged\n" + lines(an_event("c", 3))})
        commit_files(remote, "c", {"events": lines(an_event("c", 5))})
        pulled = meeting.first.pull("")
        assert pulled.known == {"c": 3}
        meeting.second.push(some("c", 1, 6))
        assert meeting.first.pull(pulled.cursor).known == {"c": 6}, "pushed on top"

    def test_a_ref_that_is_no_commit_is_left_out(self, meeting, remote):
        meeting.first.push(some("a", 1, 2))
        blob = run_git(remote, "hash-object", "-w", os.devnull).stdout.strip()
        for name in ("c", "Upper", "with/folder"):
            run_git(remote, "update-ref", f"{REFS}/{name}", blob)
        pulled = meeting.second.pull("")
        assert pulled.known == {"a": 2}
        assert len(pulled.flaws) == 1
        meeting.second.pull(pulled.cursor)
        assert meeting.second.push([*some("b", 1, 1), *some("c", 1, 1)]) == []
        assert meeting.first.pull("").known == {"a": 2, "b": 1}

    def test_our_own_ref_is_replaced_if_nothing_can_follow_it(self, meeting, remote):
        meeting.first.push(some("a", 1, 2))
        cursor = meeting.first.pull("").cursor
        blob = run_git(remote, "hash-object", "-w", os.devnull).stdout.strip()
        run_git(remote, "update-ref", f"{REFS}/a", blob)
        cursor = meeting.first.pull(cursor).cursor
        assert meeting.first.pull(cursor).known == {}
        assert meeting.first.push(some("a", 1, 3)) == []
        assert meeting.second.pull("").known == {"a": 3}

    def test_a_commit_of_a_newer_form_is_left_out_and_said(self, meeting, remote):
        commit_files(remote, "c", {"events": lines(an_event("c", 1))}, "holdfast 2 events 1")
        pulled = meeting.first.pull("")
        assert pulled.events == []
        assert "a newer Holdfast wrote it" in pulled.flaws[0]

    def test_a_huge_file_is_not_read_into_memory(self, meeting, remote, monkeypatch):
        monkeypatch.setattr("holdfast.hub.git_commits.MAX_EVENT_BYTES", 100_000)
        commit_files(remote, "c", {"events": lines(an_event("c", 1)) + b" " * 200_000})
        meeting.first.push(some("a", 1, 1))
        assert meeting.second.pull("").known == {"a": 1}

    def test_thousands_of_refs_are_bounded(self, meeting, remote, monkeypatch):
        monkeypatch.setattr("holdfast.hub.git_mirror.MAX_REPLICAS", 20)
        meeting.first.push(some("a", 1, 1))
        commit = run_git(remote, "rev-parse", f"{REFS}/a").stdout.strip()
        packed = "".join(f"{commit} {REFS}/{n:04}\n" for n in range(1_000))
        (remote / "packed-refs").write_text(
            f"# pack-refs with: peeled fully-peeled sorted\n{packed}"
        )
        pulled = meeting.second.pull("")
        assert len(pulled.cursor.split()) <= 20

    def test_a_ref_whose_objects_are_missing_does_not_hide_the_others(self, meeting, remote):
        meeting.first.push([*some("a", 1, 2), *some("c", 1, 2)])
        commit = run_git(remote, "rev-parse", f"{REFS}/c").stdout.strip()
        (remote / "objects" / commit[:2] / commit[2:]).unlink()
        pulled = meeting.second.pull("")
        assert [event["replica"] for event in pulled.events] == ["a", "a"]
        assert f"{REFS}/c cannot be fetched" in pulled.flaws[0]


class TestTheUsersRepository:
    def test_it_stays_as_it_is(self, meeting, tmp_path):
        root = tmp_path / "a"
        run_git(root, "commit", "-q", "--allow-empty", "-m", "begin")
        before = seen_by_git(root)
        meeting.second.push(some("b", 1, 3))
        meeting.first.pull("")
        meeting.first.push(some("a", 1, 3))
        meeting.first.claim("login", "one", 60)
        assert seen_by_git(root) == before

    def test_its_settings_run_nothing_and_lead_nowhere(self, meeting, tmp_path):
        root, mark = tmp_path / "a", tmp_path / "ran"
        for name, value in (
            ("core.sshCommand", f"touch {mark};:"),
            ("core.hooksPath", os.fspath(tmp_path / "hooks")),
            ("core.fsmonitor", f"touch {mark}"),
            ("core.askPass", f"touch {mark}"),
            ("credential.helper", f"!touch {mark}"),
            ("protocol.ext.allow", "always"),
            ("uploadpack.packObjectsHook", f"touch {mark};"),
            ("remote.origin.uploadpack", f"touch {mark}; git-upload-pack"),
            ("remote.origin.receivepack", f"touch {mark}; git-receive-pack"),
            ("remote.origin.vcs", "ext"),
            (f"url.ext::sh -c touch% {mark} .insteadOf", os.fspath(tmp_path)),
        ):
            run_git(root, "config", name, value)
        hooks(tmp_path / "hooks", mark)
        hub = GitRemote(location.find(os.fspath(root)), "origin", "a")
        meeting.second.push(some("b", 1, 1))
        assert hub.pull("").known == {"b": 1}
        hub.push(some("a", 1, 1))
        assert hub.pull("").known == {"a": 1, "b": 1}
        assert not mark.exists()

    def test_a_remote_that_would_run_a_command_is_refused(self, tmp_path):
        root, mark = tmp_path / "a", tmp_path / "ran"
        make_repository(root)
        run_git(root, "remote", "add", "origin", f"ext::touch {mark}")
        hub = GitRemote(location.find(os.fspath(root)), "origin", "a")
        with pytest.raises(Fault, match="'ext' not allowed"):
            hub.pull("")
        assert not mark.exists()

    def test_the_programs_that_a_folder_names_are_not_run(self, meeting, tmp_path, remote):
        mark = tmp_path / "ran"
        hooks(remote / "hooks", mark)
        run_git(remote, "config", "core.fsmonitor", f"touch {mark}")
        run_git(remote, "config", "core.alternateRefsCommand", f"touch {mark};:")
        meeting.first.push(some("a", 1, 1))
        assert meeting.second.pull("").known == {"a": 1}
        assert not mark.exists()

    def test_a_hub_git_that_came_with_the_repository_is_not_used(self, meeting, tmp_path):
        mark = tmp_path / "ran"
        path = tmp_path / "a" / ".git" / "holdfast" / "hub.git"
        run_git(tmp_path, "init", "-q", "--bare", os.fspath(path))
        run_git(path, "config", "core.sshCommand", f"touch {mark};:")
        hooks(path / "hooks", mark)
        meeting.first.push(some("a", 1, 1))
        assert "sshCommand" not in (path / "config").read_text()
        assert not mark.exists()


def hooks(folder, mark):
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("pre-push", "pre-receive", "post-receive", "update", "reference-transaction"):
        (folder / name).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (folder / name).chmod(0o700)


def seen_by_git(root):
    names = sorted(os.listdir(root / ".git"))
    config = (root / ".git" / "config").read_bytes()
    return run_git(root, "log", "--all").stdout, refs_of(root), config, [
        name for name in names if name != "holdfast"
    ]  # fmt: skip


class TestWhereItIs:
    @pytest.mark.parametrize(
        "url",
        ["https://ada:hunter22@example.com/x.git", "https://ghp_0123456789abcdef0123@host/x.git"],
    )
    def test_an_address_with_a_secret_is_refused(self, tmp_path, url):
        make_repository(tmp_path)
        with pytest.raises(Refused, match="password or a token") as refused:
            find_place(os.fspath(tmp_path), url)
        assert refused.value.code == "secret"
        assert "credential" in refused.value.hint
        assert "hunter22" not in str(refused.value) + refused.value.hint

    def test_the_secret_of_a_remote_is_never_shown(self, tmp_path):
        make_repository(tmp_path)
        run_git(tmp_path, "remote", "add", "origin", "http://ada:hunter22@127.0.0.1:1/x.git")
        hub = GitRemote(location.find(os.fspath(tmp_path)), "origin")
        assert hub.where == "origin"
        with pytest.raises(Fault) as fault:
            hub.pull("")
        assert fault.value.code == "hub_unreachable"
        assert "hunter22" not in fault.value.message + fault.value.hint

    def test_a_remote_that_does_not_exist_is_refused(self, tmp_path):
        make_repository(tmp_path)
        with pytest.raises(Refused, match="no remote 'upstream'"):
            find_place(os.fspath(tmp_path), "upstream")

    @pytest.mark.parametrize("where", ["", "--upload-pack=touch x", "a\x1b[2J"])
    def test_what_is_no_address_is_refused(self, tmp_path, where):
        with pytest.raises(Refused):
            find_place(os.fspath(tmp_path), where)

    def test_a_folder_is_remembered_with_its_whole_path(self, tmp_path, monkeypatch, remote):
        monkeypatch.chdir(tmp_path)
        assert find_place(os.fspath(tmp_path), f"./{REMOTE}").where == os.fspath(remote)

    def test_the_address_for_pushing_is_used(self, tmp_path):
        make_repository(tmp_path)
        run_git(tmp_path, "remote", "add", "origin", "https://example.com/x.git")
        run_git(tmp_path, "config", "remote.origin.pushurl", "git@example.com:x.git")
        assert find_place(os.fspath(tmp_path), "origin").url == "git@example.com:x.git"

    @pytest.mark.parametrize("where", ["/nowhere/at/all.git", "/nowhere/at/all.bundle"])
    def test_what_is_not_there_cannot_be_reached(self, tmp_path, where):
        make_repository(tmp_path)
        hub = GitRemote(location.find(os.fspath(tmp_path)), where)
        with pytest.raises(Fault, match="cannot be reached"):
            hub.pull("")

    def test_a_server_that_never_answers_is_given_up(self, tmp_path):
        make_repository(tmp_path)
        with socket.create_server(("127.0.0.1", 0)) as server:
            url = f"git://127.0.0.1:{server.getsockname()[1]}/x"
            hub = GitRemote(location.find(os.fspath(tmp_path)), url, list_limit_s=0.3)
            with pytest.raises(Fault, match="does not answer"):
                hub.pull("")

    def test_a_remote_that_takes_no_push_says_why(self, meeting, remote):
        run_git(remote, "config", "receive.denyCurrentBranch", "refuse")
        run_git(remote, "config", "transfer.hideRefs", REFS)
        with pytest.raises(Fault, match="hidden ref") as fault:
            meeting.first.push(some("a", 1, 1))
        assert fault.value.code == "hub_refused"

    def test_a_remote_that_has_lost_what_comes_before_is_damaged(self, meeting, remote):
        meeting.first.push(some("a", 1, 1))
        tip = refs_of(remote).split()[1]
        lost = remote / "objects" / tip[:2] / tip[2:]
        lost.chmod(0o600)
        lost.write_bytes(b"damaged")
        with pytest.raises(Fault, match=r"damaged or full, and cannot store .* corrupt") as fault:
            meeting.first.push(some("a", 2, 2))
        assert "git fsck" in fault.value.hint

    def test_a_folder_and_a_bundle_are_not_public(self, meeting):
        assert meeting.first.is_public() is False

    def test_a_server_that_needs_no_login_is_public(self, tmp_path, remote):
        make_repository(tmp_path / "c")
        (remote / "git-daemon-export-ok").write_text("")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        words = ["git", "daemon", "--listen=127.0.0.1", f"--port={port}", f"--base-path={tmp_path}"]
        daemon = subprocess.Popen([*words, "--reuseaddr", os.fspath(tmp_path)])
        try:
            hub = GitRemote(
                location.find(os.fspath(tmp_path / "c")), f"git://127.0.0.1:{port}/{REMOTE}"
            )
            for _ in range(500):
                if hub.is_public() is not None:
                    break
            assert hub.is_public() is True
        finally:
            daemon.terminate()
            daemon.wait()


class TestWhatIsPublic:
    @pytest.mark.parametrize(
        ("url", "public"),
        [
            ("git@host:me/x.git", "https://host/me/x.git"),
            ("host:/me/x.git", "https://host/me/x.git"),
            ("ssh://git@host:2222/me/x.git", "https://host/me/x.git"),
            ("git+ssh://host/me/x.git", "https://host/me/x.git"),
        ],
    )
    def test_an_address_for_ssh_is_tried_without_it(self, url, public):
        assert _as_https(url) == public

    def test_a_server_that_cannot_be_asked_may_be_public_or_not(self, tmp_path):
        make_repository(tmp_path)
        url = "http://127.0.0.1:1/x.git"
        assert GitRemote(location.find(os.fspath(tmp_path)), url).is_public() is None

    @pytest.mark.parametrize(("status", "public"), [("401 Unauthorized", False), ("404 x", False)])
    def test_a_server_that_wants_a_login_is_not_public(self, tmp_path, status, public):
        make_repository(tmp_path)
        answer = f"HTTP/1.1 {status}\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"
        with socket.create_server(("127.0.0.1", 0)) as server:
            thread = threading.Thread(
                target=answer_all, args=(server, answer.encode()), daemon=True
            )
            thread.start()
            url = f"http://127.0.0.1:{server.getsockname()[1]}/x.git"
            assert GitRemote(location.find(os.fspath(tmp_path)), url).is_public() is public


def answer_all(server, answer):
    """Answer each request alike, until the server is closed."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            connection.recv(65_536)
            connection.sendall(answer)


class TestBundles:
    def test_what_another_process_wrote_meanwhile_is_kept(self, tmp_path):
        meeting = machines_on(tmp_path, os.fspath(tmp_path / "stick.bundle"))
        meeting.first.pull("")
        meeting.second.pull("")
        meeting.first.push(some("a", 1, 2))
        meeting.second.push(some("b", 1, 2))
        assert len(everything(meeting.first)) == 4

    def test_a_killed_write_leaves_the_old_file(self, tmp_path):
        stick = tmp_path / "stick.bundle"
        meeting = machines_on(tmp_path, os.fspath(stick))
        meeting.first.push(some("a", 1, 2))
        for name in ("stick.bundle.new", "stick.bundle.new.lock"):
            (tmp_path / name).write_text("half")
        meeting.second.push(some("b", 1, 2))
        assert len(everything(meeting.first)) == 4
        assert sorted(path.name for path in tmp_path.glob("stick*")) == ["stick.bundle"]

    def test_a_damaged_bundle_is_to_be_moved_away(self, tmp_path):
        stick = tmp_path / "stick.bundle"
        meeting = machines_on(tmp_path, os.fspath(stick))
        stick.write_bytes(b"no bundle")
        with pytest.raises(Fault, match="is no bundle that git can read") as caught:
            meeting.first.pull("")
        assert caught.value.hint == f"mv {stick} {stick}.damaged && holdfast hub sync"


class TestAdvisoryClaims:
    def test_two_that_claim_at_once_may_both_get_it(self, meeting, monkeypatch):
        """Advisory: that is what ``is_fencing`` says, and why nothing relies on it."""
        assert meeting.first.is_fencing is False
        fetched = hub_git.GitRemote._fetched_tips
        first = meeting.first

        def claimed_meanwhile(self):
            tips = fetched(self)
            monkeypatch.setattr(hub_git.GitRemote, "_fetched_tips", fetched)
            first.claim("login", "one", 60)
            return tips

        monkeypatch.setattr(hub_git.GitRemote, "_fetched_tips", claimed_meanwhile)
        assert meeting.second.claim("login", "two", 60) == 1
        assert {lease.holder for lease in meeting.second.leases()} <= {"one", "two"}

    def test_claims_and_events_share_a_ref(self, meeting):
        meeting.first.push(some("a", 1, 2))
        epoch = meeting.first.claim("login", "one", 60)
        meeting.first.push(some("a", 3, 4))
        pulled = meeting.second.pull("")
        assert pulled.known == {"a": 4}
        assert [(one.stream, one.holder, one.epoch) for one in meeting.second.leases()] == [
            ("login", "one", epoch)
        ]

    def test_a_lease_of_a_wrong_clock_does_not_hold_for_ever(self, meeting, remote):
        far = [{"stream": "login", "holder": "x", "epoch": 1, "until": 9e15}]
        files = {"leases": json.dumps(far).encode()}
        commit_files(remote, "c", files, "holdfast 1 leases 0")
        assert meeting.first.claim("login", "one", 60) == 2

    @pytest.mark.parametrize("data", [b"{", b"[1]", b'[{"stream": 1}]', b"x" * 1_000_000])
    def test_leases_that_are_none_are_left_out(self, meeting, remote, data):
        commit_files(remote, "c", {"leases": data}, "holdfast 1 leases 0")
        assert meeting.first.claim("login", "one", 60) == 1
        with pytest.raises(Held):
            meeting.second.claim("login", "two", 60)


class TestTwoLedgers:
    @pytest.mark.usefixtures("remote")
    def test_two_machines_share_their_work(self, tmp_path):
        laptop, desk = (Workshop(tmp_path / name) for name in ("laptop", "desk"))
        for shop in (laptop, desk):
            run_git(shop.root, "remote", "add", "origin", "../remote.git")
        first, second = laptop.keeper(), desk.keeper()
        name = first.start("planning", "login.md").state["id"]
        first.add_task("write it", workflow=name)
        sharing = Sharing(first)
        sharing.add(sharing.plan("git", "origin", "laptop"))
        other = Sharing(second)
        other.add(other.plan("git", "", "desk"))
        second.add_task("test it", workflow=name)
        first.add_task("show it", workflow=name)
        for machine in (other, sharing, other, sharing):
            machine.sync()
        texts = [
            [t["description"] for t in k.show(workflow=name).state["tasks"]]
            for k in (first, second)
        ]
        assert texts[0] == texts[1]
        assert set(texts[0]) >= {"write it", "test it", "show it"}
        digests = {
            SharedEvents(keeper.store.ledger).fold(name).digest() for keeper in (first, second)
        }
        assert len(digests) == 1
        assert sharing.sync().pushed == 0

    def test_what_the_remote_lost_is_pushed_again_also_for_others(self, tmp_path, remote):
        laptop, desk = (Workshop(tmp_path / name) for name in ("laptop", "desk"))
        sharings = []
        for shop in (laptop, desk):
            run_git(shop.root, "remote", "add", "origin", "../remote.git")
            keeper = shop.keeper()
            keeper.start("planning", f"{os.path.basename(shop.root)}.md")
            sharing = Sharing(keeper)
            sharing.add(sharing.plan("git", "origin", os.path.basename(shop.root)))
            sharings.append(sharing)
        sharings[0].sync()
        before = set(refs_of(remote).split()[::2])
        for ref in before:
            run_git(remote, "update-ref", "-d", ref)
        sharings[0].sync()
        assert set(refs_of(remote).split()[::2]) == before
        assert len(before) == 2
