"""Measurements, as ratios within one run on one machine. Nothing here is a test: times never decide."""
