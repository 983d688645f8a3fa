"""Stance detection by rules for English: the claim of a question, and a sentence's stance on it.

It prefers precision to recall: a sentence takes a side only if it states the claim, or its
negation, in the claim's own words. Synonyms and antonyms are not recognised.
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from rookery.browse.search_terms import get_question_terms, split_terms
from rookery.browse.text_folding import TYPOGRAPHY
from rookery.records import Failed, Failure

Stance = Literal["for", "against", "neither"]


class SentenceContext(NamedTuple):
    """A sentence of a page with its context."""

    sentence: str
    before: str = ""
    """preceding sentence"""
    after: str = ""
    """following sentence"""
    above: str = ""
    """title of the page and headings above the sentence"""


class WordStem(NamedTuple):
    """The stem of a word, with and without the prefix un-."""

    plain: str
    """stem of the word"""
    turned: str
    """stem of the word without the prefix un-"""

    def matches_stem(self, other: "WordStem") -> bool:
        """Return True if both stems are equal, or equal but for the prefix un-."""
        return self.plain in other or other.plain == self.turned


MAX_SENTENCE_CHARACTERS = 600
"""maximum characters of a sentence that is judged; longer ones may qualify the claim in many
ways"""
MAX_WORD_GAP = 3
"""maximum distance of consecutive words of the claim in a sentence, on average, in words"""
MIN_OWN_WORDS = 2
"""minimum words of the claim in a sentence where a pronoun stands for the claim's first words"""
ASIDE_WORDS = 4
"""maximum words of an aside, such as "some say" or "or not\""""
CLAIM_MARK = "•"
"""placeholder of a word of the claim while the words around it are matched"""

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

