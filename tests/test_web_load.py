"""The server under a crowd and under nonsense: busy at worst, never broken, and its memory stays flat."""

import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from web_for_tests import sample_frames

pytest.importorskip("fastapi", reason="needs the extra 'web'")
httpx = pytest.importorskip("httpx")

pytestmark = pytest.mark.slow
CLIENTS = 64
SECONDS = float(os.environ.get("ROBUSTMAT_LOAD_SECONDS", "120"))
ROUNDS = int(os.environ.get("ROBUSTMAT_FUZZ_ROUNDS", "1000"))


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, int]]:
    """A server of its own process, as users start it: its address and its process id."""
    command = [sys.executable, "-m", "robustmat", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found
        yield found[0], process.pid
        process.terminate()


def memory(pid: int) -> float:
    """Resident megabytes of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def match_once(client: Any, address: str) -> tuple[int, float]:
    start = time.perf_counter()
    answer = client.post(f"{address}api/match", files=sample_frames())
    return answer.status_code, time.perf_counter() - start


def test_a_crowd_meets_busy_at_worst_and_memory_stays_flat(server: tuple[str, int]) -> None:
    address, pid = server
    with httpx.Client(timeout=60) as client:
        alone = sorted(match_once(client, address)[1] for _ in range(10))
    seen: Counter[int] = Counter()
    slow: list[float] = []
    end = time.monotonic() + SECONDS
    sizes = []

    def visit() -> None:
        with httpx.Client(timeout=60) as client:
            while time.monotonic() < end:
                status, seconds = match_once(client, address)
                seen[status] += 1
                if status == 200:
                    slow.append(seconds)
                else:
                    time.sleep(0.5)

    crowd = [threading.Thread(target=visit) for _ in range(CLIENTS)]
    for one in crowd:
        one.start()
    while time.monotonic() < end:
        time.sleep(SECONDS / 20)
        sizes.append(memory(pid))
    for one in crowd:
        one.join()
    print(
        f"\nalone: median {alone[5]:.2f} s; {CLIENTS} clients for {SECONDS:g} s: {dict(seen)}, "
        f"longest answered match {max(slow):.1f} s; memory {min(sizes):.0f} to {max(sizes):.0f} MB"
    )
    assert set(seen) <= {200, 503}
    assert seen[200] > 10
    half = len(sizes) // 2
    assert max(sizes[half:]) < max(sizes[:half]) + 60
    with httpx.Client(timeout=60) as client:
        assert match_once(client, address)[0] == 200  # and it is as before


def broken(data: bytes, rng: random.Random) -> bytes:
    """A file with something wrong: bytes changed, cut, doubled, or replaced altogether."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 3, 30, 300])):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    kind = rng.randrange(5)
    if kind == 0:
        return bytes(changed[: rng.randrange(len(changed))])
    if kind == 1:
        return bytes(rng.randbytes(rng.randrange(2000)))
    if kind == 2:
        place = rng.randrange(len(changed))
        return bytes(changed[:place] + changed[rng.randrange(len(changed)) :])
    return bytes(changed)


def nonsense(rng: random.Random, depth: int = 0) -> Any:
    """Any JSON, much of it near to what is expected."""
    plain = [None, True, 0, -1, 10**400, 1e308, float("nan"), "", "pole", "../../x", "\x00", "é" * 50, [], {}]
    if depth > 3 or rng.random() < 0.4:
        return rng.choice(plain)
    keys = ["landmarks", "box", "category", "images", "annotations", "categories", "id", "image_id", "category_id"]
    keys += [
        "bbox",
        "file_name",
        "name",
        "width",
        "height",
        "a",
        "b",
        "image",
        "boxes_a",
        "boxes_b",
        "boxes",
        "perturb",
    ]
    if rng.random() < 0.4:
        return [nonsense(rng, depth + 1) for _ in range(rng.randrange(5))]
    return {rng.choice(keys): nonsense(rng, depth + 1) for _ in range(rng.randrange(6))}


def test_broken_uploads_and_json_are_refused_with_a_message(server: tuple[str, int]) -> None:
    address, _ = server
    rng = random.Random(0)
    parts = sample_frames()
    seen: Counter[str] = Counter()
    small = b'{"landmarks": [{"box": [100, 100, 180, 190], "category": "window"}]}'
    with httpx.Client(timeout=60, base_url=address) as client:

        def check(what: str, answer: Any) -> None:
            seen[f"{what} {answer.status_code}"] += 1
            assert answer.status_code < 500, answer.text
            if answer.status_code >= 400:
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.json()["detail"]
                assert "Traceback" not in answer.text

        for _ in range(ROUNDS):
            image = broken(parts["a"][1], rng)
            files = {"image": ("x.jpg", image), "boxes": ("x.json", small)}
            check("image", client.post("api/embed", files=files))
        for _ in range(ROUNDS):
            path = rng.choice(["match", "explain", "detect", "boxes", "embed", "map/query"])
            body = json.dumps(nonsense(rng)).encode()
            if rng.random() < 0.3:
                body = broken(body, rng)
            check("body", client.post(f"api/{path}", content=body, headers={"content-type": "application/json"}))
        for _ in range(ROUNDS):
            boxes = json.dumps(nonsense(rng)) if rng.random() < 0.7 else broken(small, rng)
            form = {"boxes": ("x.json", boxes), "width": (None, "960"), "height": (None, "540")}
            check("boxes", client.post("api/boxes", files=form))
        for _ in range(ROUNDS // 4):
            body = broken(b'--x\r\nContent-Disposition: form-data; name="boxes"\r\n\r\n[]\r\n--x--\r\n', rng)
            headers = {"content-type": "multipart/form-data; boundary=x"}
            check("form", client.post("api/boxes", content=body, headers=headers))
        print(f"\n{dict(sorted(seen.items()))}")
        assert client.get("api/health").json()["busy"] == 0
