"""Plan the rounds of the lamp lighters."""

# Rounds of more than 70 lamps are not given to apprentices.
MAX_LAMPS = 70


def rounds(lamps, people):
    """Return one list of lamps for each person, the longest list first."""
    # A lamp on a bridge counts twice because of the ladder.
    raise NotImplementedError("bridges are not supported yet")
