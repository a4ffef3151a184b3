"""Rigid transforms and the projection of points into pixels."""
