"""Evidence: figures that anyone can run again. Nothing here yet."""
