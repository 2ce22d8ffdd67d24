"""How things are measured: ours and its baseline in turn, so that a slow moment hits both.

A sample is a function that does something once and gives the seconds it took. What is compared are
the samples of the same round; the median over all rounds is what counts.
"""

from __future__ import annotations

import os
from statistics import median
from time import perf_counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Sample = Callable[[], float]
    Times = dict[str, list[float]]

# Measures a command from a process that is smaller than any Python that does something: the kernel
# counts the memory of whoever started a process as that process's own.
_MEMORY_PROBE = """
import os, sys
null = os.open(os.devnull, os.O_WRONLY)
actions = [(os.POSIX_SPAWN_DUP2, null, 1)]
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=actions)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss if status == 0 else -1)
"""


def interleaved(rounds: int, samples: dict[str, Sample]) -> Times:
    """Return the times of every sample, round by round; who begins changes with each round."""
    names = list(samples)
    times: Times = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(samples[name]())
    return times


def ratio(times: Times, ours: str, baseline: str) -> float:
    """Return how many times as long as the baseline it took: the median of the rounds."""
    return median(mine / other for mine, other in zip(times[ours], times[baseline], strict=True))


def middle(times: Times) -> dict[str, float]:
    """Return the median of each, in milliseconds."""
    return {name: median(seconds) * 1_000 for name, seconds in times.items()}


def timed(call: Callable[[], object]) -> float:
    begun = perf_counter()
    call()
    return perf_counter() - begun


def several(number: int, call: Callable[[], object]) -> Sample:
    """Return a sample of something short: the median of a few calls in a row."""
    return lambda: median(timed(call) for _ in range(number))


def process(
    argv: Sequence[str],
    folder: str,
    env: dict[str, str],
    out: str = os.devnull,
    given: str = os.devnull,
) -> float:
    """Return the seconds from a command's start in a folder to its end; it has to succeed."""
    os.chdir(folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, given, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, out, flags, 0o666),
    ]
    begun = perf_counter()
    pid = os.posix_spawn(argv[0], list(argv), env, file_actions=actions)
    _, status = os.waitpid(pid, 0)
    took = perf_counter() - begun
    if status:
        raise RuntimeError(f"{' '.join(argv)} ended with {os.waitstatus_to_exitcode(status)}")
    return took


def memory_kb(
    argv: Sequence[str], folder: str, env: dict[str, str], python: str, given: str = os.devnull
) -> int:
    """Return the most memory that a command had at once; it has to succeed."""
    import subprocess

    probe = [python, "-I", "-S", "-c", _MEMORY_PROBE, *argv]
    with open(given, "rb") as file:
        answer = subprocess.run(
            probe, cwd=folder, env=env, stdin=file, capture_output=True, text=True, check=True
        )
    kilobytes = int(answer.stdout)
    if kilobytes < 0:
        raise RuntimeError(f"{' '.join(argv)} failed")
    return kilobytes


def resident_kb(pid: int) -> int:
    """Return the memory that a process has now."""
    with open(f"/proc/{pid}/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
