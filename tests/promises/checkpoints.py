"""Ways to lose an initiative's place, or a loop's: mutations of what keeps its sources in step."""

from promises.mutating import Mutation, answer

_SYNC = "holdfast.initiatives.sync:Sync."
_SHOWN = "tests/acceptance/test_checkpoint_protocol.py::"
_BAD = "tests/initiatives/test_bad_input.py::"
_SERVER = "tests/initiatives/test_server.py::"
_PLANS = "tests/initiatives/test_plans.py::"
_LOOPS = "tests/acceptance/test_loop_lines.py::"
_READER = "holdfast.loops.page_files:_EditReader."


def _raise(_original):
    def leave(_self, _files, error):
        raise error

    return leave


def _one_spelling(_original):
    return lambda _self, key: [key]


def _without_former_names(_original):
    return lambda key, initiative: [initiative["name"], key]


CHECKPOINTS = [
    Mutation(
        10, "hold back a change because of a broken YAML", f"{_SYNC}_leave", _raise,
        f"{_BAD}test_a_broken_yaml_never_holds_back_l1_and_its_line_is_named[tabs]",
    ),
    Mutation(
        10, "pass over a broken YAML in silence", f"{_SYNC}_leave", answer(),
        f"{_BAD}test_a_broken_yaml_never_holds_back_l1_and_its_line_is_named[tabs]",
    ),
    Mutation(
        10, "rebuild no initiative whose record is torn", f"{_SYNC}rebuild", answer([]),
        f"{_SHOWN}test_initiative_json_corrupted_falls_back_to_a_directory_scan_and_the_next_"
        "change_rebuilds",
    ),
    Mutation(
        10, "look at no milestone folders", "holdfast.keeper.logs:find_recoverable", answer(),
        f"{_SHOWN}test_if_not_found_scan_active_and_offer_to_create_a_fresh_checkpoint[False]",
    ),
    Mutation(
        8, "leave a stale Memory server stale", f"{_SYNC}update_server", answer(False),
        f"{_SERVER}test_update_stale_sources_to_match_the_authoritative_one_includes_the_server"
        "[False]",
    ),
    Mutation(
        8, "read no lastUpdated of a YAML", "holdfast.initiatives.status_yaml:Status._spelled",
        _one_spelling, f"{_SHOWN}test_compare_last_updated_timestamps_across_all_sources",
    ),
    Mutation(
        8, "warn of no stale source", "holdfast.core.initiative_sources:_warning", answer(),
        f"{_SHOWN}test_the_stale_warning_names_the_stale_source_and_its_age",
    ),
    Mutation(
        8, "forget the former names of an initiative", "holdfast.core.initiatives:names_of",
        _without_former_names,
        f"{_PLANS}test_a_yaml_and_a_record_with_the_former_name_are_about_the_same_initiative",
    ),
    Mutation(
        8, "add no milestone to a page of ours",
        "holdfast.initiatives.pages:MilestonePage._missing", answer([]),
        f"{_PLANS}test_a_page_of_ours_gets_an_added_milestone_at_its_place",
    ),
    Mutation(
        10, "rebuild a finished loop that was removed", "holdfast.adopt.findings:_ended_loop",
        answer(), f"{_LOOPS}test_remove_if_not_needed_by_rm_is_the_end_of_a_finished_loop",
    ),
    Mutation(
        10, "look for no loop that was moved to the archive",
        "holdfast.adopt.findings:_archived_folders", answer([]),
        f"{_LOOPS}test_an_edit_of_a_record_that_was_moved_to_the_archive_is_taken_in",
    ),
    Mutation(
        10, "read no edit of a brief", f"{_READER}_take_brief", answer(),
        f"{_LOOPS}test_hand_edits_of_brief_md_are_taken_in",
    ),
    Mutation(
        10, "read no iteration in a log", f"{_READER}_take_log", answer(),
        f"{_LOOPS}test_an_iteration_written_into_progress_md_is_adopted_like_any_edit",
    ),
    Mutation(
        8, "ask git for no commit of a loop", "holdfast.evidence.git:lost_commits", answer([]),
        f"{_LOOPS}test_a_commit_that_git_no_longer_has_is_said_at_once_by_next_hook_and_verify",
    ),
]  # fmt: skip
