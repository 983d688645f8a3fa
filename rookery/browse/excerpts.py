"""Running text cut into excerpts of whole sentences. It knows nothing of what they are for."""

from rookery.browse.passages import sentences
from rookery.records import Page


def excerpts(text: str, least: int, most: int) -> list[str]:
    """Neighbouring runs of whole sentences, in order, each as long as it can be: from `least` to
    `most` words. A sentence with more words is left out, and so is what is too short beside it.

    Raises ValueError where `least` is more than `most`, or no word at all.
    """
    if not 1 <= least <= most:
        raise ValueError(f"an excerpt cannot have from {least} to {most} words")
    found: list[str] = []
    start, end, words = 0, 0, 0
    for low, high in [*sentences(Page("", "", text), 0, len(text)), (len(text), len(text))]:
        count = len(text[low:high].split()) or most + 1  # what is no sentence ends the last run
        if words + count > most:
            if words >= least:
                found.append(text[start:end])
            words = 0
        if count <= most:
            start = start if words else low
            end, words = high, words + count
    return found
