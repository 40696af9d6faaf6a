"""``seatrial layout``."""
