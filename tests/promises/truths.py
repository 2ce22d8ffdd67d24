"""Ways to show or answer what is not so: hidden text, an id that means another request."""

from promises.mutating import Mutation, answer, value

_VISIBLE = "tests/core/test_visible.py::"
_REPEAT = "tests/keeper/test_repeat.py::"
_GATES = "tests/acceptance/test_gates.py::"
_COPIES = "tests/adopt/test_old_copies.py::"
_NEWER = "tests/acceptance/test_newer_version.py::"

TRUTHS = (
    Mutation(
        14, "show blank letters", "holdfast.core.visible:_BLANK", value(frozenset()),
        f"{_VISIBLE}test_letters_and_symbols_without_a_shape_are_shown_by_their_codes",
    ),
    Mutation(
        14, "show a mark on anything", "holdfast.core.visible:_fits", answer(True),
        f"{_VISIBLE}test_a_mark_without_a_letter_of_its_script_is_shown_by_its_code",
    ),
    Mutation(
        14, "show joiners anywhere", "holdfast.core.visible:_selects_shape", answer(True),
        f"{_VISIBLE}test_a_joiner_that_selects_no_shape_is_shown_by_its_code",
    ),
    Mutation(
        14, "show a text that looks like a code", "holdfast.core.visible:_OPENINGS", value(""),
        f"{_VISIBLE}test_a_text_that_looks_like_a_code_is_told_from_one",
    ),
    Mutation(
        14, "approve what a terminal may reorder", "holdfast.core.visible:_RIGHT_TO_LEFT",
        value(()),
        f"{_VISIBLE}test_an_approval_shows_marks_joiners_and_letters_from_right_to_left_by_their_codes",
    ),
    Mutation(
        14, "brief hidden text", "holdfast.core.briefing:clean", value(str),
        f"{_VISIBLE}test_a_briefing_hides_nothing",
    ),
    Mutation(
        14, "write hidden text on a page of a loop", "holdfast.loops.pages:clean", value(str),
        f"{_VISIBLE}test_pages_hide_nothing_and_give_back_what_was_written",
    ),
    Mutation(
        13, "approve what cannot be seen", "holdfast.workspace.settings:first_hidden", answer(""),
        "tests/acceptance/test_trust.py::test_what_the_person_cannot_see_cannot_be_approved",
    ),
    Mutation(
        7, "compare a few arguments of a request", "holdfast.keeper.requests:_OBSERVED",
        value(frozenset(("texts", "fields", "details"))),
        f"{_REPEAT}test_another_request_with_the_same_id_is_refused[add a task]",
    ),
    Mutation(
        7, "answer for an event that nobody named", "holdfast.keeper.requests:refuse_other_command",
        answer(),
        f"{_REPEAT}test_an_id_that_holdfast_gave_an_event_is_no_other_request",
    ),
    Mutation(
        12, "read the archive of a newer version", "holdfast.storage.archives:SCHEMA_VERSION",
        value(1 << 30),
        "tests/keeper/test_archiving.py"
        "::test_an_archive_that_cannot_be_read_is_named_and_nothing_else_is_lost[a newer one]",
    ),
    Mutation(
        17, "follow a path that is none", "holdfast.evidence.tree:_is_name", answer(True),
        "tests/evidence/test_tree.py"
        "::test_an_index_that_was_cut_off_is_no_way_into_the_repository_without_end[40]",
    ),
    Mutation(
        17, "a tree that was not read is clean", "holdfast.evidence.tree:digest_of",
        lambda original: lambda tree: original({name: tree[name] for name in tree if name}),
        f"{_GATES}test_a_gate_is_stale_where_nobody_can_tell_whether_it_is_fresh[git status fails]",
    ),
    Mutation(
        17, "an unknown tree is fresh", "holdfast.core.workflow.needs:is_fresh", answer(True),
        f"{_GATES}test_what_cannot_be_told_is_said_and_leads_to_git",
    ),
    Mutation(
        9, "believe what an old copy says of itself", "holdfast.adopt.findings:_version_of",
        lambda _original: lambda _store, _subject, _signed, _parsed, base_seq: base_seq,
        f"{_COPIES}test_an_old_copy_undoes_nothing[skill]",
    ),
    Mutation(
        9, "adopt a record that undoes work", "holdfast.adopt.findings:_undone", answer(""),
        f"{_COPIES}test_a_record_of_elsewhere_undoes_nothing",
    ),
    Mutation(
        2, "take a record that was cut off for an edit", "holdfast.adopt.findings:_is_cut_off",
        answer(False),
        "tests/keeper/test_audit.py"
        "::test_a_view_that_a_power_cut_took_is_to_be_rebuilt_and_not_damaged[cut off]",
    ),
    Mutation(
        4, "write over what a newer one wrote", "holdfast.storage.skill_index:refuse_newer",
        answer(),
        f"{_NEWER}test_a_newer_index_is_not_written_over",
    ),
    Mutation(
        4, "read a newer signature", "holdfast.formats:_refuse_newer_signature", answer(),
        f"{_NEWER}test_a_record_with_a_newer_signature_is_no_edit_and_is_kept[dev]",
    ),
)  # fmt: skip
