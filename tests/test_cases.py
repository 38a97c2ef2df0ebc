"""Faults that users of other voice servers have reported, by kind, and the tests that keep this one from having them.

Each entry is a kind of fault and where its right behaviour is tested; a test that goes or is renamed fails here.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent

CASES: dict[str, tuple[str, ...]] = {
    "1: sound that was handed on goes on playing": (
        "session/test_floor.py::test_speech_over_the_answer_stops_it_at_once_and_history_holds_what_was_heard",
        "session/test_floor.py::test_what_waits_for_a_slow_client_is_not_sent_after_an_interruption",
        "session/test_outbox.py::test_stale_deltas_are_not_sent_and_what_frames_them_is",
    ),
    "2: a syllable of the old answer after the interruption": (
        "session/test_outbox.py::test_stale_deltas_are_not_sent_and_what_frames_them_is",
        "session/test_outbox.py::test_stale_sound_is_not_sent_as_bytes_either",
        "session/test_reply_run.py::test_after_an_abort_nothing_is_reported_even_by_a_reply_that_does_not_stop",
    ),
    "4: answers that overlap": (
        "session/test_floor.py::test_two_interruptions_leave_one_response_alive_and_no_mixture",
        "realtime/test_core_machine.py::Client",
    ),
    "6, 46: speech after the response is done changes nothing": (
        "session/test_floor.py::test_speech_after_the_response_is_done_still_cuts_what_is_playing",
        "session/test_ledger.py::test_the_item_being_played_is_cut_where_it_is_and_later_ones_at_zero",
        "realtime/test_truncation.py::test_truncation_takes_the_unheard_words_out_of_the_item_and_of_history",
    ),
    "8: speech while nothing plays interrupts": (
        "session/test_floor.py::test_speech_when_nothing_plays_interrupts_nothing",
    ),
    "9: two answers to one turn": (
        "session/test_replying.py::test_one_turn_gets_one_answer_even_if_the_client_asks_for_it_too",
        "realtime/test_core_machine.py::Client",
    ),
    "11: an error that cannot be told from others makes its sender wait": (
        "realtime/test_responses.py::test_a_second_response_is_refused_at_once_with_its_event_id",
        "realtime/test_client_events.py::test_the_sender_of_a_faulty_event_is_still_told_which_one_it_was",
        "fuzz/test_session.py::test_random_messages",
    ),
    "13: a response that never gets its end": (
        "server/test_stage_death.py::test_the_response_fails_with_its_reason_and_the_same_session_is_answered_again",
        "session/test_session.py::test_a_pipeline_that_dies_in_the_middle_ends_the_response",
        "pipeline/test_processes.py::test_a_hung_process_is_found_killed_and_replaced",
        "pipeline/test_processes.py::test_a_request_that_takes_too_long_fails",
        "fuzz/test_session.py::test_random_messages",
    ),
    "15: a commit after the server's own makes a turn out of silence": (
        "session/test_replying.py::test_a_commit_after_the_servers_own_makes_no_phantom_turn",
        "realtime/test_core.py::test_with_turn_detection_silence_cannot_be_committed",
        "session/test_turn_taking.py::test_sound_without_words_leaves_no_item_and_no_response",
    ),
    "16: a rejected commit with every turn": (
        "realtime/test_core.py::test_a_commit_of_too_little_says_how_much_there_was",
        "session/test_replying.py::test_a_commit_after_the_servers_own_makes_no_phantom_turn",
    ),
    "18: a sample that is split over two appends": (
        "realtime/test_input_audio.py::test_samples_do_not_depend_on_how_the_bytes_were_cut",
        "session/test_turn_taking.py::test_however_the_bytes_are_cut_the_session_behaves_the_same",
    ),
    "19: an odd chunk is padded, which shifts what follows": (
        "audio/test_pcm.py::test_an_aligner_gives_whole_samples_and_loses_nothing_whatever_the_cuts",
        "session/test_delivery.py::test_the_bytes_do_not_depend_on_the_chunks",
    ),
    "20: one bad chunk of an answer and no sound ever after": (
        "session/test_session.py::test_an_unexpected_fault_of_a_reply_is_that_replys_alone",
        "session/test_delivery.py::test_the_bytes_do_not_depend_on_the_chunks",
    ),
    "22: an empty append feeds everything again": (
        "realtime/test_input_audio.py::test_empty_appends_are_nothing",
        "session/test_hearing.py::test_empty_pieces_change_nothing",
    ),
    "23: bad base64 is dropped in silence or ends the session": (
        "realtime/test_input_audio.py::test_what_is_not_base64_is_refused_and_takes_nothing",
        "transports/test_websocket.py::test_bad_input_is_answered_and_survived",
        "fuzz/test_session.py::test_every_wrong_type_of_every_field_of_every_event",
    ),
    "24: sound at another rate than was promised": (
        "session/test_delivery.py::test_a_tone_keeps_its_pitch_and_its_length",
        "audio/test_resample.py::test_a_tone_stays_what_and_where_it_is",
    ),
    "25: slow or fast sound from a rate that was misunderstood": (
        "realtime/test_settings.py::test_faults_are_named_and_change_nothing",
        "realtime/test_input_audio.py::test_time_is_counted_in_samples_of_the_format",
        "session/test_delivery.py::test_a_tone_keeps_its_pitch_and_its_length",
        "session/test_hearing.py::test_8_khz_sound_is_heard_as_well",
    ),
    "27: zeros for silence in G.711 are a loud pop": (
        "audio/test_g711.py::test_silence_is_ff_and_loudness_saturates",
        "session/test_delivery.py::test_silence_is_silent_to_its_last_byte",
        "transports/webrtc/test_codecs.py::test_what_g711_pads_with_is_silence",
    ),
    "29: pacing that drifts, or bursts after a stall": (
        "audio/test_pacing.py::test_late_wake_ups_do_not_add_up",
        "audio/test_pacing.py::test_slots_that_went_by_in_a_stall_are_skipped_and_not_made_up_for",
        "transports/webrtc/test_sender.py::test_timestamps_match_the_wall_clock_however_late_the_timers_are",
        "transports/webrtc/test_sender.py::test_after_a_stall_nothing_is_sent_faster_and_no_sound_is_lost",
        "audio/test_pacing.py::test_a_listener_who_ran_dry_starts_again_when_sound_comes",
    ),
    "30: the last milliseconds stay in the resampler": (
        "session/test_delivery.py::test_a_tone_keeps_its_pitch_and_its_length",
        "audio/test_resample.py::test_the_length_is_the_duration",
    ),
    "31, 32: frames that stop coming in the middle of a turn": (
        "session/test_ear.py::test_frames_that_stop_coming_end_the_turn",
        "session/test_hearing.py::test_sound_that_stops_while_a_question_is_open_ends_the_turn_where_it_paused",
    ),
    "34: noise keeps the turn from ending": (
        "session/test_hearing.py::test_speech_in_noise_still_ends",
        "session/test_ear.py::test_an_endless_utterance_is_ended",
    ),
    "35: a noise takes the answer away": (
        "session/test_turn_taking.py::test_an_answer_that_noise_ended_before_it_was_heard_is_given_after_all",
        "session/test_floor.py::test_only_what_means_to_interrupt_does_and_clients_hear_of_nothing_else",
    ),
    "37: the first syllable is cut off": (
        "session/test_hearing.py::"
        "test_the_models_sound_begins_300_ms_before_the_trigger_and_is_the_persons_sample_for_sample",
    ),
    "38: the person goes on just as the answer starts": (
        "session/test_session_protocol.py::"
        "test_who_goes_on_just_as_the_answer_starts_is_answered_once_and_to_all_of_it",
        "session/test_turn_taking.py::test_going_on_when_the_answer_was_just_promised_aborts_it_unheard",
        "session/test_turn_taking.py::test_going_on_before_the_words_are_known_is_the_same_turn",
    ),
    "39: a partial update turns turn detection off": (
        "session/test_ear.py::test_one_changed_threshold_leaves_turn_detection_on",
        "realtime/test_settings.py::test_one_threshold_changes_nothing_else_and_keeps_turn_detection_on",
        "realtime/test_settings.py::test_an_update_with_only_transcription_leaves_turn_detection_alone",
    ),
    "41: the answer answers itself": (
        "session/test_floor.py::test_where_answers_echo_a_person_still_interrupts_with_words_of_their_own",
        "session/test_interruption.py::test_where_answers_echo_only_other_words_interrupt_however_long_the_sound_lasts",
    ),
    "42, 45: history holds what was sent, not what was heard": (
        "session/test_floor.py::test_speech_over_the_answer_stops_it_at_once_and_history_holds_what_was_heard",
        "realtime/test_truncation.py::test_an_answer_of_which_nothing_was_heard_is_removed",
        "realtime/test_limits.py::test_where_the_server_plays_it_removes_what_nobody_heard",
    ),
    "47: inference keeps pings from being answered": (
        "server/test_load.py::test_twenty_callers_on_a_busy_machine_all_stay_and_one_more_is_told_to_come_back",
        "transports/test_websocket.py::test_one_session_too_many_is_told_to_come_back_and_a_free_place_is_given_again",
    ),
    "49: tracks that nobody reads fill up": (
        "transports/webrtc/test_peer.py::test_video_is_declined_and_audio_is_heard",
        "transports/webrtc/test_peer.py::test_what_nobody_can_read_does_not_wait_however_much_it_is",
    ),
    "50: memory that grows with each session": (
        "server/test_load.py::test_sessions_that_have_ended_keep_no_memory",
        "transports/webrtc/test_peer.py::test_calls_leave_nothing_behind_however_they_end",
    ),
    "52: a client that leaves takes others along, or haunts the next": (
        "server/test_load.py::test_who_reconnects_at_once_gets_his_own_answer_and_nothing_of_the_one_before",
        "transports/test_websocket.py::test_fifty_clients_that_leave_at_any_moment_leave_nothing_behind",
        "pipeline/test_processes.py::test_a_thousand_aborts_at_random_moments_leave_nothing",
    ),
    "54: a fault in one task ends the session without a word": (
        "transports/test_websocket.py::test_a_fault_in_one_session_closes_it_cleanly_and_no_other",
        "session/test_session.py::test_an_unexpected_fault_of_a_reply_is_that_replys_alone",
    ),
    "55: what was said is lost when the connection is": (
        "server/test_resume.py::test_items_put_back_by_id_are_the_conversation_again",
        "server/test_resume.py::test_the_order_does_not_matter_as_long_as_each_follows_one_that_is_there",
        "transports/test_websocket.py::test_draining_asks_everybody_to_leave_and_lets_nobody_in",
    ),
    "56: each lost packet makes the delay longer": (
        "audio/test_jitter_buffer.py::test_the_delay_is_back_after_a_loss_as_soon_as_the_hole_is_passed",
        "audio/test_jitter_buffer.py::test_at_one_percent_loss_hardly_more_than_that_is_missing_and_the_delay_is_short",
        "audio/test_jitter_buffer.py::test_after_a_burst_everything_is_as_before_at_once",
    ),
    "62: a microphone that is off floods the log with timeouts": (
        "transports/webrtc/test_receiver.py::test_before_the_first_packet_nothing_is_heard_and_nothing_complains",
        "transports/webrtc/test_receiver.py::test_a_caller_who_falls_silent_is_heard_to_be_silent",
    ),
}


@cache
def functions(path: Path) -> frozenset[str]:
    nodes = ast.parse(path.read_text()).body
    return frozenset(
        node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )


@pytest.mark.parametrize("case", CASES)
def test_each_kind_of_fault_has_its_tests(case: str) -> None:
    missing = [name for name in CASES[case] if name.partition("::")[2] not in functions(ROOT / name.partition("::")[0])]
    assert missing == []
