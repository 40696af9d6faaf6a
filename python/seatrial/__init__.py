"""Seatrial: sea trials for database storage."""
