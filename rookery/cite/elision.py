"""Quotations that leave words out, and the words, numbers and names that decide what may be left.

An ellipsis can turn a sentence into its opposite: "The drug does ... cure" may stand on a page that
says "does not cure". So a quotation with a gap is never the same as a verbatim one: `find_pieces`
says where its pieces stand and what is left out between them, and `find_objection` says why what is
left out may matter. Its lists of words are English; of any other language it objects.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from rookery.browse.fold import Folded, fold
from rookery.browse.locate import folded_spans, locate
from rookery.browse.words import QUESTION_WORDS, reads_as_english
from rookery.records import Page, Quote

LEAST_WORDS = 3
"""whole words of a quote that say something, and of each piece of one with gaps"""
LEAST_LETTERS = 6
"""the same in scripts that set no spaces between words"""
OCCURRENCES = 1000
"""places of a first piece that are tried, so that no text is slow"""
NEAR = 2000
"""characters to either side by which the language of a page is told"""
GAPS = 50
"""in one quotation, at most, for the same reason"""

_DOTS = r"(?>(?:[…⋯‥]|\.(?:[ \u00a0]?\.){2,})+)"  # atomic, so that no text is slow
ELLIPSIS = re.compile(
    rf"([\[(<{{]\s*+(?:{_DOTS}|\.\.|snip|omitted)\s*+[\])>}}]|{_DOTS})", re.IGNORECASE
)
_WORD = re.compile(r"[^\W_]+(?:['.,·-][^\W_]+)*")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
_PLAIN = re.compile(r"[A-Za-z\s.,;:'()/-]*")
"""what may be left out besides words: no sign such as ≠, no number, no question, no quotation"""
_SENTENCE_START = re.compile(r"(?:\A|[.!?:…\n\t])[\s\"'(\[*_-]*\Z")

NUMBER_WORDS = frozenset(
    """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
    hundred hundreds thousand thousands million millions billion billions trillion trillions dozen
    dozens half halves third thirds quarter quarters fifth sixth seventh eighth ninth tenth single
    double triple twice thrice once first second pair both percent percentage""".split()
)
LIMITING_WORDS = frozenset(
    """not no never none nor neither nobody nothing nowhere without cannot cant dont doesnt didnt
    isnt arent wasnt werent wont wouldnt couldnt shouldnt hasnt havent hadnt aint hardly scarcely
    barely rarely seldom little few fewer less least almost nearly partly sometimes occasionally
    only merely unless until except excepting excluding but however although though yet despite if
    whether or may might could would should perhaps possibly probably maybe instead rather than
    against zero absent absence anything anyone anybody anywhere any ever false falsely myth myths
    hoax rumour rumor rumours rumors legend fiction fictional wrong wrongly incorrect incorrectly
    impossible impossibly improbable incapable inability ineffective insufficient invalid illegal
    implausible inconclusive inaccurate inactive irrelevant irrespective contrary opposite reverse
    former formerly once ex so-called some most many more fewest mostly mainly largely
    nicht kein keine keinen nie niemals ohne weder pas jamais sans aucun aucune ni sin nunca nada
    senza mai sem niet geen nooit zonder ikke inte aldrig utan nem bez ei ne non""".split()
)
"""deny, doubt or limit what stands round them; those of other languages stand in English, too"""
LIMITING_STEMS = re.compile(
    r"(?:fail|lack|den(?:y|ie)|refus|reject|refut|disput|doubt|prevent|avoid|stop|ceas|exclu|"
    r"allege|suppos|purport|claim|pretend|preten[cs]|retract|withdr[ae]w|quit|halt|abandon|"
    r"contradict|debunk|forbid|forbad|prohibit|bann|lost|los[eti]|miss|miscon|mista|mislead|misled|"
    r"wrong|unable|unlike|untru|never|hypoth|imagin|believ|thought|said|seem|appear|suggest)"
    r"|\w+n't\Z|\w+less(?:ly)?\Z|(?:un(?!der|it|i[oqv]|cle|til)|non|dis(?!tan|cuss|tri|play|h|k|c\b)|"
    r"mis(?!s\b)|anti|counter)\w{3,}"
)
"""words that deny or report, by how they begin or end"""


def find_pieces(page: Page, text: str) -> tuple[Quote, ...]:
    """The quotes of the page that a quotation consists of; empty where it does not stand there.

    One quote where the whole stands there, an ellipsis of the page's own included, or where the
    ellipsis is at an edge. Otherwise one for each piece between ellipses, in the order of the page;
    of several places the one that leaves out least.
    """
    folded = fold(page.text)
    if whole := locate(page, text, folded=folded):
        return (whole,)
    if len(ELLIPSIS.findall(text)) > GAPS:
        return ()
    pieces = _split(folded, text)
    places = {piece: list(folded_spans(folded, piece, 0)) for piece in set(pieces)}
    found = [places[piece] for piece in pieces]
    if not found or not all(found):
        return ()
    chains = filter(None, (_chain(start, found[1:]) for start in found[0][:OCCURRENCES]))
    best = min(chains, key=lambda chain: chain[-1][1] - chain[0][0], default=[])
    return tuple(page.quote(*folded.source(*span)) for span in best)


def find_gaps(page: Page, quotes: Sequence[Quote]) -> tuple[str, ...]:
    """What the page has between the pieces of a quotation, in order."""
    gaps = [page.text[before.end : after.start] for before, after in pairwise(quotes)]
    return tuple(gap.strip() for gap in gaps)


def find_objection(page: Page, quotes: Sequence[Quote]) -> str:
    """Why the gaps of a quotation may change its meaning, in one sentence; empty where none does.

    No objection is raised where each piece has LEAST_WORDS words and cuts none, each gap lies
    inside one visible block, the page reads as English there, and what is left out holds plain
    words only: no negation or other word that limits or reports, no number, no name and no sign.
    What is doubtful is objected to.
    """
    for quote in quotes:
        if len(find_whole_words(page.text, quote.start, quote.end)) < LEAST_WORDS:
            return f"the piece “{quote.text}” has fewer than {LEAST_WORDS} whole words"
        if any(_cuts_a_word(page.text, at) for at in (quote.start, quote.end)):
            return f"the piece “{quote.text}” begins or ends inside a word"
    for before, after in pairwise(quotes):
        if objection := _objection(page, before.end, after.start):
            return objection
    return ""


def find_whole_words(text: str, start: int, end: int) -> list[str]:
    """The words in text[start:end] of which no part lies outside of it."""
    low, high = max(0, start - 3), end + 3
    return [
        text[low + found.start() : low + found.end()]
        for found in _WORD.finditer(_spelt(text[low:high]))
        if low + found.start() >= start and low + found.end() <= end
    ]


def is_too_short(text: str, start: int, end: int) -> bool:
    """Whether text[start:end] says too little: fewer than three whole words, no number or name."""
    words = find_whole_words(text, start, end)
    if len(words) >= LEAST_WORDS or len(_UNSPACED.findall(text[start:end])) >= LEAST_LETTERS:
        return False
    if any(_is_number(word) for word in words):
        return False
    at = start
    for word in words:
        at = text.index(word, at)
        if _is_name(word) and (not _begins_a_sentence(text, at) or _is_named_elsewhere(text, word)):
            return False
        at += len(word)
    return True


def _split(folded: Folded, text: str) -> list[str]:
    """The folded pieces between ellipses; an ellipsis that the page has, too, divides nothing."""
    raw: list[str] = []
    parts = ELLIPSIS.split(text)
    for mark, part in zip(["", *parts[1::2]], parts[::2], strict=True):
        if not fold(part).text.strip():
            continue
        joined = f"{raw[-1]}{mark}{part}" if raw else ""
        if joined and fold(joined).text.strip() in folded.text:
            raw[-1] = joined
        else:
            raw.append(part)
    return [fold(piece).text.strip() for piece in raw]


def _chain(start: tuple[int, int], later: Sequence[list[tuple[int, int]]]) -> list[tuple[int, int]]:
    """A span of each piece, each the first after the one before; empty where one is missing."""
    chain = [start]
    for spans in later:
        at = bisect_left(spans, (chain[-1][1], 0))
        if at == len(spans):
            return []
        chain.append(spans[at])
    return chain


def _objection(page: Page, start: int, end: int) -> str:
    """Why leaving out page.text[start:end] may change the meaning."""
    at = bisect_left(page.blocks, end, key=lambda block: block.end)
    block = page.blocks[at] if at < len(page.blocks) else None
    if block is None or block.start > start or block.hidden:
        return "what is left out does not lie inside one paragraph"
    if not reads_as_english(page.text[max(0, start - NEAR) : end + NEAR]):
        return "the page does not read as English, and no other negations are known"
    left_out = _spelt(page.text[start:end])
    if not _PLAIN.fullmatch(left_out):
        return _sign_or_number(left_out)
    for found in _WORD.finditer(left_out):
        word = found[0].casefold()
        for part in {word, *re.split(r"[-'.,]", word)}:
            if part in NUMBER_WORDS:
                return f"what is left out holds the number “{found[0]}”"
            if part in LIMITING_WORDS or LIMITING_STEMS.match(part):
                return f"“{found[0]}”, which is left out, may change the meaning"
        capital = any(map(str.isupper, found[0]))
        if capital and not _opens_a_sentence(page.text, start + found.start(), found[0]):
            return f"“{found[0]}”, which is left out, may be a name"
    return ""


def _sign_or_number(left_out: str) -> str:
    if any(character.isnumeric() for character in left_out):
        return "what is left out holds a number"
    sign = next(character for character in left_out if not _PLAIN.fullmatch(character))
    return f"what is left out holds “{sign}”, which may change the meaning"


_OPENING_WORDS = frozenset(
    """a an the and of in on at to by for from with as into this that these those there their then
    they it its is are was were when where while he she we you his her our my such after before
    since during because""".split()
)
"""begin sentences with a capital and are no names; "will" and "may" are not among them"""


def _opens_a_sentence(text: str, at: int, word: str) -> bool:
    """Tell whether the capital of a common word is only that of a sentence's first word."""
    common = word == word.capitalize() and word.casefold() in _OPENING_WORDS
    return word == "I" or (common and _begins_a_sentence(text, at))


