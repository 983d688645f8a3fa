"""Human judgements: the labelling desk's store, its forms and raters, agreement, and snapshots."""
