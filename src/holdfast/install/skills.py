"""The skills that come with Holdfast: in an installed package beside the code, in a checkout in the
plugin, which has them too.
"""

from __future__ import annotations

import os

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INSTALLED = os.path.join(_HERE, "skills")
_CHECKOUT = os.path.join(os.path.dirname(os.path.dirname(_HERE)), "plugin", "skills")
ARGUMENTS = "$ARGUMENTS"
"""What Claude Code puts the words of the person in place of."""


def skills(arguments: str) -> dict[str, str]:
    """Name to text, with what stands for the words of the person in this client."""
    folder = INSTALLED if os.path.isdir(INSTALLED) else _CHECKOUT
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    found = {}
    for name in names:
        with open(os.path.join(folder, name, "SKILL.md"), encoding="utf-8") as file:
            found[name] = file.read().replace(ARGUMENTS, arguments)
    return found
