"""Which instance type of a cloud this machine is."""
