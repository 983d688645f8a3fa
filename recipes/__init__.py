"""The four papers, each reproduced end to end by one recipe (`python -m recipes.NAME SIZE`)."""
