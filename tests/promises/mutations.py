"""The table of mutations: ways to break each promise, and the test that must notice.

To add one, append a row; ``mutating.py`` says what a row holds, ``test_mutations.py`` does the
rest. The rules by which the ledger is opened are in ``openings.py``, the ways in which a stranger's
repository could be believed in ``strangers.py``, those to hide or deny something in ``truths.py``,
bounds that are missing in ``limits.py``, those of initiatives in ``checkpoints.py``, of several
machines in ``replicas.py``.
"""

import os

from holdfast.core import json_text
from promises.checkpoints import CHECKPOINTS
from promises.claims import CLAIMS
from promises.growing import GROWTH
from promises.limits import LIMITS
from promises.mutating import Mutation, answer, value
from promises.openings import OPENINGS, commit_ignoring_errors, open_unsynced
from promises.replicas import REPLICAS
from promises.strangers import STRANGERS
from promises.truths import TRUTHS

_NOTES = "tests/hooks/test_notes_lines.py::"
_KILL = "tests/promises/test_p01_kill.py::"
_CUT = "tests/promises/test_p02_power_cut.py::"
_GIT = "tests/promises/test_p03_git.py::"
_FULL = "tests/promises/test_p05_full_disk.py::"
_WRITERS = "tests/promises/test_p06_writers.py::"
_RETRY = "tests/promises/test_p07_retry.py::"
_EDIT = "tests/promises/test_p09_hand_edit.py::"
_FILES = "tests/promises/test_p09_every_file.py::"
_LOCK = "tests/promises/test_p11_lock.py::"
_GATES = "tests/acceptance/test_gates.py::"
_PROGRESS = "tests/acceptance/test_progress.py::"
_NEEDS = "tests/core/test_needs.py::"
_EDITS = "tests/core/test_edits.py::"
_HOSTILE = "tests/hooks/test_hostile.py::"
_FILE = "tests/layers/graph/test_jsonl_file.py::"
_RUNNER = "tests/evidence/test_killed_runner.py::"
_JSONL = "holdfast.layers.graph.jsonl_file:"
_TRANSACTION = "holdfast.keeper.transaction:Transaction."


def _commit_after_the_layers(original):
    def commit_once(self, changed, *, is_asked):
        ledger, requests = self.store.ledger, []
        ledger.commit = requests.append
        try:
            saved = original(self, changed, is_asked=is_asked)
        finally:
            del ledger.commit
        for request in requests:
            ledger.commit(request)
        return saved

    return commit_once


def _file_not_taken_in(_original):
    def take_in(self, store, _raw, **_options):
        return self._render(store)

    return take_in


def _read_before_asking(original):
    def read_from(path, flags, most, *, or_busy=False):
        from holdfast.system import disk

        data = original(path, flags, most)
        is_busy = or_busy and original(path, flags, most, or_busy=True) == disk.BUSY
        return disk.BUSY if is_busy else data

    return read_from


def _rename_over(_original):
    def replace_in_steps(_self, path, spare, **_options):
        os.replace(spare, path)
        return []

    return replace_in_steps


def _removed_whenever_gone(_original):
    def was_removed(_store, subject):
        from holdfast.core.workflow import remaining_phases

        return bool(subject.state["phase"]) and not remaining_phases(subject.state)

    return was_removed


def _ledger_in_the_work_tree(original):
    def in_git(root):
        workspace = original(root)
        workspace.home = os.path.join(root, ".claude", "holdfast")
        return workspace

    return in_git


def _own_moment(original):
    def render(self, state, *more):
        from time import time_ns

        return original(self, {**state, "updated_at": f"{time_ns()}"}, *more)

    return render


def _reset_the_file(_original):
    def set_aside(tx, subject, _note, _saved):
        tx.expect(subject.stream, subject.raw)
        tx.show(subject.stream)
        tx.commit()

    return set_aside


