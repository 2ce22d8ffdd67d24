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

from promises.strangers import STRANGERS


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
        9,
        "leave what was saved when a writer died",
        [("engine.py", "if path is not None and self._has_left(path, position.stream):", "if 0:")],
        "tests/promises/test_p09_hand_edit.py"
        "::test_an_edit_that_stands_between_two_names_is_found_there",
    ),
    Mutation(
        4,
        "believe every line that has its hash",
        [
            (
                "layers/records/sound.py",
                "    if state is not None and flaw(state) is not None:",
                "    if state is None:",
            )
        ],
        "tests/promises/test_p04_forged.py"
        "::test_what_makes_no_sense_is_named_by_its_line_and_can_be_given_up"
        "[phase_started-path5-nowhere]",
    ),
    Mutation(
        10,
        "reset the file",
        [
            (
                "reconcile.py",
                (
                    "kept = self._engine.store.set_aside("
                    "self._taken_to or self._path, self.raw, self._path)"
                ),
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
                    "        found = [e for _, e in self.walk(stream, after) if type(e) is dict]\n"
                    '        yield from sorted(found, key=lambda event: event["at"])'
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

# Promises 1, 2, 5, 6, 7 and 11

_KILL = "tests/promises/test_p01_kill.py::"
_CUT = "tests/promises/test_p02_power_cut.py::"
_FULL = "tests/promises/test_p05_full_disk.py::"
_LIMIT = "tests/promises/test_p05_real_limits.py::"
_WRITERS = "tests/promises/test_p06_writers.py::"
_RETRY = "tests/promises/test_p07_retry.py::"
_LOCK = "tests/promises/test_p11_lock.py::"

SOFT_LOCK = """\
                from holdfast.errors import Fault

                if os.path.exists(path + ".held"):
                    raise Fault("busy", "somebody holds it", "wait")
                os.close(os.open(path + ".held", os.O_CREAT | os.O_EXCL))
                _HELD[fd] = path + ".held"
"""
SOFT_CLOSE = """\
    def close(self, fd: int) -> None:
        os.close(fd)
        if fd in _HELD:
            os.unlink(_HELD.pop(fd))
"""

MUTATIONS += [
    Mutation(
        1,
        "commit after the layers",
        [
            (
                "engine.py",
                "            self.ledger.append(events, blob)\n",
                "            pass\n",
            ),
            (
                "engine.py",
                '            left = self._put(state["id"], showing)\n',
                (
                    '            left = self._put(state["id"], showing)\n'
                    "            self.ledger.append(events, blob)\n"
                ),
            ),
        ],
        _KILL + "test_a_killed_command_is_done_or_not_done[dev-08-task-add]",
        whole=True,
    ),
    Mutation(
        1,
        "a record that a killed writer did not put counts as removed",
        [
            (
                "reconcile.py",
                "    return not (store.was_on_its_way(path, position.hash) or ",
                "    return True or (",
            )
        ],
        _KILL + "test_a_kill_in_the_only_phase_is_not_taken_for_a_removed_record[start]",
        whole=True,
    ),
    Mutation(
        2,
        "no fsync",
        [("disk.py", "        _sync_content(fd)\n", "        os.fstat(fd)\n")],
        _CUT + "test_the_real_sync_comes_before_the_answer",
    ),
    Mutation(
        2,
        "the ledger is not synced",
        [
            (
                "ledger/file.py",
                "            try:\n                self._disk.sync(fd)\n            except",
                "            try:\n                os.fstat(fd)\n            except",
            )
        ],
        _CUT + "test_what_was_acknowledged_is_there_after_a_cut_at_any_moment[dev-0]",
    ),
    Mutation(
        2,
        "a new ledger's name is not synced",
        [
            (
                "ledger/file.py",
                "                if is_empty:\n",
                "                if not is_empty:\n",
            )
        ],
        _CUT + "test_what_was_acknowledged_is_there_after_a_cut_at_any_moment[dev-0]",
    ),
    Mutation(
        2,
        "a retry is answered without a sync",
        [
            (
                "caller.py",
                "            self.engine.ledger.make_sure()\n            self.engine.note(",
                "            self.engine.note(",
            )
        ],
        _CUT + "test_a_writer_killed_right_before_its_sync_is_made_up_for[dev]",
    ),
    Mutation(
        5,
        "swallow the error",
        [
            (
                "ledger/file.py",
                "                raise self._taken_back(fd, error, event_id) from error\n",
                "                self._taken_back(fd, error, event_id)\n",
            )
        ],
        _LIMIT + "test_a_limit_on_the_size_of_files_is_told",
        whole=True,
    ),
    Mutation(
        5,
        "a record that stays behind is not told",
        [("engine.py", "            if is_asked:\n", "            if not state:\n")],
        _FULL + "test_a_failing_call_is_told_and_leaves_nothing_half[dev-full]",
        whole=True,
    ),
    Mutation(
        6,
        "no lock",
        [
            (
                "disk.py",
                "                _flock_within(fd, path, wait_s)\n",
                "                pass\n",
            )
        ],
        _WRITERS + "test_64_writers_lose_nothing_and_agree_on_one_order[1]",
    ),
    Mutation(
        7,
        "no id check",
        [
            (
                "caller.py",
                "return None if event_id is None else self._repeated(event_id)",
                "return None",
            )
        ],
        _RETRY + "test_every_command_twice_is_every_command_once[dev]",
    ),
    Mutation(
        7,
        "closed segments are not asked for the id",
        [
            (
                "ledger/file.py",
                "        closed = reversed(self.closed.segments())\n",
                "        closed = reversed(self.closed.segments()[:0])\n",
            )
        ],
        _RETRY + "test_every_command_twice_is_every_command_once[dev]",
    ),
    Mutation(
        11,
        "soft lock",
        [
            ("disk.py", "                _flock_within(fd, path, wait_s)\n", SOFT_LOCK),
            (
                "disk.py",
                "    def close(self, fd: int) -> None:\n        os.close(fd)\n",
                SOFT_CLOSE,
            ),
            ("disk.py", "_AT_FDCWD = -100\n", "_AT_FDCWD = -100\n_HELD: dict[int, str] = {}\n"),
        ],
        _LOCK + "test_a_killed_holder_gives_the_lock_back_at_once",
    ),
    Mutation(
        11,
        "a wait that is over counts as the lock",
        [
            (
                "locks.py",
                "    except TimeoutError:\n        return False\n",
                "    except TimeoutError:\n        return True\n",
            )
        ],
        _LOCK + "test_a_stopped_holder_is_named_when_the_time_is_over",
    ),
]

# Promises 13, 14 and 15, in hooks and in what looks after them

_HOSTILE = "tests/hooks/test_hostile.py::"

MUTATIONS += [
    Mutation(
        13,
        "doctor runs what a project names",
        [
            (
                "connections.py",
                "        return self.words if self.is_own or self.words == fastest() else None\n",
                "        return self.words\n",
            )
        ],
        "tests/test_doctor.py::test_nothing_that_a_project_brings_is_run",
    ),
    Mutation(
        14,
        "brief on files outside",
        [
            (
                "workspace.py",
                "(os.path.realpath(os.path.join(top, path)) + os.sep).startswith(top)",
                "bool(top)",
            )
        ],
        _HOSTILE + "test_a_record_of_a_stranger_cannot_have_other_files_read",
    ),
    Mutation(
        15,
        "raise",
        [("hooks/first.py", "    except BaseException as error:", "    except EOFError as error:")],
        "tests/hooks/test_events.py::test_a_fault_is_logged_and_stops_nobody",
    ),
    Mutation(
        15,
        "wait for a pipe",
        [
            (
                "hooks/first.py",
                '        if not os.path.isfile(path):\n            return b""\n',
                "",
            )
        ],
        _HOSTILE + "test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting",
    ),
]

MUTATIONS += [Mutation(13, *row) for row in STRANGERS]
