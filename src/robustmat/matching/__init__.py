"""Embed a frame, score a frame pair, pick one-to-one matches."""

from robustmat.matching.matcher import EmbeddedFrame, RobustMatcher, load

__all__ = ["EmbeddedFrame", "RobustMatcher", "load"]
