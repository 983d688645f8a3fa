"""The network: safe and polite fetching, and rendering of pages that need a browser."""
