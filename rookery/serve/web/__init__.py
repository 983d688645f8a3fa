"""The desk's pages: server-rendered, complete without scripts. What is meant is in `judge`."""
