"""The command line, web pages, HTTP API and MCP server."""
