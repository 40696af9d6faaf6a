"""Turns each cell into a sample; never interprets."""
