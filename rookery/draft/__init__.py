"""Answers: retrieval of passages, methods and models that write, choice of the best, declining."""
