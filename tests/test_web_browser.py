"""The page in a real Chromium: what a visitor sees, with mouse, keyboard, phone, in the dark.

Run with `make test-browser`; it needs chromium, playwright and, for accessibility, axe-core (ROBUSTMAT_AXE names
axe.min.js).
"""

import csv
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import PIL.Image
import pytest

from robustmat.types import MatchResult
from web_for_tests import SAMPLES, Server

pytestmark = pytest.mark.browser
CHROMIUM = os.environ.get("ROBUSTMAT_CHROMIUM") or shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("chromium is not installed", allow_module_level=True)
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("fastapi", reason="needs the extra 'web'")


Page = Any
DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Server() as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


class Visitors:
    """Pages of separate visitors; what goes wrong in any of them is remembered."""

    def __init__(self, browser: Any, address: str) -> None:
        self.browser, self.address = browser, address
        self.wrong: list[str] = []
        self.contexts: list[Any] = []

    def __call__(self, viewport: dict[str, int] = DESKTOP, **options: Any) -> Page:
        context = self.browser.new_context(viewport=viewport, accept_downloads=True, **options)
        self.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("console", lambda said: said.type == "error" and self.wrong.append(f"console: {said.text}"))
        page.on("pageerror", lambda error: self.wrong.append(f"page: {error}"))
        page.on("request", lambda asked: self._check(asked.url))
        return page

    def _check(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("blob", "data") and parts.netloc != urlsplit(self.address).netloc:
            self.wrong.append(f"a request left the machine: {url}")

    def matched(self, viewport: dict[str, int] = DESKTOP, **options: Any) -> Page:
        """A visitor whose sample pair is matched."""
        page = self(viewport, **options)
        page.goto(self.address)
        wait_for_matches(page)
        return page


@pytest.fixture
def visitor(browser: Any, address: str) -> Iterator[Visitors]:
    visitors = Visitors(browser, address)
    yield visitors
    for context in visitors.contexts:
        context.close()
    assert not visitors.wrong


def wait_for_matches(page: Page) -> None:
    page.locator("#status-text", has_text=re.compile(r"\d+ match(es)? in ")).wait_for()
    page.locator("#progress").wait_for(state="hidden")


def changed(page: Page, act: Any) -> dict[str, Any]:
    """What the server answers to the match that `act` sets off."""
    with page.expect_response(lambda answer: answer.url.endswith("/match")) as answer:
        act()
    wait_for_matches(page)
    return answer.value.json()  # type: ignore[no-any-return]


def rows(page: Page) -> list[list[str]]:
    return [row.locator("th, td").all_inner_texts() for row in page.locator("#table tbody tr").all()]


def test_a_sample_pair_is_matched_at_once_and_shown_everywhere(visitor: Visitors) -> None:
    page = visitor.matched()
    count = len(rows(page))
    assert count >= 8
    assert page.locator("#lines g").count() == count
    assert page.locator("#patches li").count() == count
    assert page.locator(".frame >> nth=0").locator("g.matched").count() == count
    assert all(0.5 <= float(row[4]) <= 1 for row in rows(page))  # numbers, not colours alone


def test_the_first_paint_is_under_200_kilobytes(visitor: Visitors) -> None:
    page = visitor()
    sizes: list[int] = []
    page.on("requestfinished", lambda asked: sizes.append(asked.sizes()["responseBodySize"]))
    page.goto(visitor.address)
    wait_for_matches(page)
    asked = [one for one in sizes if one > 0]
    assert sum(asked) < 200_000


def test_hovering_a_row_lights_its_match_in_both_frames_and_the_strip(visitor: Visitors) -> None:
    page = visitor.matched()
    page.hover("#table tbody tr >> nth=2")
    assert page.locator("#table tr.hot").count() == 1
    assert page.locator(".picture g.hot").count() == 2
    assert page.locator("#patches .hot").count() == 1
    page.hover("h1")
    assert page.locator(".hot").count() == 0


def test_the_threshold_filters_in_the_browser(visitor: Visitors) -> None:
    page = visitor.matched()
    before = len(rows(page))
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    page.locator("#least").fill("0.9")
    after = rows(page)
    assert 0 < len(after) < before
    assert all(float(row[4]) >= 0.9 for row in after)
    assert page.locator("#lines g").count() == len(after)
    page.locator("#least").fill("1")
    assert "No match is that probable" in page.inner_text("#table")
    assert not [url for url in asked if "/api/" in url]


def test_evidence_switches_show_what_each_kind_brings(visitor: Visitors) -> None:
    page = visitor.matched()
    kinds = page.locator("#evidence input").all()
    assert len(kinds) >= 2
    counts = [int(text) for text in page.locator("#evidence output").all_inner_texts()]
    for kind, count in zip(kinds, counts, strict=True):
        kind.check()
        assert len([row for row in rows(page) if len(row) > 1]) == count
    assert re.fullmatch(
        r"(\d+ match(es)? (more( and \d+ fewer)?|fewer) than|The same matches as) by placement alone\.",
        page.inner_text("#brings"),
    )
    assert re.match(r"\d+ of \d+ matches shown\.", page.inner_text("#summary"))


def test_noise_and_weather_match_again_and_show_the_noisy_frame(visitor: Visitors) -> None:
    page = visitor.matched()
    answer = changed(page, lambda: page.locator("#noise").fill("6"))
    assert answer["perturb"] == "awgn:16"
    page.locator(".frame >> nth=1").locator("img[src^='data:image/jpeg']").wait_for()
    assert page.locator(".frame >> nth=0").locator("img[src^='blob:']").count() == 1
    answer = changed(page, lambda: page.select_option("#weather", "rain"))
    assert answer["perturb"] == "rain:3,awgn:16"
    answer = changed(page, lambda: (page.select_option("#weather", ""), page.locator("#noise").fill("0")))
    assert answer["perturb"] == "clean"
    page.locator(".frame >> nth=1").locator("img[src^='blob:']").wait_for()


def test_sliders_are_debounced(visitor: Visitors) -> None:
    page = visitor.matched()
    asked: list[str] = []
    page.on("request", lambda one: one.url.endswith("/match") and asked.append(one.url))
    changed(page, lambda: [page.locator("#noise").fill(str(step)) for step in (1, 2, 3, 4)])
    assert len(asked) < 4


def test_uploads_are_matched_after_their_boxes(visitor: Visitors, tmp_path: Path) -> None:
    page = visitor.matched()
    for place, side in enumerate("ab"):
        frame = page.locator(f".frame >> nth={place}")
        frame.locator(".open").set_input_files(SAMPLES / f"winter-{side}.jpg")
        frame.locator(".name", has_text=f"winter-{side}.jpg").wait_for()
        if place:
            answer = changed(page, lambda f=frame: f.locator(".boxes").set_input_files(SAMPLES / "winter-b.json"))
        else:
            frame.locator(".boxes").set_input_files(SAMPLES / "winter-a.json")
            frame.locator("g[data-index='0']").wait_for()
    assert answer["a"]["image"] == "winter-a.jpg"
    assert len(answer["a"]["landmarks"]) == len(json.loads((SAMPLES / "winter-a.json").read_text())["landmarks"])


def test_doubtful_detections_without_a_match_are_faint_and_not_counted(visitor: Visitors, tmp_path: Path) -> None:
    page = visitor.matched()
    boxes = json.loads((SAMPLES / "evening-a.json").read_text())
    given = len(boxes["landmarks"])
    boxes["landmarks"].append({"box": [2, 2, 30, 40], "category": "traffic_light", "confidence": 0.21})
    (tmp_path / "boxes.json").write_text(json.dumps(boxes))
    changed(page, lambda: page.locator(".boxes >> nth=0").set_input_files(tmp_path / "boxes.json"))
    unsure = page.locator(".frame >> nth=0").locator("g.unsure")
    assert unsure.count() == 1
    assert "doubtful detection, not matched" in unsure.get_attribute("aria-label")
    shades = ".frame >> nth=0 >> g{} .shade >> nth=0"
    faint, plain = (
        page.eval_on_selector(shades.format(kind), "shade => Number(getComputedStyle(shade).opacity)")
        for kind in (".unsure", ":not(.unsure)")
    )
    assert faint < plain / 3  # its outline alone would leave the dark halo
    assert page.locator("#legend-doubtful").is_visible()
    alone = re.search(r"(\d+) \+ \d+ landmarks unmatched", page.inner_text("#summary"))
    assert alone is not None
    assert int(alone[1]) == given - len(rows(page))


def test_the_legend_tells_of_nothing_that_is_not_there(visitor: Visitors) -> None:
    page = visitor.matched()
    assert page.locator("#legend-likely").is_visible()
    assert not page.locator("#legend-doubtful").is_visible()  # drawn boxes are not doubtful


def test_an_image_without_landmarks_is_named(visitor: Visitors, tmp_path: Path) -> None:
    page = visitor.matched()
    PIL.Image.new("RGB", (320, 200), (120, 160, 220)).save(tmp_path / "sky.png")
    page.locator(".open >> nth=0").set_input_files(tmp_path / "sky.png")
    told = "No landmark was found in frame A (sky.png)"
    page.locator("#status-text", has_text=told).wait_for()
    page.wait_for_timeout(500)  # longer than the page waits before it matches
    assert told in page.inner_text("#status-text")
    assert told in page.inner_text("#table")
    assert not "".join(page.locator("#evidence output").all_inner_texts())


def test_an_image_can_be_dropped(visitor: Visitors) -> None:
    page = visitor.matched()
    data = (SAMPLES / "dusk-a.jpg").read_bytes()
    transfer = page.evaluate_handle(
        """(bytes) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(bytes)], "dropped.jpg", { type: "image/jpeg" }));
            return transfer;
        }""",
        list(data),
    )
    page.locator(".picture >> nth=0").dispatch_event("drop", {"dataTransfer": transfer})
    page.locator(".name >> nth=0", has_text="dropped.jpg").wait_for()


def test_an_image_can_be_pasted(visitor: Visitors) -> None:
    page = visitor.matched()
    page.locator(".add >> nth=1").focus()
    page.evaluate(
        """(bytes) => {
            const clipboardData = new DataTransfer();
            clipboardData.items.add(new File([new Uint8Array(bytes)], "pasted.jpg", { type: "image/jpeg" }));
            document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true }));
        }""",
        list((SAMPLES / "dusk-b.jpg").read_bytes()),
    )
    page.locator(".name >> nth=1", has_text="pasted.jpg").wait_for()  # into the frame that has the focus


def test_a_bad_upload_gets_a_message_and_changes_nothing(visitor: Visitors, tmp_path: Path) -> None:
    page = visitor.matched()
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"this is no image")
    page.locator(".open >> nth=0").set_input_files(broken)
    page.locator("#alert", has_text="'broken.png' is no image").wait_for()
    assert page.inner_text(".name >> nth=0") == "evening-a.jpg"
    page.click("#alert-close")
    boxes = tmp_path / "boxes.json"
    boxes.write_text('{"landmarks": [{"box": [1, 2, 3, 4], "category": "tree"}]}')
    page.locator(".boxes >> nth=0").set_input_files(boxes)
    page.locator("#alert", has_text="unknown category 'tree'").wait_for()
    assert len(rows(page)) >= 8
    visitor.wrong = [one for one in visitor.wrong if "422" not in one]  # Chromium logs every 4xx


