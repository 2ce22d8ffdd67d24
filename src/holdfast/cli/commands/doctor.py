"""``holdfast doctor``: one screen on whether everything works here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Answer, Arguments
    from holdfast.keeper import Keeper

UNWELL = 1


def doctor(keeper: Keeper, _args: Arguments) -> Answer:
    from holdfast.install.doctor import examine

    checks = examine(keeper)
    answer: Answer = {"kind": "check", "data": {"checks": checks}}
    if any(check["status"] == "bad" for check in checks):
        answer["code"] = UNWELL
    return answer
