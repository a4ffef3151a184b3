"""Timings: seconds and memory, here and now."""
