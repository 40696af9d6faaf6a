"""What samples on layouts say: what an array write costs, what more drives give, what breaks."""
