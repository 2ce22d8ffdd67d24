"""Run ``memory_server.py`` in forks of a process that has imported the SDK, which takes a second.

``command`` replaces ``python memory_server.py`` in a client's settings: a small program
that hands its streams to a fork and waits until that has ended. If it is killed, the fork ends.
"""

import atexit
import functools
import os
import select
import signal
import socket
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SERVER = os.path.join(HERE, "memory_server.py")
_MAX_WORDS_BYTES = 1 << 16


def command(*words):
    """Return the program and the words that start a server with these words."""
    return sys.executable, ["-I", "-S", os.path.abspath(__file__), _forking(os.getpid()), *words]


@functools.cache
def _forking(_pid):
    """Start the process that forks; return the path of its socket."""
    import shutil
    import subprocess
    import tempfile

    folder = tempfile.mkdtemp(prefix="holdfast-")
    path = os.path.join(folder, "socket")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), str(listening.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[listening.fileno()],
        )
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(process.communicate)
    return path


def _serve(listening):
    """Fork for each client that connects, until the standard input ends."""
    import mcp.server.mcpserver  # noqa: F401
    import memory_model  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
        client, _ = listening.accept()
        if os.fork() == 0:
            _become(client)
        client.close()


def _become(client):
    """Run as the server that a client started."""
    import runpy
    import threading

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    words, streams, _, _ = socket.recv_fds(client, _MAX_WORDS_BYTES, 3)
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    threading.Thread(target=_end_with, args=[client], daemon=True).start()
    sys.argv = [SERVER, *words.decode().split("\0")]
    runpy.run_path(SERVER, run_name="__main__")
    os._exit(0)


def _end_with(client):
    client.recv(1)
    os._exit(1)


def _hand_over(path, words):
    """Hand the streams of this process to a fork, and wait for its end."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        socket.send_fds(server, ["\0".join(words).encode()], [0, 1, 2])
        server.recv(1)


if __name__ == "__main__":
    if sys.flags.isolated:
        _hand_over(sys.argv[1], sys.argv[2:])
    else:
        _serve(socket.socket(fileno=int(sys.argv[1])))
