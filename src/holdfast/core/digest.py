"""Digests from the interpreter's built-in hashes.

``hashlib`` has the same functions, but loads OpenSSL at every start.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import blake2b, md5
else:
    try:
        from _blake2 import blake2b
        from _md5 import md5
    except ImportError:  # an interpreter that has them only behind hashlib
        from hashlib import blake2b, md5

HEX_DIGITS = 32


def digest(data: bytes) -> str:
    """Return 32 hexadecimal digits: enough to detect accidents, not forgery."""
    return blake2b(data, digest_size=HEX_DIGITS // 2).hexdigest()


def md5_of(text: str) -> str:
    """Return the MD5 of a text in hexadecimal, for record names that are defined by it."""
    return md5(text.encode(errors="replace"), usedforsecurity=False).hexdigest()
