"""Pictures of every state of the page: ``python -m tests.web.screenshots FOLDER [SCENE ...]``.

Light and dark, on a desktop and on a phone. Needs the packages of ``web/`` (``npm ci``) and Chromium.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.web.bench import QUIET
from tests.web.scenes import scene_names, scene_url, scenes

SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
THEMES = ("light", "dark")
_SETTLED_MS = 900
"""Long enough for the orb to have taken its shape."""


def shoot(page: Page, url: str, path: Path) -> None:
    page.goto(url)
    page.evaluate("document.fonts.ready")
    page.wait_for_timeout(_SETTLED_MS)
    page.screenshot(path=path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("scenes", nargs="*", default=scene_names(), help="default: all")
    parser.add_argument("--themes", nargs="*", choices=THEMES, default=THEMES)
    parser.add_argument("--sizes", nargs="*", choices=tuple(SIZES), default=tuple(SIZES))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    with scenes() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(QUIET))
        for size in args.sizes:
            width, height = SIZES[size]
            phone = size == "phone"
            page = browser.new_page(viewport={"width": width, "height": height}, has_touch=phone, is_mobile=phone)
            for scene in args.scenes:
                for theme in args.themes:
                    shoot(page, scene_url(address, scene, theme=theme), args.folder / f"{scene}-{size}-{theme}.png")
        browser.close()


if __name__ == "__main__":
    main()