# Patterns of a clause whose words of the claim are replaced by CLAIM_MARK. First affirmations that
# contain words of negation.
_AFFIRMED = re.compile(
    rf"\b{_NOT} (?:just |merely |simply |only |a |an |the |longer )*{_DOUBT}\b"
    rf"|\b(?:no|without(?: a)?|beyond) (?:doubt|question)\b|\bnot (?:only|just|merely|simply)\b"
    rf"|\bcannot be (?:denied|doubted|{_REFUTED})"
)
_DOUBTED = re.compile(
    rf"\b(?:no|little|insufficient|without|lacks|not|any)(?: \w+){{0,3}}? {_PROOF}\b"
    rf"(?=[^{CLAIM_MARK}]*\b(?:that|for|of|to|in|behind)\b[^{CLAIM_MARK}]*{CLAIM_MARK})"
    rf"|(?<!{CLAIM_MARK} )\b{_DOUBT} (?:{_BE} )?(?:that|to "
    r"(?:say|think|believe|claim|assume) that|of)\b"
    rf"(?=[^{CLAIM_MARK}]*{CLAIM_MARK})"
    rf"|\b{_REFUTED} {_IDEA}(?:that |of )?(?=(?:the |a |an )?{CLAIM_MARK})"
    rf"|\b(?:reject(?:s|ed)?|rules? out|ruled out|contradict(?:s|ed)?) {_IDEA}that\b"
    rf"(?=[^{CLAIM_MARK}]*{CLAIM_MARK})"
    rf"|\b(?:{_NOT}|isn't|wasn't) (?:\w+ )?{_TRUE} (?:to (?:say|think|claim) )?that\b"
    rf"(?=[^{CLAIM_MARK}]*{CLAIM_MARK})"
    rf"|(?<={CLAIM_MARK} )(?:[^{CLAIM_MARK}]* )?(?:{_BE}|as) (?:\w+ "
    rf"){{0,4}}?(?:{_DOUBT}|{_REFUTED})(?= |\Z)"
    rf"(?![^{CLAIM_MARK}]*{CLAIM_MARK})"
    rf"|(?<={CLAIM_MARK} )(?:has|have|had) (?:no|little|not any) (?:\w+ ){{0,2}}?{_PROOF}\b"
    rf"|(?<={CLAIM_MARK} )(?:{_BE} (?:\w+ly )?(?:not|never)|isn't|aren't|wasn't) (?:\w+ "
    rf")?{_TRUE}(?= |\Z)"
)
_NEGATED = re.compile(
    r"\b(?:(?:do|does|did|is|are|was|were|can|could|will|has|have|had) )?"
    r"(?:not|never|cannot|hardly|scarcely|barely|rarely|seldom|(?:do|does|did|is|are|was|were|ca"
    r"|could|wo|has|have|had)n't) "
    rf"{_AMONG}(?={CLAIM_MARK})"
    rf"|\b(?:non|(?:fails?|failed|unable|powerless) to|incapable of) (?={CLAIM_MARK})"
)
_NONE = re.compile(
    rf"\A(?:no|not one|not a|not a single|none of the|neither) (?=(?:\w+ )?{CLAIM_MARK})"
    rf"|(?<={CLAIM_MARK} )(?:(?:{_BE}|has|have|had) )?no (?={CLAIM_MARK})"
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
    rf"|\b(?:if|how|why|what|where|too|against|from|by|with)\b(?=.*{CLAIM_MARK})"
    rf"|\b{_BE} (?!(?:known|proven|shown|seen) )\w+(?:ed|ing)\b(?=.*{CLAIM_MARK})"
    rf"|{CLAIM_MARK}[^{CLAIM_MARK}]*\b(?:that|or|(?:and|to|but)(?= \w+ "
    rf"{CLAIM_MARK}))\b[^{CLAIM_MARK}]*{CLAIM_MARK}"
)
_ATTRIBUTED = re.compile(
    r"\b(?:believ\w*|think\w*|thought|sa(?:y|ys|id)|claim(?:ed|ing)|argu\w*|assum(?:e|es|ed|ing)"
    r"|alleg\w*|suspect\w*|told|tradition\w*)\b"
)
_IDEAS = re.compile(
    r"\b(?:beliefs?|claims?|ideas?|notions?|theor(?:y|ies)|views?|assumptions?|hypothes[ei]s"
    r"|opinions?)\b"
)
# "Evidence that crows hold grudges is weak", "opponents of vaccines": these are statements about
# another noun.
_OF_ANOTHER = re.compile(
    rf"\A[^{CLAIM_MARK}]*\b(?!(?:show|shows|showed|shown|finds?|found|knows?|known|agrees?|agreed|confirm\w*"
    r"|prov\w+|demonstrat\w+|report\w*|discover\w*|observ\w*|establish\w*|conclud\w*|reveal\w*"
    r"|suggest\w*|indicat\w*|true|fact|clear|certain|is|was) )\w+ that\b"
    rf"|\A[^{CLAIM_MARK}]*{CLAIM_MARK} (?!always |sometimes )\w+s {_BE}\b"
    rf"|\A[^{CLAIM_MARK}]*\b(?!(?:some|many|most|all|both|number|lot|pair|group|none|one) )\w+ of"
    rf"(?: the| a| an)? {CLAIM_MARK}"
)
_ASKING = re.compile(r"(?:do|does|did|is|are|was|were|can|could|will|would|has|have|should|let)\b")
_TAKEN_BACK = re.compile(
    r"(?:but |however,? |yet )?(?:this|that|it|these|not|no|false|wrong|in fact|actually)\b", re.I
)


def detect_stance(claim: str, reading: SentenceContext) -> Stance:
    """Return the side that a sentence takes on a claim; "neither" where the rules are not sure.

    It is "for" if the sentence states the claim in its words, "against" if it negates or doubts it.
    Questions, sentences of more than 600 characters, and those that the context takes back
    ("False.", a list of myths) take no side.
    """
    sentence = reading.sentence.translate(TYPOGRAPHY)
    asks = sentence.rstrip("\"') ").endswith("?")
    if len(sentence) > MAX_SENTENCE_CHARACTERS or asks:
        return "neither"
    said = _ClaimMatcher(claim, {*split_terms(reading.above), *split_terms(reading.before)})
    sign = said.detect_sign(sentence)
    if not sign or _is_taken_back(reading, sign):
        return "neither"
    return "for" if (sign > 0) != said.negated else "against"


def _is_taken_back(reading: SentenceContext, sign: int) -> bool:
    """Return True if the context retracts the sentence, such as a list of myths or "False."."""
    after = reading.after.translate(TYPOGRAPHY).lower()
    if _TAKEN_BACK.match(after) and _DENIAL.search(" ".join(after.split()[:10])):
        return True
    doubt = re.compile(rf"\b{_DOUBT}\b")
    return sign > 0 and any(doubt.search(text.lower()) for text in (reading.before, reading.above))


