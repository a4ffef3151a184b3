"""Noise taken off a frame before it is matched: the self-guided network SGN, and non-local means as the classic."""
