"""Pairing: a person shows once that a browser is theirs, by a code that the terminal shows.

Approvals and waivers are a person's. An agent that can reach the page has no terminal to read the
code from. So the code is shown only where ``holdfast web`` was started by a person, on a terminal,
and for this machine alone; everywhere else no browser can be paired.
"""

from __future__ import annotations

import secrets
from hmac import compare_digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.web.security import Visitor

MAX_TRIES = 5
"""The number of wrong codes after which a new code is made."""
MAX_CODES = 4
"""The number of codes that may be used up by wrong ones, until the server is started again."""
_LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
"""Without those that look alike."""
_GROUP, _GROUPS = 4, 2


class Pairing:
    """The code that pairs the next browser; ``why_not`` explains why there is none."""

    def __init__(self, show: Callable[[str], None], why_not: str = "") -> None:
        self._show = show
        self.why_not = why_not
        self._code = ""
        self._tries = 0
        self._codes = 0
        if not why_not:
            self._renew()

    def _renew(self) -> None:
        groups = ["".join(secrets.choice(_LETTERS) for _ in range(_GROUP)) for _ in range(_GROUPS)]
        self._code = "-".join(groups)
        self._tries = 0
        self._show(self._code)

    def pair(self, visitor: Visitor, code: str) -> bool:
        """Pair a browser if the code is right, which is valid once; return whether it was."""
        if self.why_not:
            return False
        entered = "".join(char for char in code.upper() if char.isalnum())
        if compare_digest(entered.encode(), self._code.replace("-", "").encode()):
            visitor.is_paired = True
            self._renew()
            return True
        self._tries += 1
        if self._tries == MAX_TRIES:
            self._codes += 1
            if self._codes == MAX_CODES:
                self.why_not = "too many wrong codes were entered: start `holdfast web` again"
                self._code = ""
            else:
                self._renew()
        return False
