"""``seatrial db``."""
