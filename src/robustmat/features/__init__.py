"""What a model reads of a frame: patches, neighbourhood graphs, placements."""
