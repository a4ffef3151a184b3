"""`robustmat serve`: one page to see matches, and the same as a REST interface.

    settings -> guard (who may ask) -> jobs (how much at once) -> uploads (what was sent) -> service (what is computed)

`app.py` puts these together. The server keeps nothing: every request brings its frames along, they stay in memory, and
they are gone with the answer.
"""
