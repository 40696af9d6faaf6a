"""What this machine is rented as."""
