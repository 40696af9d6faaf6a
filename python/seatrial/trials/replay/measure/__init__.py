"""Replays: how a cell is measured."""
