"""Run command lines of Holdfast in forks of a process that has already imported the package.

Most of the time of a short command is the start of the interpreter and the imports. A server pays
for both once; every command line then runs in a fork with its own working directory, environment,
streams, rights and exit code, and ends as a process of its own ends. ``run`` and ``Process``
replace ``subprocess.run`` and ``subprocess.Popen``. Pytest can be run in the same way, for a
package on the ``PYTHONPATH``.

A test whose subject is the start itself (what is imported, other limits) uses ``subprocess``.
Settings that the interpreter reads only when it starts, ``PYTHON*`` and the locale, are no
obstacle: each combination of them gets a server of its own.

Run as a script, this module is the server. A request is a length, an object of JSON and four
descriptors: the three streams, and a pipe for the number of the process and its exit code.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import time

PROGRAM = os.path.abspath(__file__)
SETTINGS = ("PYTHON", "LC_", "LANG", "LD_LIBRARY_PATH", "COVERAGE_", "COV_")
"""Prefixes of variables that matter when an interpreter starts."""
HOOK = ("-I", "-S")
"""The flags of a client's hook."""
SDK = "mcp"
PYTEST = "pytest"
BEFORE_PYTEST = (
    "_hypothesis_pytestplugin",
    "hypothesis.strategies",
    "markdown_it",
    "ruamel.yaml",
    "sqlite3",
    "tomlkit",
)
"""What tests import beside the package under test; pytest minds that it was imported before."""
STEPS = {
    "execute", "executescript", "flock", "mkdir", "write", "fsync", "fdatasync", "rename", "link",
    "unlink", "call_function",
}  # fmt: skip
"""Functions in C that have an effect outside the process."""

SEVERAL = 3
"""The number of processes from which importing everything before the forks pays off."""

_LENGTH_BYTES = 4
_DESCRIPTORS = 4
_MAX_DESCRIPTORS = 4_096
_CAPABILITIES_VERSION = 0x20080522
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1, 2
_PR_CAPBSET_DROP, _PR_SET_PTRACER = 24, 0x59616D61
_ANYBODY = ctypes.c_ulong(-1)


# The client


class _Server:
    """A client's handle of a process that forks."""

    def __init__(self, flags, source, settings, more):
        self._control, theirs = socket.socketpair()
        self._turn = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, *flags, PROGRAM, str(theirs.fileno()), source, *more],
            cwd=os.sep,
            env={"PATH": os.defpath, **dict(settings)},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def start(self, request, streams):
        """Start a process; return a pipe with its pid, and later its exit code."""
        data = json.dumps(request).encode()
        reader, writer = os.pipe()
        try:
            with self._turn:
                length = len(data).to_bytes(_LENGTH_BYTES)
                socket.send_fds(self._control, [length], [*streams, writer])
                self._control.sendall(data)
        finally:
            os.close(writer)
        return open(reader, "rb", 0)

    def close(self):
        self._control.close()
        self._process.wait()


_servers = {}


def _server_for(flags, source, environment):
    """Return the server whose interpreter was started as this environment demands."""
    settings = {name: environment[name] for name in environment if name.startswith(SETTINGS)}
    more = ()
    if source == PYTEST:
        # A fork puts it into effect itself.
        settings.pop("PYTHONPATH", None)
        more = (PYTEST, *BEFORE_PYTEST)
    elif environment.get("HOLDFAST_GRAPH", "").startswith("mcp:"):
        # The SDK is large, and only a client of another server needs it.
        more = (SDK,)
    settings = tuple(sorted(settings.items()))
    key = os.getpid(), flags, source, settings, more
    if key not in _servers:
        _servers[key] = _Server(*key[1:])
    return _servers[key]


@atexit.register
def stop():
    """End the servers that this process has started."""
    for key in [key for key in _servers if key[0] == os.getpid()]:
        _servers.pop(key).close()


def _parsed(command):
    """Return the interpreter's flags, the program or the folder of the package, and the words."""
    python, *arguments = map(os.fsdecode, command)
    assert python == sys.executable, command
    if arguments[0] == "-m" and arguments[1] in ("holdfast", PYTEST):
        return (), arguments[1], arguments[2:]
    entry = arguments[2]
    assert tuple(arguments[:2]) == HOOK, command
    assert entry.endswith("/holdfast/hooks/entry.py"), command
    return HOOK, entry.rpartition("/holdfast/hooks/")[0], []


