"""What the page asks of the engine, and what it does by itself: in a browser, with an engine that obeys the test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.patience import PATIENCE_S
from tests.web.scenes import scene_url, scenes

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def address(npx: Callable[..., None]) -> Iterator[str]:
    with scenes() as found:
        yield found


@pytest.fixture
def show(browser: Browser, address: str) -> Iterator[Open]:
    """Opens a scene: ``show("speaking")``; further arguments are the browser context's, and ``query``."""
    contexts = []

    def show(scene: str, query: dict[str, str] | None = None, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        contexts.append(context)
        context.set_default_timeout(PATIENCE_S * 1000)
        page = context.new_page()
        page.goto(scene_url(address, scene, **(query or {})))
        expect(page.locator(".app")).to_be_visible()
        return page

    yield show
    for context in contexts:
        context.close()


def calls(page: Page) -> list[Any]:
    """What the engine was told, except to list the devices."""
    told: list[Any] = page.evaluate("window.calls()")
    return [call for call in told if call[0] != "listDevices"]


def change(page: Page, patch: str) -> None:
    """Changes the engine's state; ``patch`` is an expression in which ``state`` is what it was."""
    page.evaluate(f"((state) => window.agent.show({patch}))(window.agent.state)")


def tab_to(page: Page, label: str) -> None:
    """Presses Tab until the control of that name has the focus."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement?.ariaLabel || document.activeElement?.textContent") == label:
            return
    raise AssertionError(f"Tab never came to '{label}'")


MIC = {"transport": "websocket", "microphone": True}
TEXT = {"transport": "websocket", "microphone": False}


class TestStarting:
    def test_one_click_asks_for_everything(self, show: Open) -> None:
        page = show("welcome")
        page.get_by_role("button", name="Start talking").click()
        assert calls(page) == [["connect", MIC]]

    def test_somebody_without_a_microphone_types(self, show: Open) -> None:
        page = show("welcome")
        page.get_by_role("button", name="Type instead").click()
        assert calls(page) == [["connect", TEXT]]

    def test_an_idea_is_said_once_there_is_a_connection(self, show: Open) -> None:
        page = show("welcome")
        page.evaluate("void (window.agent.connect = async () => window.agent.show({connection: {phase: 'live'}}))")
        page.get_by_role("button", name="capital of France").click()
        page.wait_for_function("window.calls().length > 0")
        assert calls(page) == [["sendText", "What is the capital of France?"]]

    def test_the_question_for_the_microphone_can_be_cancelled(self, show: Open) -> None:
        page = show("permission")
        expect(page.get_by_text("Waiting for the microphone").first).to_be_visible()
        page.get_by_role("button", name="Cancel").click()
        assert calls(page) == [["disconnect"]]

    def test_the_keyboard_alone_starts_it(self, show: Open) -> None:
        page = show("welcome")
        tab_to(page, " Start talking")
        page.keyboard.press("Enter")
        assert calls(page) == [["connect", MIC]]


class TestTrouble:
    @pytest.mark.parametrize(
        ("scene", "title", "buttons"),
        [
            ("denied", "The microphone is blocked", ["Try again", "Type instead"]),
            ("no-device", "No microphone found", ["Try again", "Type instead"]),
            ("in-use", "Another app has the microphone", ["Try again", "Choose a microphone", "Type instead"]),
            ("insecure", "This address can’t use your microphone", ["Type instead"]),
            ("full", "Everyone is talking right now", ["Try again"]),
            ("no-webrtc", "WebRTC doesn’t work here", ["Use WebSocket instead", "Try again"]),
            ("lost", "The connection was lost", ["Try again"]),
            ("expired", "Time’s up for this conversation", ["Carry on talking"]),
        ],
    )
    def test_each_failure_has_its_own_way_out(self, show: Open, scene: str, title: str, buttons: list[str]) -> None:
        page = show(scene)
        expect(page.get_by_role("alert")).to_contain_text(title)
        assert page.locator(".trouble button").all_inner_texts() == buttons

    def test_trying_again_does_what_was_tried(self, show: Open) -> None:
        page = show("denied")
        page.get_by_role("button", name="Type instead").click()
        page.get_by_role("button", name="Try again").click()
        assert calls(page) == [["connect", TEXT], ["connect", TEXT]]

    def test_where_webrtc_fails_the_websocket_takes_over_for_good(self, show: Open) -> None:
        page = show("no-webrtc")
        page.get_by_role("button", name="Use WebSocket instead").click()
        assert calls(page) == [["connect", MIC]]

    def test_the_next_attempt_is_counted_down_to_and_can_be_had_at_once(self, show: Open) -> None:
        page = show("reconnecting")
        expect(page.locator(".attempt")).to_contain_text("attempt 2 of 8")
        expect(page.locator(".attempt")).to_contain_text("Trying again in 2 s")
        page.get_by_role("button", name="Try now").click()
        page.get_by_role("button", name="Give up").click()
        assert calls(page) == [["retryNow"], ["disconnect"]]
        expect(page.locator(".transcript")).to_contain_text("What is the capital of France?")

    def test_a_key_is_asked_for_and_used(self, show: Open) -> None:
        page = show("key")
        dialog = page.get_by_role("dialog", name="Server key")
        box = dialog.get_by_label("The key that whoever runs this server gave you")
        expect(box).to_be_focused()
        box.fill("sk-0123456789abcdef")
        box.press("Enter")
        expect(dialog).to_be_hidden()
        assert calls(page) == [["setApiKey", "sk-0123456789abcdef"], ["connect", MIC]]
        assert page.evaluate("window.keys") == ["sk-0123456789abcdef"]

    def test_a_key_that_was_refused_is_said_to_be(self, show: Open) -> None:
        page = show("key", {"key": "sk-wrong-0123456789"})
        dialog = page.get_by_role("dialog", name="Server key")
        expect(dialog.get_by_label("That key wasn’t accepted")).to_have_attribute("aria-invalid", "true")
        dialog.get_by_role("button", name="Forget the key").click()
        assert calls(page) == [["setApiKey", None]]


class TestTalking:
    def test_mute_is_shown_and_undone(self, show: Open) -> None:
        page = show("listening")
        page.get_by_role("button", name="Mute microphone").click()
        expect(page.get_by_role("button", name="Muted: unmute microphone")).to_be_visible()
        expect(page.locator(".stage-label")).to_have_text("You’re muted")
        page.keyboard.press("m")
        expect(page.get_by_role("button", name="Mute microphone")).to_be_visible()
        assert calls(page) == [["setMuted", True], ["setMuted", False]]

    def test_the_space_bar_is_held_to_talk(self, show: Open) -> None:
        page = show("push-to-talk")
        page.keyboard.down(" ")
        page.keyboard.down(" ")  # as a keyboard repeats
        expect(page.locator(".stage-label")).to_have_text("Listening")
        page.keyboard.up(" ")
        expect(page.locator(".stage-label")).to_have_text("Hold to talk")
        assert calls(page) == [["pushToTalk", True], ["pushToTalk", False]]

    def test_a_window_that_loses_the_focus_lets_go_of_the_key(self, show: Open) -> None:
        page = show("push-to-talk")
        page.keyboard.down(" ")
        page.evaluate("window.dispatchEvent(new Event('blur'))")
        assert calls(page) == [["pushToTalk", True], ["pushToTalk", False]]

    def test_the_button_is_held_to_talk_also_when_the_pointer_slips_off(self, show: Open) -> None:
        page = show("push-to-talk")
        page.get_by_role("button", name="Hold to talk").hover()
        page.mouse.down()
        page.mouse.move(10, 10)
        expect(page.get_by_role("button", name="Let go to send")).to_be_visible()
        page.mouse.up()
        assert calls(page) == [["pushToTalk", True], ["pushToTalk", False]]

    def test_escape_stops_the_answer_before_it_closes_a_panel(self, show: Open) -> None:
        page = show("speaking")
        page.keyboard.press(",")
        settings = page.get_by_role("complementary", name="Settings")
        expect(settings).to_be_visible()
        page.keyboard.press("Escape")
        assert calls(page) == [["interrupt"]]
        expect(settings).to_be_visible()
        change(page, "{activity: 'listening'}")
        page.keyboard.press("Escape")
        expect(settings).to_be_hidden()

    def test_text_is_sent_by_enter_and_broken_by_shift_and_enter(self, show: Open) -> None:
        page = show("listening")
        page.keyboard.press("t")
        page.keyboard.type("One")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("m and space")
        page.keyboard.press("Enter")
        assert calls(page) == [["sendText", "One\nm and space"]]
        expect(page.get_by_label("Message")).to_have_value("")

    def test_from_typing_to_talking_the_conversation_goes_on(self, show: Open) -> None:
        page = show("text-only")
        page.get_by_role("button", name="Use microphone").click()
        assert calls(page) == [["disconnect"], ["connect", MIC]]

    def test_a_recording_is_saved_as_a_file(self, show: Open) -> None:
        page = show("listening")
        page.evaluate("window.agent.sound = new Blob(['RIFF'])")
        page.keyboard.press("r")
        with page.expect_download() as saved:
            page.get_by_role("button", name="Stop recording").click()
        assert saved.value.suggested_filename.endswith(".wav")
        assert Path(saved.value.path()).read_bytes() == b"RIFF"

    def test_what_is_over_can_be_gone_on_with_or_begun_anew(self, show: Open) -> None:
        page = show("ended")
        page.get_by_role("button", name="Carry on").click()
        page.get_by_role("button", name="Start over").click()
        assert calls(page) == [["connect", MIC], ["clearConversation"], ["connect", {**MIC, "resume": False}]]


class TestTranscript:
    def test_what_was_not_heard_is_struck_and_said_to_be(self, show: Open) -> None:
        page = show("interrupted")
        turn = page.locator(".turn.assistant").last
        expect(turn.locator("s")).to_contain_text("for bakeries on nearly every corner")
        expect(turn.locator(".tag")).to_have_text("interrupted")
        expect(turn).to_contain_text("(not heard:")

    def test_what_is_still_to_be_heard_is_not_shown_early(self, show: Open) -> None:
        page = show("speaking")
        expect(page.locator(".turn.assistant").last).to_contain_text("smaller than the Louvre,")
        assert "its clock looks out" not in page.locator(".transcript").inner_text()

    def test_only_what_holds_is_announced(self, show: Open) -> None:
        page = show("speaking")
        said = page.get_by_role("log", name="Last said")
        expect(said).to_have_text("You: Which of its museums should I see first?")
        change(
            page, "{turns: state.turns.map((turn) => ({...turn, heard: 'Start here.', unheard: '', status: 'final'}))}"
        )
        expect(said).to_have_text("Assistant: Start here.")

    def test_it_follows_what_is_said_until_somebody_reads_further_up(self, show: Open) -> None:
        page = show("speaking", {"captions": "huge"})
        box = page.locator(".transcript")
        at_end = "(box) => box.scrollHeight - box.scrollTop - box.clientHeight < 4"
        more = "{turns: [...state.turns, {...state.turns[0], id: `u${state.turns.length + 1}`}]}"
        change(page, more)
        page.wait_for_function(f"({at_end})(document.querySelector('.transcript'))")
        box.hover()
        page.mouse.wheel(0, -300)
        latest = page.get_by_role("button", name="Latest")
        expect(latest).to_be_visible()
        change(page, more)
        expect(page.locator(".turn")).to_have_count(8)
        assert not box.evaluate(at_end)
        latest.click()
        page.wait_for_function(f"({at_end})(document.querySelector('.transcript'))")

    def test_it_is_saved_as_text(self, show: Open) -> None:
        page = show("listening")
        with page.expect_download() as saved:
            page.get_by_role("button", name="Download transcript").click()
        assert saved.value.suggested_filename.endswith(".txt")
        assert Path(saved.value.path()).read_text() == "You: Hello.\n"


class TestSettings:
    def test_every_setting_reaches_the_engine(self, show: Open) -> None:
        page = show("listening")
        page.keyboard.press(",")
        panel = page.get_by_role("complementary", name="Settings")
        panel.get_by_label("Voice").select_option("joe")
        panel.get_by_label("Instructions").fill("Be brief.")
        page.keyboard.press("Tab")
        panel.get_by_label("Your language").select_option("de")
        panel.get_by_label("Speaking speed").fill("1.25")
        panel.get_by_role("radio", name="Written").check()
        panel.get_by_label("Silence", exact=True).fill("700")
        panel.get_by_label("Threshold").fill("0.6")
        panel.get_by_role("radio", name="When it makes sense").check()
        panel.get_by_role("radio", name="High").check()
        panel.get_by_role("radio", name="Push to talk").check()
        server = {"type": "server_vad", "threshold": 0.5, "silenceMs": 700, "prefixPaddingMs": 300}
        assert calls(page) == [
            ["updateSettings", {"voice": "joe"}],
            ["updateSettings", {"instructions": "Be brief."}],
            ["updateSettings", {"language": "de"}],
            ["updateSettings", {"speed": 1.25}],
            ["updateSettings", {"output": "text"}],
            ["updateSettings", {"turnDetection": server}],
            ["updateSettings", {"turnDetection": {**server, "threshold": 0.6}}],
            ["updateSettings", {"turnDetection": {"type": "semantic_vad", "eagerness": "auto"}}],
            ["updateSettings", {"turnDetection": {"type": "semantic_vad", "eagerness": "high"}}],
            ["updateSettings", {"turnDetection": {"type": "none"}}],
        ]

    def test_devices_are_switched_while_talking(self, show: Open) -> None:
        page = show("listening")
        page.keyboard.press(",")
        page.get_by_label("Microphone", exact=True).select_option("Built-in microphone")
        page.get_by_label("Speaker", exact=True).select_option("Built-in speakers")
        page.get_by_label("Microphone", exact=True).select_option("System default")
        assert calls(page) == [["setMicrophone", "m1"], ["setSpeaker", "s1"], ["setMicrophone", None]]

    def test_another_transport_takes_the_conversation_along(self, show: Open) -> None:
        page = show("listening")
        page.keyboard.press(",")
        page.get_by_role("radio", name="WebRTC").check()
        assert calls(page) == [["disconnect"], ["connect", {**MIC, "transport": "webrtc"}]]

    def test_a_voice_that_is_fixed_by_now_takes_a_restart(self, show: Open) -> None:
        page = show("settings")
        page.get_by_role("button", name="Restart with this voice").click()
        assert calls(page) == [["restart"]]

    def test_the_theme_follows_the_system_until_one_is_chosen(self, show: Open) -> None:
        page = show("welcome", color_scheme="dark")
        paper = "getComputedStyle(document.documentElement).backgroundColor"
        dark = page.evaluate(paper)
        page.keyboard.press(",")
        themes = page.get_by_role("group", name="Theme")
        themes.get_by_role("radio", name="Light").check()
        page.wait_for_function(f"(dark) => {paper} !== dark", arg=dark)
        themes.get_by_role("radio", name="Auto").check()
        page.wait_for_function(f"(dark) => {paper} === dark", arg=dark)

    def test_instructions_hold_also_when_the_panel_is_closed_over_them(self, show: Open) -> None:
        page = show("listening")
        page.keyboard.press(",")
        page.get_by_label("Instructions").fill("Be brief.")
        page.keyboard.press("Escape")
        expect(page.get_by_role("complementary")).to_have_count(0)
        assert calls(page) == [["updateSettings", {"instructions": "Be brief."}]]

    def test_single_letters_can_be_switched_off(self, show: Open) -> None:
        page = show("listening")
        page.keyboard.press(",")
        page.get_by_label("Single-letter shortcuts").uncheck()
        page.get_by_role("button", name="Close settings").click()
        page.keyboard.press("m")
        page.keyboard.press("l")
        assert calls(page) == []
        expect(page.get_by_role("complementary")).to_have_count(0)


class TestPanels:
    def test_a_panel_takes_the_focus_and_gives_it_back(self, show: Open) -> None:
        page = show("listening")
        tab_to(page, "Timings")
        page.keyboard.press("Enter")
        panel = page.get_by_role("complementary", name="Timings")
        expect(panel).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="Timings", exact=True)).to_be_focused()

    def test_on_a_phone_what_lies_below_a_panel_cannot_be_reached(self, show: Open) -> None:
        page = show("settings", viewport={"width": 390, "height": 844})
        expect(page.locator("main")).to_have_attribute("inert", "")

    def test_the_log_is_filtered_and_saved_as_it_is_filtered(self, show: Open) -> None:
        page = show("log")
        panel = page.get_by_role("complementary", name="Event log")
        expect(panel.locator(".log li")).to_have_count(14)
        panel.get_by_label("Hide what streams").uncheck()
        panel.get_by_label("Filter events").fill("audio.delta")
        expect(panel.locator(".log li")).to_have_count(1)
        panel.locator("summary").click()
        expect(panel.locator("pre")).to_contain_text('"event_id": "event_12"')
        with page.expect_download() as saved:
            panel.get_by_role("button", name="Download events").click()
        assert saved.value.suggested_filename.endswith(".ndjson")
        [line] = Path(saved.value.path()).read_text().splitlines()
        assert '"type":"response.output_audio.delta"' in line

    def test_help_is_a_dialog(self, show: Open) -> None:
        page = show("listening")
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keys and tips")
        expect(dialog).to_contain_text("Hold to talk")
        page.keyboard.press("m")
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        assert calls(page) == []

    def test_notices_come_and_go_by_themselves(self, show: Open) -> None:
        page = show("listening")
        page.clock.install()
        page.evaluate("window.agent.emit('notice', {code: 'microphone-switched', detail: ''})")
        toast = page.get_by_text("Switched to another microphone.")
        expect(toast).to_be_visible()
        page.clock.run_for(7000)
        expect(toast).to_be_hidden()


class TestOrb:
    @staticmethod
    def picture(page: Page) -> str:
        picture: str = page.evaluate("document.querySelector('.orb').toDataURL()")
        return picture

    @staticmethod
    def mask(page: Page) -> list[bool]:
        """Where there is ink of any colour: blocks of four pixels square."""
        inked: list[bool] = page.evaluate(
            """() => {
              const orb = document.querySelector('.orb');
              const small = new OffscreenCanvas(orb.width / 4, orb.height / 4);
              const context = small.getContext('2d');
              context.drawImage(orb, 0, 0, small.width, small.height);
              const {data} = context.getImageData(0, 0, small.width, small.height);
              return [...data].filter((_, at) => at % 4 === 3).map((alpha) => alpha > 40);
            }"""
        )
        return inked

    def test_it_stands_still_for_who_wants_no_motion(self, show: Open) -> None:
        page = show("speaking", reduced_motion="reduce")
        first = self.picture(page)
        page.wait_for_timeout(200)
        assert self.picture(page) == first
        assert any(self.mask(page))

    def test_it_moves_otherwise(self, show: Open) -> None:
        page = show("speaking")
        first = self.picture(page)
        page.wait_for_function("(first) => document.querySelector('.orb').toDataURL() !== first", arg=first)

    def test_its_states_differ_without_colour(self, show: Open) -> None:
        # In conversations the orb has one size, so that the pictures can be laid upon each other.
        scenes = ("listening", "thinking", "speaking", "lost")
        masks = {scene: self.mask(show(scene, reduced_motion="reduce")) for scene in scenes}
        for one, other in itertools.combinations(scenes, 2):
            differing = sum(a != b for a, b in zip(masks[one], masks[other], strict=True))
            assert differing > 0.2 * sum(masks[one]), (one, other)
