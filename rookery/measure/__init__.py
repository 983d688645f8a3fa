"""Evidence: figures that anyone can run again. It knows nothing of how answers are shown."""
