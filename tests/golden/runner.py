"""Run the steps of a chapter with a fixed clock, on whatever ``holdfast`` the path leads to.

Each step comes as a line of JSON on standard input; what came of it goes as a line to standard
output. A command runs as ``holdfast.cli.main.main`` in a process that is forked for it: nothing is
remembered from the command before, and the interpreter is started once.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import sys
import tempfile
import time

import holdfast
from holdfast.cli.main import main

ANSWER_S = 20.0
"""How long a server may take for an answer before the story goes on without it."""
CRASHED = 70


def load_everything():
    """Import every module once, before the forks."""
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if module.name.rpartition(".")[2] not in ("__main__", "entry"):
            # A module that is broken fails the command that needs it, and is seen there.
            with contextlib.suppress(Exception):
                importlib.import_module(module.name)


def fork(step, stdin, stdout, stderr, unused=()):
    """Start the command line of a step as a process; return its id."""
    pid = os.fork()
    if pid:
        return pid
    code = CRASHED
    try:
        for fd in unused:
            os.close(fd)
        for number, fd in enumerate((stdin, stdout, stderr)):
            os.dup2(fd, number)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        os.chdir(step["folder"])
        os.environ.clear()
        os.environ.update(step["environment"])
        time.time_ns = lambda: step["at_ms"] * 1_000_000
        time.time = lambda: step["at_ms"] / 1_000
        time.monotonic = lambda: 0.0
        code = main(step["words"])
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - the traceback is what a user would see
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def text_of(file):
    file.seek(0)
    return file.read().decode(errors="backslashreplace")


def run_command(step):
    """Run one command to its end."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(step["stdin"].encode())
        files[0].seek(0)
        code = ended(fork(step, *(file.fileno() for file in files)))
        return {"code": code, "out": text_of(files[1]), "err": text_of(files[2])}


def run_server(step):
    """Talk to a server: every request waits for its answer, as a client's would."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    talk = []
    with tempfile.TemporaryFile() as err:
        pid = fork(step, theirs_in, theirs_out, err.fileno(), (ours_in, ours_out))
        os.close(theirs_in)
        os.close(theirs_out)
        with os.fdopen(ours_out, "wb", 0) as asked, os.fdopen(ours_in, "rb", 0) as answers:
            for message in step["messages"]:
                with contextlib.suppress(BrokenPipeError):
                    asked.write(json.dumps(message).encode() + b"\n")
                talk.append(list(heard(answers, message.get("id"))))
        return {"code": ended(pid), "talk": talk, "err": text_of(err)}


def heard(answers, request):
    """Yield the messages up to the answer of a request; a notification has none."""
    while request is not None:
        is_there = select.select([answers], [], [], ANSWER_S)[0]
        line = answers.readline() if is_there else b""
        if not line:
            yield {"runner": "the server ended" if is_there else "there was no answer"}
            return
        message = json.loads(line)
        yield message
        if message.get("id") == request:
            return


if __name__ == "__main__":
    load_everything()
    # What is not touched by the collector is not copied for every process.
    gc.freeze()
    for asked in sys.stdin:
        asked_step = json.loads(asked)
        act = run_server if "messages" in asked_step else run_command
        print(json.dumps(act(asked_step)), flush=True)