def _soft_lock(disk):
    """Lock by a file: whoever dies leaves it behind."""
    held = {}

    def lock(_self, path, _wait_s):
        from holdfast.errors import Fault

        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if os.path.exists(path + ".held"):
            raise Fault("busy", "somebody holds it", "wait")
        os.close(os.open(path + ".held", os.O_CREAT | os.O_EXCL))
        held[fd] = path + ".held"
        return fd

    def unlock(_self, fd):
        os.close(fd)
        os.unlink(held.pop(fd))

    disk.lock, disk.unlock = lock, unlock
    return disk


def _sorted_by_time(original):
    return lambda *arguments, **options: iter(
        sorted(original(*arguments, **options), key=lambda event: event["at"])
    )


def _alive_without_its_record(original):
    def examine(store, subject):
        from holdfast.adopt import findings

        finding = findings._in_place(store, subject)
        is_lost = finding is not None and finding.kind in (findings.GONE, findings.STALE)
        return finding if is_lost else original(store, subject)

    return examine


def _state_as_stored(_original):
    def state_of(_self, row):
        from holdfast.storage.ledger import stored_state

        return stored_state(row)[1]

    return state_of


def _unchecked(_original):
    def checked(row):
        from holdfast.storage.ledger import read_event

        return read_event(row)

    return checked


def _raising(_original):
    from holdfast.hooks import handlers, quick_check

    def main():
        event = quick_check._event(quick_check._read())
        folder = quick_check.folder_of(event)
        if folder and quick_check._may_matter(event, quick_check.find(folder)):
            quick_check._print(handlers.handle(event, quick_check.find(folder).root))
        return 0

    return main


