"""The server: pages for readers, the HTTP API, MCP and the environment server."""
