"""Arrays: its part of the study file, its cells and their cost."""