MUTATIONS = [
    Mutation(
        1, "commit after the layers", f"{_TRANSACTION}_commit_once", _commit_after_the_layers,
        f"{_KILL}test_a_killed_command_is_done_or_not_done[dev-08-task-add]", whole=True,
    ),
    Mutation(
        1, "the file of a graph is not written", f"{_JSONL}JsonlFile.sync", answer(),
        f"{_FILE}test_every_change_is_in_the_file_before_it_is_acknowledged",
    ),
    Mutation(
        1, "what is not in the file of a graph is not recorded",
        "holdfast.layers.graph.store:GraphStore._record_changes", answer(),
        f"{_FILE}test_what_a_killed_process_did_not_write_the_next_one_writes",
    ),
    Mutation(
        1, "a command goes on when its runner is killed",
        "holdfast.system.command_guard:CommandGuard._start", answer(),
        f"{_RUNNER}test_a_command_and_all_it_started_end_with_a_killed_runner",
    ),
    Mutation(
        1, "processes are not found by their run", "holdfast.system.process_tree:_of_run",
        answer(()),
        f"{_RUNNER}test_a_process_that_left_everything_but_its_run_is_ended_at_the_limit",
    ),
    Mutation(
        4, "rows of a graph are believed",
        "holdfast.layers.graph.store:GraphStore._check_text", answer(),
        "tests/layers/graph/test_database.py::test_rows_that_no_writer_made_are_damage",
    ),
    Mutation(
        4, "a damaged graph is written to its file",
        "holdfast.layers.graph.store:GraphDatabase.check", answer(),
        "tests/mcp/test_damage.py::test_a_damaged_graph_does_not_replace_its_file",
    ),
    Mutation(
        9, "what others wrote into the file of a graph is not taken in",
        f"{_JSONL}JsonlFile.take_in", _file_not_taken_in,
        f"{_FILE}test_what_another_program_wrote_is_in_the_next_answer",
    ),
    Mutation(
        9, "a writer that did not see a change deletes it", f"{_JSONL}_RECENT_S", value(-1.0),
        f"{_FILE}test_a_writer_that_had_read_the_file_before_deletes_nothing",
    ),
    Mutation(
        10, "half a file counts", "holdfast.storage.shared_file:read_complete",
        value(lambda disk, path, *_pause: disk.read(path)),
        "tests/install/test_edited_settings.py"
        "::test_a_file_that_is_being_written_is_read_when_that_is_done[init]",
    ),
    Mutation(
        10, "half a status file counts", "holdfast.storage.shared_file:read_complete",
        value(lambda disk, path, *_pause: disk.read(path)),
        "tests/initiatives/test_around.py"
        "::test_a_status_file_that_is_being_written_is_read_when_that_is_done",
    ),
    Mutation(
        9, "a program that read during a write deletes what it missed",
        "holdfast.layers.graph.store:GraphStore.record_additions", answer(),
        f"{_FILE}test_a_program_that_read_the_file_while_it_was_replaced_deletes_nothing",
    ),
    Mutation(
        9, "two values on a line of the file of a graph are none",
        "holdfast.layers.graph.jsonl:_values", value(lambda line: [json_text.loads(line)]),
        f"{_FILE}test_lines_that_are_appended_behind_the_last_one_are_taken_in",
    ),
    Mutation(
        10, "a torn file deletes what it lacks", "holdfast.layers.graph.merge:OwnChanges.keep_ours",
        lambda _original: lambda self, key: self.has(key),
        f"{_FILE}test_a_file_whose_writer_was_stopped_deletes_nothing",
    ),
    Mutation(
        10, "lines that a graph cannot hold are dropped", f"{_JSONL}JsonlFile._keep_lost", answer(),
        f"{_FILE}test_lines_that_the_graph_does_not_hold_are_kept_and_said",
    ),
    Mutation(
        1, "a record that a killed writer did not put counts as removed",
        "holdfast.adopt.findings:_was_removed_at_the_end", _removed_whenever_gone,
        f"{_KILL}test_a_kill_in_the_only_phase_is_not_taken_for_a_removed_record[start]",
        whole=True,
    ),
    Mutation(
        1, "every record counts as put in place", "holdfast.storage.ledger:Ledger.is_in_place",
        answer(True),
        "tests/keeper/test_files_in_place.py"
        "::test_without_a_valid_mark_the_last_record_is_looked_at[of an earlier event]",
    ),
    Mutation(
        2, "a mark outlives a power cut", "holdfast.storage.ledger:Ledger._mark_of",
        lambda original: lambda self, *file: original(self, *file).replace(self._boot, ""),
        "tests/keeper/test_files_in_place.py"
        "::test_without_a_valid_mark_the_last_record_is_looked_at[of another boot]",
    ),
    Mutation(
        2, "synchronous=OFF", "holdfast.storage.database:Database._for_writing", open_unsynced,
        f"{_CUT}test_what_was_acknowledged_is_there_after_a_cut_at_any_moment[dev-0]",
    ),
    Mutation(
        3, "ledger in the work tree", "holdfast.workspace.location:_in_git",
        _ledger_in_the_work_tree,
        f"{_GIT}test_clean_takes_the_record_which_is_rebuilt_and_said",
    ),
    Mutation(
        3, "go on outside git when there is git",
        "holdfast.workspace.location:Workspace.is_current", answer(True),
        f"{_GIT}test_git_that_is_set_up_later_takes_the_ledger_along",
    ),
    Mutation(
        3, "go on in a worktree that moved", "holdfast.workspace.location:Workspace.root_of",
        lambda original: lambda self, worktree: (
            self.root if worktree == self.name else original(self, worktree)
        ),
        f"{_GIT}test_a_worktree_that_moves_takes_its_record_along",
    ),
    Mutation(
        3, "keep the identity of a ledger that was replaced",
        "holdfast.storage.ledger:Ledger.identity",
        lambda original: lambda self: self._identity or original(self),
        f"{_GIT}test_a_repository_that_is_cloned_again_begins_anew",
    ),
    Mutation(
        4, "no hash check", "holdfast.storage.ledger:checked_event",
        _unchecked,
        "tests/promises/test_p04_forged.py::test_every_change_of_a_row_is_named_and_repaired",
    ),
    Mutation(
        4, "no digest of a state", "holdfast.storage.ledger:is_whole", answer(True),
        "tests/keeper/test_files_in_place.py"
        "::test_a_state_that_is_not_what_was_written_is_not_continued",
    ),
    Mutation(
        4, "a state without its last events", "holdfast.storage.ledger:Ledger._state_of",
        _state_as_stored,
        "tests/keeper/test_files_in_place.py"
        "::test_a_stored_state_and_the_events_after_it_are_the_state",
    ),
    Mutation(
        9, "forget a save that goes on",
        "holdfast.keeper.transaction:Transaction.keep_looking_for", answer(),
        "tests/keeper/test_files_in_place.py"
        "::test_a_slow_save_is_adopted_although_another_workflow_changes_twice_meanwhile",
    ),
    Mutation(
        5, "swallow the error", "holdfast.storage.database:Database.commit",
        commit_ignoring_errors,
        f"{_FULL}test_a_commit_that_fails_has_an_unknown_outcome_and_a_retry_applies_once"
        "[later-once]",
    ),
    Mutation(
        6, "acknowledge without a commit", "holdfast.storage.database:Database.commit",
        lambda _original: lambda self, _request: self.roll_back(),
        f"{_WRITERS}test_many_writers_lose_nothing_and_agree_on_one_order[1]",
    ),
    Mutation(
        7, "no id check", "holdfast.keeper.requests:find_repeat", answer([]),
        f"{_RETRY}test_every_command_twice_is_every_command_once[dev]",
    ),
    Mutation(
        7, "an id of another workflow is answered", "holdfast.keeper.requests:find_repeat",
        lambda original: lambda store, request, log=None, **_about: original(
            store, request, log=log
        ),
        f"{_RETRY}test_the_id_of_another_command_is_refused",
    ),
    Mutation(
        7, "an id of another request is answered",
        "holdfast.keeper.requests:refuse_other_request",
        answer(),
        "tests/keeper/test_repeat.py::test_another_request_with_the_same_id_is_refused",
    ),
    Mutation(
        8, "view keeps own state", "holdfast.formats:WorkflowAggregate.render",
        _own_moment,
        "tests/promises/test_p08_rebuild.py::test_deleted_views_come_back_byte_for_byte[0-removed]",
    ),
    Mutation(
        9, "ignore the hash", "holdfast.formats:_has_same_values", answer(True),
        f"{_EDIT}test_an_edit_saved_at_every_step_is_adopted_or_kept[remind-skill]",
    ),
    Mutation(
        9, "leave what was saved when a writer died",
        "holdfast.storage.record_files:RecordFiles.has_unmerged_save", answer(False),
        f"{_EDIT}test_an_edit_that_stands_between_two_names_is_found_there",
    ),
    Mutation(
        9, "read before asking who writes", "holdfast.system.disk:_read_from",
        _read_before_asking,
        "tests/system/test_disk.py::test_a_writer_that_ends_at_that_moment_is_not_missed",
    ),
    Mutation(
        9, "rename over what cannot be exchanged",
        "holdfast.system.disk:Disk._replace_in_steps", _rename_over,
        f"{_EDIT}test_an_edit_is_adopted_or_kept_on_a_file_system_that_can_do_less"
        "[skill-no exchange]",
    ),
    Mutation(
        9, "nobody writes where there are no leases",
        "holdfast.system.kernel:_is_open_elsewhere", answer(False),
        "tests/storage/test_shared_file.py"
        "::test_a_file_that_a_program_has_open_is_left_to_it[no leases]",
    ),
    Mutation(
        9, "ignore what was saved meanwhile", "holdfast.storage.shared_file:_read_saves",
        answer([]),
        f"{_FILES}test_no_edit_of_any_file_is_lost[MilestonePage]",
    ),
    Mutation(
        9, "the second of two saves counts", "holdfast.storage.shared_file:_merged",
        value(lambda _merge, _base, _mine, theirs: theirs),
        "tests/storage/test_shared_file.py"
        "::test_two_saves_during_one_write_are_both_there[all]",
    ),
    Mutation(
        9, "an index is anybody's", "holdfast.storage.skill_index:Index._is_own", answer(True),
        f"{_FILES}test_no_edit_of_any_file_is_lost[Index]",
    ),
    Mutation(
        9, "keep quiet about an unsafe file system",
        "holdfast.system.disk:Disk.can_keep_saves", answer((True, True, True)),
        "tests/install/test_doctor.py"
        "::test_doctor_reports_a_file_system_on_which_an_edit_can_be_lost",
    ),
    Mutation(
        9, "required reading is a text", "holdfast.hooks.quick_check:file_id",
        value(os.path.join),
        "tests/hooks/test_reading.py::test_a_file_is_identified_however_its_path_is_spelled",
    ),
    Mutation(
        10, "refuse half a file at once", "holdfast.adopt.findings:_UNCHANGED_READS", value(1),
        "tests/promises/test_p10_invalid_edit.py"
        "::test_without_leases_a_file_that_changed_a_moment_ago_is_read_again[skill]",
    ),
    Mutation(
        10, "reset the file", "holdfast.adopt.findings:_set_aside", _reset_the_file,
        "tests/promises/test_p10_invalid_edit.py"
        "::test_what_json_forbids_is_named_with_its_line[not a number-skill]",
    ),
    Mutation(
        11, "soft lock", "holdfast.system.disk:Disk", _soft_lock,
        f"{_LOCK}test_a_killed_writer_leaves_no_lock_behind",
    ),
    Mutation(
        11, "a wait that is over counts as the lock", "holdfast.system.kernel:_lock_with_timer",
        lambda original: lambda *arguments: original(*arguments) or True,
        f"{_LOCK}test_a_stopped_holder_is_named_when_the_time_is_over[0.1-directly]",
    ),
    Mutation(
        11, "the same in a thread", "holdfast.system.kernel:_lock_in_thread",
        lambda original: lambda *arguments: original(*arguments) or True,
        f"{_LOCK}test_a_stopped_holder_is_named_when_the_time_is_over[0.1-in_thread]",
    ),
    Mutation(
        10, "verify hides a first record that is rejected",
        "holdfast.keeper.audit:_check_other_files", answer(),
        f"{_NOTES}test_a_first_record_that_is_rejected_is_said_everywhere[current > total-active]",
    ),
    Mutation(
        9, "notes bring back what was removed", "holdfast.adopt.unknown_workflows:_last_followed",
        answer({}), f"{_NOTES}test_what_was_removed_is_not_brought_back_by_the_same_notes",
    ),
    Mutation(
        12, "a record from the future stays in it", "holdfast.core.workflow:_adopted",
        lambda _original: lambda data, _at: {**data["state"], "updated_at": data["active_at"]},
        "tests/acceptance/test_dev_lines.py"
        "::test_a_record_from_the_future_was_active_when_it_was_adopted",
    ),
    Mutation(
        12, "adopting makes a record look active", "holdfast.core.workflow:_adopted",
        lambda _original: lambda data, at: {**data["state"], "updated_at": at},
        "tests/acceptance/test_dev_lines.py"
        "::test_adopting_keeps_when_the_workflow_was_last_active",
    ),
    Mutation(
        13, "a record names any file as its notes", "holdfast.adopt.agent_notes:_is_path_of_notes",
        answer(True),
        f"{_NOTES}test_a_record_that_names_another_file_as_its_notes_reads_nothing",
    ),
    Mutation(
        17, "the next step of notes that are gone goes on",
        "holdfast.core.next_step:_step_after_notes",
        lambda _original: lambda _state, _why, step: step,
        f"{_NOTES}test_notes_that_are_gone_offer_to_end_the_workflow[removed]",
    ),
    Mutation(
        12, "sort by time", "holdfast.storage.ledger:Ledger.events", _sorted_by_time,
        "tests/promises/test_p12_clock.py"
        "::test_history_stays_in_the_order_in_which_it_was_recorded[skill-a year back]",
    ),
    Mutation(
        12, "a lost record stops the clock", "holdfast.adopt.findings:examine",
        _alive_without_its_record,
        "tests/promises/test_p12_clock.py"
        "::test_a_record_that_is_gone_or_older_keeps_no_workflow_alive[skill-remove-remind]",
    ),
    Mutation(
        13, "doctor runs what a project names", "holdfast.install.doctor:InstalledHook.program",
        value(lambda self: self.words),
        "tests/install/test_doctor.py::test_nothing_that_a_project_brings_is_run",
    ),
    Mutation(
        13, "undo a run that failed", "holdfast.core.workflow.corrections:_lasting", answer(),
        "tests/acceptance/test_corrections.py::test_a_failed_run_cannot_be_undone",
    ),
    Mutation(
        13, "a claim passes a run gate", "holdfast.core.workflow.evidence:_refuse_claim", answer(),
        f"{_NEEDS}test_a_claim_that_a_run_gate_passed_is_refused",
    ),
    Mutation(
        13, "a claim in an edited record passes a run gate",
        "holdfast.core.workflow.needs:evidence_of", answer("claim"),
        f"{_EDITS}test_a_claim_in_an_edited_record_does_not_pass_a_run_gate",
    ),
    Mutation(
        13, "believe a waiver in an edited record",
        "holdfast.core.workflow.edits:_claimed_gate", lambda _original: lambda gate: gate,
        f"{_EDITS}test_a_waiver_in_an_edited_record_is_not_believed",
    ),
    Mutation(
        17, "an edit removes a phase that the recipe asks for",
        "holdfast.core.workflow.edits:_with_own_phases", lambda _original: lambda _, edited: edited,
        f"{_EDITS}test_a_phase_that_an_edit_removes_is_still_asked_for",
    ),
    Mutation(
        17, "do not mark a phase that an edit completes",
        "holdfast.core.workflow.edits:_is_claimed", answer(False),
        f"{_EDITS}test_a_phase_that_an_edit_completes_is_claimed_until_it_is_done_again",
    ),
    Mutation(
        17, "another command covers the one that failed",
        "holdfast.evidence.gates:_check_not_replaced", answer(),
        "tests/acceptance/test_gates.py::test_another_command_does_not_cover_the_one_that_failed",
    ),
    Mutation(
        17, "another command than red's passes green",
        "holdfast.core.workflow.needs:failing_command", answer(None),
        f"{_NEEDS}test_green_is_shown_by_the_command_that_failed_in_red",
    ),
    Mutation(
        17, "a command that was not found shows a failing test",
        "holdfast.core.workflow.needs:shows_failure", answer(True),
        f"{_NEEDS}test_a_command_that_was_not_found_shows_no_failing_test[127]",
    ),
    Mutation(
        17, "a client that removes its mark is a person",
        "holdfast.workspace.environment:_client_of_process", answer(None),
        "tests/workspace/test_environment.py::test_a_process_below_a_client_is_the_clients",
    ),
    Mutation(
        13, "a phase that lacks something is completed",
        "holdfast.core.workflow.needs:_missing", answer([]),
        f"{_NEEDS}test_a_phase_that_asks_for_tasks_waits_for_all_of_them",
    ),
    Mutation(
        13, "a red run that passed counts", "holdfast.core.workflow.needs:missing_run",
        answer([]), f"{_NEEDS}test_red_is_left_only_after_a_test_was_seen_to_fail",
    ),
    Mutation(
        13, "a run counts in every phase", "holdfast.core.workflow.needs:mark_of_run",
        answer("anywhere"), f"{_NEEDS}test_a_run_counts_in_the_phase_in_which_it_was_made",
    ),
    Mutation(
        13, "replay what another program queued", "holdfast.keeper.offline_queue:_sign", answer(),
        "tests/layers/graph/test_offline_queue.py"
        "::test_what_another_program_adds_to_the_queue_is_left_out",
    ),
    Mutation(
        13, "a command that cannot fail passes a gate",
        "holdfast.evidence.gates:check_shows_something", answer(),
        "tests/keeper/test_trivial_commands.py"
        "::test_a_command_that_shows_nothing_is_refused_and_not_run[true-gate run lint]",
    ),
    Mutation(
        13, "anybody is a person", "holdfast.cli.answer:require_person", answer(),
        "tests/acceptance/test_gates.py::test_nobody_but_a_person_waives_a_gate[AI_AGENT]",
    ),
    Mutation(
        13, "verify a unit by a claim", "holdfast.core.workflow.tasks:refuse_claim", answer(),
        "tests/acceptance/test_loops.py"
        "::test_a_claim_does_not_take_the_place_of_a_run_that_a_unit_declares",
    ),
    Mutation(
        13, "complete a milestone with open tasks", "holdfast.core.initiatives:open_tasks",
        answer([]), "tests/core/test_initiative.py"
        "::test_a_milestone_with_open_tasks_completes_by_force_alone_and_shows_it",
    ),
    Mutation(
        13, "count a program that checks nothing",
        "holdfast.evidence.gates:check_shows_something", answer(),
        f"{_GATES}test_a_command_that_checks_nothing_is_no_evidence[true]",
    ),
    Mutation(
        13, "look up no pull request", "holdfast.evidence.gates:check", answer({}),
        f"{_GATES}test_a_pull_request_is_looked_up",
    ),
    Mutation(
        13, "waive a gate for a client", "holdfast.cli.commands.evidence:require_person", answer(),
        f"{_GATES}test_nobody_but_a_person_waives_a_gate[CLAUDECODE]",
    ),
    Mutation(
        13, "approve a phase for a client", "holdfast.cli.commands.progress:require_person",
        answer(), f"{_PROGRESS}test_nobody_but_a_person_approves_a_phase[CLAUDECODE]",
    ),
    Mutation(
        13, "complete what was skipped", "holdfast.core.workflow.lifecycle:_skipped",
        value(lambda _state, name, *_: {"type": "phase_completed", "data": {"phase": name}}),
        f"{_PROGRESS}test_a_phase_that_is_skipped_or_forced_is_never_completed",
    ),
    Mutation(
        13, "keep a commit that is none", "holdfast.evidence.commits:resolve",
        value(lambda _workspace, name, _tried: name),
        f"{_PROGRESS}test_what_is_no_commit_is_refused[nonsense_zzz]",
    ),
    *STRANGERS,
    *TRUTHS,
    Mutation(
        14, "print raw", "holdfast.core.visible:_has_shape", answer(True),
        "tests/promises/test_p14_hostile_text.py"
        "::test_no_command_prints_what_could_steer_a_terminal[colour]",
    ),
    Mutation(
        14, "brief raw", "holdfast.core.briefing:_HARMLESS", value(()),
        "tests/promises/test_p14_briefing.py"
        "::test_the_briefing_keeps_text_in_its_line[closing tag-skill]",
    ),
    Mutation(
        14, "brief without an end", "holdfast.core.briefing:_shorten", answer(""),
        "tests/core/test_briefing.py::test_the_least_important_is_left_out_first",
    ),
    Mutation(
        14, "follow links", "holdfast.workspace.location:Workspace.check_links", answer(),
        "tests/promises/test_p14_links.py"
        "::test_a_folder_that_leads_out_is_refused[to a folder-skill]",
    ),
    Mutation(
        14, "brief on files outside",
        "holdfast.workspace.location:Workspace.contains", answer(True),
        f"{_HOSTILE}test_a_record_of_a_stranger_cannot_have_other_files_read",
    ),
    Mutation(
        15, "raise", "holdfast.hooks.quick_check:main", _raising,
        "tests/hooks/test_events.py"
        "::test_a_fault_stops_nobody_when_the_program_itself_is_the_hook",
    ),
    *LIMITS,
    *OPENINGS,
    *GROWTH,
    *CHECKPOINTS,
    *REPLICAS,
    *CLAIMS,
]  # fmt: skip
