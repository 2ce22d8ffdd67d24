"""Mutations of what keeps a ledger small and quick: archives, the mark of ``verify``, queries."""

from promises.mutating import Mutation, answer, value

_ARCHIVING = "tests/keeper/test_archiving.py::"
_AUDIT = "tests/keeper/test_audit.py::"


def _close_in_use(_original):
    def close(self):
        self.roll_back()
        self._connection.close()
        self._forget()

    return close


def _make_unsynced(original):
    def make_archive(path, disk):
        connection = original(path, disk)
        connection.execute("COMMIT")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        return connection

    return make_archive


def _mark_of_any_ledger(_original):
    def sound_up_to(store, last_seq):
        from holdfast.core import json_text
        from holdfast.keeper import audit

        raw = store.disk.read_own(f"{store.workspace.home}/{audit.MARK}")
        return min(json_text.loads(raw)["seq"], last_seq - audit.RECENT_EVENTS) if raw else 0

    return sound_up_to


def _every_ended_workflow(_original):
    def completed_by(self, session, _most):
        from holdfast.storage.ledger import ENDED

        where = f"{ENDED} AND status = 'completed' AND session_id = ? ORDER BY seq DESC LIMIT 1"
        return next(self.states(where, session), None)

    return completed_by


GROWTH = [
    Mutation(
        1, "exchange a ledger whose journal is in use", "holdfast.storage.database:Database.close",
        _close_in_use, f"{_ARCHIVING}test_a_ledger_whose_journal_is_in_use_is_not_exchanged",
    ),
    Mutation(
        2, "an archive is not synced", "holdfast.storage.archives:make_archive", _make_unsynced,
        "tests/promises/test_p01_archive.py::test_a_power_cut_while_archiving_loses_nothing",
    ),
    Mutation(
        4, "a missing archive explains every gap", "holdfast.keeper.audit:Chain.lost",
        lambda original: lambda self: [] if self.absent else original(self),
        f"{_ARCHIVING}test_a_missing_event_is_not_taken_for_one_of_a_missing_archive",
    ),
    Mutation(
        4, "a mark of any ledger counts", "holdfast.keeper.audit:_sound_up_to",
        _mark_of_any_ledger,
        f"{_AUDIT}test_a_ledger_that_was_put_back_is_checked_whole",
    ),
    Mutation(
        4, "repair forgets what is in a missing archive",
        "holdfast.storage.ledger:Ledger.partly_archived", answer({}),
        f"{_ARCHIVING}test_a_damaged_ledger_whose_archive_is_missing_keeps_its_states",
    ),
    Mutation(
        7, "archived ids are forgotten", "holdfast.storage.ledger:Ledger._rows_or_archived",
        value(lambda self, clause, *values: self.database.rows(
            f"SELECT * FROM events {clause}", values)),
        f"{_ARCHIVING}test_a_request_that_was_archived_is_still_answered_once",
    ),
    Mutation(
        15, "a new session is compared with all that ended",
        "holdfast.storage.ledger:Ledger.completed_by", _every_ended_workflow,
        "tests/storage/test_query_plans.py"
        "::test_a_session_that_completed_nothing_is_not_compared_with_all_that_ended",
    ),
    Mutation(
        15, "the work tree is read again for the next step",
        "holdfast.keeper.facts:Facts.of_next_step",
        lambda original: lambda self, state, _tree=None: original(self, state),
        "tests/keeper/test_tree_reads.py::test_showing_a_workflow_reads_the_work_tree_once",
    ),
]  # fmt: skip
