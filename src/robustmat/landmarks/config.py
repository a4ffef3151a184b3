"""Every limit by which landmarks are found, placed and told apart, with the reason for its value.

The values were set on two KITTI drives and then held to simulated towns and to hand-made CamVid masks. They
are pixels of a 1242 x 375 frame and metres; a camera that sees twice as many pixels may want larger ones.
"""

from pydantic import Field

from robustmat.config import Config
from robustmat.geometry.registration import RegistrationConfig

Size = tuple[int, int, int]  # smallest width, height and number of pixels


class RegionConfig(Config):
    """Which connected pixels of one class are one object."""

    # What is smaller shows nothing to match. A pole is judged by its height: three pixels is what one 25 m away spans.
    smallest_pole: Size = (3, 18, 40)
    smallest_traffic_light: Size = (4, 7, 25)
    smallest_traffic_sign: Size = (7, 7, 50)
    smallest_window: Size = (8, 8, 80)
    # Share of its convex hull that a region fills. Boards and lamps are convex; what a segmentation takes for signs
    # in treetops and on facades is ragged.
    solidity_traffic_light: float = 0.7
    solidity_traffic_sign: float = 0.8
    solidity_window: float = 0.8
    # Poles that overlap in the image merge into one region with a wrong box. As in the paper they are left out: such
    # a region is broad for its height, or shows two runs of pixels, or a far broader one, in many rows.
    pole_aspect: float = 2.0  # height over width, at least
    pole_odd_rows: float = 0.25  # share of rows, at most
    pole_broad: float = 2.5  # times the usual width of the region's rows

    def smallest(self, category: str) -> Size:
        size: Size = getattr(self, f"smallest_{category}")
        return size

    def solidity(self, category: str) -> float:
        return float(getattr(self, f"solidity_{category}"))


class MapConfig(Config):
    """How scans become the reference map."""

    voxel: float = Field(default=0.08, gt=0)  # metres: finer than a thin pole, coarser than LiDAR noise
    reach: float = Field(default=50.0, gt=0)  # metres from the sensor; farther beams are too sparse for a thin pole
    tile: float = Field(default=16.0, gt=0)  # metres; what a frame needs of the map is looked up by tiles
    movable_margin: int = 2  # pixels around what may drive away; masks and calibration are no better
    scans_a_part: int = Field(default=40, gt=0)  # scans are merged, and kept if `prepare` is killed, by so many


class PositionConfig(Config):
    """How a region's object is placed by the map's points in it."""

    farthest: float = 80.0  # metres; farther objects are a few pixels wide
    slack: int = 1  # pixels around a mask: calibration and masks are no better, and a far pole is three pixels wide
    fewest_points: int = 5
    smallest_share: float = 0.15  # of the points in the region, for a depth cluster to be the object
    depth_gap: float = 0.6  # metres between two depth clusters; a hundredth of the depth is added


