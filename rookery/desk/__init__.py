"""The labelling desk: people's judgements, their forms, hand-out, quality, pages and commands."""
