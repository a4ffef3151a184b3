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

from robustmat.files import replacing

DESKTOP, PHONE = (1440, 900), (390, 844)
LARGEST = 145_000  # bytes


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
    page.click("#table tbody tr >> nth=2 >> button")
    page.locator(".why").wait_for()


def small(picture: PIL.Image.Image) -> bytes:
    for quality in range(90, 30, -3):
        buffer = io.BytesIO()
        picture.save(buffer, "jpeg", quality=quality, optimize=True, progressive=True)
        if buffer.tell() <= LARGEST:
            break
    return buffer.getvalue()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
