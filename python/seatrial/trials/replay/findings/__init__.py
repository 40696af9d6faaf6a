"""Replays: what is wrong, and why; one file for each kind of finding."""
