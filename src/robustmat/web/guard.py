"""Who may ask, and how much may be sent: checked before anything is read.

- The `Host` must be one that the server goes by, so that a page on the web cannot reach a local server under a name of
  its own (DNS rebinding), and requests from pages of other origins are refused.
- With a token, everything under /api but /api/health needs `Authorization: Bearer TOKEN`.
- A body is cut off where it exceeds the limit, whatever its Content-Length says.
- Every answer carries the headers that keep a browser strict.
"""

import hmac
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from robustmat.web.problems import HttpError
from robustmat.web.settings import Settings

SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
OPEN_PATHS = ("/api/health", "/api/v1/health")


class Guard:
    """ASGI middleware around the whole server."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_strictly(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SECURITY)
                headers["Cache-Control"] = "no-store" if scope["path"].startswith("/api") else "no-cache"
            await send(message)

        problem = refusal(scope["path"], Headers(scope=scope), self.settings)
        if problem is not None:
            await problem.response()(scope, receive, send_strictly)
            return
        await self.app(scope, _limited(receive, self.settings.max_body_bytes), send_strictly)


def refusal(path: str, headers: Headers, settings: Settings) -> HttpError | None:
    """Why a request is not even looked at; None if it is."""
    host = headers.get("host", "")
    if settings.hosts is not None and host_name(host) not in settings.hosts:
        return HttpError(421, f"this server is not '{host}'; call it {' or '.join(settings.hosts)}")
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        return HttpError(403, f"pages of {origin} may not use this server; open the server's own page")
    if settings.token is not None and path.startswith("/api") and path not in OPEN_PATHS:
        given = headers.get("authorization", "").removeprefix("Bearer ").strip()
        if not hmac.compare_digest(given.encode(), settings.token.encode()):
            return HttpError(
                401, "this server needs its token: send 'Authorization: Bearer TOKEN'", {"WWW-Authenticate": "Bearer"}
            )
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > settings.max_body_bytes:
        return too_large(settings.max_body_bytes)
    return None


def host_name(host: str) -> str:
    """A Host header without its port.

    >>> host_name("localhost:8000"), host_name("[::1]:80")
    ('localhost', '[::1]')
    """
    name, _, port = host.rpartition(":")
    return (name if name and port.isdecimal() else host).lower()


def too_large(limit: int) -> HttpError:
    return HttpError(413, f"the request is larger than {limit / 1e6:.0f} MB: send smaller images, or JPEG")


def _limited(receive: Receive, limit: int) -> Receive:
    seen = 0

    async def receive_some() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise too_large(limit)
        return message

    return receive_some
