"""The matcher protocol, kinds of evidence and one-to-one assignment: from embedded frames to matches."""
