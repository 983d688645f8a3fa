"""People and programs: what they read and call."""
