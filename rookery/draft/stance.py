"""Whether a sentence speaks for a claim or against it, as far as its words alone can tell.

English, by rules, and shy: only a sentence that says the claim again in the claim's own words, or
says in them that it is not so, takes a side. Knows no synonyms and no opposites ("bad" and "good"
are two words to it), and nothing of whether what a sentence says is true.
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from rookery.browse.fold import TYPOGRAPHY
from rookery.browse.words import question_terms, terms

Stance = Literal["for", "against", "neither"]


class Reading(NamedTuple):
    """A sentence of a page, and what stands round it there."""

    sentence: str
    before: str = ""
    """the sentence before it"""
    after: str = ""
    above: str = ""
    """the page's title and the headings over it"""


class Stem(NamedTuple):
    """A word without its ending, and the same without an un- before it."""

    plain: str
    turned: str

    def like(self, other: "Stem") -> bool:
        """Whether both are one word, or the one is the other with an un- before it."""
        return self.plain in other or other.plain == self.turned


LONGEST = 600
"""characters of a sentence that is judged: in a longer one too much can turn what is said"""
SPREAD = 3
"""words that may stand between two words of the claim, on average"""
FEWEST = 2
"""words of the claim that a sentence holds itself, where "it" or "they" stands for its subject"""
FEW = 4
"""words of an aside, such as "some say" or "or not\""""
HERE = "•"
"""what stands for a word of the claim while the words round it are read"""

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_QUOTED = re.compile(r"\"[^\"]*\"")
_BRACKETED = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_ASIDE = re.compile(
    r",\s*(?:(?:who|which|such as|including|like|unlike|especially|for example|for instance|however"
    r"|in fact|indeed|too|of course|it turns out)\b[^,]*),",
    re.I,
)
_OPENING = re.compile(
    r"\s*(?:(?:yes|no|well|indeed|actually|in fact|of course|fact|truth|but|and|so)\s*[,:]\s*"
    r"|(?:contrary to|despite|in spite of|against) (?:\w+ ){0,3}(?:belief|opinion|wisdom|myths?"
    r"|misconceptions?|thought|claims|rumou?rs|legend|folklore|superstition)\s*,\s*)",
    re.I,
)
_LABEL = re.compile(r"\s*(?:myth|misconception|fiction|false)\s*(?:#?\d+\s*)?[:-]\s*", re.I)
_CLAUSE = re.compile(
    r"[,;:.!?]+(?=\s|\Z)|\s-+\s|\b(?=(?:but|because|although|though|while|whereas|since|unless|when|if"
    r"|whether|which|who|whom|whose|yet)\b)",
    re.I,
)
_REASON = re.compile(r"(?:because|since|although|though|while|whereas|when)\b(?:\W+\w+){3}", re.I)
_PRONOUN = frozenset("it they he she these those this".split())

_DOUBT = (
    r"(?:myths?|misconceptions?|misbeliefs?|fallacy|fallacies|falsehoods?|hoax|false|untrue"
    r"|incorrect|inaccurate|mistaken(?:ly)?|wrong(?:ly)?|falsely|erroneous(?:ly)?|unfounded"
    r"|baseless|unsupported|bogus|nonsense"
    r"|superstitions?|pseudoscience|fiction|urban legends?|old wives'? tales?)"
)
_REFUTED = (
    r"(?:debunk|disprove|disproven|refute|discredit|dispel|disprov|invalidate)(?:ed|d|s|ing)?"
)
_TRUE = r"(?:true|so|correct|right|accurate|the case|a fact)"
_PROOF = r"(?:evidence|proof|basis|truth|indications?|signs?|support|grounds|foundation)"
_NOT = r"(?:not|never|no|hardly|neither|n't)"
_BE = r"(?:is|are|was|were|be|been|being|remains?|remained|'s)"
_IDEA = (
    r"(?:(?:the|a|this|that|any|popular|common|old) )*"
    r"(?:(?:idea|claim|belief|notion|theory|view|assumption|myth|hypothesis)s? )?"
)
_AMONG = (
    r"(?:(?:a|an|the|any|be|been|being|in|on|at|to|for|of|as|with|by|actually|really|ever|even"
    r"|at all|in fact|able to|known to|found to|shown to) )*"
)