def test_boxes_are_drawn_moved_named_and_deleted_with_the_mouse(visitor: Visitors) -> None:
    page = visitor.matched()
    count = page.locator(".frame >> nth=0").locator("g[data-index]").count()
    picture = page.locator(".picture >> nth=0").bounding_box()
    x, y = picture["x"] + 0.42 * picture["width"], picture["y"] + 0.8 * picture["height"]

    def drag(start: tuple[float, float], end: tuple[float, float]) -> None:
        page.mouse.move(*start)
        page.mouse.down()
        page.mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        page.mouse.move(*end)
        page.mouse.up()

    answer = changed(page, lambda: drag((x, y), (x + 40, y + 30)))
    scale = 960 / picture["width"]
    drawn = answer["a"]["landmarks"][count]["box"]
    assert drawn == pytest.approx([0.42 * 960, 0.8 * 540, 0.42 * 960 + 40 * scale, 0.8 * 540 + 30 * scale], abs=2.5)
    page.locator(".editor >> nth=0").wait_for()
    answer = changed(page, lambda: page.select_option(".category >> nth=0", "window"))
    assert answer["a"]["landmarks"][count]["category"] == "window"
    answer = changed(page, lambda: drag((x + 20, y + 15), (x + 50, y + 15)))
    moved = answer["a"]["landmarks"][count]["box"]
    assert moved[0] - drawn[0] == pytest.approx(30 * scale, abs=2.5)
    assert moved[2] - moved[0] == pytest.approx(drawn[2] - drawn[0], abs=0.2)
    answer = changed(page, lambda: page.click(".delete >> nth=0"))
    assert len(answer["a"]["landmarks"]) == count


