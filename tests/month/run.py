"""Runs months by their numbers: ``PYTHONPATH=src:tests python -m month.run 17`` repeats one,
``python -m month.run --seeds 200 --jobs 2`` runs the first two hundred, with a count as it goes.

The same number is the same month, byte for byte: the digest says so.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

MEMORY = "/dev/shm"


def one(seed, steps=None):
    """The month of a seed: what it counted, its digest, and what went wrong, if anything did."""
    from month import month

    in_memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="holdfast-month-", dir=in_memory) as folder:
        try:
            counts, digest = month.run(folder, seed, steps or month.STEPS)
        except month.Failure as failure:
            return Counter(), "", str(failure)
    return counts, digest, ""


def many(seeds, jobs, tell, *, until_red=False):
    """All of them, over several processes; gives the sums and the failures."""
    sums, failures = Counter(), []
    with ProcessPoolExecutor(jobs) as pool:
        for number, (seed, result) in enumerate(zip(seeds, pool.map(one, seeds), strict=True), 1):
            counts, digest, failure = result
            sums += counts
            failures += [failure] if failure else []
            tell(number, seed, digest, failure)
            if failure and until_red:
                pool.shutdown(cancel_futures=True)
                break
    return sums, failures


def main():
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "month.run", *sys.argv[1:]])
    parser = argparse.ArgumentParser(prog="python -m month.run")
    parser.add_argument("seed", type=int, nargs="*", help="a month's number")
    parser.add_argument("--seeds", type=int, default=0, help="the first so many")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--until-red", action="store_true", help="the first failure is enough")
    asked = parser.parse_args()
    seeds = asked.seed or list(range(1, (asked.seeds or 20) + 1))
    begun = time.monotonic()

    def tell(number, seed, digest, failure):
        if failure:
            print(failure, flush=True)
        elif len(seeds) <= 20:
            print(f"seed {seed}: {digest}", flush=True)
        if sys.stderr.isatty():
            print(f"\r{number} of {len(seeds)} months", end="", file=sys.stderr, flush=True)

    sums, failures = many(seeds, asked.jobs, tell, until_red=asked.until_red)
    said = ", ".join(f"{number} {what}" for what, number in sorted(sums.items()))
    took = time.monotonic() - begun
    print(f"{len(seeds)} months, {len(failures)} failures, {took:.0f} s: {said}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
