"""The OpenAPI document's words and examples; a test holds them against what the server really answers."""

from typing import Any

from robustmat.config import Config

INTRODUCTION = (
    "Requests are `multipart/form-data` (images as files) or `application/json` (images as base64). The server keeps "
    "nothing: each request brings its frames along. Errors are `application/problem+json`. Paths without a version, "
    "such as `/api/match`, stand for the newest one."
)

BOXES = {"landmarks": [{"box": [404, 63, 490, 323], "category": "pole"}]}
IMAGE = "An image: PNG, JPEG, WebP or BMP. Boxes refer to it as it is shown, upright."
BOX_FILE = (
    'A box file, `{"landmarks": [{"box": [x0, y0, x1, y1], "category": "pole"}]}` or COCO; without it, landmarks are '
    "detected."
)
ABOUT = {
    "match": "Landmarks that were detected carry their `confidence`, in 0..1; one that a person drew has none. A "
    "landmark below 0.5 that no match confirmed is a doubtful detection.",
    "detect": "What is worth matching: doubtful candidates, too, from a `confidence` of 0.2, since a partner in "
    "another frame can confirm them. For likely landmarks alone keep those of at least 0.5.",
}
PARTS: dict[str, dict[str, str]] = {
    "match": {"a": IMAGE, "b": IMAGE, "boxes_a": BOX_FILE, "boxes_b": BOX_FILE},
    "explain": {"a": IMAGE, "b": IMAGE, "boxes_a": BOX_FILE, "boxes_b": BOX_FILE},
    "detect": {"image": IMAGE},
    "boxes": {"boxes": BOX_FILE},
    "embed": {"image": IMAGE, "boxes": BOX_FILE},
    "map/query": {"image": IMAGE, "boxes": BOX_FILE},
}
IMAGES = ("a", "b", "image")

_MARK = {"box": [404.0, 63.0, 490.0, 323.0], "category": "pole"}
_PAIR = {
    "a": 0,
    "b": 0,
    "log_odds": 1.2,
    "probability": 0.77,
    "contributions": [{"name": "pair", "log_odds": 0.9}, {"name": "frames", "log_odds": 0.3}],
}
EXAMPLES: dict[str, dict[str, Any]] = {
    "health": {"status": "ok", "version": "0.2.0", "busy": 0, "queue": 8},
    "models": {
        "models": [
            {
                "name": "street",
                "default": True,
                "method": "RobustMat",
                "licence": "Apache-2.0",
                "evidence": [{"name": "pair", "about": "two landmarks and their neighbours"}],
            }
        ],
        "categories": ["traffic_sign", "traffic_light", "pole", "window"],
        "perturbations": [{"name": "rain", "unit": "severity", "lowest": 1, "highest": 5}],
        "detector": None,
        "map": None,
        "samples": [{"name": "evening", "title": "Noon and evening", "camera": [640, 640, 480, 270]}],
        "limits": {
            "image_bytes": 12_000_000,
            "pixels": 16_000_000,
            "perturbed_pixels": 4_000_000,
            "landmarks": 200,
            "seconds": 30,
        },
    },
    "match": {
        "a": {"image": "a.jpg", "landmarks": [_MARK]},
        "b": {"image": "b.jpg", "landmarks": [_MARK]},
        "matches": [{"a": 0, "b": 0, "score": 0.91, "probability": 0.77}],
        "unmatched_a": [],
        "unmatched_b": [],
        "checkpoint": "street",
        "evidence": "placement",
        "threshold": 0.4,
        "min_probability": None,
        "version": "0.2.0",
        "perturb": "clean",
        "warnings": [],
        "seconds": 0.31,
    },
    "explain": {
        "pair": _PAIR,
        "rivals": [{**_PAIR, "b": 3, "why": "B3 is behind by 2.1 log odds, most of it from 'frames' (+1.8)"}],
        "neighbors": {"a": [4, 2, 7], "b": [1, 5, 3]},
        "epipolar": None,
        "checkpoint": "street",
        "evidence": "placement",
    },
    "detect": {"width": 960, "height": 540, "landmarks": [{**_MARK, "confidence": 0.8}]},
    "boxes": {"width": 960, "height": 540, "landmarks": [_MARK]},
    "embed": {
        "image": "a.jpg",
        "checkpoint": "street",
        "fingerprint": "460de9857a26df3c",
        "landmarks": [_MARK],
        "arrays": {"vertex": [[0.1, 0.2]], "graph": [[0.3, 0.4]]},
        "warnings": [],
    },
    "map": {"landmarks": [[12.0, 3.5, "pole"]], "keyframes": [[0.0, 0.0, "000000"]]},
    "map/query": {
        "image": "a.jpg",
        "unknown": False,
        "keyframe": "000012",
        "position": [12.1, 3.4, 1.7],
        "probability": 0.93,
        "covariance": [[0.04, 0.0, 0.0], [0.0, 0.09, 0.0], [0.0, 0.0, 0.01]],
    },
}
_PROBLEM = {
    "type": "about:blank",
    "title": "Unprocessable Content",
    "status": 422,
    "detail": "landmark 0 with box [9, 9, 9, 9]: the box has no area",
}


def answers(path: str) -> dict[int | str, dict[str, Any]]:
    """The responses of a path."""
    return {
        200: {"content": {"application/json": {"example": EXAMPLES[path]}}},
        "4XX": {
            "description": "The request cannot be used; `detail` says why.",
            "content": {"application/problem+json": {"example": _PROBLEM}},
        },
    }


def request(path: str, options: type[Config]) -> dict[str, Any]:
    """The request body and the responses of a path, as arguments of a FastAPI route."""
    fields = dict(options.model_json_schema().get("properties", {}))
    needed = [name for name in PARTS[path] if name in IMAGES]
    example: dict[str, Any] = {name: "<base64>" if name in IMAGES else BOXES for name in PARTS[path]}
    example |= {"index_a": 0, "index_b": 0} if path == "explain" else {}
    example |= {"width": 960, "height": 540} if path == "boxes" else {}
    form = {name: {"type": "string", "format": "binary", "description": about} for name, about in PARTS[path].items()}
    body = {
        name: {"type": "string", "contentEncoding": "base64", "description": about}
        if name in IMAGES
        else {"type": ["object", "array"], "description": about}
        for name, about in PARTS[path].items()
    }
    content = {
        "multipart/form-data": {"schema": {"type": "object", "properties": form | fields, "required": needed}},
        "application/json": {
            "schema": {"type": "object", "properties": body | fields, "required": needed},
            "example": example,
        },
    }
    busy = {"description": "Busy; try again after `Retry-After` seconds."}
    return {
        "description": ABOUT.get(path),
        "responses": answers(path) | {503: busy},
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
    }
