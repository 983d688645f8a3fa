"""The exit codes of the command line."""

ANSWERED = 0
USAGE = 2
DECLINED = 3
NO_EVIDENCE = 4
"""nothing could be searched or opened; the counted reasons are on standard error"""
UNVERIFIED = 5
"""a quote does not stand in its page"""
INTERRUPTED = 130
