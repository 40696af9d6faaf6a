"""Builds, describes, breaks and removes layouts: arrays with their file systems."""
