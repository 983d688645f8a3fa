"""The command line, and the text browser in a terminal."""