# What a clause says of the claim, whose words are the dots. First what only sounds like a denial.
_AFFIRMED = re.compile(
    rf"\b{_NOT} (?:just |merely |simply |only |a |an |the |longer )*{_DOUBT}\b"
    rf"|\b(?:no|without(?: a)?|beyond) (?:doubt|question)\b|\bnot (?:only|just|merely|simply)\b"
    rf"|\bcannot be (?:denied|doubted|{_REFUTED})"
)
_DOUBTED = re.compile(
    rf"\b(?:no|little|insufficient|without|lacks|not|any)(?: \w+){{0,3}}? {_PROOF}\b"
    rf"(?=[^{HERE}]*\b(?:that|for|of|to|in|behind)\b[^{HERE}]*{HERE})"
    rf"|(?<!{HERE} )\b{_DOUBT} (?:{_BE} )?(?:that|to (?:say|think|believe|claim|assume) that|of)\b"
    rf"(?=[^{HERE}]*{HERE})"
    rf"|\b{_REFUTED} {_IDEA}(?:that |of )?(?=(?:the |a |an )?{HERE})"
    rf"|\b(?:reject(?:s|ed)?|rules? out|ruled out|contradict(?:s|ed)?) {_IDEA}that\b"
    rf"(?=[^{HERE}]*{HERE})"
    rf"|\b(?:{_NOT}|isn't|wasn't) (?:\w+ )?{_TRUE} (?:to (?:say|think|claim) )?that\b"
    rf"(?=[^{HERE}]*{HERE})"
    rf"|(?<={HERE} )(?:[^{HERE}]* )?(?:{_BE}|as) (?:\w+ ){{0,4}}?(?:{_DOUBT}|{_REFUTED})(?= |\Z)"
    rf"(?![^{HERE}]*{HERE})"
    rf"|(?<={HERE} )(?:has|have|had) (?:no|little|not any) (?:\w+ ){{0,2}}?{_PROOF}\b"
    rf"|(?<={HERE} )(?:{_BE} (?:\w+ly )?(?:not|never)|isn't|aren't|wasn't) (?:\w+ )?{_TRUE}(?= |\Z)"
)
_NEGATED = re.compile(
    r"\b(?:(?:do|does|did|is|are|was|were|can|could|will|has|have|had) )?"
    r"(?:not|never|cannot|hardly|scarcely|barely|rarely|seldom|(?:do|does|did|is|are|was|were|ca"
    r"|could|wo|has|have|had)n't) "
    rf"{_AMONG}(?={HERE})"
    rf"|\b(?:non|(?:fails?|failed|unable|powerless) to|incapable of) (?={HERE})"
)
_NONE = re.compile(
    rf"\A(?:no|not one|not a|not a single|none of the|neither) (?=(?:\w+ )?{HERE})"
    rf"|(?<={HERE} )(?:(?:{_BE}|has|have|had) )?no (?={HERE})"
)
_NEGATIVE = (
    r"\b(?:not|no|never|cannot|none|nobody|nothing|nowhere|neither|nor|without|hardly|scarcely"
    r"|barely|rarely|seldom|few|little|lacks?|lacked|lacking|fail(?:s|ed|ing)?|unable|incapable"
    r"|non|deny|denies|denied|contrary)\b|n't\b"
)
_NOT_SO = re.compile(r"\b(?:not|no|never|cannot|none|nobody|nothing|neither|nor)\b|n't\b")
_LINKS = (
    re.compile(rf"\b{_BE}(?:n't)?\b"),
    re.compile(r"\b(?:has|have|had|having)(?:n't)?\b"),
)
_BEING = frozenset("is are was were be been being".split())
_DOUBTS = (
    rf"\b(?:{_DOUBT}|{_REFUTED}|legends?|folklore|rumou?rs?|tales?|fables?|fairy"
    r"|it is (?:\w+ )?(?:said|written|told|believed|thought))\b"
)
_DOUBTING = re.compile(_DOUBTS)
_DENIAL = re.compile(rf"{_NEGATIVE}|{_DOUBTS}")
_AFTERTHOUGHT = re.compile(
    r"(?:(?:but|and|or|though|yet) )*(?:this|that|it|which|so|not|no|nobody|never)\b"
)
_UNSURE = re.compile(
    rf"\b(?:may|might|could|would|should|perhaps|maybe|possibly|probably|likely|unlikely|seem\w*"
    r"|appear(?:s|ed)?|whether|unless|supposed(?:ly)?|allegedly|reportedly|apparently|unclear"
    r"|unknown|uncertain|debate[sd]?|dispute[sd]?|controversial|doubt\w*|question\w*|hop(?:e|es|ed)"
    r"|fear(?:s|ed)?|wish\w*|wonder\w*|ask(?:s|ed|ing)?|pretend\w*|imagin\w*|dream\w*|only|less"
    r"|least|fewer|almost|nearly|avoid\w*|quit\w*|refus\w*|stop(?:s|ped)?|ceas\w*|prevent\w*|reduc\w*"
    r"|forget\w*|rather|instead|except|unlike|despite|used to|attempt\w*|tr(?:y|ies|ied)|want\w*"
    r"|plan(?:s|ned)?|goals?|aim\w*|cartoons?|novels?|films?|movies?|test(?:s|ed|ing)?|investigat\w*)\b"
    rf"|\b(?:if|how|why|what|where|too|against|from|by|with)\b(?=.*{HERE})"
    rf"|\b{_BE} (?!(?:known|proven|shown|seen) )\w+(?:ed|ing)\b(?=.*{HERE})"
    rf"|{HERE}[^{HERE}]*\b(?:that|or|(?:and|to|but)(?= \w+ {HERE}))\b[^{HERE}]*{HERE}"
)
_ATTRIBUTED = re.compile(
    r"\b(?:believ\w*|think\w*|thought|sa(?:y|ys|id)|claim(?:ed|ing)|argu\w*|assum(?:e|es|ed|ing)"
    r"|alleg\w*|suspect\w*|told|tradition\w*)\b"
)
_IDEAS = re.compile(
    r"\b(?:beliefs?|claims?|ideas?|notions?|theor(?:y|ies)|views?|assumptions?|hypothes[ei]s"
    r"|opinions?)\b"
)
# "Evidence that crows hold grudges is weak", "opponents of vaccines": another noun is spoken of.
_OF_ANOTHER = re.compile(
    rf"\A[^{HERE}]*\b(?!(?:show|shows|showed|shown|finds?|found|knows?|known|agrees?|agreed|confirm\w*"
    r"|prov\w+|demonstrat\w+|report\w*|discover\w*|observ\w*|establish\w*|conclud\w*|reveal\w*"
    r"|suggest\w*|indicat\w*|true|fact|clear|certain|is|was) )\w+ that\b"
    rf"|\A[^{HERE}]*{HERE} (?!always |sometimes )\w+s {_BE}\b"
    rf"|\A[^{HERE}]*\b(?!(?:some|many|most|all|both|number|lot|pair|group|none|one) )\w+ of"
    rf"(?: the| a| an)? {HERE}"
)
_ASKING = re.compile(r"(?:do|does|did|is|are|was|were|can|could|will|would|has|have|should|let)\b")
_TAKEN_BACK = re.compile(
    r"(?:but |however,? |yet )?(?:this|that|it|these|not|no|false|wrong|in fact|actually)\b", re.I
)


