"""Experiments that run many things: timings (`bench_*`) and, later, the paper's tables."""
