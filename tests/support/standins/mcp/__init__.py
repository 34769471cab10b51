"""A stand-in for the SDK of MCP, which needs thirty other packages."""
