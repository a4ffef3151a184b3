"""From photographs to landmarks."""