class Process(subprocess.Popen):
    """A command line, or a client's hook, in a fork.

    With ``hold`` it stops before it begins, until SIGCONT. With ``dies_at`` it is killed before its
    step of this number. Without ``rights`` permissions stop even root.
    """

    def __init__(self, command, *, hold=False, dies_at=None, rights=True, **options):
        self._flags = {"hold": hold, "dies_at": dies_at, "rights": rights}
        super().__init__(command, **options)

    def _execute_child(
        self, args, _executable, preexec_fn, _close_fds, pass_fds, cwd, env, *arguments
    ):  # fmt: skip
        assert not preexec_fn
        assert not pass_fds
        pipes = arguments[3:9]
        """The child's and our end of each stream."""
        environment = dict(os.environ if env is None else env)
        flags, source, words = _parsed(args)
        request = {
            "words": words,
            "program": source,
            "folder": os.path.abspath(cwd or "."),
            "environment": environment,
            **self._flags,
        }
        theirs = (pipes[0], pipes[3], pipes[5])
        streams = [number if fd == -1 else fd for number, fd in enumerate(theirs)]
        try:
            self._report = _server_for(flags, source, environment).start(request, streams)
            self.pid = int(self._report.readline())
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)

    def _internal_poll(self, *_state, **_options):
        return self.poll()

    def poll(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            if not _is_readable(self._report, timeout):
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = int(self._report.readline())
            self._report.close()
        return self.returncode


def _is_readable(stream, timeout_s):
    """Return True if the stream can be read in time; its descriptor may be a large number."""
    waiting = select.poll()
    waiting.register(stream, select.POLLIN)
    return bool(waiting.poll(None if timeout_s is None else timeout_s * 1_000))


def run(command, *, input=None, capture_output=False, timeout=None, check=False, **options):
    """Run a command line to its end, as ``subprocess.run`` does."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with Process(command, **options) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    ended = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        ended.check_returncode()
    return ended


# The server


def _serve(control, source, more):
    """Start the requested processes and report how they ended, until the client is gone."""
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    telling = {}
    started = 0
    # Unlike ``select``, it takes descriptors of any number.
    waiting = select.poll()
    waiting.register(control, select.POLLIN)
    waiting.register(woken, select.POLLIN)
    while True:
        ready = [fd for fd, _ in waiting.poll()]
        if woken in ready:
            os.read(woken, _MAX_DESCRIPTORS)
            _reap(telling)
        if control.fileno() in ready:
            length, fds, _, _ = socket.recv_fds(control, _LENGTH_BYTES, _DESCRIPTORS)
            if not length:
                return
            request = _received(control, int.from_bytes(length))
            started += 1
            if started == SEVERAL:
                _import_everything(source, more)
            pid = os.fork()
            if pid == 0:
                control.detach()
                _become(request, fds[:3])
            if request["hold"]:
                os.waitpid(pid, os.WUNTRACED)
            telling[pid] = fds[3]
            _tell(fds[3], pid)
            for fd in fds[:3]:
                os.close(fd)


def _received(control, length):
    data = b""
    while len(data) < length:
        data += control.recv(length - len(data))
    return json.loads(data)


def _reap(telling):
    while telling:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        pipe = telling.pop(pid)
        _tell(pipe, os.waitstatus_to_exitcode(status))
        os.close(pipe)


def _tell(pipe, number):
    with contextlib.suppress(BrokenPipeError):
        os.write(pipe, b"%d\n" % number)


def _import_everything(source, more):
    """Import what forks need, so that they do not have to."""
    if source != PYTEST:
        _import_package()
    for name in more:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # Forks share what is never touched.


def _import_package():
    """Import every module; what an extra brings may be missing."""
    package = importlib.import_module("holdfast")
    for module in pkgutil.walk_packages(package.__path__, "holdfast."):
        if not module.name.endswith((".__main__", ".entry")):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


# A fork


def _become(request, streams):
    """Be the process of a command line, and end as it ends: at once, or by an exception."""
    _settle(request, streams)
    if request["hold"]:
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYBODY, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
    if request["dies_at"] is not None:
        _die_at(request["dies_at"])
    _PROGRAMS.get(request["program"], _hook)(request["words"])
    sys.exit()


def _settle(request, streams):
    """Take over the folder, the environment and the streams of a command line."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    os.closerange(3, _MAX_DESCRIPTORS)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["folder"])
    sys.stdin = _stream(0, "r", sys.stdin)
    sys.stdout = _stream(1, "w", sys.stdout)
    sys.stderr = _stream(2, "w", sys.stderr)
    if not request["rights"]:
        _drop_rights()


def _stream(number, mode, old):
    """Open a standard stream as the interpreter does when it starts."""
    return open(
        number,
        mode,
        buffering=1 if number == 2 or os.isatty(number) else -1,
        encoding=old.encoding,
        errors=old.errors,
        newline="\n" if mode == "w" else None,
        closefd=False,
    )


def _drop_rights():
    """Give up what lets root pass by permissions, here and in what is started from here."""
    library = ctypes.CDLL(None)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()
    library.capget(header, sets)
    for right in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
        library.prctl(_PR_CAPBSET_DROP, right, 0, 0, 0)
        for number in range(3):
            sets[number] &= ~(1 << right)
    library.capset(header, sets)


def _die_at(step):
    steps = 0

    def count(_frame, event, function):
        nonlocal steps
        if event == "c_call" and function.__name__ in STEPS:
            steps += 1
            if steps == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


def _command(words):
    """``python -m holdfast``."""
    from holdfast.cli.main import process

    sys.path.insert(0, os.getcwd())
    sys.argv = ["holdfast", *words]
    process()


def _pytest(words):
    """``python -m pytest``, with a ``sitecustomize`` that ``PYTHONPATH`` may lead to."""
    import pytest

    sys.path[:0] = [os.getcwd(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    with contextlib.suppress(ImportError):
        importlib.import_module("sitecustomize")
    sys.exit(pytest.main(["-W", "ignore::pytest.PytestAssertRewriteWarning", *words]))


def _hook(_words):
    """``python -I -S entry.py``."""
    from holdfast.hooks.quick_check import main

    gc.disable()
    os._exit(main())


_PROGRAMS = {"holdfast": _command, PYTEST: _pytest}


def main():
    number, source, *more = sys.argv[1:]
    if sys.flags.isolated:
        sys.path.insert(0, source)
    else:
        del sys.path[0]
    own = os.getpid()
    try:
        _serve(socket.socket(fileno=int(number)), source, more)
    except KeyboardInterrupt:
        if os.getpid() != own:
            raise


if __name__ == "__main__":
    main()