def stance_by_words(claim: str, reading: Reading) -> Stance:
    """The side that a sentence takes by saying the claim, or that it is not so, in its words."""
    sentence = reading.sentence.translate(TYPOGRAPHY)
    asks = sentence.rstrip("\"') ").endswith("?")
    if len(sentence) > LONGEST or asks:
        return "neither"
    said = _Claimed(claim, {*terms(reading.above), *terms(reading.before)})
    sign = said.sign(sentence)
    if not sign or _taken_back(reading, sign):
        return "neither"
    return "for" if (sign > 0) != said.negated else "against"


def _taken_back(reading: Reading, sign: int) -> bool:
    """Whether what stands round a sentence says that it is not meant: a list of myths, "False."."""
    after = reading.after.translate(TYPOGRAPHY).lower()
    if _TAKEN_BACK.match(after) and _DENIAL.search(" ".join(after.split()[:10])):
        return True
    doubt = re.compile(rf"\b{_DOUBT}\b")
    return sign > 0 and any(doubt.search(text.lower()) for text in (reading.before, reading.above))


class _Claimed:
    """A claim's words, for finding them in a sentence."""

    def __init__(self, claim: str, topic: set[str]) -> None:
        lower = claim.translate(TYPOGRAPHY).lower()
        self.negated = _NOT_SO.search(lower) is not None
        core = _NOT_SO.sub(" ", lower)
        about = set(question_terms(core))
        stems = [stem for stem in map(_stem, _WORD.findall(core)) if stem.plain in about]
        adverbs = {_stem(word).plain for word in re.findall(r"\b\w{3,}ly\b", core)}
        self.stems = [stem for stem in stems if stem.plain not in adverbs]
        self.adverbs = about & adverbs
        self.own = set(_WORD.findall(core)) - _BEING
        self.links = [link for link in _LINKS if link.search(core) and "there" not in self.own]
        self.topic = topic

    def sign(self, sentence: str) -> int:
        """1 where the sentence says the claim (less its "not"), -1 where it denies it, else 0."""
        text = _BRACKETED.sub(" ", _QUOTED.sub(" … ", sentence))
        labelled = _LABEL.match(text)
        text = _OPENING.sub("", _ASIDE.sub(" ", text[labelled.end() :] if labelled else text))
        clauses = [clause.lower() for clause in _CLAUSE.split(text) if clause.strip()]
        read = [self._read(clause) for clause in clauses]
        signs = {found for found in read if found is not None}
        others = [at for at, found in enumerate(read) if found is None]
        first = min((at for at, found in enumerate(read) if found is not None), default=0)
        if len(signs) != 1 or any(_turns(clauses[at], at < first) for at in others):
            return 0
        sign = signs.pop()
        return -max(sign, 0) if labelled else sign

    def _read(self, clause: str) -> int | None:
        """What one clause says of the claim; None where the claim does not stand in it."""
        words = _WORD.findall(clause)
        places = self._places(words)
        if places is None:
            return None
        if _ASKING.match(clause.strip()):
            return 0
        marked = " ".join(HERE if at in places else word for at, word in enumerate(words))
        if not all(link.search(marked[: marked.rindex(HERE)]) for link in self.links):
            return 0
        left = _AFFIRMED.sub(" ", marked)
        left, doubts = _DOUBTED.subn(" ", left)
        left, denials = _NEGATED.subn(" ", left)
        left, nones = _NONE.subn(" ", left)
        left = " ".join(word for word in left.split() if word not in self.own)
        if any(unsure.search(left) for unsure in (_DENIAL, _UNSURE, _ATTRIBUTED)):
            return 0
        turned = doubts + denials + nones + sum(not same for same in places.values())
        apart = _IDEAS.search(left) or _OF_ANOTHER.search(left)
        if turned > 1 or (apart and not doubts):
            return 0
        return -1 if turned else 1

    def _places(self, words: list[str]) -> dict[int, bool] | None:
        """Where the claim's words stand in these, in their order; False for an un- before one.

        "They" may stand for those that the claim begins with, where they stand round it.
        """
        stems = [_stem(word) for word in words]
        plain = [stem.plain for stem in stems]
        for missing in range(len(self.stems) - FEWEST + 1):
            if not self.topic.issuperset(stem.plain for stem in self.stems[:missing]):
                break
            found = _in_order(self.stems[missing:], stems)
            if found and self.adverbs.issubset(plain) and self._stands_for(missing, words, found):
                return found | {plain.index(adverb): True for adverb in self.adverbs}
        return None

    def _stands_for(self, missing: int, words: list[str], found: dict[int, bool]) -> bool:
        """Whether nothing is missing before what was found, or a pronoun stands there."""
        return not missing or bool(_PRONOUN & set(words[max(0, min(found) - 3) : min(found)]))


