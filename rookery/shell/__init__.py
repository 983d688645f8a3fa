"""Shared parts of pages and commands: rendering, languages, security, options, terminal output."""