class _ClaimMatcher:
    """Matches the words of a claim in sentences."""

    def __init__(self, claim: str, topic: set[str]) -> None:
        lower = claim.translate(TYPOGRAPHY).lower()
        self.negated = _NOT_SO.search(lower) is not None
        core = _NOT_SO.sub(" ", lower)
        about = set(get_question_terms(core))
        stems = [stem for stem in map(_stem_word, _WORD.findall(core)) if stem.plain in about]
        adverbs = {_stem_word(word).plain for word in re.findall(r"\b\w{3,}ly\b", core)}
        self.stems = [stem for stem in stems if stem.plain not in adverbs]
        self.adverbs = about & adverbs
        self.own = set(_WORD.findall(core)) - _BEING
        self.links = [link for link in _LINKS if link.search(core) and "there" not in self.own]
        self.topic = topic

    def detect_sign(self, sentence: str) -> int:
        """Return 1 where a sentence states the claim without its negation, -1 where it denies it.

        Returns 0 where it does neither, or both.
        """
        text = _BRACKETED.sub(" ", _QUOTED.sub(" … ", sentence))
        labelled = _LABEL.match(text)
        text = _OPENING.sub("", _ASIDE.sub(" ", text[labelled.end() :] if labelled else text))
        clauses = [clause.lower() for clause in _CLAUSE.split(text) if clause.strip()]
        read = [self._judge_clause(clause) for clause in clauses]
        signs = {found for found in read if found is not None}
        others = [at for at, found in enumerate(read) if found is None]
        first = min((at for at, found in enumerate(read) if found is not None), default=0)
        if len(signs) != 1 or any(_turns_claim(clauses[at], at < first) for at in others):
            return 0
        sign = signs.pop()
        return -max(sign, 0) if labelled else sign

    def _judge_clause(self, clause: str) -> int | None:
        """Return 1, -1 or 0 as `detect_sign` for one clause; None where the claim is not in it."""
        words = _WORD.findall(clause)
        places = self._find_claim_words(words)
        if places is None:
            return None
        if _ASKING.match(clause.strip()):
            return 0
        marked = " ".join(CLAIM_MARK if at in places else word for at, word in enumerate(words))
        if not all(link.search(marked[: marked.rindex(CLAIM_MARK)]) for link in self.links):
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

    def _find_claim_words(self, words: list[str]) -> dict[int, bool] | None:
        """Return the positions of the claim's words in a clause; None where they are not in it.

        The value is False where one of the two words has the prefix un-. A pronoun may stand for
        the claim's first words if the context contains these.
        """
        stems = [_stem_word(word) for word in words]
        plain = [stem.plain for stem in stems]
        for missing in range(len(self.stems) - MIN_OWN_WORDS + 1):
            if not self.topic.issuperset(stem.plain for stem in self.stems[:missing]):
                break
            found = _find_in_order(self.stems[missing:], stems)
            if (
                found
                and self.adverbs.issubset(plain)
                and self._has_pronoun_for(missing, words, found)
            ):
                return found | {plain.index(adverb): True for adverb in self.adverbs}
        return None

    def _has_pronoun_for(self, missing: int, words: list[str], found: dict[int, bool]) -> bool:
        """Return True if no word of the claim is missing, or a pronoun precedes those found."""
        return not missing or bool(_PRONOUN & set(words[max(0, min(found) - 3) : min(found)]))


def _stem_word(word: str) -> WordStem:
    first, turned = (split_terms(each) or [""] for each in (word, word.removeprefix("un")))
    return WordStem(first[0], turned[0])


def _find_in_order(wanted: Sequence[WordStem], said: Sequence[WordStem]) -> dict[int, bool] | None:
    """Return the closest positions of words in this order; None where they do not occur so.

    The value is False where one of the two words has the prefix un-.
    """
    best: dict[int, bool] | None = None
    for start in range(len(said)):
        places: dict[int, bool] = {}
        at = start
        for stem in wanted:
            alike = (n for n in range(at, len(said)) if said[n].matches_stem(stem))
            if (at := next(alike, -1)) < 0:
                return best
            places[at] = said[at].plain == stem.plain
            at += 1
        near = max(places) - min(places) <= MAX_WORD_GAP * len(wanted)
        if near and (best is None or max(places) - min(places) < max(best) - min(best)):
            best = places
    return best


