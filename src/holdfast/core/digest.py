"""Short names for bytes, from the interpreter's built-in hashes.

``hashlib`` offers the same functions and loads OpenSSL first, at every start.
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
    """32 hexadecimal digits: enough to notice any accident, not meant against a forger."""
    return blake2b(data, digest_size=HEX_DIGITS // 2).hexdigest()


def md5_of(text: str) -> str:
    """MD5 in hexadecimal, where a record's name is defined by it."""
    return md5(text.encode(errors="replace"), usedforsecurity=False).hexdigest()
