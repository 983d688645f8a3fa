"""The HTTP API: questions, answers and searches, in the protocols that clients speak already."""