def _turns_claim(clause: str, before: bool) -> bool:
    """Return True if an adjacent clause may reverse the claim: "which is a myth", "some say"."""
    clause = clause.strip()
    if _DOUBTING.search(clause):
        return True
    short = len(clause.split()) <= ASIDE_WORDS
    near = short or _AFTERTHOUGHT.match(clause) or (before and not _REASON.match(clause))
    return bool((near and _DENIAL.search(clause)) or (short and _ATTRIBUTED.search(clause)))


MAX_QUESTION_CHARACTERS = 300
"""maximum characters of a question; longer ones do not assume a single claim"""
MIN_CLAIM_WORDS = 2
"""minimum content words of a claim: "is it safe?" has too few to know its subject"""
NO_CLAIM_ADVICE = (
    "the question assumes no single claim that pages could speak for or against: state one, as in "
    "“crows hold grudges”"
)

_FRAMING = re.compile(
    r"(?:(?:so|but|and|well|please|true or false)\b[:,]? +"
    r"|(?:i(?:['’]ve| have)? (?:heard|read)|(?:people|they|some(?: people)?|many) say)(?: that)? +"
    r"|is it (?:really |actually |in fact )?(?:true|so|a fact|a myth|false|right|correct) that +"
    r"|is there (?:any |good |some |scientific )*(?:evidence|proof) that +"
    r"|(?:do|would) you (?:think|believe|say)(?: that)? +|why is it that +|how come(?: that)? +"
    r"|(?:can you |could you )?(?:explain|tell me|describe)(?: to me)?(?: whether| if| that)? +)",
    re.I,
)
_TAG_QUESTION = re.compile(
    r"[,.;:?!]? *\b(?:(?:right|correct|true|true or false|or not)"
    r"|(?:is|are|do|does|can)n['’]t (?:it|they|he|she|that)"
    r"|is (?:it|this|that) (?:really |actually )?(?:true|so|right|correct))$",
    re.I,
)
_BE_FORMS = frozenset("is are was were am".split())
_DO_FORMS = frozenset("do does did".split())
_HAVE_FORMS = frozenset("has have had".split())
_OTHER_AUXILIARIES = (
    frozenset("can could will would should shall may might must".split()) | _HAVE_FORMS
)
_QUESTION_WORDS = frozenset("who whom whose what which when where how".split())
_COMMANDS = frozenset("list define compare give name find write translate summarise show".split())
_DETERMINERS = frozenset(
    "a an the this that these those my your his her its our their some any every each no all most "
    "many both".split()
)
_PRONOUNS = frozenset(
    "i you he she we they it there someone anyone everyone nobody one everybody people".split()
)
_PREPOSITIONS = frozenset(
    "of in on at from to with by for about against between under over during after before than as "
    "like without into near through".split()
)
_JOINING_WORDS = _PREPOSITIONS | {"and", "nor", "non"}
_ADVERBS = frozenset(
    "really actually always never not often usually still also ever even only truly generally "
    "sometimes mostly just necessarily permanently".split()
)
_ADJECTIVES = frozenset(
    """able afraid alive allergic allowed alone aware bad banned better big blind born capable
    cheap clean clear close common connected correct cruel dangerous dead deadly deaf dead
    different dirty easier easy effective equal expensive extinct fair fake false fast
    faster fat fatal flat free genetic going good great green guilty fresh hard harmful
    healthier healthy heavier high higher hot human identical ill illegal immune important
    impossible inevitable innocent intelligent large larger legal less lethal likely long
    longer low lower mad more necessary new normal old older part poisonous poor possible
    present pure rare real related required responsible rich round safe safer same
    self-aware sick similar small smaller smart smarter solid still stronger stupid supposed
    sure taller toxic true ugly unhealthy unsafe useful useless valid visible warm warmer
    waterproof wet worse worth wrong young""".split()
)
_LIKE_ADJECTIVES = re.compile(r"\w+(?:able|ible|ful|less|ous|ic|ish)\Z")
_VERBS = frozenset(
    """affect ask attack attract avoid allow be become begin belong bite block boost bring
    build burn bury buy carry cause choose come communicate consume contain contribute
    create cry cure damage depend destroy develop die dig disappear do eat enjoy evolve
    exist expire explain fall feed feel find fire fit fly follow forget freeze get give go
    grow happen harm hate have hear help hibernate hide hold hunt improve include increase
    keep kill know last lay lead learn leave lie live lock look lose love lower make mate
    mean migrate mourn need offer own pass pay perform play predict prefer prevent produce
    protect prove raise reach read receive recognise recognize reduce remember remove
    require return run save see seem send show shrink sing sink sleep smell speak spread
    steal stop strike suffer support survive swallow swim take talk taste teach tell think
    travel treat understand use used vote wear win work""".split()
)
_PARTICIPLES = frozenset(
    """born bought brought built caught done drawn driven eaten fed forgotten found given gone
    grown held hidden kept known laid led left lost made meant met paid read said seen sent
    set shot shown sold spent spoken stolen struck sung taken taught thought thrown told
    torn understood won worn written""".split()
)
_NOUNS_IN_ING = frozenset(
    """anything being building ceiling clothing engineering evening everything housing king
    landing marketing meeting morning nothing painting ring something spring string thing
    training warming wedding wing""".split()
)
_SIBILANT = re.compile(r"(?:s|x|z|ch|sh|o)\Z")


