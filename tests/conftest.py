"""Settings for all tests."""

import os

# Two workers on two cores: one thread each is faster than four threads fighting.
os.environ.setdefault("OMP_NUM_THREADS", "1")
