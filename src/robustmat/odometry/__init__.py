"""How the camera moved along a drive, assisted by matched landmarks, and tracks of those landmarks.

`run.py` is the whole flow on one page.
"""
