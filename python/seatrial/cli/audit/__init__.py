"""``seatrial audit``."""
