"""What to buy or rent: limits, risk, price."""
