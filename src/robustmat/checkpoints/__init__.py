"""Trained weights on disk, the shipped ones among them, and the one way to load a matcher."""
