"""Text as it is said, token by token."""

from hypothesis import given
from hypothesis import strategies as st

from rookery.learn.local_model import StreamedCompletion
from rookery.quotes.vocabulary import Vocabulary

BYTES = Vocabulary((*(bytes([byte]) for byte in range(256)), None), 256, 300)
END = 256


def stream_bytes(
    data: bytes, stops: tuple[str, ...] = (), limit: int = 10**6
) -> tuple[StreamedCompletion, list[str]]:
    """What is said byte by byte, then an end; and its pieces."""
    saying, pieces = StreamedCompletion(BYTES, {END}, stops, limit), []
    for token in (*data, END):
        if not saying.stop:
            saying.add(token, -1.0)
            pieces.append(saying.take_new_text())
    return saying, pieces


@given(st.text(), st.lists(st.text("abc", min_size=1, max_size=3)).map(tuple), st.text("abc"))
def test_the_pieces_are_the_text_before_the_first_stop(
    start: str, stops: tuple[str, ...], end: str
) -> None:
    whole = start.encode(errors="replace").decode() + end
    saying, pieces = stream_bytes(whole.encode(), stops)
    places = [whole.find(stop) + len(stop) for stop in stops if stop in whole]
    heard = whole[: min(places, default=len(whole))]
    cut = min([heard.find(stop) for stop in stops if stop in heard], default=len(heard))
    completion = saying.to_completion()
    assert completion.text == "".join(pieces) == heard[:cut]
    assert completion.stop == ("stop" if places else "end")
    assert len(completion.tokens) == len(completion.logprobs)
    assert completion.tokens == (*heard.encode(), *(() if places else (END,)))


@given(st.binary())
def test_no_piece_holds_part_of_a_character(data: bytes) -> None:
    _, pieces = stream_bytes(data)
    whole = data.decode(errors="replace")
    text = "".join(pieces)
    assert whole.startswith(text)
    assert whole[len(text) :].strip("\ufffd") == ""  # a character that never came to its end
    assert len(whole) - len(text) <= 1


def test_a_character_comes_when_it_is_whole() -> None:
    _, pieces = stream_bytes("é👩".encode())
    assert pieces == ["", "é", "", "", "", "👩", ""]


def test_the_beginning_of_a_stop_is_held_back_until_it_is_none() -> None:
    saying, pieces = stream_bytes(b"a\nQ\nQuestion: b", ("\nQuestion:",))
    assert "".join(pieces) == saying.to_completion().text == "a\nQ"
    assert pieces[:5] == ["a", "", "", "\nQ", ""]
    assert saying.stop == "stop"


def test_it_ends_at_its_limit_and_gives_what_was_held_back() -> None:
    saying, pieces = stream_bytes(b"abcd", ("cx",), limit=3)
    assert (saying.to_completion().text, pieces, saying.stop) == ("abc", ["a", "b", "c"], "length")
    saying, pieces = stream_bytes("aé".encode(), limit=2)
    assert (saying.to_completion().text, saying.stop) == ("a", "length")
    assert stream_bytes(b"ab", limit=3)[0].stop == "end"
    assert stream_bytes(b"ab", ("b",), limit=2)[0].stop == "stop"
