"""Hazards, reported before anything runs: bounds, races, barriers, unseen indices."""