def extract_claim(question: str) -> str:
    """Extract the claim that a question assumes, in its own words and without a full stop.

    Yes-or-no questions and questions with "why" or "how" are turned into statements; a statement is
    taken as it is. Raises Failed (no_claim) for a question that assumes no claim, or several.
    """
    text = _strip_framing(question) if len(question) <= MAX_QUESTION_CHARACTERS else ""
    first, _, rest = text.partition(" ")
    word = first.lower()
    if word in ("why", "how"):
        claim = _extract_presupposition(word, rest)
    elif _find_auxiliary(word):
        claim = (
            "" if re.search(r"\bor\b", rest) else _turn_into_statement(word, rest, rhetorical=True)
        )
    else:
        claim = "" if word in _QUESTION_WORDS or word in _COMMANDS else text
    said = get_question_terms(claim)
    if not claim or len(said) < MIN_CLAIM_WORDS:
        raise Failed(
            Failure(question.strip()[:MAX_QUESTION_CHARACTERS], "no_claim", NO_CLAIM_ADVICE)
        )
    return claim


def _strip_framing(question: str) -> str:
    """Strip framing such as "is it true that" or "right?", quotation marks and the final mark."""
    text = " ".join(question.split()).strip("\"“”'‘’ ")
    before = ""
    while text != before:
        before = text
        text = _TAG_QUESTION.sub("", text.rstrip(' ?!.…"“”'))
        text = text[told.end() :] if (told := _FRAMING.match(text)) else text
    return text


def _find_auxiliary(word: str) -> str:
    """Return the auxiliary verb of a word such as `doesn't`; empty where it is none."""
    bare = {"can't": "can", "won't": "will", "cannot": "can"}.get(word.replace("’", "'"))
    bare = bare or re.sub(r"n['’]t$", "", word)
    return bare if bare in _BE_FORMS | _DO_FORMS | _OTHER_AUXILIARIES else ""


def _extract_presupposition(asks: str, rest: str) -> str:
    """Return what a question with "why" or "how" presupposes; empty for "how do I ..."."""
    first, _, after = rest.partition(" ")
    if not _find_auxiliary(first.lower()):
        return rest if asks == "why" and len(rest.split()) > 2 else ""
    someone = after.partition(" ")[0].lower() in ("i", "you", "we", "one")
    return (
        ""
        if asks == "how" and someone
        else _turn_into_statement(first.lower(), after, rhetorical=False)
    )


