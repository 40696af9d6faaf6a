"""Targets, the guard that every write to them passes, and the undo journal."""
