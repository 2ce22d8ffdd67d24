"""The page of an initiative on terminals of every width."""

import pytest

from holdfast.cli.commands.initiative import initiative_page
from holdfast.cli.screen import Screen, count_cells

NOW = "2026-04-01T08:00:00.000Z"
LONG = "Remove the old table, and 会議室 everything that hangs on it in any of the other services"


def milestone(number, status, *tasks):
    told = [{"text": f"task {n}", "done": done} for n, done in enumerate(tasks)]
    return {"id": f"M{number}", "title": LONG, "status": status, "tasks": told}


FIELDS = {
    "initiative": {
        "name": "Tidy billing",
        "status": "blocked",
        "reason": "no key",
        "completed": 1,
        "total": 3,
        "current_milestone": "M2",
        "updated_at": NOW,
        "milestones": [
            milestone(1, "completed", True),
            milestone(2, "in_progress", True, False),
            milestone(3, "pending"),
        ],
    },
    "status_file": "docs/WORKFLOW-STATUS.yaml",
    "pages": ["docs/README.md"],
    "disagreements": ["M1 is open"],
    "workflows": [],
    "others": [{"name": "Other", "status": "created"}],
    "recoverable": ["left over"],
    "agreement": "disagree",
    "in_graph": ["In the graph"],
    "previews": [],
}


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("colour", [False, True])
def test_every_milestone_has_one_line_with_its_bar(width, colour):
    screen = Screen(width=width, now=NOW, colour=colour)
    lines = list(initiative_page(screen, FIELDS))
    rows = [line for line in lines if "M1" in line or "M2" in line or "M3" in line]
    table = [line for line in rows if "░" in line or "█" in line]
    assert len(table) == 3
    if not colour:
        assert all(count_cells(line) <= width for line in table)
        assert len({line.index("█" if "█" in line else "░") for line in table}) == 1


def test_the_page_is_in_parts():
    lines = list(initiative_page(Screen(now=NOW), FIELDS))
    heads = [lines[n + 1] for n, line in enumerate(lines[:-1]) if not line]
    assert heads[1:] == [
        "  Files",
        "  Other initiatives",
        "  Found in the milestone files",
        "  Found in the memory graph",
    ]
    assert lines[0].endswith("sources disagree")
    assert lines[1] == "  blocked: no key"
    assert "  left over: holdfast initiative recover 'left over'" in lines
