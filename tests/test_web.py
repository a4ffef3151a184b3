"""The server behind `robustmat serve`: what it answers, what it refuses, and that it keeps nothing."""

import asyncio
import base64
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import robustmat
from web_for_tests import CAMERA, SAMPLES, Server, TownMap, sample_frame, sample_frames

pytest.importorskip("fastapi", reason="needs the extra 'web'")
from fastapi.testclient import TestClient

from robustmat.checkpoints.load import network_matcher
from robustmat.checkpoints.store import load_checkpoint
from robustmat.cli.checks import EXTRA_OF
from robustmat.cli.serve import check_token, is_local, listen
from robustmat.matching.combine import Combination
from robustmat.matching.combined import CombinedMatcher
from robustmat.types import CATEGORIES
from robustmat.web import explain as explaining
from robustmat.web import uploads
from robustmat.web.app import create_app
from robustmat.web.documentation import EXAMPLES
from robustmat.web.guard import host_name
from robustmat.web.jobs import JobQueue
from robustmat.web.models import Models
from robustmat.web.settings import Settings


@pytest.fixture(scope="module")
def models() -> Models:
    models = Models("street")
    models.warm()
    return models


@pytest.fixture(scope="module")
def client(models: Models) -> TestClient:
    return TestClient(create_app(Settings(), models=models), base_url="http://localhost")


def with_settings(models: Models, **values: Any) -> TestClient:
    return TestClient(create_app(Settings(**values), models=models), base_url="http://localhost")


def png(width: int, height: int, mode: str = "RGB") -> bytes:
    buffer = io.BytesIO()
    PIL.Image.new(mode, (width, height), 90).save(buffer, "png")
    return buffer.getvalue()


