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
        15, "leave records to the collector", "holdfast.storage.record_files:RecordFiles.forget",
        answer(),
        "tests/keeper/test_flat_memory.py"
        "::test_a_keeper_whose_ledger_another_one_took_over_keeps_no_records",
    ),
    Mutation(
        15, "any number of subscriptions", "holdfast.mcp.server:Server._check_room", answer(),
        "tests/mcp/test_memory_server.py"
        "::test_subscriptions_are_limited_in_number_and_length",
    ),
    Mutation(
        15, "read a file of any size", "holdfast.evidence.tree:_without_largest",
        lambda _original: lambda _root, names: ({}, names),
        "tests/evidence/test_tree.py"
        "::test_the_smallest_files_are_read_first_up_to_the_limit",
    ),
    Mutation(
        13, "mask a value only as it is", "holdfast.evidence.masking:_spellings", _as_it_is,
        "tests/evidence/test_masking.py"
        "::test_a_value_is_masked_however_a_program_writes_it[u:]",
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
