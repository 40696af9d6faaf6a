"""Layouts in a study: arrays that are built as targets, their drives, faults and cost."""
