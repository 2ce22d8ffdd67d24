"""A FUSE file system that shows another folder, and can exchange no files and make no hard links.

It speaks the kernel's protocol itself, so it needs no library: only ``/dev/fuse`` and the right to
mount. ``mounted`` runs it as a process of its own.

    python -m support.fuse_folder BACKING MOUNT_POINT [links]
"""

import contextlib
import ctypes
import errno
import os
import struct
import subprocess
import sys
import time

from support.paths import TESTS

(
    LOOKUP, FORGET, GETATTR, SETATTR, READLINK, SYMLINK, MKNOD, MKDIR, UNLINK, RMDIR, RENAME, LINK,
    OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, FSYNCDIR,
    ACCESS, CREATE, INTERRUPT, DESTROY, BATCH_FORGET,
) = (
    1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 25, 26, 27, 28, 29, 30, 34, 35,
    36, 38, 42,
)  # fmt: skip
SILENT = (FORGET, BATCH_FORGET, INTERRUPT)
IN_HEADER = struct.Struct("<IIQQIIIHH")
OUT_HEADER = struct.Struct("<IiQ")
MAX_WRITE = 128 * 1024
MODE, SIZE, ATIME, MTIME, ATIME_NOW, MTIME_NOW = 1, 8, 16, 32, 128, 256
DETACH = 2


def attributes(stat):
    return struct.pack(
        "<6Q10I", stat.st_ino, stat.st_size, stat.st_blocks, int(stat.st_atime),
        int(stat.st_mtime), int(stat.st_ctime), stat.st_atime_ns % 10**9, stat.st_mtime_ns % 10**9,
        stat.st_ctime_ns % 10**9, stat.st_mode, stat.st_nlink, stat.st_uid, stat.st_gid, 0, 4096, 0,
    )  # fmt: skip


class Folder:
    """The requests of the kernel, answered from a folder. Nodes are descriptors of its files."""

    def __init__(self, root, *, has_links):
        self.has_links = has_links
        self.nodes = {1: os.open(root, os.O_PATH)}
        self.ids = {}

    def answer(self, opcode, node, body):
        name = f"on_{opcode}"
        if not hasattr(self, name):
            raise OSError(errno.ENOSYS, "unknown")
        return getattr(self, name)(node, body)

    def _path(self, node):
        return f"/proc/self/fd/{self.nodes[node]}"

    def _entry(self, parent, name):
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=self.nodes[parent])
        stat = os.fstat(fd)
        node = self.ids.get((stat.st_dev, stat.st_ino))
        if node is None:
            node = len(self.nodes) + 1
            self.ids[stat.st_dev, stat.st_ino] = node
            self.nodes[node] = fd
        else:
            os.close(fd)
        return struct.pack("<4Q2I", node, 0, 0, 0, 0, 0) + attributes(stat)

    def on_26(self, _node, body):
        _, minor, ahead, _ = struct.unpack_from("<4I", body)
        sizes = struct.pack("<HHIIHHI", 16, 12, MAX_WRITE, 1, 0, 0, 0)
        return struct.pack("<4I", 7, min(minor, 31), ahead, 0) + sizes + bytes(28)

    def on_1(self, node, body):
        return self._entry(node, body[:-1])

    def on_3(self, node, _body):
        return struct.pack("<QII", 0, 0, 0) + attributes(os.fstat(self.nodes[node]))

    def on_4(self, node, body):
        valid, _, _, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode = struct.unpack_from(
            "<IIQQQQQQIIII", body
        )
        path = self._path(node)
        if valid & MODE:
            os.chmod(path, mode & 0o7777)
        if valid & SIZE:
            os.truncate(path, size)
        if valid & (ATIME | MTIME):
            now = time.time_ns()
            times = [
                now if valid & is_now else seconds * 10**9 + rest
                for is_now, seconds, rest in (
                    (ATIME_NOW, atime, atime_ns), (MTIME_NOW, mtime, mtime_ns)
                )
            ]  # fmt: skip
            os.utime(path, ns=tuple(times))
        return self.on_3(node, b"")

    def on_5(self, node, _body):
        return os.fsencode(os.readlink("", dir_fd=self.nodes[node]))

    def on_6(self, node, body):
        name, target, _ = body.split(b"\0")
        os.symlink(target, name, dir_fd=self.nodes[node])
        return self._entry(node, name)

    def on_8(self, node, body):
        mode, _, umask, _ = struct.unpack_from("<4I", body)
        os.mknod(body[16:-1], mode & ~umask, dir_fd=self.nodes[node])
        return self._entry(node, body[16:-1])

    def on_9(self, node, body):
        mode, umask = struct.unpack_from("<2I", body)
        os.mkdir(body[8:-1], mode & ~umask, dir_fd=self.nodes[node])
        return self._entry(node, body[8:-1])

    def on_10(self, node, body):
        os.unlink(body[:-1], dir_fd=self.nodes[node])
        return b""

    def on_11(self, node, body):
        os.rmdir(body[:-1], dir_fd=self.nodes[node])
        return b""

    def on_12(self, node, body):
        (target,) = struct.unpack_from("<Q", body)
        old, new, _ = body[8:].split(b"\0")
        os.rename(old, new, src_dir_fd=self.nodes[node], dst_dir_fd=self.nodes[target])
        return b""

    def on_13(self, node, body):
        if not self.has_links:
            raise OSError(errno.EPERM, "no links")
        (old,) = struct.unpack_from("<Q", body)
        os.link(self._path(old), body[8:-1], dst_dir_fd=self.nodes[node], follow_symlinks=True)
        return self._entry(node, body[8:-1])

    def on_14(self, node, body):
        (flags,) = struct.unpack_from("<I", body)
        fd = os.open(self._path(node), flags & ~(os.O_NOFOLLOW | os.O_CREAT | os.O_APPEND))
        return struct.pack("<QII", fd, 0, 0)

    on_27 = on_14

    def on_35(self, node, body):
        flags, mode, umask, _ = struct.unpack_from("<4I", body)
        name = body[16:-1]
        flags = (flags & ~os.O_APPEND) | os.O_CREAT
        fd = os.open(name, flags, mode & ~umask, dir_fd=self.nodes[node])
        return self._entry(node, name) + struct.pack("<QII", fd, 0, 0)

    def on_15(self, _node, body):
        fd, offset, size = struct.unpack_from("<QQI", body)
        return os.pread(fd, size, offset)

    def on_16(self, _node, body):
        fd, offset, size = struct.unpack_from("<QQI", body)
        return struct.pack("<II", os.pwrite(fd, body[40 : 40 + size], offset), 0)

    def on_17(self, _node, _body):
        return struct.pack("<5Q4I", 10**6, 10**6, 10**6, 10**6, 10**6, 4096, 255, 4096, 0) + bytes(
            24
        )

    def on_18(self, _node, body):
        os.close(struct.unpack_from("<Q", body)[0])
        return b""

    on_29 = on_18

    def on_20(self, _node, body):
        os.fsync(struct.unpack_from("<Q", body)[0])
        return b""

    on_30 = on_20

    def on_25(self, _node, _body):
        return b""

    on_34 = on_38 = on_25

    def on_28(self, node, body):
        _, offset, size = struct.unpack_from("<QQI", body)
        entries = b""
        names = [".", "..", *sorted(os.listdir(self._path(node)))]
        for number, name in enumerate(names[offset:], offset + 1):
            raw = os.fsencode(name)
            entry = struct.pack("<QQII", number, number, len(raw), 0) + raw
            entry += bytes(-len(entry) % 8)
            if len(entries) + len(entry) > size:
                break
            entries += entry
        return entries


