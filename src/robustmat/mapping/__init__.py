"""Landmark maps: build one from data sets, ask it where a frame was taken.

    data sets -> keyframes -> batches -> tables            build.py, keyframes.py, objects.py, store.py
    frame -> votes -> verified candidates -> a place       search.py, places.py, filtering.py
    place -> matched landmarks -> pose and covariance      locating.py, pose.py

`open_map` opens one; `LandmarkMap` answers.
"""
