"""Quotes: found, verified, linked to, written in two syntaxes, and constrained to be verbatim."""
