"""Every state of the page, at every size and in both themes: nothing overflows, and axe finds no fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.web.bench import WEB
from tests.web.scenes import scene_names, scene_url, scenes

AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module")
def address(npx: Callable[..., None]) -> Iterator[str]:
    with scenes() as found:
        yield found


@pytest.fixture(scope="module", params=[(1280, 800), (390, 844), (360, 640)], ids=lambda size: f"{size[0]}px")
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    width, height = request.param
    # Without motion there is nothing to wait for.
    context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
    yield context.new_page()
    context.close()


def faults(page: Page) -> list[Any]:
    """What axe finds: the rule, and where."""
    page.add_script_tag(path=AXE)
    found = page.evaluate(
        "async (tags) => (await axe.run(document, {runOnly: tags, resultTypes: ['violations']})).violations",
        {"type": "tag", "values": TAGS},
    )
    return [(rule["id"], [(node["html"][:120], node["failureSummary"]) for node in rule["nodes"]]) for rule in found]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("scene", scene_names())
def test_a_state_is_accessible_and_fits(page: Page, address: str, scene: str, theme: str) -> None:
    page.goto(scene_url(address, scene, theme=theme))
    page.wait_for_function("document.fonts.status === 'loaded'")
    assert faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    outside = page.evaluate(
        """() => [...document.querySelectorAll('button, input, textarea, select')]
            .filter((control) => control.checkVisibility() && !control.closest('.panel-body, main[inert]'))
            .filter((control) => {
              const {left, right} = control.getBoundingClientRect();
              return left < 0 || right > innerWidth;
            }).map((control) => control.outerHTML)"""
    )
    assert outside == []


@pytest.mark.parametrize("captions", ["small", "huge"])
def test_captions_of_any_size_leave_room_for_the_controls(page: Page, address: str, captions: str) -> None:
    page.goto(scene_url(address, "speaking", captions=captions))
    end = page.get_by_role("button", name="End", exact=True).bounding_box()
    height = page.evaluate("innerHeight")
    assert end is not None
    assert end["y"] + end["height"] <= height
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_targets_are_large_enough_for_fingers(page: Page, address: str) -> None:
    for scene in ("welcome", "speaking", "ended"):
        page.goto(scene_url(address, scene))
        small = page.evaluate(
            """() => [...document.querySelectorAll('button')]
                .filter((button) => button.checkVisibility())
                .map((button) => [button.outerHTML, button.getBoundingClientRect()])
                .filter(([, {width, height}]) => width < 24 || height < 24)"""
        )
        assert small == []