def serve(backing, point, *, has_links):
    os.umask(0)
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fd},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"holdfast", os.fsencode(point), b"fuse", 0, options.encode()):
        sys.exit(os.strerror(ctypes.get_errno()))
    folder = Folder(backing, has_links=has_links)
    is_ready = False
    while True:
        try:
            request = os.read(fd, MAX_WRITE + 4096)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            continue
        _, opcode, unique, node, *_ = IN_HEADER.unpack_from(request)
        if opcode in SILENT:
            continue
        try:
            number, body = 0, folder.answer(opcode, node, request[IN_HEADER.size :])
        except OSError as error:
            number, body = -(error.errno or errno.EIO), b""
        with contextlib.suppress(FileNotFoundError):  # The request was interrupted.
            os.write(fd, OUT_HEADER.pack(OUT_HEADER.size + len(body), number, unique) + body)
        if opcode == INIT and not is_ready:
            is_ready = True
            os.write(1, b"mounted\n")


@contextlib.contextmanager
def mounted(folder, *, has_links=False):
    """Yield the mount point; raise ``OSError`` if FUSE cannot be used here."""
    backing, point = os.path.join(folder, "backing"), os.path.join(folder, "mounted")
    os.makedirs(backing)
    os.makedirs(point)
    if not os.path.exists("/dev/fuse"):
        raise OSError(errno.ENODEV, "there is no /dev/fuse")
    words = [sys.executable, "-m", "support.fuse_folder", backing, point]
    with subprocess.Popen(
        [*words, *(["links"] if has_links else [])], cwd=TESTS, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as server:  # fmt: skip
        if server.stdout.readline() != b"mounted\n":
            raise OSError(errno.EPERM, server.stderr.read().decode().strip()[-200:])
        try:
            yield point
        finally:
            ctypes.CDLL(None).umount2(os.fsencode(point), DETACH)
            server.terminate()


if __name__ == "__main__":
    serve(*sys.argv[1:3], has_links="links" in sys.argv[3:])
