"""The MCP server: search, a text browser, quotes, answers and their verification as tools."""
