"""`robustmat serve`: a page to see matches, and a REST interface."""

import ipaddress
import logging
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robustmat.cli.checks import need

if TYPE_CHECKING:
    from robustmat.web.places import Places

SHORTEST_TOKEN = 12

OPEN, MODEL = "Beyond this machine", "Model"


def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where it listens; 0 takes a free one.")] = 8000,
    map: Annotated[
        Path | None, typer.Option(help="A landmark map: the page then shows where a frame was taken.")
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            rich_help_panel=OPEN,
            help="The address to listen on. Other machines reach it only if this is one of the machine's own "
            "addresses, or `0.0.0.0` for all of them; a token is then needed.",
        ),
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            envvar="ROBUSTMAT_TOKEN",
            rich_help_panel=OPEN,
            help="What callers must know. Beyond localhost one is made up unless given.",
            show_default=False,
        ),
    ] = None,
    checkpoint: Annotated[
        str, typer.Option(rich_help_panel=MODEL, help="A shipped name (`robustmat models`), a checkpoint or a run.")
    ] = "street",
    runtime: Annotated[
        str, typer.Option(rich_help_panel=MODEL, help="`auto`, `torch`, `onnx` or `onnx-int8`.")
    ] = "auto",
    workers: Annotated[int, typer.Option(min=1, rich_help_panel=MODEL, help="Requests that are matched at once.")] = 1,
    queue: Annotated[int, typer.Option(min=1, rich_help_panel=MODEL, help="Requests at work or waiting.")] = 8,
) -> None:
    """Open a page in the browser to match frames, see why, and try weather; and the same as a REST interface.

    Listens to this machine alone unless told otherwise. Nothing that is uploaded is written to disk or kept.

        robustmat serve --port 8000
    """
    need("fastapi", "uvicorn", "python_multipart", purpose="robustmat serve")
    if map:
        need("lancedb", purpose="a map")
    import uvicorn

    from robustmat.web.app import create_app
    from robustmat.web.models import Models
    from robustmat.web.settings import LOCAL_HOSTS, Settings

    local = is_local(host)
    token = check_token(token, local)
    listening = listen(host, port)
    port = listening.getsockname()[1]
    places: Places | None = None
    if map:
        from robustmat.web.places import open_places

        places = open_places(map)
    models = Models(checkpoint, runtime)
    models.warm()
    settings = Settings(
        checkpoint=checkpoint,
        runtime=runtime,
        token=token,
        hosts=(*LOCAL_HOSTS, host) if local else None,
        workers=workers,
        queue=queue,
    )
    app = create_app(settings, places, models)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{'localhost' if local else shown}:{port}/"
    print(f"robustmat is at {address}{f'#token={token}' if token else ''}   (Ctrl+C ends it)", flush=True)
    if not local:
        print(OPENED.format(port=port), flush=True)
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # the client is told, that is enough
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_keep_alive=10, limit_concurrency=512
    )
    uvicorn.Server(config).run(sockets=[listening])


OPENED = (
    "It listens beyond this machine: everyone who reaches port {port} and knows the token can use it, and frames and "
    "token travel unencrypted. Put a proxy with TLS in front of it where the network is not yours alone."
)


def is_local(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_token(token: str | None, local: bool) -> str | None:
    """The token to ask for: the given one, or beyond localhost one that nobody can guess."""
    from robustmat.errors import ConfigError

    if token is None:
        return None if local else secrets.token_urlsafe(24)
    if len(token) < SHORTEST_TOKEN or not token.isascii() or any(letter.isspace() for letter in token):
        raise ConfigError(f"--token needs at least {SHORTEST_TOKEN} letters and digits without spaces")
    return token


def listen(host: str, port: int) -> socket.socket:
    """A socket, taken before anything is loaded: a port in use is said at once."""
    from robustmat.errors import ConfigError

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(256)
    except (OSError, OverflowError) as problem:
        found.close()
        reason = getattr(problem, "strerror", None) or str(problem)
        raise ConfigError(f"cannot listen on {host} port {port}: {reason}; choose another --port or --host") from None
    return found
