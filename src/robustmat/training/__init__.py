"""Losses, the training run and its checkpoints."""
