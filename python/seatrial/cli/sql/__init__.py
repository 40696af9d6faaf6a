"""``seatrial sql``: logs of servers read, captured, shown, played again, compared."""
