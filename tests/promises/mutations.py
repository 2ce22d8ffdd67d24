"""Ways to break each promise, and the test that must notice.

A row is ``Mutation(promise, name, changes, test)``:

- ``promise``  the number of the promise that the change breaks;
- ``name``     the change in a few words, unique; it becomes the test's id;
- ``changes``  one or more ``(file, old, new)``: ``file`` from ``src/holdfast``, ``old`` a text that
  stands in it exactly once, ``new`` what replaces it. When ``old`` is not found, or is found more
  than once, the check fails and says so: the row has to follow the source;
- ``test``     a pytest selector from the repository's root. It has to pass on an unchanged copy of
  the source and to fail on the changed one, so it should be as narrow and as quick as can be
  (a parametrised case: ``tests/promises/test_p01_kill.py::test_kill[dev-advance]``);
- ``whole``    (optional) run it with ``HOLDFAST_PROMISES=full``, when a sample may miss the change.

To add a promise, append rows below; ``test_mutations.py`` does the rest.
"""

from typing import NamedTuple


class Mutation(NamedTuple):
    promise: int
    name: str
    changes: list[tuple[str, str, str]]
    test: str
    whole: bool = False


MUTATIONS: list[Mutation] = [
    Mutation(
        3,
        "no newline repair",
        [
            (
                "ledger/file.py",
                "        self._disk.cut(fd, keep)\n        if whole:",
                "        if whole:",
            )
        ],
        "tests/promises/test_p03_torn_tail.py"
        "::test_a_tail_of_zeros_after_a_torn_commit_goes_with_it[one-then-two]",
    ),
    Mutation(
        4,
        "no hash check",
        [
            (
                "ledger/lines.py",
                "    if digest(line[:split]).encode() != line[-HEX_DIGITS - 2 : -2]:",
                "    if digest(line[:split]).encode() == b'':",
            )
        ],
        "tests/promises/test_p04_flipped_bit.py::test_every_bit_of_the_ledger[0]",
    ),
    Mutation(
        8,
        "view keeps own state",
        [
            (
                "engine.py",
                'records.render(state, identity, last["seq"], last["hash"])',
                (
                    'records.render({**state, "updated_at": self.now()}, identity, last["seq"],'
                    ' last["hash"])'
                ),
            )
        ],
        "tests/promises/test_p08_rebuild.py::test_active_records_come_back_with_any_look[0]",
    ),
    Mutation(
        9,
        "ignore the hash",
        [("layers/records/envelope.py", "intact = _has_same_values(document)", "intact = True")],
        "tests/promises/test_p09_hand_edit.py"
        "::test_an_edit_saved_at_every_step_is_adopted_or_kept[show-skill]",
    ),
    Mutation(
        10,
        "reset the file",
        [
            (
                "reconcile.py",
                "kept = self._taken_to or self._engine.store.set_aside(self._path, self.raw)",
                "kept = self._path",
            ),
            (
                "reconcile.py",
                "self._engine.show_again(self.position.stream, None)",
                "self._engine.show_again(self.position.stream, self.raw)",
            ),
        ],
        "tests/promises/test_p10_invalid_edit.py"
        "::test_what_json_forbids_is_named_with_its_line[not a number-skill]",
    ),
    Mutation(
        12,
        "sort by time",
        [
            (
                "ledger/file.py",
                (
                    "        for _, found in self.walk(stream, after):\n"
                    "            if isinstance(found, dict):\n"
                    "                yield found"
                ),
                (
                    "        events = [e for _, e in self.walk(stream, after) if isinstance(e, dict)]\n"
                    '        yield from sorted(events, key=lambda event: event["at"])'
                ),
            )
        ],
        "tests/promises/test_p12_clock.py"
        "::test_history_stays_in_the_order_in_which_it_was_recorded[skill-a year ahead]",
    ),
    Mutation(
        14,
        "print raw",
        [("cli/text.py", "    if line.isprintable():\n", "    if line:\n")],
        "tests/promises/test_p14_hostile_text.py"
        "::test_no_command_prints_what_could_steer_a_terminal[colour]",
    ),
    Mutation(
        14,
        "brief raw",
        [("core/briefing.py", "    if character in _HARMLESS:\n", "    if not character:\n")],
        "tests/promises/test_p14_briefing.py"
        "::test_the_briefing_keeps_text_in_its_line[closing tag-skill]",
    ),
    Mutation(
        14,
        "follow links",
        [("workspace.py", "        if folder not in self._safe:\n", "        if not folder:\n")],
        "tests/promises/test_p14_links.py"
        "::test_a_folder_that_leads_out_is_refused[to a folder-skill]",
    ),
]
