"""Documents, shapes and vocabularies that the tests of the constraint share, and ways to write."""

from collections.abc import Sequence
from random import Random

from rookery.quotes.citation_syntax import AnswerShape
from rookery.quotes.constraint import DecodingState, VerbatimConstraint, VerbatimGrammar
from rookery.quotes.vocabulary import Vocabulary

END = "<|endoftext|>"

KINDS = ["gpt2", "llama3", "greedy", "sentencepiece"]

Documents = Sequence[tuple[str, str]]

CROWS = "Crows are clever. The crow]% says “krähe”, [...] 100 % sure.\r\n"

ODD = "naïve 👩‍👩‍👧 e\u0301 é\u00a0x\u200b العربية 日本\u2028\x00\ufeff \\"

MARKS = r"C:\dir\]% %<z>%(t)%[q]% ::= %ignore <|endoftext|> end\\"

RUN = "aaaaaaaaaaa []]% aa"

DOCUMENTS = (
    ("Crows", CROWS),
    ("Crows (birds)", ODD),
    ("a)%[b\\", MARKS),
    ("Crows", RUN),
    ("Void", ""),
    ("Short", "abcd"),
)

TINY = (*((title, text[:13]) for title, text in DOCUMENTS), ("J", "ab[...]cd%e━f"))

SHAPES = {
    "claim": AnswerShape(),
    "short quotes": AnswerShape(shortest=1, longest=12),
    "answer": AnswerShape(form="answer", shortest=3, longest=40),
    "quote": AnswerShape(form="quote"),
    "joined claim": AnswerShape(shortest=2, longest=7, fragments=2),
    "joined answer": AnswerShape(form="answer", shortest=2, longest=7, fragments=3),
    "start and end": AnswerShape(form="quote", shortest=2, longest=8, fragments=2, join="━"),
}


def lines() -> list[str]:
    """What the vocabularies are made from: much of it inline answers, so that tokens run across
    marks."""
    made = ["[The [Crows (Crows", "foo]%bar [x]% ]] .[", "foo[...]bar", "a━b ━c"]
    for title, text in DOCUMENTS * 3:
        made += [text, f"%<{text[:9]}.>%({title})%[{text[3:17]}.]%", f"{title} said.", text[2:]]
    return made


def plain(*tokens: bytes, without: str = "") -> Vocabulary:
    """All bytes but some, these tokens, and an end."""
    lacking = without.encode()
    single = [bytes([byte]) for byte in range(256) if byte not in lacking]
    return Vocabulary((*single, *tokens, None), len(single) + len(tokens), 400 + len(tokens))


def chosen(state: DecodingState, vocabulary: Vocabulary, random: Random) -> int:
    """A random token, more often than not one that comes to an end some time."""
    ids: list[int] = state.find_allowed_ids().tolist()
    if vocabulary.end in ids and random.random() < 0.3:
        return vocabulary.end
    marks = [n for n in ids if set(vocabulary.tokens[n] or b"") & set(b">%()[]\\<")]
    return random.choice(marks if marks and random.random() < 0.3 else ids)


def walk(state: DecodingState, vocabulary: Vocabulary, random: Random) -> bytes:
    """One answer, written at random."""
    said = []
    while not state.done:
        said.append(chosen(state, vocabulary, random))
        state = state.append_token(said[-1])
    return vocabulary.decode(said)


def tokens(state: DecodingState, vocabulary: Vocabulary) -> set[bytes]:
    """What may come next, in bytes."""
    return {vocabulary.tokens[n] or END.encode() for n in state.find_allowed_ids().tolist()}


def may(grammar: VerbatimGrammar, documents: Documents, text: str) -> bool:
    """Whether this may be written and be whole."""
    try:
        state = VerbatimConstraint(grammar, documents).start_decoding(text)
    except ValueError:
        return False
    return grammar.vocabulary.end in state.find_allowed_ids()