def problem(answer: Any, status: int) -> str:
    """The message of an error, which must be a problem as the standard wants it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert body["title"]
    assert "Traceback" not in answer.text
    assert str(Path(robustmat.__file__).parent) not in answer.text
    return str(body["detail"])


# ---- what it answers


def test_a_match_over_http_is_the_match_of_the_library(client: TestClient) -> None:
    answer = client.post("/api/match", files=sample_frames(), data={"camera": CAMERA})
    assert answer.status_code == 200, answer.text
    camera = [float(number) for number in CAMERA.split(",")]
    frames = [
        robustmat.read_frame(SAMPLES / f"evening-{side}.jpg", SAMPLES / f"evening-{side}.json", camera=camera)
        for side in "ab"
    ]
    expected = robustmat.load("street").match(*frames).to_json()
    found = answer.json()
    assert {(match["a"], match["b"]) for match in found["matches"]} == {
        (match["a"], match["b"]) for match in expected["matches"]
    }
    for key in ("a", "b", "unmatched_a", "unmatched_b", "checkpoint", "evidence", "threshold", "version"):
        assert found[key] == expected[key]
    by_pair = {(match["a"], match["b"]): match["probability"] for match in expected["matches"]}
    for match in found["matches"]:
        assert match["probability"] == pytest.approx(by_pair[match["a"], match["b"]], abs=1e-4)


def test_json_with_base64_is_as_good_as_a_form(client: TestClient) -> None:
    parts = sample_frames()
    body = {name: base64.b64encode(data).decode() for name, (_, data) in parts.items() if name in "ab"}
    body |= {name: json.loads(data) for name, (_, data) in parts.items() if name not in "ab"}
    form = client.post("/api/match", files=parts).json()
    found = client.post("/api/v1/match", json={**body, "min_probability": None}).json()
    assert found["matches"] == form["matches"]


def test_every_kind_of_evidence_is_matched_when_asked_to_compare(client: TestClient) -> None:
    kinds = [kind["name"] for kind in client.get("/api/models").json()["models"][0]["evidence"]]
    options = {"compare": "true", "min_probability": "0.5"}
    found = client.post("/api/match", files=sample_frames(), data=options).json()
    assert list(found["by_evidence"]) == kinds
    assert found["by_evidence"][kinds[-1]] == found["matches"]
    alone = client.post("/api/match", files=sample_frames(), data={"evidence": kinds[0], "min_probability": "0.5"})
    assert alone.json()["matches"] == found["by_evidence"][kinds[0]]


def test_weather_changes_the_second_frame_alone_and_comes_back_as_a_picture(client: TestClient) -> None:
    options = {"perturb": "rain:3,awgn:16", "perturb_side": "second", "pictures": "true"}
    found = client.post("/api/match", files=sample_frames(), data=options).json()
    assert found["pictures"]["a"] is None
    kind, _, data = found["pictures"]["b"].partition(",")
    assert kind == "data:image/jpeg;base64"
    picture = np.asarray(PIL.Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"), np.float64)
    clean = np.asarray(PIL.Image.open(SAMPLES / "evening-b.jpg").convert("RGB"), np.float64)
    assert picture.shape == clean.shape
    assert ((picture - clean) ** 2).mean() > 200


def test_contributions_add_up_to_the_log_odds_of_the_matched_probability(client: TestClient) -> None:
    match = client.post("/api/match", files=sample_frames()).json()["matches"][0]
    options = {"index_a": match["a"], "index_b": match["b"]}
    told = client.post("/api/explain", files=sample_frames(), data=options).json()
    for pair in (told["pair"], *told["rivals"]):
        total = sum(part["log_odds"] for part in pair["contributions"])
        assert total == pytest.approx(pair["log_odds"], abs=1e-9)
    assert told["pair"]["probability"] == pytest.approx(match["probability"], abs=1e-4)
    assert all(rival["log_odds"] <= told["pair"]["log_odds"] for rival in told["rivals"])
    assert all(len(told["neighbors"][side]) == 3 and match[side] not in told["neighbors"][side] for side in "ab")


def test_a_matcher_that_explains_itself_is_asked(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = models.matcher()
    monkeypatch.setattr(matcher, "explain", lambda a, b, i, j: [("keypoints", 1.5), ("boxes", -0.5)], raising=False)
    client = TestClient(create_app(Settings(), models=models), base_url="http://localhost")
    told = client.post("/api/explain", files=sample_frames(), data={"index_a": 0, "index_b": 0}).json()
    parts = {part["name"]: part["log_odds"] for part in told["pair"]["contributions"]}
    assert list(parts) == ["keypoints", "boxes", "competition"]
    assert sum(parts.values()) == pytest.approx(told["pair"]["log_odds"])


def test_all_evidence_combined_is_explained_with_its_epipolar_lines(models: Models) -> None:
    weights = {"frames": 0.5, "placement": 0.5}
    combinations = {kind: Combination(weights=weights, intercept=-0.5) for kind in ("frames", "placement", "scene")}
    inner = network_matcher(load_checkpoint("street"), "placement")
    combined = CombinedMatcher(inner, combinations, "scene")

    class Combined(Models):
        def matcher(self, name: str | None = None, evidence: str | None = None, same_category: bool = True) -> Any:
            return combined if evidence in (None, "scene") else models.matcher(name, evidence, same_category)

    offered = Combined("street")
    offered.evidence = {"street": ("pair", "frames", "scene")}
    client = TestClient(create_app(Settings(), models=offered), base_url="http://localhost")
    options = {"compare": "true", "evidence": "pair"}
    assert list(client.post("/api/match", files=sample_frames(), data=options).json()["by_evidence"]) == [
        "pair",
        "frames",
        "scene",
    ]
    answer = client.post("/api/explain", files=sample_frames(), data={"index_a": 0, "index_b": 0})
    assert answer.status_code == 200, answer.text
    told = answer.json()
    parts = {part["name"]: part["log_odds"] for part in told["pair"]["contributions"]}
    assert {"frames", "placement", "base rate", "competition"} == parts.keys()
    assert sum(parts.values()) == pytest.approx(told["pair"]["log_odds"])
    assert told["epipolar"] is None or len(told["epipolar"]["b"]) == 3


def test_pixels_of_one_point_lie_on_each_other_s_epipolar_lines() -> None:
    rng = np.random.default_rng(0)
    points_a = rng.uniform([-3, -2, 5], [3, 2, 20], (20, 3))
    angle = 0.2
    R_b_a = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
    shift = np.array([0.6, -0.1, -0.8])
    points_b = points_a @ R_b_a.T + 3 * shift
    intrinsics_a, intrinsics_b = np.array([640.0, 650, 480, 270]), np.array([700.0, 710, 600, 180])
    seen_a, seen_b = (
        np.c_[points[:, :2] / points[:, 2:] * camera[:2] + camera[2:], np.ones(20)]
        for points, camera in ((points_a, intrinsics_a), (points_b, intrinsics_b))
    )
    lines = seen_a @ explaining.fundamental(R_b_a, shift, intrinsics_a, intrinsics_b).T
    distance = (lines * seen_b).sum(axis=1) / np.linalg.norm(lines[:, :2], axis=1)
    assert np.abs(distance).max() < 1e-8


def test_numbers_of_one_kind_of_evidence_are_told_together_and_singly() -> None:
    told = explaining.by_kind([("pair", 1.0), ("scene", 2.0), ("scene_length", -0.5), ("base rate", -3.0)])
    assert {kind["name"]: kind["log_odds"] for kind in told} == {"pair": 1.0, "scene": 1.5, "base rate": -3.0}
    assert [part["name"] for part in told[1]["parts"]] == ["scene", "scene_length"]
    assert "parts" not in told[0]


def test_a_runner_up_is_said_to_lose_by_what_it_lacks() -> None:
    def pair(b: int, **parts: float) -> dict[str, Any]:
        listed = [{"name": name, "log_odds": value} for name, value in parts.items()]
        return {"a": 0, "b": b, "log_odds": sum(parts.values()), "contributions": listed}

    told = explaining.why_lost(pair(1, pair=1.0, placement=2.0), pair(4, pair=0.5, placement=-1.0))
    assert told == "B4 is behind by 3.5 log odds, most of it from 'placement' (+3.0)"


def test_an_embedding_is_the_library_s(client: TestClient) -> None:
    found = client.post("/api/embed", files=sample_frame()).json()
    frame = robustmat.read_frame(SAMPLES / "evening-a.jpg", SAMPLES / "evening-a.json")
    expected = robustmat.load("street").embed(frame)
    assert found["fingerprint"] == expected.fingerprint
    assert found["arrays"].keys() == expected.arrays.keys()
    for name, array in expected.arrays.items():
        np.testing.assert_allclose(np.array(found["arrays"][name]), array, atol=1e-4)


def test_a_coco_file_becomes_plain_boxes(client: TestClient) -> None:
    coco = {
        "images": [{"id": 1, "file_name": "x.png", "width": 100, "height": 80}],
        "categories": [{"id": 5, "name": "Traffic Sign"}],
        "annotations": [{"image_id": 1, "category_id": 5, "bbox": [10, 20, 30, 40]}],
    }
    answer = client.post("/api/boxes", json={"boxes": coco, "name": "x.png", "width": 100, "height": 80})
    assert answer.json()["landmarks"] == [{"box": [10.0, 20.0, 40.0, 60.0], "category": "traffic_sign"}]


def test_landmarks_are_detected_where_no_boxes_are_given(client: TestClient) -> None:
    parts = sample_frames()
    detected = client.post("/api/detect", files={"image": parts["a"]}).json()["landmarks"]
    assert all(mark["category"] in CATEGORIES and 0.2 <= mark["confidence"] <= 1 for mark in detected)
    assert min(mark["confidence"] for mark in detected) < 0.5  # a partner may confirm what is doubtful
    assert client.post("/api/detect", files={"image": ("x.png", png(40, 30))}).json()["landmarks"] == []
    del parts["boxes_b"]
    assert client.post("/api/match", files=parts).json()["b"]["landmarks"]


def test_what_is_detected_is_matched_and_explained_with_its_confidence(client: TestClient) -> None:
    images = {side: part for side, part in sample_frames().items() if side in "ab"}
    frames = [robustmat.read_frame(SAMPLES / f"evening-{side}.jpg") for side in "ab"]
    expected = robustmat.load("street").match(*frames).to_json()
    found = client.post("/api/match", files=images).json()
    assert all("confidence" in mark for mark in found["a"]["landmarks"])
    for side in "ab":
        assert found[side] == expected[side]
    assert [(one["a"], one["b"]) for one in found["matches"]] == [(one["a"], one["b"]) for one in expected["matches"]]
    told = [one["probability"] for one in expected["matches"]]
    assert [one["probability"] for one in found["matches"]] == pytest.approx(told, abs=1e-4)
    least = min(found["matches"], key=lambda one: found["a"]["landmarks"][one["a"]]["confidence"])
    options = {"index_a": least["a"], "index_b": least["b"]}
    pair = client.post("/api/explain", files=images, data=options).json()["pair"]
    assert pair["probability"] == pytest.approx(least["probability"], abs=1e-4)
    parts = {part["name"]: part["log_odds"] for part in pair["contributions"]}
    assert sum(parts.values()) == pytest.approx(pair["log_odds"])
    assert parts["detection"] < 0


def test_a_map_answers_where_a_frame_was_taken(client: TestClient, models: Models) -> None:
    assert "--map" in problem(client.post("/api/map/query", files=sample_frame()), 404)
    assert client.get("/api/models").json()["map"] is None
    mapped = TestClient(create_app(Settings(), TownMap(), models), base_url="http://localhost")
    assert mapped.get("/api/models").json()["map"] == "town"
    assert mapped.post("/api/map/query", files=sample_frame()).json()["keyframe"] == "000040"
    assert mapped.get("/api/map").json()["landmarks"]


def test_openapi_examples_have_the_keys_of_real_answers(client: TestClient) -> None:
    document = client.get("/api/openapi.json").json()
    assert all(path.startswith("/api/v1/") for path in document["paths"])
    assert {path.removeprefix("/api/v1/") for path in document["paths"]} == EXAMPLES.keys()
    frames = sample_frames()
    real = {
        "health": client.get("/api/health"),
        "models": client.get("/api/models"),
        "match": client.post("/api/match", files=frames),
        "explain": client.post("/api/explain", files=frames, data={"index_a": 0, "index_b": 0}),
        "embed": client.post("/api/embed", files=sample_frame()),
        "boxes": client.post("/api/boxes", json={"boxes": {"landmarks": []}, "width": 5, "height": 5}),
    }
    for name, answer in real.items():
        assert answer.json().keys() == EXAMPLES[name].keys(), name
    assert "doubtful" in document["paths"]["/api/v1/detect"]["post"]["description"]
    form = document["paths"]["/api/v1/match"]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
    assert {"a", "b", "boxes_a", "min_probability", "perturb"} <= form["properties"].keys()


def test_the_python_of_the_documents_prints_matches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(__file__).parents[1] / "docs" / "web.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    for side in "ab":
        for kind in ("jpg", "json"):
            (tmp_path / f"{side}.{kind}").write_bytes((SAMPLES / f"evening-{side}.{kind}").read_bytes())
    monkeypatch.chdir(tmp_path)
    with Server() as address:
        exec(code.replace("http://localhost:8000/", address), {})
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert len(printed) >= 5
    assert all(float(probability) >= 0.5 for _, _, probability in printed)


# ---- the command


def test_a_busy_port_and_a_weak_token_are_said_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(robustmat.RobustMatError, match="choose another --port"):
            listen("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(robustmat.RobustMatError, match="at least 12"):
        check_token("short", local=False)


def test_the_page_starts_with_its_own_extra_alone() -> None:
    others = {name for name, extra in EXTRA_OF.items() if extra != "web"}
    script = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in {others}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Absent())
import uvicorn
from robustmat.cli.serve import serve
from robustmat.web.models import Models
Models.warm = lambda self: None
uvicorn.Server.run = lambda self, sockets: None
serve(port=0)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "robustmat is at http://localhost:" in done.stdout


def test_only_beyond_localhost_a_token_is_made_up() -> None:
    assert is_local("127.0.0.1")
    assert is_local("::1")
    assert not is_local("0.0.0.0")
    assert not is_local("192.168.0.7")
    assert check_token(None, local=True) is None
    first, second = (check_token(None, local=False) for _ in range(2))
    assert first is not None
    assert len(first) >= 24
    assert first != second


# ---- the page


def test_the_page_needs_nothing_from_elsewhere_and_nothing_inline(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    folder = SAMPLES.parent / "static"
    for path in folder.iterdir():
        text = path.read_text()
        assert "http://" not in text.replace("http://www.w3.org/", ""), path.name
        assert "https://" not in text, path.name
    html = page.text
    assert " style=" not in html
    assert " onclick=" not in html
    assert html.count("<script") == 1


def test_the_first_paint_is_small() -> None:
    static = SAMPLES.parent / "static"
    later = {"why.js", "where.js", "download.js"}  # loaded when they are asked for
    page = sum(path.stat().st_size for path in static.iterdir() if path.name not in later)
    sample = sum((SAMPLES / f"evening-{side}.{kind}").stat().st_size for side in "ab" for kind in ("jpg", "json"))
    assert page + sample < 195_000  # and a few kilobytes of JSON
    assert max(path.stat().st_size for path in SAMPLES.iterdir()) < 120_000


# ---- what it refuses


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"a": ("a.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>")}, 415, "PNG or JPEG"),
        ({"a": ("a.eps", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")}, 415, "no known image format"),
        ({"a": ("a.png", b"")}, 422, "empty"),
        ({"a": ("a.png", png(960, 540)[:200])}, 422, "truncated"),
        ({"boxes_a": ("a.json", b"{")}, 422, "not valid JSON"),
        ({"boxes_a": ("a.json", b'{"landmarks": [{"box": [1, 2, 3], "category": "pole"}]}')}, 422, "four numbers"),
        ({"boxes_a": ("a.json", b'[{"box": [5, 5, 9, 9], "category": "tree"}]')}, 422, "unknown category 'tree'"),
        ({"boxes_a": ("a.json", b'[{"box": [5, 5, 1' + b"0" * 500 + b', 9], "category": "pole"}]')}, 422, "501 digits"),
        ({"boxes_a": ("a.json", b'{"width": 5, "height": 5, "landmarks": []}')}, 422, "5x5"),
        ({"boxes_a": ("a.json", b"[" * 100_000)}, 422, "not valid JSON"),
    ],
)
def test_a_broken_file_gets_the_command_line_s_words(
    client: TestClient, change: dict[str, Any], status: int, words: str
) -> None:
    assert words in problem(client.post("/api/match", files=sample_frames() | change), status)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"evidence": "placemnt"}, "did you mean 'placement'?"),
        ({"checkpoint": "../../etc"}, "on this server"),
        ({"min_probability": "2"}, "less than or equal to 1"),
        ({"min_probabilty": "0.5"}, "did you mean 'min_probability'?"),
        ({"perturb": "hail:3"}, "unknown perturbation"),
        ({"perturb": "rain:9"}, "allowed is severity, 1 to 5"),
        ({"camera": "/etc/passwd"}, "fx,fy,cx,cy"),
        ({"index_a": "0"}, "unknown key 'index_a'"),
    ],
)
def test_a_wrong_option_is_named(client: TestClient, options: dict[str, str], words: str) -> None:
    assert words in problem(client.post("/api/match", files=sample_frames(), data=options), 422)


def test_pixels_are_counted_before_anything_is_decoded(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    client = with_settings(models, max_pixels=10_000)
    monkeypatch.setattr(uploads, "decode_image", lambda *_: pytest.fail("decoded"))
    image = ("huge.png", png(200, 100))
    assert "0.0 megapixels (200x100)" in problem(client.post("/api/detect", files={"image": image}), 413)


def test_bytes_are_counted_before_anything_is_parsed(models: Models) -> None:
    client = with_settings(models, max_image_bytes=1000, max_boxes_bytes=1000)
    assert "MB" in problem(client.post("/api/detect", files={"image": ("x.png", b"x" * 1001)}), 413)
    assert "larger than" in problem(client.post("/api/detect", files={"image": ("x.png", b"x" * 500_000)}), 413)

    def endless() -> Any:  # no Content-Length: the stream itself is counted
        for _ in range(1000):
            yield b"x" * 10_000

    sent = client.post("/api/detect", content=endless(), headers={"content-type": "application/json"})
    assert "larger than" in problem(sent, 413)


def test_too_many_landmarks_are_refused(models: Models) -> None:
    client = with_settings(models, max_landmarks=5)
    assert "allowed are 5" in problem(client.post("/api/match", files=sample_frames()), 422)


def test_other_names_and_other_pages_are_refused(client: TestClient) -> None:
    assert "evil.example" in problem(client.get("/api/health", headers={"host": "evil.example"}), 421)
    assert "may not use" in problem(client.get("/api/health", headers={"origin": "http://evil.example"}), 403)
    assert client.get("/api/health", headers={"origin": "http://localhost"}).status_code == 200
    assert host_name("127.0.0.1:8000") == "127.0.0.1"


def test_a_token_is_asked_for(models: Models) -> None:
    client = with_settings(models, token="a-long-secret")
    assert "Bearer" in problem(client.get("/api/models"), 401)
    assert "Bearer" in problem(client.get("/api/v1/models", headers={"authorization": "Bearer a-long-secreT"}), 401)
    assert client.get("/api/models", headers={"authorization": "Bearer a-long-secret"}).status_code == 200
    assert client.get("/api/health").status_code == 200
    assert client.get("/").status_code == 200


def test_wrong_paths_methods_and_bodies_are_problems(client: TestClient) -> None:
    problem(client.get("/api/v1/nothing"), 404)
    problem(client.get("/api/match"), 405)
    assert "multipart" in problem(client.post("/api/match", content=b"x", headers={"content-type": "text/plain"}), 415)
    headers = {"content-type": "multipart/form-data"}
    assert "boundary" in problem(client.post("/api/match", content=b"x", headers=headers), 400)
    assert "the image 'a' is missing" in problem(client.post("/api/match", json={}), 422)
    assert "JSON object" in problem(client.post("/api/match", json=[1]), 400)
    problem(client.get("/%2e%2e/%2e%2e/app.py"), 404)


def test_a_defect_of_ours_tells_nothing_but_that(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustmat.web.service.prepare", lambda *_: 1 / 0)
    client = TestClient(
        create_app(Settings(), models=models), base_url="http://localhost", raise_server_exceptions=False
    )
    assert "defect" in problem(client.post("/api/match", files=sample_frames()), 500)


# ---- a guest behaves


def test_a_crowd_is_told_to_come_back(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()
    monkeypatch.setattr("robustmat.web.service.match", lambda *_: free.wait(20) and {})
    with with_settings(models, queue=2) as client, ThreadPoolExecutor(3) as crowd:
        waiting = [crowd.submit(client.post, "/api/match", files=sample_frames()) for _ in range(2)]
        until(lambda: client.get("/api/health").json()["busy"] == 2)
        refused = client.post("/api/match", files=sample_frames())
        assert "busy" in problem(refused, 503)
        assert refused.headers["retry-after"] == "1"
        free.set()
        assert [one.result().status_code for one in waiting] == [200, 200]
        until(lambda: client.get("/api/health").json()["busy"] == 0)


def test_work_that_takes_too_long_is_given_up_and_stops(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = threading.Event()

    def slow(*arguments: Any) -> dict[str, Any]:
        still_wanted = arguments[-1]
        try:
            while True:
                time.sleep(0.02)
                still_wanted()
        finally:
            stopped.set()

    monkeypatch.setattr("robustmat.web.service.match", slow)
    with with_settings(models, seconds=0.3) as client:
        assert "longer than 0.3 s" in problem(client.post("/api/match", files=sample_frames()), 504)
        assert stopped.wait(5)
        until(lambda: client.get("/api/health").json()["busy"] == 0)


def test_who_waits_in_vain_is_told_that_the_server_is_busy(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()
    monkeypatch.setattr("robustmat.web.service.match", lambda *_: free.wait(20) and {})
    with with_settings(models, queue=2, seconds=0.5) as client, ThreadPoolExecutor(2) as crowd:
        both = [crowd.submit(client.post, "/api/match", files=sample_frames()) for _ in range(2)]
        assert sorted(one.result().status_code for one in both) == [503, 504]  # one was at work, the other waited
        free.set()
        until(lambda: client.get("/api/health").json()["busy"] == 0)


def test_work_stops_when_the_client_goes_away() -> None:
    stopped = threading.Event()

    class Gone:
        async def is_disconnected(self) -> bool:
            return True

    def work(still_wanted: Callable[[], None]) -> None:
        try:
            while True:
                time.sleep(0.02)
                still_wanted()
        finally:
            stopped.set()

    async def leave() -> None:
        queue = JobQueue(1, 1, 20.0)
        with pytest.raises(Exception, match="went away"):
            async with queue.slot() as slot:
                await queue.run(slot, Gone(), work)  # type: ignore[arg-type]

    asyncio.run(leave())
    assert stopped.wait(5)


def test_uploads_are_not_written_to_disk(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = os.open

    def watched(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            opened.append(str(path))
        return real(path, flags, *more, **named)

    buffer = io.BytesIO()
    PIL.Image.fromarray(np.zeros((900, 1600, 3), np.uint8)).save(buffer, "bmp")  # four megabytes
    large = ("large.bmp", buffer.getvalue())
    boxes = ("boxes.json", b'[{"box": [5, 5, 90, 90], "category": "window"}]')
    parts = {"a": large, "b": large, "boxes_a": boxes, "boxes_b": boxes}
    assert client.post("/api/match", files=parts).status_code == 200  # the checkpoint is read once
    monkeypatch.setattr(os, "open", watched)
    monkeypatch.setattr("tempfile._io.open", lambda *_, **__: pytest.fail("a temporary file"), raising=False)
    assert client.post("/api/match", files=parts).status_code == 200
    assert not opened


def until(happened: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_real_map_lies_flat_and_knows_its_own_keyframe(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    from robustmat.checkpoints.load import load
    from robustmat.dataset.store import LandmarkDataset
    from robustmat.mapping.build import build_map
    from robustmat.web.places import open_places
    from small_world import drive, make_boards

    street: LandmarkDataset = drive(make_boards(12, seed=5), frames=8, spacing=3.0)
    build_map(tmp_path / "map", [street], load("street", evidence="placement"), checkpoint="street")
    places = open_places(tmp_path / "map")
    seen = places.overview()
    assert {len(point) for point in (*seen["landmarks"], *seen["keyframes"])} == {3}
    along = [point[:2] for point in seen["keyframes"]]
    apart = [((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) ** 0.5 for a, b in pairwise(along)]
    assert apart == pytest.approx([3.0] * len(apart), abs=1e-6)
    told = places.locate(street.frames[3])
    assert told["unknown"] or told["ground"] is not None
