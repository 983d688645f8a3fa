"""Language models: clients of servers, scripts and recordings, and constrained decoding."""
