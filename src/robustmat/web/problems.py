"""Errors as the standard for HTTP says them (problem+json, RFC 9457), in the words of the command line."""

import logging
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from robustmat.errors import RobustMatError

MEDIA_TYPE = "application/problem+json"


class HttpError(Exception):
    """An answer that is an error: its status, and a message that says what to do."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, dict(headers or {})

    def response(self) -> JSONResponse:
        body = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        return JSONResponse(body, self.status, self.headers, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Let every error of `app` leave as a problem."""

    async def known(_: Request, problem: Exception) -> JSONResponse:
        return as_problem(problem).response()

    for kind in (HttpError, RobustMatError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, known)


def as_problem(error: Exception) -> HttpError:
    """What to tell about an error; of a defect of ours, nothing but that it is one."""
    if isinstance(error, HttpError):
        return error
    if isinstance(error, RobustMatError):
        return HttpError(422, str(error))
    if isinstance(error, RequestValidationError):
        parts = [f"'{'.'.join(map(str, one['loc'][1:]))}': {one['msg']}" for one in error.errors()]
        return HttpError(422, "; ".join(parts))
    if isinstance(error, HTTPException):
        advice = {404: "there is nothing here; /api/openapi.json lists what there is", 405: "use another method"}
        return HttpError(error.status_code, advice.get(error.status_code, str(error.detail)), error.headers)
    logging.getLogger("robustmat.web").error("a request failed", exc_info=error)
    return HttpError(
        500, "the server failed, which is a defect of robustmat and not of your request; its log says more"
    )
