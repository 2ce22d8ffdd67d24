"""Runs a command with no network but loopback: ``python e2e/loopback.py COMMAND...``.

That takes a namespace of its own, which only root may make. For everybody else the clients get
proxies that lead nowhere; ``HOLDFAST_E2E_NETWORK`` tells them which of the two it is.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys

VARIABLE = "HOLDFAST_E2E_NETWORK"
CUT, PROXIES = "cut to loopback", "proxies to nowhere"
_NEW_NETWORK = 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1


def cut():
    """Leaves the machine's network, for this process and all that it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "a network of its own was refused")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _GET_FLAGS, request))[1]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


def proxies():
    """What a client's environment needs where the network could not be cut."""
    if os.environ.get(VARIABLE) == CUT:
        return {}
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    local = {"no_proxy": "127.0.0.1,localhost"}
    return {
        name: value for low, value in {**nowhere, **local}.items() for name in (low, low.upper())
    }


def main():
    try:
        cut()
        found = CUT
    except (OSError, AttributeError):
        found = PROXIES
    os.execvpe(sys.argv[1], sys.argv[1:], {**os.environ, VARIABLE: found})


if __name__ == "__main__":
    main()