def test_everything_can_be_done_with_the_keyboard(visitor: Visitors) -> None:
    page = visitor.matched()
    count = page.locator(".frame >> nth=0").locator("g[data-index]").count()
    page.locator(".add >> nth=0").focus()
    answer = changed(page, lambda: page.keyboard.press("Enter"))
    added = answer["a"]["landmarks"][count]["box"]
    assert page.evaluate("document.activeElement.dataset.index") == str(count)
    answer = changed(page, lambda: [page.keyboard.press("ArrowRight") for _ in range(3)])
    assert answer["a"]["landmarks"][count]["box"][0] == added[0] + 6
    answer = changed(page, lambda: page.keyboard.press("Shift+ArrowDown"))
    assert answer["a"]["landmarks"][count]["box"][3] == added[3] + 2
    answer = changed(page, lambda: page.keyboard.press("Delete"))
    assert len(answer["a"]["landmarks"]) == count
    page.locator("#tab-match").focus()
    page.keyboard.press("ArrowRight")
    page.locator(".why").wait_for()
    assert page.get_attribute("#tab-why", "aria-selected") == "true"
    page.keyboard.press("ArrowLeft")
    reached = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    assert {"least", "weather", "noise", "side", "save-json", "save-csv", "save-picture"} <= reached


def test_the_focus_is_visible(visitor: Visitors) -> None:
    page = visitor.matched()
    page.locator("#samples button >> nth=0").focus()
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert float(outline.removesuffix("px")) >= 2


