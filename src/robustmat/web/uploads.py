"""What a request brings: images and boxes, as multipart form or as JSON, checked before they are decoded."""

import asyncio
import base64
import binascii
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from robustmat.errors import InputError, InputWarning
from robustmat.files import parse_json
from robustmat.landmarks.reading import read_frame
from robustmat.sources.boxes import parse_boxes, to_landmarks
from robustmat.sources.images import decode_image, encoded_size
from robustmat.types import Frame, Image, Landmark
from robustmat.web.problems import HttpError
from robustmat.web.settings import Settings

FORMATS = ("PNG", "JPEG", "WEBP", "BMP")  # what browsers show, too; nothing else is ever decoded
MOST_PARTS = 30
_warnings = threading.Lock()  # Python collects warnings for the whole process


@dataclass(frozen=True)
class Upload:
    """A file of a request, in memory."""

    name: str
    data: bytes


Parts = dict[str, Any]  # by name: an Upload, a text, or what JSON holds


class _InMemoryParser(MultiPartParser):
    """Uploads never touch the disk: the body's size is limited already."""

    spool_max_size = 2**40


async def read_parts(request: Request, settings: Settings) -> Parts:
    """The parts of a request's body, which has to arrive within the time limit."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        async with asyncio.timeout(settings.seconds):
            if kind == "multipart/form-data":
                return await _read_form(request, settings)
            if kind == "application/json":
                return _read_object(await request.body())
    except TimeoutError:
        raise HttpError(408, f"the request did not arrive within {settings.seconds:g} s") from None
    except ClientDisconnect:
        raise HttpError(408, "the client went away") from None
    raise HttpError(415, f"send multipart/form-data or application/json, found '{kind[:60] or 'no Content-Type'}'")


async def _read_form(request: Request, settings: Settings) -> Parts:
    parser = _InMemoryParser(
        request.headers,
        request.stream(),
        max_files=MOST_PARTS,
        max_fields=MOST_PARTS,
        max_part_size=settings.max_boxes_bytes,
    )
    parts: Parts = {}
    try:
        form = await parser.parse()
    except (HttpError, ClientDisconnect, TimeoutError):
        raise
    except MultiPartException as problem:
        raise HttpError(400, f"the form cannot be read: {problem.message}") from None
    except Exception as problem:  # the parser's own exceptions share no base with Starlette's
        raise HttpError(400, f"the form cannot be read: {str(problem)[:200] or type(problem).__name__}") from None
    for name, value in form.multi_items():
        if name in parts:
            raise HttpError(400, f"the form has the part '{name[:60]}' twice")
        if isinstance(value, UploadFile):
            parts[name] = Upload(_plain_name(value.filename, name), await value.read())
        else:
            parts[name] = value
    await form.close()
    return parts


def _plain_name(given: str | None, part: str) -> str:
    """A file's name without its folders and oddities: it is only shown."""
    name = PurePath((given or "").replace("\\", "/")).name
    return "".join(letter for letter in name if letter.isprintable())[:80] or part


def _read_object(body: bytes) -> Parts:
    content = read_json(body, "the request")
    if not isinstance(content, dict):
        raise HttpError(
            400, 'the request must be a JSON object such as {"a": "<base64>", "boxes_a": {"landmarks": []}}'
        )
    return content


def read_json(text: bytes | str, where: str) -> Any:
    return parse_json(text, f"{where} is not valid JSON", InputError)


def take_image(parts: Parts, name: str, settings: Settings) -> Upload:
    """The encoded image of a part; it is taken out of `parts`."""
    value = parts.pop(name, None)
    if isinstance(value, str):
        try:
            upload = Upload(name, base64.b64decode(value.partition("base64,")[2] or value, validate=True))
        except (binascii.Error, ValueError):
            raise HttpError(422, f"'{name}' must be an image file: upload it, or send its bytes as base64") from None
    elif isinstance(value, Upload):
        upload = value
    else:
        raise HttpError(422, f"the image '{name}' is missing: send it as a file, or as base64 in JSON")
    if not upload.data:
        raise HttpError(422, f"the image '{upload.name}' is empty (0 bytes)")
    if len(upload.data) > settings.max_image_bytes:
        size, most = len(upload.data) / 1e6, settings.max_image_bytes / 1e6
        raise HttpError(
            413, f"the image '{upload.name}' has {size:.1f} MB, allowed are {most:g}: reduce it, or use JPEG"
        )
    return upload


def decode(upload: Upload, settings: Settings) -> Image:
    """Pixels, of an image that is neither of a foreign format nor too large."""
    try:
        width, height = encoded_size(upload.data, upload.name, FORMATS)
    except InputError as problem:
        raise HttpError(415, str(problem)) from None
    if width * height > settings.max_pixels:
        found, most = width * height / 1e6, settings.max_pixels / 1e6
        raise HttpError(
            413,
            f"the image '{upload.name}' has {found:.1f} megapixels ({width}x{height}), allowed are {most:g}: reduce it",
        )
    return decode_image(upload.data, upload.name, FORMATS)


def take_boxes(parts: Parts, name: str, settings: Settings) -> Any:
    """The content of a box file that came as a file, a text or JSON; None where there is none."""
    value = parts.pop(name, None)
    if value is None or value == "":
        return None
    if isinstance(value, Upload):
        if len(value.data) > settings.max_boxes_bytes:
            raise HttpError(413, f"the box file '{value.name}' is larger than {settings.max_boxes_bytes // 1000} KB")
        return read_json(value.data, f"box file '{value.name}'")
    return read_json(value, f"'{name}'") if isinstance(value, str) else value


def landmarks_of(content: Any, where: str, image: str | None, size: tuple[int, int] | None) -> tuple[Landmark, ...]:
    """Landmarks of a box file's content: `{"landmarks": [...]}`, COCO, or a bare list of boxes."""
    try:
        if isinstance(content, list):
            return to_landmarks(content)
        return parse_boxes(content, Path(where), image, size)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as problem:
        raise InputError(f"box file is malformed: {where}: {problem}") from None


def to_frame(
    pixels: Image, name: str, boxes: Any, where: str, camera: Any, settings: Settings
) -> tuple[Frame, list[str]]:
    """A frame with its boxes, and what there is to say about them."""
    height, width = pixels.shape[:2]
    marks = landmarks_of(boxes, where, name, (width, height))
    check_count(len(marks), name, settings)
    with _warnings, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InputWarning)
        frame = read_frame(pixels, boxes=marks, camera=camera, name=name)
    return frame, [str(one.message) for one in caught if issubclass(one.category, InputWarning)]


def check_count(count: int, name: str, settings: Settings) -> None:
    if count > settings.max_landmarks:
        raise HttpError(
            422, f"{count} landmarks in '{name}', allowed are {settings.max_landmarks}: leave out the small ones"
        )


def parse_camera(text: str | None) -> Any:
    """fx, fy, cx, cy; never a file's name, which the command line would take as well."""
    if text is None or not text.strip():
        return None
    try:
        numbers = np.array([float(number) for number in text.split(",")])
    except ValueError:
        numbers = np.empty(0)
    if numbers.shape != (4,) or not np.isfinite(numbers).all():
        raise InputError(f"camera must be fx,fy,cx,cy in pixels, found '{text[:60]}'")
    return numbers


def refuse_rest(parts: Mapping[str, Any]) -> dict[str, str]:
    """What is left of the parts are options: text, numbers and switches."""
    wrong = [name for name, value in parts.items() if isinstance(value, Upload | list | dict)]
    if wrong:
        raise HttpError(422, f"the part '{wrong[0][:60]}' is not expected here, or must be plain text")
    return dict(parts)
