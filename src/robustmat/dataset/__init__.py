"""The landmark data set on disk, what is prepared into it and what is drawn from it."""
