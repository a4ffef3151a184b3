"""What a server allows: one frozen value that every part reads."""

from dataclasses import dataclass

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Settings:
    """Limits and secrets of one server. Sizes are bytes unless their name says pixels."""

    checkpoint: str = "street"
    runtime: str = "auto"
    token: str | None = None
    hosts: tuple[str, ...] | None = LOCAL_HOSTS  # names by which the server may be called; None allows any
    max_image_bytes: int = 12_000_000
    max_boxes_bytes: int = 500_000
    max_pixels: int = 16_000_000
    max_perturbed_pixels: int = 4_000_000  # weather works on many copies of an image
    max_landmarks: int = 200  # in each frame
    queue: int = 8  # requests that may be at work or waiting
    workers: int = 1
    seconds: float = 30.0  # after that a request is given up

    @property
    def max_body_bytes(self) -> int:
        """Of a whole request: two images and two box files, base64 in JSON at worst."""
        return 2 * (self.max_image_bytes * 4 // 3 + self.max_boxes_bytes) + 100_000