def _stem(word: str) -> Stem:
    first, turned = (terms(each) or [""] for each in (word, word.removeprefix("un")))
    return Stem(first[0], turned[0])


def _in_order(wanted: Sequence[Stem], said: Sequence[Stem]) -> dict[int, bool] | None:
    """The closest places of these words in this order; False where un- turns one of the two."""
    best: dict[int, bool] | None = None
    for start in range(len(said)):
        places: dict[int, bool] = {}
        at = start
        for stem in wanted:
            alike = (n for n in range(at, len(said)) if said[n].like(stem))
            if (at := next(alike, -1)) < 0:
                return best
            places[at] = said[at].plain == stem.plain
            at += 1
        near = max(places) - min(places) <= SPREAD * len(wanted)
        if near and (best is None or max(places) - min(places) < max(best) - min(best)):
            best = places
    return best


def _turns(clause: str, before: bool) -> bool:
    """Whether a clause beside the claim's may turn it: "which is a myth", "some say"."""
    clause = clause.strip()
    if _DOUBTING.search(clause):
        return True
    short = len(clause.split()) <= FEW
    near = short or _AFTERTHOUGHT.match(clause) or (before and not _REASON.match(clause))
    return bool((near and _DENIAL.search(clause)) or (short and _ATTRIBUTED.search(clause)))
