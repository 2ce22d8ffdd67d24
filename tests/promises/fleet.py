"""An agent of a fleet, as a process: it takes work from the pool, does it, and takes the next.

It prints a line of JSON for each answer that it got: what was acknowledged is known whatever
becomes of the process.
"""

import json
import os
import random
import sys
import time

from holdfast import Keeper, Pool, Refused, Sharing
from holdfast.errors import Fault

STEPS = 3
LEASE = "4s"
WAIT_S = 1.0
THINKS_S = 1.0
"""An agent thinks longer than Holdfast works: it is killed and stopped in between, too."""


def note(**line):
    os.write(1, json.dumps(line).encode() + b"\n")


def work(keeper, name):
    """Take work and do it; return False if there is none left."""
    try:
        taken = Pool(keeper).take(lease=LEASE, wait=WAIT_S)
    except Refused as refused:
        if refused.code != "nothing_ready":
            raise
        return any(keeper.workflows(every=True)[0])
    workflow = taken.receipt.state["id"]
    note(took=workflow, epoch=taken.lease["epoch"])
    try:
        for step in range(STEPS):
            request = f"{name}-{taken.lease['epoch']}-{step}"
            keeper.remind(request, workflow=workflow, id=request)
            note(id=request, workflow=workflow)
            time.sleep(random.uniform(0, THINKS_S))
        request = f"{name}-{taken.lease['epoch']}-end"
        keeper.complete(force=True, reason="done", workflow=workflow, id=request)
        note(id=request, workflow=workflow)
    except Refused as refused:
        note(refused=refused.code, workflow=workflow)  # The lease was lost.
    Sharing(keeper).sync(wait=True)
    return True


def main():
    root, name = sys.argv[1:]
    is_left = True
    while is_left:
        try:
            is_left = work(Keeper(root, session=name, is_person=False, wait_s=60), name)
        except Fault as fault:
            note(fault=fault.code)


if __name__ == "__main__":
    main()