def test_why_shows_bars_that_add_up_and_a_runner_up(visitor: Visitors) -> None:
    page = visitor.matched()
    probability = rows(page)[1][4]
    page.click("#table tbody tr >> nth=1 >> button")
    bars = page.locator(".why .bars >> nth=0").locator("tr")
    bars.first.wait_for()
    values = [float(row.locator("td").last.inner_text().replace("\u2212", "-")) for row in bars.all()]
    assert sum(values[:-1]) == pytest.approx(values[-1], abs=0.16)  # each is shown with one digit
    assert probability in page.inner_text("#why-body")
    assert "behind by" in page.inner_text("#why-body")
    before = page.input_value("#why-a")
    with page.expect_response(lambda answer: answer.url.endswith("/explain")):
        page.click("#why-next")
    assert page.input_value("#why-a") != before


def test_what_rounds_to_zero_has_no_sign(visitor: Visitors) -> None:
    page = visitor.matched()
    shown = page.evaluate("import('./static/dom.js').then((dom) => [-0.04, 0, 0.04, -0.06, 1.25].map(dom.signed))")
    assert shown == ["0.0", "0.0", "0.0", "\u22120.1", "+1.3"]


def test_downloads_hold_what_is_shown(visitor: Visitors, tmp_path: Path) -> None:
    page = visitor.matched()
    page.locator("#least").fill("0.8")
    shown = rows(page)
    saved = {}
    for kind in ("json", "csv", "picture"):
        with page.expect_download() as download:
            page.click(f"#save-{kind}")
        saved[kind] = tmp_path / download.value.suggested_filename
        download.value.save_as(saved[kind])
    found = json.loads(saved["json"].read_text())
    nothing = np.zeros((0, 0))
    assert found.keys() == MatchResult((), (), (), nothing, nothing, 0.5).to_json().keys() | {"perturb"}
    assert found["threshold"] is None  # the probability decides
    assert len(found["matches"]) == len(shown)
    assert found["min_probability"] == 0.8
    assert set(found["unmatched_a"]) == set(range(len(found["a"]["landmarks"]))) - {
        one["a"] for one in found["matches"]
    }
    with saved["csv"].open() as file:
        assert len(list(csv.DictReader(file))) == len(shown)
    assert PIL.Image.open(saved["picture"]).size == (960 * 2 + 12, 540 + 40)


