"""Settings files and what becomes of them, as text: the diff first, then one line for each."""

from __future__ import annotations

from holdfast.cli.terminal_text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.cli.screen import Screen, Tone

_TONES: dict[str, Tone] = {"+": "good", "-": "bad", "@": "active"}


def settings_panel(screen: Screen, data: Any) -> Iterator[str]:
    for file in data["files"]:
        if _is_new_skill(file):
            continue
        for line in file["diff"].split("\n")[:-1]:
            shown = clean(line.removesuffix("\r"))
            tone = _TONES.get(line[:1])
            yield screen.paint(shown, tone) if tone else shown
    for file in data["files"]:
        said = file["change"] if file["change"] == "unchanged" else _done(file, data)
        yield f"{screen.mark('completed')} {clean(file['path'])} {said}"
    if not data["files"]:
        yield "Nothing of Holdfast's is in these settings."


def _is_new_skill(file: Any) -> bool:
    """A page of ours: one line says enough, and the file itself says the rest."""
    is_whole = file["change"] in ("created", "removed")
    return is_whole and str(file["path"]).endswith("SKILL.md")


def _done(file: Any, data: Any) -> str:
    return f"would be {file['change']}" if data["dry_run"] else f"was {file['change']}"
