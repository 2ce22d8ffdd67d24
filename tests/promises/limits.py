"""Bounds that are missing, each noticed by a test; rows of ``mutations``."""

import re

from promises.mutating import Mutation, answer, value

_TWO_WAYS = re.compile(
    r"((?:[ \t]*(?:[#%].*)?\n)*---[ \t]*(?:#.*)?\n)?(.*?)((?:^\.\.\.|\Z).*)",
    re.DOTALL | re.MULTILINE,
)
_MASKED = "tests/acceptance/test_masked_output.py::"


def _as_it_is(_original):
    return lambda text: text


LIMITS = [
    Mutation(
        15, "remember states of any size", "holdfast.storage.ledger:_MAX_CACHED_CHARACTERS",
        value(1 << 40),
        "tests/keeper/test_flat_memory.py"
        "::test_what_is_remembered_between_calls_is_bounded_by_its_size",
    ),
    Mutation(
        10, "adopt what cannot be read back", "holdfast.formats:outgrown_limit", answer(),
        "tests/adopt/test_adopted_limits.py"
        "::test_a_record_that_would_outgrow_its_limit_is_kept_as_it_is[as_long_as_can_be]",
    ),
    Mutation(
        15, "a hook without a time limit", "holdfast.hooks.quick_check:TimeLimit._watch", answer(),
        "tests/hooks/test_time_limit.py"
        "::test_a_hook_that_hangs_ends_and_says_what_to_do[a read that does not return]",
    ),
    Mutation(
        15, "match a comment in two ways", "holdfast.initiatives.status_yaml:_DOCUMENT",
        value(_TWO_WAYS),
        "tests/initiatives/test_status_yaml.py"
        r"::test_many_lines_before_the_map_take_no_time[# a comment\n]",
    ),
    Mutation(
        13, "keep the secrets that a gate prints", "holdfast.evidence.masking:mask", _as_it_is,
        f"{_MASKED}test_no_secret_of_a_run_is_kept_anywhere[gate]",
    ),
]  # fmt: skip
