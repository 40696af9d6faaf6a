"""``seatrial lab``."""
