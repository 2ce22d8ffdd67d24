"""``make fuzz``: every parser fed by a fuzzer that follows what it reaches in the code.

Each target has a process of its own, which atheris ends after so many seconds or tries. A finding
is written to ``cases/NAME/``, so that from then on every test run tries it; a table says what was
done. Where atheris cannot be imported, the same changes are made without looking at the code, and
the table says so.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "src"), os.path.dirname(HERE)]
os.environ["HOLDFAST_MEMORY"] = "off"
MOST_BYTES = 20_000
SLOW_S = 20
"""So long one input may take before it is a finding."""
_OURS = ("holdfast", "fuzz.", "markdown_it", "ruamel")


def child(name, seed, seconds, runs, found):
    """One target, until it is over; what it did is left in ``found`` as JSON."""
    try:
        import atheris
    except ImportError:
        atheris = None
    if atheris is not None:
        with atheris.instrument_imports(include=["holdfast", "markdown_it", "ruamel.yaml"]):
            target = _target(name)
    else:
        target = _target(name)
    seeds = [*target.seeds(), *target.cases().values()]
    (_by_coverage if atheris else _by_chance)(atheris, target, seeds, seed, seconds, runs, found)


def _target(name):
    from fuzz.targets import BY_NAME

    target = BY_NAME[name]
    for seed in target.seeds():
        target.run(seed)
    return target


def _by_coverage(atheris, target, seeds, seed, seconds, runs, found):
    from fuzz.mutating import mutated

    corpus = os.path.join(found, "corpus")
    os.makedirs(corpus, exist_ok=True)
    for number, data in enumerate(seeds):
        with open(os.path.join(corpus, f"seed-{number}"), "wb") as file:
            file.write(data)

    def changed(data, most, chance):
        lots = random.Random(chance)
        if lots.random() < 0.4:
            return atheris.Mutate(data, most)
        return mutated(data, lots, target.words, seeds)[:most]

    options = [
        f"-seed={seed}", f"-max_total_time={seconds}", f"-runs={runs}", f"-max_len={MOST_BYTES}",
        f"-timeout={SLOW_S}", "-rss_limit_mb=1500", f"-artifact_prefix={found}/",
        "-print_final_stats=1",
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, corpus], target.run, custom_mutator=changed)
    atheris.Fuzz()


def _by_chance(_atheris, target, seeds, seed, seconds, runs, found):
    from fuzz.mutating import mutated

    lots = random.Random(seed)
    until = time.monotonic() + seconds
    count = 0
    while time.monotonic() < until and (runs < 0 or count < runs):
        count += 1
        data = mutated(lots.choice(seeds), lots, target.words, seeds)
        try:
            target.run(data)
        except BaseException:
            with open(os.path.join(found, "crash-by-chance"), "wb") as file:
                file.write(data)
            raise
    print(f"stat::number_of_executed_units: {count}")


def tried(name, seed, seconds, runs):
    """One target in a process of its own: what it says at its end, and what it found."""
    found = tempfile.mkdtemp(prefix=f"fuzz-{name}-")
    told = json.dumps([name, seed, seconds, runs, found])
    begun = time.monotonic()
    ended = subprocess.run(
        [sys.executable, os.path.abspath(__file__), "--child", told],
        capture_output=True, text=True, errors="replace", check=False, timeout=seconds * 4 + 300,
    )  # fmt: skip
    said = ended.stdout + ended.stderr
    kept = [_kept(name, os.path.join(found, one)) for one in os.listdir(found) if one != "corpus"]
    corpus = os.path.join(found, "corpus")
    row = {
        "target": name,
        "executions": _number(r"stat::number_of_executed_units: +(\d+)", said),
        "coverage": _number(r"cov: (\d+)(?!.*cov: )", said),
        "corpus": len(os.listdir(corpus)) if os.path.isdir(corpus) else 0,
        "seconds": round(time.monotonic() - begun),
        "findings": len(kept),
    }
    shutil.rmtree(found, ignore_errors=True)
    if ended.returncode and not kept:
        raise SystemExit(f"{name}: it ended with {ended.returncode}\n{said[-3_000:]}")
    return row, (said[-2_500:] if kept else ""), kept


def _number(pattern, said):
    found = re.search(pattern, said, re.DOTALL)
    return int(found[1]) if found else 0


def _kept(name, path):
    """The input in the folder of cases, by its digest."""
    with open(path, "rb") as file:
        data = file.read()
    place = os.path.join(HERE, "cases", name)
    os.makedirs(place, exist_ok=True)
    case = os.path.join(place, hashlib.sha1(data, usedforsecurity=False).hexdigest()[:12])
    with open(case, "wb") as file:
        file.write(data)
    return os.path.relpath(case, ROOT)


def main():
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    asked.add_argument("targets", nargs="*", help="all of them where none is named")
    asked.add_argument("--seconds", type=int, default=20, help="for each target (20)")
    asked.add_argument("--runs", type=int, default=-1, help="tries for each target; -1: no limit")
    asked.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31))
    asked.add_argument("--child", help=argparse.SUPPRESS)
    args = asked.parse_args()
    if args.child:
        child(*json.loads(args.child))
        return 0
    from fuzz.targets import BY_NAME

    unknown = [name for name in args.targets if name not in BY_NAME]
    if unknown:
        asked.error(f"no target is called {unknown[0]}; there are {', '.join(BY_NAME)}")
    if not _has_atheris():
        print(
            "ATHERIS IS NOT INSTALLED HERE: inputs are changed by chance, coverage is not followed"
        )
    print(f"seed {args.seed}: make fuzz ARGS='--seed {args.seed} --seconds {args.seconds}'")
    print(f"{'target':20} {'executions':>10} {'coverage':>8} {'corpus':>6} {'s':>4}  findings")
    rows = []
    for name in args.targets or BY_NAME:
        row, why, kept = tried(name, args.seed, args.seconds, args.runs)
        rows.append(row)
        print(
            f"{name:20} {row['executions']:>10} {row['coverage']:>8} {row['corpus']:>6}"
            f" {row['seconds']:>4}  {', '.join(kept) or '-'}",
            flush=True,
        )
        print(why, end="")
    total = sum(row["executions"] for row in rows)
    findings = sum(row["findings"] for row in rows)
    print(f"{len(rows)} targets, {total} executions, {findings} findings")
    return 1 if findings else 0


def _has_atheris():
    ended = subprocess.run(
        [sys.executable, "-c", "import atheris"], capture_output=True, check=False
    )
    return ended.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
