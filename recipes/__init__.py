"""The four papers, each as one composition of the rooms (`python -m recipes.NAME SIZE`)."""
