"""What can be put on trial: one folder a topic, with all of its parts inside."""
