"""Loops with their files under ``.claude/iterative``, and edits to them."""

from holdfast import Loops

HOME = ".claude/iterative"
TASKS = f"{HOME}/user-auth/tasks.md"
PROGRESS = f"{HOME}/user-auth/progress.md"


def open_loop(shop, *units, slug="user-auth", mode="development", **options):
    loops = Loops(shop.keeper())
    loops.new(slug, mode, task="User auth", **options)
    for unit in units:
        loops.plan(slug, unit, criteria=f"criteria of {unit[:2]}")
    return loops


def finish(loops, unit):
    loops.iterate(unit, did="all of it", signal=f"{unit}_DONE")
    loops.confirm(unit)
    return loops.verify(unit)


def units_of(receipt):
    return {task["id"]: task for task in receipt.state["tasks"]}


def edit(shop, path, *changes):
    text = shop.read(path).decode()
    for before, after in changes:
        assert before in text, text
        text = text.replace(before, after, 1)
    shop.write(path, text.encode())
    return text