class FacadeConfig(Config):
    """How the plane of a window's wall is found: glass returns few beams, the wall around it many."""

    surround: float = 0.8  # how far around the box, in box sizes
    fewest_pixels: int = 10  # but at least so far: a far window is small, and so is the wall between two
    most_points: int = 400  # of the wall, drawn at random: more make the plane no better
    tolerance: float = 0.12  # metres off the plane: plaster, frames, LiDAR noise and what poses add to it
    fewest_points: int = 12
    smallest_share: float = 0.3  # of the points around the window: trees and neighbours' walls may hold the rest
    tilt: float = 20.0  # degrees off the vertical, at most; streets climb, walls do not lean
    grazing: float = 4.0  # degrees between a ray and the wall; flatter ones meet it anywhere
    trials: int = 60

    def margin(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Pixels above and below, and on both sides, that belong to the surroundings of a mask of that shape."""
        rows, columns = (max(self.fewest_pixels, round(self.surround * side)) for side in shape)
        return rows, columns


class IdentityConfig(Config):
    """Which sightings are one object."""

    radius: float = 0.6  # metres between two sightings of one object; positions scatter by 0.03 to 0.13
    radius_window: float = 1.0  # a window that is cut off or half hidden shows another middle
    pole_height_weight: float = 0.1  # how much of a pole is seen, and so its mean height, changes with the frame
    fewest_frames: int = Field(default=3, ge=1)  # fewer are noise of the masks

    def cluster_radius(self, category: str) -> float:
        return self.radius_window if category == "window" else self.radius


class TrackConfig(Config):
    """When the box of the next frame continues a track."""

    def usual(self, category: str) -> float:
        return float(getattr(self, f"usual_{category}"))

    nearest: float = 2.0  # metres of depth
    farthest: float = 150.0
    depths: int = 160  # tried, evenly by their logarithm: 3 % apart
    memory: int = 12  # sightings of a track that a new one is held to
    longest_gap: int = 8  # frames without a sighting that a track outlives
    widest_gap: float = 10.0  # metres, likewise
    pixels: float = 1.2  # how exactly boxes are drawn
    bearing: float = 0.0015  # radians; how exactly poses know the direction from one frame to the next
    share: float = 0.06  # of the box's size, in addition
    log_size: float = 0.2  # of the logarithm of a width or height
    cap: float = 30.0  # squared residuals beyond this cost no more
    soft_cap: float = 9.0  # of sizes: a branch may hide half of an object
    lidar: float = 0.4  # metres
    lidar_wrong: float = 0.1  # how often LiDAR met something else
    worst: float = -6.0  # log likelihood of the best box, at least
    # Metres that widths of objects are around, and the spread of their logarithm: says roughly how far a box is.
    usual_pole: float = 0.25
    usual_traffic_light: float = 0.4
    usual_traffic_sign: float = 0.7
    usual_window: float = 1.3
    usual_spread: float = 0.7
    recency: float = 0.5  # of log likelihood that a box goes rather to a track seen one frame later
    constancy: float = 0.1  # likewise, to one with one more sighting
    margin: float = 2.0  # by which it is better than all others, and than for all other tracks


class PlaceConfig(Config):
    """When sightings are of one place."""

    beside: float = 0.00524  # radians (0.3 degrees) off a box its place may be seen: poses are no better
    agreeing: float = 0.8  # share of the sightings whose boxes the place must meet
    # A place by bearings that is known no better is none: metres, and share of the least distance, the larger.
    widest: float = 1.0
    widest_share: float = 0.08
    widest_of_all: float = 3.0  # but never worse than this
    fewest_positions: int = 2  # by LiDAR
    agreeing_positions: float = 0.5  # share of the LiDAR positions that are near one place
    pixels: float = 1.2
    bearing: float = 0.001
    share: float = 0.05
    agreeing_pieces: float = 0.9  # share of a piece's boxes that an object's place must meet
    size_ratio: float = 1.6  # between the widths of an object and of what is to join it
    overlap: float = 0.4  # of the shorter of two pieces of a pole, in height
    single_ratio: float = 1.4  # the same for a single sighting
    own_object: int = 10  # sightings of a piece that is an object of its own though it fits two others
    piece_distance: float = 6.0  # metres between the places of two pieces of one pole, at most
    way: float = 6.0  # metres from the cameras that saw an object to one whose sighting may join it
    way_against: float = 3.0  # where LiDAR puts that sighting elsewhere
    outlier: float = 2.0  # standard deviations from which a bearing counts less and less
    iterations: int = 10


class LandmarkConfig(Config):
    """All limits of `prepare`."""

    regions: RegionConfig = RegionConfig()
    poses: RegistrationConfig = RegistrationConfig()
    map: MapConfig = MapConfig()
    positions: PositionConfig = PositionConfig()
    facades: FacadeConfig = FacadeConfig()
    identities: IdentityConfig = IdentityConfig()
    tracks: TrackConfig = TrackConfig()
    places: PlaceConfig = PlaceConfig()


DEFAULT = LandmarkConfig()
