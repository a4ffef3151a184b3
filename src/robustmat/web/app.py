"""The server: every path, what it takes and what it gives. `create_app` puts it together."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles

from robustmat import __version__
from robustmat.config import Config, parse
from robustmat.perturb import PERTURBATIONS
from robustmat.types import CATEGORIES
from robustmat.web import documentation, explain, problems, service, uploads
from robustmat.web.detection import detector_name
from robustmat.web.guard import Guard
from robustmat.web.jobs import JobQueue, StillWanted
from robustmat.web.models import Models
from robustmat.web.problems import HttpError
from robustmat.web.service import ExplainOptions, MatchOptions, ModelOptions, Sent
from robustmat.web.settings import Settings

if TYPE_CHECKING:
    from robustmat.web.places import Places  # maps need an extra of their own, the page without a map does not

HERE = Path(str(resources.files("robustmat.web")))
Answer = dict[str, Any]
Options = TypeVar("Options", bound=Config)


def create_app(
    settings: Settings | None = None, places: "Places | None" = None, models: Models | None = None
) -> FastAPI:
    """The server of `robustmat serve`, ready for uvicorn.

    Args:
        places: a map, for the page's Where and /api/map/query.
        models: given where they are loaded already.
    """
    settings = settings or Settings()
    models = models or Models(settings.checkpoint, settings.runtime)
    queue = JobQueue(settings.queue, settings.workers, settings.seconds)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        queue.close()

    app = FastAPI(
        title="robustmat",
        version=__version__,
        summary="Match street landmarks between camera frames",
        description=documentation.INTRODUCTION,
        openapi_url="/api/openapi.json",
        docs_url=None,  # FastAPI's pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    problems.install(app)
    api = _routes(settings, models, queue, places)
    app.include_router(api, prefix="/api/v1")
    app.include_router(api, prefix="/api", include_in_schema=False)  # the newest version
    app.mount("/samples", StaticFiles(directory=HERE / "samples"))
    app.mount("/static", StaticFiles(directory=HERE / "static"))

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(HERE / "static" / "index.html")

    app.add_middleware(Guard, settings=settings)
    return app


def _routes(settings: Settings, models: Models, queue: JobQueue, places: "Places | None") -> APIRouter:
    api = APIRouter()
    answers = documentation.answers

    async def work(request: Request, begin: Callable[[uploads.Parts], Callable[[StillWanted], Answer]]) -> Answer:
        """Read a request's parts, and compute what `begin` makes of them."""
        async with queue.slot() as slot:
            parts = await uploads.read_parts(request, settings)
            return await queue.run(slot, request, begin(parts))

    def sent(parts: uploads.Parts, image: str, boxes: str) -> Sent:
        return Sent(uploads.take_image(parts, image, settings), uploads.take_boxes(parts, boxes, settings), boxes)

    @api.get("/health", summary="Is the server there?", responses=answers("health"))
    async def health() -> Answer:
        return {"status": "ok", "version": __version__, "busy": queue.taken, "queue": queue.limit}

    @api.get("/models", summary="What can be asked for", responses=answers("models"))
    async def list_models() -> Answer:
        return {
            "models": models.list(),
            "categories": list(CATEGORIES),
            "perturbations": [
                {"name": name, "unit": kind.unit, "lowest": kind.lowest, "highest": kind.highest}
                for name, kind in PERTURBATIONS.items()
            ],
            "detector": detector_name(),
            "map": places.name if places else None,
            "samples": json.loads((HERE / "samples" / "index.json").read_text(encoding="utf-8")),
            "limits": {
                "image_bytes": settings.max_image_bytes,
                "pixels": settings.max_pixels,
                "perturbed_pixels": settings.max_perturbed_pixels,
                "landmarks": settings.max_landmarks,
                "seconds": settings.seconds,
            },
        }

    @api.post("/match", summary="Match the landmarks of two frames", **documentation.request("match", MatchOptions))
    async def match(request: Request) -> Answer:
        def begin(parts: uploads.Parts) -> Callable[[StillWanted], Answer]:
            frames = [sent(parts, side, f"boxes_{side}") for side in "ab"]
            options = _options(MatchOptions, parts)
            return partial(service.match, frames, options, models, settings)

        return await work(request, begin)

    @api.post("/explain", summary="Why two landmarks match", **documentation.request("explain", ExplainOptions))
    async def explain_pair(request: Request) -> Answer:
        def begin(parts: uploads.Parts) -> Callable[[StillWanted], Answer]:
            frames = [sent(parts, side, f"boxes_{side}") for side in "ab"]
            options = _options(ExplainOptions, parts)
            return partial(explain.explain, frames, options, models, settings)

        return await work(request, begin)

    @api.post("/detect", summary="Find the landmarks of an image", **documentation.request("detect", Config))
    async def detect(request: Request) -> Answer:
        def begin(parts: uploads.Parts) -> Callable[[StillWanted], Answer]:
            image = uploads.take_image(parts, "image", settings)
            _options(Config, parts)
            return partial(service.find_landmarks, image, settings)

        return await work(request, begin)

    @api.post("/boxes", summary="Check a box file", **documentation.request("boxes", BoxesOptions))
    async def read_boxes(request: Request) -> Answer:
        def begin(parts: uploads.Parts) -> Callable[[StillWanted], Answer]:
            boxes = uploads.take_boxes(parts, "boxes", settings)
            options = _options(BoxesOptions, parts)
            return partial(_check_boxes, boxes, options, settings)

        return await work(request, begin)

    @api.post("/embed", summary="What a model remembers of a frame", **documentation.request("embed", ModelOptions))
    async def embed(request: Request) -> Answer:
        def begin(parts: uploads.Parts) -> Callable[[StillWanted], Answer]:
            frame = sent(parts, "image", "boxes")
            options = _options(ModelOptions, parts)
            return partial(service.embed, frame, options, models, settings)

        return await work(request, begin)

    @api.get("/map", summary="The map from above", responses=answers("map"))
    async def overview() -> Answer:
        return _map(places).overview()

    @api.post("/map/query", summary="Where a frame was taken", **documentation.request("map/query", CameraOptions))
    async def query(request: Request) -> Answer:
        known = _map(places)

        def begin(parts: uploads.Parts) -> Callable[[StillWanted], Answer]:
            frame = sent(parts, "image", "boxes")
            options = _options(CameraOptions, parts)

            def locate(still_wanted: StillWanted) -> Answer:
                ready = service.prepare([frame], options.camera, settings, still_wanted)
                still_wanted()
                return known.locate(ready.frames[0])

            return locate

        return await work(request, begin)

    return api


class CameraOptions(Config):
    """Of `POST /api/map/query`."""

    camera: str | None = None


class BoxesOptions(Config):
    """Of `POST /api/boxes`: the image that the boxes belong to."""

    width: int
    height: int
    name: str | None = None


def _check_boxes(content: Any, options: BoxesOptions, settings: Settings, _: StillWanted) -> Answer:
    """The landmarks of a box file, in the format of `{"landmarks": [...]}`, whatever the file's own."""
    if content is None:
        raise HttpError(422, "the part 'boxes' is missing: send a box file, or its JSON")
    size = options.width, options.height
    marks = uploads.landmarks_of(content, "boxes", options.name, size)
    uploads.check_count(len(marks), options.name or "boxes", settings)
    return {"width": size[0], "height": size[1], "landmarks": service.listed(marks)}


def _options(kind: type[Options], parts: uploads.Parts) -> Options:
    return parse(kind, uploads.refuse_rest(parts), "the request")


def _map(places: "Places | None") -> "Places":
    if places is None:
        raise HttpError(404, "this server has no map: start it with `robustmat serve --map MAP`")
    return places