def _turn_into_statement(first: str, rest: str, rhetorical: bool) -> str:
    """Turn a question that begins with an auxiliary into a statement; empty where it is too short.

    With `rhetorical`, a negated auxiliary ("isn't") assumes the positive statement.
    """
    verb = _find_auxiliary(first)
    words = rest.split()
    if len(words) < 2:
        return ""
    at = _find_predicate(words, verb)
    subject, predicate = words[:at], words[at:]
    negated = ["not"] if verb != first and not rhetorical else []
    if verb == first:
        subject, predicate = _replace_any(subject), _replace_any(predicate)
    if verb == "did" and predicate[0].lower() in ("use", "used"):
        return " ".join([*subject, "used", *predicate[1:]])
    if verb in ("do", "does") and not negated and predicate[0].lower() != "not":
        return " ".join(subject + (predicate if verb == "do" else _inflect_third_person(predicate)))
    return " ".join([*subject, verb, *negated, *predicate]).replace(" can not ", " cannot ")


def _replace_any(words: list[str]) -> list[str]:
    """Replace "any-" by "some-" and drop "ever": "has anyone ever" claims "someone has"."""
    said = [re.sub(r"\Aany(?=one\Z|body\Z|thing\Z|\Z)", "some", word) for word in words]
    return [word for word in said if word != "ever"] or words


def _find_predicate(words: list[str], verb: str) -> int:
    """Return the index of the predicate's first word, from 1 to len(words) - 1."""
    lower = [word.lower().strip(",") for word in words]
    if lower[0] in _PRONOUNS and lower[1] not in _PREPOSITIONS:
        return 1
    places = [at for at in range(1, len(words)) if _may_end_subject(lower[at - 1])]
    if verb in _BE_FORMS:
        strong = [at for at in places if _begins_predicate(lower, at)]
        weak = [
            at
            for at in places
            if _is_present_participle(lower[at]) or lower[at] in _PREPOSITIONS - {"of"}
        ]
        return (strong or weak or [len(words) - 1])[0]
    strong = [
        at
        for at in range(1, len(words))
        if lower[at] in _VERBS | _ADVERBS and lower[at - 1] not in _DETERMINERS | _JOINING_WORDS
    ]
    done = [at for at in places if verb in _HAVE_FORMS and _is_past_participle(lower[at])]
    chosen = strong or done
    return chosen[0] if chosen else _find_subject_end(lower)


def _may_end_subject(word: str) -> bool:
    """Return True if a subject may end with this word."""
    return word not in _DETERMINERS | _JOINING_WORDS | _ADVERBS and not (
        word in _ADJECTIVES or _LIKE_ADJECTIVES.match(word) or word.endswith(("’s", "'s"))
    )


def _begins_predicate(lower: list[str], at: int) -> bool:
    """Return True if "is" belongs before this word rather than before a later one."""
    word = lower[at]
    if word in _DETERMINERS:
        return not _is_present_participle(lower[at - 1])
    like = word in _ADJECTIVES | _ADVERBS or _LIKE_ADJECTIVES.match(word)
    return bool(like) or _is_past_participle(word)


def _is_present_participle(word: str) -> bool:
    return word.endswith("ing") and word not in _NOUNS_IN_ING


def _is_past_participle(word: str) -> bool:
    return word in _PARTICIPLES or (len(word) > 4 and word.endswith("ed"))


def _find_subject_end(lower: list[str]) -> int:
    """Return the index after the first noun phrase, where an unlisted verb is expected."""
    at = 0
    while at < len(lower) - 1:
        if not _may_end_subject(lower[at]):
            at += 1
        elif lower[at + 1] in _JOINING_WORDS and at + 2 < len(lower) - 1:
            at += 2
        else:
            break
    return min(at + 1, len(lower) - 1)


def _inflect_third_person(predicate: list[str]) -> list[str]:
    """Inflect the predicate's verb in place of "does": `cause` becomes `causes`.

    "does" is kept before a word that cannot be inflected.
    """
    at = next((at for at, word in enumerate(predicate) if word.lower() not in _ADVERBS), 0)
    verb = predicate[at]
    if not (verb.isalpha() and verb.islower()):
        return ["does", *predicate]
    if verb in ("have", "be"):
        done = "has" if verb == "have" else "is"
    elif re.search(r"[^aeiou]y\Z", verb):
        done = f"{verb[:-1]}ies"
    else:
        done = verb + ("es" if _SIBILANT.search(verb) else "s")
    return [*predicate[:at], done, *predicate[at + 1 :]]
