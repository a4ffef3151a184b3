"""Take the pictures of the page that the documents show; needs chromium and playwright.

robustmat serve --port 8000 &
python examples/web_figures.py http://localhost:8000/ docs/figures
"""

import io
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import PIL.Image
from playwright.sync_api import sync_playwright
from tour_figures import small

from robustmat.files import replacing

DESKTOP, PHONE = (1440, 900), (390, 844)


def main(address: str, folder: Path) -> None:
    shots: dict[str, tuple[tuple[int, int], str, Callable[[Any], object]]] = {
        "web-match": (DESKTOP, "light", lambda page: page.hover("h1")),
        "web-snow": (DESKTOP, "dark", snow),
        "web-why": (DESKTOP, "light", why),
        "web-phone": (PHONE, "light", lambda page: None),
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, ((width, height), scheme, act) in shots.items():
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.set_default_timeout(120_000)
            page.goto(address)
            page.locator("#status-text", has_text=re.compile(r"\d+ matches in ")).wait_for()
            act(page)
            page.wait_for_timeout(500)
            picture = PIL.Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            with replacing(folder / f"{name}.jpg") as temporary:
                temporary.write_bytes(small(picture))
            page.close()
        browser.close()


def snow(page: Any) -> None:
    with page.expect_response(lambda answer: answer.url.endswith("/match")):
        page.select_option("#weather", "snow")
    page.wait_for_timeout(1000)
    page.hover("#table tbody tr >> nth=0")


def why(page: Any) -> None:
    page.click("#table tbody tr:has-text('pole') >> nth=0 >> button")  # of windows it has fewer bars to show
    page.locator(".why").wait_for()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
