"""Quotes, ranked passages and citations; every quote is a slice of a stored page."""
