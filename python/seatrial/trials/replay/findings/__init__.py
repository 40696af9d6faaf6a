"""Findings on replays, one file for each kind."""
