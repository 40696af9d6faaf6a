"""Dated facts of volumes, instances and drives, with the user's own figures above them."""
