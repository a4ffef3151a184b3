"""Looks of a town: light, sky, season and sensor of one day.

A look never moves anything: landmarks keep their places and identities under all of them.
"""

from dataclasses import dataclass, field

import numpy as np

from robustmat.errors import ConfigError
from robustmat.simulation.scene import Rgb
from robustmat.types import Array


@dataclass(frozen=True)
class Look:
    """One kind of day. Colours are gains or RGB in 0..1, angles in degrees."""

    name: str
    sun_azimuth: float  # from east, counter-clockwise
    sun_elevation: float
    sun: Rgb  # gain of direct light on a surface that faces the sun
    ambient: Rgb  # gain of light from the sky
    sky_top: Rgb
    sky_bottom: Rgb
    clouds: float = 0.3  # share of the sky that is covered
    cloud: Rgb = (0.97, 0.97, 0.97)
    leaves: str = "summer"  # summer, autumn, bare
    snow: float = 0.0  # how much of the ground is white
    wet: float = 0.0  # how dark and shiny the road is
    haze: Rgb = (0.75, 0.80, 0.86)
    haze_distance: float = 260.0  # metres to 63 % haze
    lit_windows: float = 0.0
    lamps: float = 0.0  # own light of street lamps and head lights
    noise: float = 2.2  # of the sensor, in grey levels
    blur: float = 0.45  # of the lens, in pixels
    contrast: float = 1.0
    saturation: float = 1.0
    exposures: tuple[float, float] = field(default=(0.94, 1.06))

    @property
    def toward_sun(self) -> Array:
        azimuth, elevation = np.radians(self.sun_azimuth), np.radians(self.sun_elevation)
        flat = np.cos(elevation)
        return np.array([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)])

    @property
    def has_shadows(self) -> bool:
        return max(self.sun) > 0.15


LOOKS: dict[str, Look] = {
    look.name: look
    for look in (
        Look(
            "noon",
            sun_azimuth=235,
            sun_elevation=56,
            sun=(1.08, 1.03, 0.92),
            ambient=(0.44, 0.47, 0.53),
            sky_top=(0.24, 0.47, 0.83),
            sky_bottom=(0.80, 0.90, 0.97),
            clouds=0.35,
            contrast=1.08,
        ),
        Look(
            "overcast",
            sun_azimuth=235,
            sun_elevation=55,
            sun=(0.06, 0.06, 0.06),
            ambient=(0.80, 0.82, 0.85),
            sky_top=(0.80, 0.82, 0.85),
            sky_bottom=(0.95, 0.95, 0.95),
            clouds=0.9,
            cloud=(0.86, 0.87, 0.89),
            haze=(0.86, 0.87, 0.88),
            haze_distance=170.0,
            wet=0.15,
            noise=2.8,
            saturation=0.8,
        ),
        Look(
            "evening",
            sun_azimuth=165,
            sun_elevation=17,
            sun=(1.15, 0.80, 0.45),
            ambient=(0.40, 0.40, 0.46),
            sky_top=(0.36, 0.48, 0.72),
            sky_bottom=(1.0, 0.84, 0.62),
            clouds=0.4,
            cloud=(1.0, 0.86, 0.72),
            haze=(0.93, 0.79, 0.63),
            haze_distance=200.0,
            lit_windows=0.08,
            noise=3.0,
            contrast=1.05,
        ),
        Look(
            "autumn",
            sun_azimuth=290,
            sun_elevation=36,
            sun=(1.02, 0.92, 0.72),
            ambient=(0.44, 0.46, 0.51),
            sky_top=(0.33, 0.55, 0.86),
            sky_bottom=(0.88, 0.93, 0.97),
            clouds=0.15,
            leaves="autumn",
            haze=(0.84, 0.83, 0.80),
            haze_distance=180.0,
        ),
        Look(
            "winter",
            sun_azimuth=255,
            sun_elevation=18,
            sun=(0.26, 0.25, 0.23),
            ambient=(0.72, 0.75, 0.81),
            sky_top=(0.74, 0.79, 0.86),
            sky_bottom=(0.93, 0.94, 0.96),
            clouds=0.7,
            cloud=(0.90, 0.91, 0.93),
            leaves="bare",
            snow=0.75,
            wet=0.25,
            haze=(0.88, 0.90, 0.93),
            haze_distance=120.0,
            noise=2.6,
            saturation=0.85,
        ),
        Look(
            "dusk",
            sun_azimuth=180,
            sun_elevation=8,
            sun=(0.03, 0.02, 0.02),
            ambient=(0.36, 0.40, 0.50),
            sky_top=(0.13, 0.20, 0.38),
            sky_bottom=(0.62, 0.50, 0.48),
            clouds=0.45,
            cloud=(0.34, 0.33, 0.42),
            haze=(0.34, 0.36, 0.44),
            haze_distance=160.0,
            lit_windows=0.4,
            lamps=1.0,
            noise=6.0,
            blur=0.6,
            exposures=(0.9, 1.15),
        ),
    )
}


def find_look(name: str) -> Look:
    if name not in LOOKS:
        raise ConfigError(f"unknown look {name!r}: choose one of {', '.join(LOOKS)}")
    return LOOKS[name]
