"""From label maps, box files and LiDAR to landmarks: boxes, positions, identities."""
