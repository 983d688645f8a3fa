"""Quotes: found, ranked and verified, always as slices of stored pages."""
