"""A worker for ``loop run``: it reads its prompt, and answers as the words of its unit ask for.

A unit's title may say ``needs 3`` (iterations), ``flawed`` (the first confirmation finds
something), ``fails`` (so does the first verification), ``stuck``, ``never`` and ``silent``. What it
was asked is kept in ``asked.txt``. Where there is a file ``kill-N``, its N-th call kills whoever
started it, and answers nothing.
"""

import os
import re
import signal
import sys


def main():
    prompt = sys.stdin.read()
    unit = re.search(r"^Unit (\w+): (.*)$", prompt, re.MULTILINE)
    name, title = unit[1], unit[2]
    number = re.search(r"This is iteration (\d+) of", prompt)
    if number:
        turn = f"iterate {number[1]}"
    else:
        turn = "confirm" if "declared done" in prompt else "verify"
    with open("asked.txt", "a+", encoding="utf-8") as asked:
        asked.seek(0)
        count = len(asked.read().splitlines()) + 1
        asked.write(f"{name} {turn}\n")
    if os.path.exists(f"kill-{count}"):
        os.remove(f"kill-{count}")
        os.kill(os.getppid(), signal.SIGKILL)
        return
    answer(name, title, turn, prompt)


def answer(name, title, turn, prompt):
    needs = int((re.search(r"needs (\d)", title) or ["", "1"])[1])
    if turn == "confirm":
        flawed = "flawed" in title and not os.path.exists(f"{name}.mended")
        print("<issues>no test</issues>" if flawed else f"<signal>{name}_DONE</signal>")
    elif turn == "verify":
        failing = "fails" in title and not os.path.exists(f"{name}.mended")
        print("<issues>it does not hold</issues>" if failing else "<confirmed/>")
    elif "silent" in title:
        sys.exit(3)
    elif "stuck" in title:
        print("Looked at it.\n<blocked>no access</blocked>")
    elif "never" in title or int(turn.split()[1]) < needs:
        print(f"Did part {turn.split()[1]}.\n<remaining>more of {name}</remaining>")
    else:
        if "What remains: no test" in prompt or "What remains: it does not hold" in prompt:
            with open(f"{name}.mended", "w", encoding="utf-8"):
                pass
        print(f"All of it is there.\n<signal>{name}_DONE</signal>")


main()