def test_two_visitors_do_not_meet(visitor: Visitors) -> None:
    first, second = visitor.matched(), visitor.matched()
    with second.expect_response(lambda answer: answer.url.endswith("/match")) as theirs:
        second.click("[data-sample=winter]")
    answer = changed(first, lambda: first.locator("#noise").fill("2"))
    assert answer["a"]["image"] == "evening-a.jpg"
    assert theirs.value.json()["a"]["image"] == "winter-a.jpg"
    assert first.inner_text(".name >> nth=0") == "evening-a.jpg"


def test_a_phone_stacks_the_frames_and_never_scrolls_sideways(visitor: Visitors) -> None:
    page = visitor.matched(PHONE, has_touch=True, is_mobile=True)
    first, second = (page.locator(f".picture >> nth={place}").bounding_box() for place in (0, 1))
    assert second["y"] > first["y"] + first["height"]
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.tap("#tab-why")
    page.locator(".why").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_where_shows_the_place_on_the_map(visitor: Visitors) -> None:
    page = visitor.matched()
    page.click("#tab-where")
    page.click("#where-a")
    page.locator("#where-body", has_text="matched with keyframe 000040").wait_for()
    assert page.locator(".map ellipse").count() == 1


def test_the_interface_is_listed(visitor: Visitors) -> None:
    page = visitor.matched()
    page.click("#tab-api")
    page.locator("#paths td", has_text="/api/v1/match").wait_for()
    assert "curl" in page.inner_text("#curl")


def test_a_token_is_asked_for_or_taken_from_the_link(browser: Any) -> None:
    with Server(token="a-long-secret") as address:
        visitors = Visitors(browser, address)
        page = visitors()
        page.goto(address)
        page.locator("#token").fill("a-long-secret")
        page.keyboard.press("Enter")
        wait_for_matches(page)
        page = visitors()
        page.goto(f"{address}#token=a-long-secret")
        wait_for_matches(page)
        assert "token" not in page.url
        for context in visitors.contexts:
            context.close()
        assert not [one for one in visitors.wrong if "401" not in one]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(visitor: Visitors, scheme: str) -> None:
    axe = os.environ.get("ROBUSTMAT_AXE")
    if not axe:
        pytest.skip("ROBUSTMAT_AXE does not name axe.min.js")
    page = visitor.matched(color_scheme=scheme, bypass_csp=True)
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(int(number) for number in back[4:-1].split(",")) > 3 * 128
    assert light == (scheme == "light")
    page.add_script_tag(path=axe)
    for tab, ready in (("match", "#table"), ("why", ".why"), ("where", ".map"), ("api", "#paths td")):
        page.click(f"#tab-{tab}")
        page.locator(ready).first.wait_for()
        found = page.evaluate("axe.run()")
        faults = [
            f"{tab}: {one['id']}: {one['help']}: {[node['html'] for node in one['nodes']]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical", "moderate")
        ]
        assert not faults
