"""Work for requests: a few at once, a few waiting, each for a limited time and only while somebody waits for it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from fastapi import Request

from robustmat.web.problems import HttpError

StillWanted = Callable[[], None]  # called between steps of the work; raises `AbandonedError` once nobody waits any more
Result = TypeVar("Result")

LOOK_EVERY = 0.1  # seconds between looks whether the client is still there


class AbandonedError(Exception):
    """The client left, or its time is over."""


def busy() -> HttpError:
    return HttpError(503, "busy: too many requests at once; try again in a second", {"Retry-After": "1"})


class Slot:
    """A place in the queue. Work that was given up holds its place until it has really stopped."""

    def __init__(self) -> None:
        self.work: Future[object] | None = None


class JobQueue:
    """Runs work in threads.

    Args:
        limit: requests that may be at work or waiting; one more is told to come back.
        workers: threads.
        seconds: after which a request is given up.
    """

    def __init__(self, limit: int, workers: int, seconds: float) -> None:
        self.limit, self.seconds = limit, seconds
        self.taken = 0
        self.pool = ThreadPoolExecutor(workers, thread_name_prefix="robustmat-work")

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Slot]:
        """A place, taken before the request's body is read: a crowd costs no memory."""
        if self.taken >= self.limit:
            raise busy()
        self.taken += 1
        slot = Slot()
        loop = asyncio.get_running_loop()
        try:
            yield slot
        finally:
            if slot.work is None or slot.work.done():
                self._leave()
            else:
                slot.work.add_done_callback(lambda _: loop.call_soon_threadsafe(self._leave))

    def _leave(self) -> None:
        self.taken -= 1

    async def run(self, slot: Slot, request: Request, work: Callable[[StillWanted], Result]) -> Result:
        """The result of `work`, or a problem: too slow, or the client is gone."""
        given_up = False

        def still_wanted() -> None:
            if given_up:
                raise AbandonedError

        end = time.monotonic() + self.seconds
        running = self.pool.submit(work, still_wanted)
        slot.work = running  # type: ignore[assignment]
        waiting = asyncio.wrap_future(running)
        try:
            while True:
                done, _ = await asyncio.wait({waiting}, timeout=LOOK_EVERY)
                if done:
                    return waiting.result()
                if time.monotonic() > end and not running.running():
                    raise busy()
                if time.monotonic() > end:
                    raise HttpError(
                        504, f"this took longer than {self.seconds:g} s: send fewer landmarks, or try again"
                    )
                if await request.is_disconnected():
                    raise HttpError(408, "the client went away")
        finally:
            if not waiting.done():
                given_up = True
                waiting.cancel()

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)
