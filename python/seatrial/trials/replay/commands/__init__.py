"""``seatrial sql`` and what is below it."""
