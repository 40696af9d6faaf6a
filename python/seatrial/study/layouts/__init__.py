"""Layouts in a study: targets that are built, of what drives, broken how, at what cost."""
