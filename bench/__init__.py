"""The figures: one script each, which prints a table and writes bench/results/NAME.json."""
