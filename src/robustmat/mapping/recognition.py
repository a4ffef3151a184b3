"""Which keyframes a frame is compared with, from the cheapest look to the dearest.

    proposed   by votes of landmarks and by what the whole frame looks like: one search
    glanced    keypoints of known place, where the map keeps some: one PnP a keyframe
    matched    landmark by landmark, the best few of those, then the keyframes around the best

With evidence `scene` all of this goes by `placement`, which costs a tenth; `settled` matches those that make the answer
once more, with everything that is known.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from robustmat.mapping.answers import Candidate, KeyframeInfo, apart
from robustmat.mapping.place_model import PlaceModel, features_of
from robustmat.mapping.pose import Observations, estimate_pose, ground_prior, observe
from robustmat.mapping.scene import ScenePose, scene_pose
from robustmat.matching.combined import VIEW
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.types import Camera, MatchResult

BY_VOTES = 8  # places that votes propose
BY_LOOK = 10  # places that look alike as a whole, where the map keeps keypoints
MATCHED = 5  # of those with keypoints, how many are matched landmark by landmark
AROUND = 3  # further keyframes around the best of them
FARTHEST_SCENE = 30.0  # metres from a keyframe that its keypoints can tell a pose
ONE_PLACE = 10.0  # metres; candidates nearer to each other say the same
KEYPOINTS = VIEW + "keypoint"  # begins the names of arrays that `scene` needs

Remembered = tuple[KeyframeInfo, EmbeddedFrame]


@dataclass(frozen=True)
class Recogniser:
    """Compares frames with keyframes of one map.

    Args:
        keyframes: by name, all of the map.
        read: what is remembered of some of them.
    """

    matcher: Matcher
    model: PlaceModel
    keyframes: Mapping[str, KeyframeInfo]
    read: Callable[[Sequence[str]], list[Remembered]]

    def candidates(
        self,
        frame: EmbeddedFrame,
        camera: Camera | None,
        votes: Mapping[str, float],
        alike: Sequence[str] = (),
        also: Sequence[str] = (),
    ) -> list[Candidate]:
        """The keyframes that were matched with the frame.

        Args:
            votes: of the frame's landmarks, by keyframe.
            alike: keyframes that look alike as a whole, most alike first.
            also: keyframes that are likely for other reasons.
        """
        quick = without_scene(frame)
        by_votes = sorted(votes, key=lambda name: (-votes[name], name))
        spread = [*self._spread_out(by_votes, BY_VOTES), *self._spread_out(alike, BY_LOOK)]
        chosen = list(dict.fromkeys([*spread, *also]))
        glances = [(one, self._glance(quick, one, camera)) for one in self.read(chosen)]
        if any(glance is not None for _, glance in glances):
            glances.sort(key=lambda pair: -self._promise(votes.get(pair[0][0].name, 0.0), pair[1]))
            glances = glances[:MATCHED]
        found = [self._match(quick, one, votes.get(one[0].name, 0.0), camera, glance) for one, glance in glances]
        if found:
            best = max(found, key=lambda one: one.log_ratio).keyframe
            near = [
                info for info in self.keyframes.values() if info.name not in chosen and apart(info, best) < ONE_PLACE
            ]
            near = sorted(near, key=lambda info: (apart(info, best), info.name))[:AROUND]
            for one in self.read([info.name for info in near]):
                votes_here = votes.get(one[0].name, 0.0)
                found.append(self._match(quick, one, votes_here, camera, self._glance(quick, one, camera)))
        return found

    def settled(self, frame: EmbeddedFrame, candidates: Sequence[Candidate], camera: Camera | None) -> list[Candidate]:
        """The same candidates, matched with all evidence; how likely they are stays as it was."""
        if without_scene(frame) is frame:
            return list(candidates)
        settled = []
        for one, remembered in zip(candidates, self.read([one.keyframe.name for one in candidates]), strict=True):
            result = self.matcher.match(frame, remembered[1])
            pose = None
            if camera is not None:
                prior = ground_prior(one.keyframe.T_world_camera)
                pose = estimate_pose(observed(result, one.keyframe, camera), camera, prior, least=2)
            settled.append(replace(one, result=result, pose=pose))
        return settled

    def _glance(self, frame: EmbeddedFrame, remembered: Remembered, camera: Camera | None) -> ScenePose | None:
        if camera is None:
            return None
        info, keyframe = remembered
        found = scene_pose(frame, keyframe, info.T_world_camera, camera)
        if found is None or np.linalg.norm(found.T_world_camera[:3, 3] - info.position) > FARTHEST_SCENE:
            return None
        return found

    def _match(
        self, frame: EmbeddedFrame, remembered: Remembered, votes: float, camera: Camera | None, scene: ScenePose | None
    ) -> Candidate:
        info, keyframe = remembered
        result = self.matcher.match(frame, keyframe)
        pose = None
        if camera is not None:
            pose = estimate_pose(observed(result, info, camera), camera, ground_prior(info.T_world_camera), least=2)
        features = features_of(votes, result, pose, 0 if scene is None else scene.inliers)
        return Candidate(info, result, pose, scene, features, float(self.model.log_ratio(features[None])[0]))

    def _promise(self, votes: float, scene: ScenePose | None) -> float:
        """How likely a keyframe is before it is matched."""
        features = features_of(votes, None, None, 0 if scene is None else scene.inliers)
        return float(self.model.log_ratio(features[None])[0])

    def _spread_out(self, names: Iterable[str], count: int) -> list[str]:
        """The first `count` keyframes that are not next to each other."""
        chosen: list[KeyframeInfo] = []
        for name in names:
            info = self.keyframes.get(name)
            if info is not None and all(apart(info, other) >= ONE_PLACE / 2 for other in chosen):
                chosen.append(info)
            if len(chosen) == count:
                break
        return [info.name for info in chosen]


def without_scene(frame: EmbeddedFrame) -> EmbeddedFrame:
    """The frame without what `scene` needs, which a matcher then matches by `placement`; itself, if it has none."""
    if not any(name.startswith(KEYPOINTS) for name in frame.arrays):
        return frame
    return replace(
        frame, arrays={name: array for name, array in frame.arrays.items() if not name.startswith(KEYPOINTS)}
    )


def observed(result: MatchResult, info: KeyframeInfo, camera: Camera) -> Observations:
    """What the matches of a frame with a keyframe say about the frame's pose."""
    seen = [(match.a, result.landmarks_a[match.a], result.landmarks_b[match.b]) for match in result.matches]
    return observe(seen, info.T_world_camera, info.camera, camera)
