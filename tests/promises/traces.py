"""What commands did to the disk, call by call, as strace saw it: the log that a power cut cuts.

It has the form of ``disks.RecordingDisk``'s, but nothing of the product takes part in it: also what
SQLite writes by itself is there, with its bytes. Shared memory is written without calls, so of
``ledger.db-shm`` only the name is there; no other file may be written that way.
"""

import json
import os
import re

from promises import strace
from support.disks import Node, nodes_below

CALLS = (
    *strace.CALLS, "lseek", "mmap", "open", "creat", "truncate", "writev", "pwritev", "pwritev2",
    "fallocate", "sendfile", "copy_file_range", "symlink", "symlinkat", "msync", "dup", "dup2",
    "dup3",
)  # fmt: skip
_LINE = re.compile(r"^(\w+)\((.*)\) += (-?\d+|0x[0-9a-f]+)(?:<((?:\\x..)*)>)?(?: .*)?$")
_STRING = re.compile(r'"((?:\\x..)*)"')
_NUMBER = re.compile(r"^(\d+)<((?:\\x..)*)>")
_SHARED_MEMORY = "-shm"


def _plain(text):
    return bytes.fromhex(text.replace("\\x", ""))


def _path(text):
    return os.fsdecode(_plain(text))


class Trace:
    """A folder as it was, and all that traced commands did to it since."""

    def __init__(self, root):
        self.root = os.fspath(root)
        self.names, self.folders = nodes_below(self.root)
        self.at_first = (dict(self.names), set(self.folders))
        self.log = []
        self._open = {}
        """By descriptor: the node or the folder's path, the position, and whether it appends."""

    def said(self, *what):
        """Something that the test wants to find again between the operations."""
        self.log.append(("said", *what))

    def run(self, words, name, *options):
        """Run a command line; its beginning and its answer stand in the log, too."""
        self.said("begun", name)
        self._open = {}
        log = f"{self.root}.strace"
        tracing = ("-xx", "-s", str(1 << 24), *options)
        ended = strace.run(self.root, log, [*words, "--json"], *tracing, calls=CALLS)
        answer = json.loads(ended.stdout) if ended.returncode == 0 else {}
        with open(log) as file:
            for line in file:
                match = _LINE.match(line)
                if match is None:
                    continue
                if not match[3].startswith("-"):
                    self._take(*match.groups(), name, answer)
                elif match[1] in ("fsync", "fdatasync"):
                    self._failed(match[2])
        return ended

    def _failed(self, arguments):
        """A sync that failed: what it was about may be lost, whatever a later sync says."""
        what = self._open.get(int(_NUMBER.match(arguments)[1]), ("",))[0]
        if isinstance(what, Node):
            self.log.append(("failed", what))

    def _take(self, call, arguments, result, opened, name, answer):
        if call in ("open", "openat", "creat"):
            self._opened(int(result), _path(opened), arguments)
            return
        number = _NUMBER.match(arguments)
        if number is not None:
            self._called(call, int(number[1]), arguments, int(result, 0), name, answer)
        elif call == "mmap":
            is_shared = "MAP_SHARED" in arguments and "PROT_WRITE" in arguments
            path = re.search(r"\d+<((?:\\x..)*)>", arguments)
            if is_shared and path is not None and _path(path[1]).startswith(self.root):
                assert _path(path[1]).endswith(_SHARED_MEMORY), arguments
        else:
            self._named(call, arguments)

    def _opened(self, fd, path, arguments):
        self._open.pop(fd, None)
        if not path.startswith(self.root):
            return
        if path in self.folders:
            self._open[fd] = (path, 0, False)
            return
        if path not in self.names:
            assert "O_CREAT" in arguments, arguments
            self.names[path] = Node()
            self.log.append(("create", path, self.names[path]))
        if "O_TRUNC" in arguments:
            self.log.append(("cut", self.names[path], 0))
        if not path.endswith(_SHARED_MEMORY):
            self._open[fd] = (self.names[path], 0, "O_APPEND" in arguments)

    def _called(self, call, fd, arguments, result, name, answer):
        if fd == 1 and call == "write" and result and answer:
            self.said("acknowledged", name, answer.get("seqs", []))
        if fd not in self._open or call in ("fcntl", "flock"):
            return
        what, position, appends = self._open[fd]
        if call == "close":
            del self._open[fd]
        elif call in ("fsync", "fdatasync"):
            self.log.append(("sync_folder" if isinstance(what, str) else "sync", what))
        elif call == "ftruncate":
            self.log.append(("cut", what, int(arguments.rpartition(", ")[2])))
        elif call == "lseek":
            self._open[fd] = (what, result, appends)
        elif call == "pwrite64":
            data = _plain(_STRING.search(arguments)[1])[:result]
            self.log.append(("over", what, {int(arguments.rpartition(", ")[2]): data}))
        elif call == "write":
            data = _plain(_STRING.search(arguments)[1])[:result]
            if appends:
                self.log.append(("write", what, data))
            else:
                self.log.append(("over", what, {position: data}))
            self._open[fd] = (what, position + result, appends)
        else:
            raise AssertionError(f"no rule for {call}({arguments[:200]}")

    def _named(self, call, arguments):
        paths = [os.path.join(self.root, _path(text)) for text in _STRING.findall(arguments)]
        if not paths or not any(path.startswith(self.root) for path in paths):
            return
        assert not (call.startswith("rename") and paths[0] in self.folders), arguments
        if call in ("mkdir", "mkdirat"):
            self.folders.add(paths[0])
            self.log.append(("mkdir", paths[0]))
        elif call == "rmdir" or "AT_REMOVEDIR" in arguments:
            self.folders.discard(paths[0])
            self.log.append(("rmdir", paths[0]))
        elif call in ("unlink", "unlinkat"):
            del self.names[paths[0]]
            self.log.append(("remove", paths[0]))
        elif call in ("link", "linkat"):
            self.names[paths[1]] = self.names[paths[0]]
            self.log.append(("link", *paths))
        elif "RENAME_EXCHANGE" in arguments:
            one, other = paths
            self.names[one], self.names[other] = self.names[other], self.names[one]
            self.log.append(("exchange", *paths))
        elif call.startswith("rename"):
            self.names[paths[1]] = self.names.pop(paths[0])
            self.log.append(("move", *paths))
        else:
            raise AssertionError(f"no rule for {call}({arguments[:200]}")
