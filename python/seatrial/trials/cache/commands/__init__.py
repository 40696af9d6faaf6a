"""``seatrial cache`` and its commands."""