def _begins_a_sentence(text: str, at: int) -> bool:
    return _SENTENCE_START.search(text[max(0, at - 20) : at]) is not None


def _cuts_a_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and _WORD.fullmatch(_spelt(text[at - 1 : at + 1])) is not None


def _is_number(word: str) -> bool:
    plain = word.casefold().split("-")
    return any(map(str.isnumeric, word)) or not NUMBER_WORDS.isdisjoint(plain)


def _is_name(word: str) -> bool:
    return any(map(str.isupper, word)) and word.casefold() not in QUESTION_WORDS


def _is_named_elsewhere(text: str, word: str) -> bool:
    """Tell whether the word has its capital inside a sentence, too."""
    return re.search(rf"(?<=[a-z,] ){re.escape(word)}\b", text) is not None


def _spelt(text: str) -> str:
    """The text with combining marks as letters and one apostrophe and dash, of the same length."""
    if text.isascii():
        return text
    text = text.translate(_ONE_SPELLING)
    return "".join("m" if unicodedata.category(c)[0] == "M" else c for c in text)


_ONE_SPELLING = str.maketrans(
    dict.fromkeys("‘’‛ʼ＇", "'") | dict.fromkeys("‐‑‒–—−", "-") | dict.fromkeys("\u00ad\u200b", "-")
)
