"""The claim that a question assumes: `crows hold grudges` of `Do crows hold grudges?`

English, by rules over words: where a subject ends is guessed from the words that a predicate begins
with. It knows nothing of whether the claim is true, nor of who asks.
"""

import re

from rookery.browse.words import question_terms
from rookery.records import Failed, Failure

LONGEST = 300
"""characters of a question; what takes longer to ask is not one claim"""
LEAST = 2
"""words that say what it is about: of "is it safe?" nobody can tell what is claimed"""
WHAT_TO_DO = (
    "the question assumes no single claim that pages could speak for or against: state one, as in "
    "“crows hold grudges”"
)

_TOLD = re.compile(
    r"(?:(?:so|but|and|well|please|true or false)\b[:,]? +"
    r"|(?:i(?:['’]ve| have)? (?:heard|read)|(?:people|they|some(?: people)?|many) say)(?: that)? +"
    r"|is it (?:really |actually |in fact )?(?:true|so|a fact|a myth|false|right|correct) that +"
    r"|is there (?:any |good |some |scientific )*(?:evidence|proof) that +"
    r"|(?:do|would) you (?:think|believe|say)(?: that)? +|why is it that +|how come(?: that)? +"
    r"|(?:can you |could you )?(?:explain|tell me|describe)(?: to me)?(?: whether| if| that)? +)",
    re.I,
)
_ASIDE = re.compile(
    r"[,.;:?!]? *\b(?:(?:right|correct|true|true or false|or not)"
    r"|(?:is|are|do|does|can)n['’]t (?:it|they|he|she|that)"
    r"|is (?:it|this|that) (?:really |actually )?(?:true|so|right|correct))$",
    re.I,
)
_BE = frozenset("is are was were am".split())
_DO = frozenset("do does did".split())
_HAVE = frozenset("has have had".split())
_OTHER = frozenset("can could will would should shall may might must".split()) | _HAVE
_ASKS = frozenset("who whom whose what which when where how".split())
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
_JOINING = _PREPOSITIONS | {"and", "nor", "non"}
_ADVERBS = frozenset(
    "really actually always never not often usually still also ever even only truly generally "
    "sometimes mostly just necessarily permanently".split()
)
_QUALITIES = frozenset(
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
_LIKE_QUALITIES = re.compile(r"\w+(?:able|ible|ful|less|ous|ic|ish)\Z")
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


def claim_of(question: str) -> str:
    """The claim that a question assumes, in its own words and without a full stop.

    A yes-or-no question asks whether it is so; "why" and "how" take it for granted; a statement is
    a claim already. Raises Failed (no_claim) for a question that assumes none, or more than one.
    """
    text = _bare(question) if len(question) <= LONGEST else ""
    first, _, rest = text.partition(" ")
    word = first.lower()
    if word in ("why", "how"):
        claim = _granted(word, rest)
    elif _auxiliary(word):
        claim = "" if re.search(r"\bor\b", rest) else _turned(word, rest, rhetorical=True)
    else:
        claim = "" if word in _ASKS or word in _COMMANDS else text
    said = question_terms(claim)
    if not claim or len(said) < LEAST:
        raise Failed(Failure(question.strip()[:LONGEST], "no_claim", WHAT_TO_DO))
    return claim


def _bare(question: str) -> str:
    """The question without what is said about it, and without the mark at its end."""
    text = " ".join(question.split()).strip("\"“”'‘’ ")
    before = ""
    while text != before:
        before = text
        text = _ASIDE.sub("", text.rstrip(' ?!.…"“”'))
        text = text[told.end() :] if (told := _TOLD.match(text)) else text
    return text


def _auxiliary(word: str) -> str:
    """The auxiliary of a word such as `doesn't`, or nothing."""
    bare = {"can't": "can", "won't": "will", "cannot": "can"}.get(word.replace("’", "'"))
    bare = bare or re.sub(r"n['’]t$", "", word)
    return bare if bare in _BE | _DO | _OTHER else ""


def _granted(asks: str, rest: str) -> str:
    """What "why" or "how" takes for granted; how somebody is to do it is no claim."""
    first, _, after = rest.partition(" ")
    if not _auxiliary(first.lower()):
        return rest if asks == "why" and len(rest.split()) > 2 else ""
    someone = after.partition(" ")[0].lower() in ("i", "you", "we", "one")
    return "" if asks == "how" and someone else _turned(first.lower(), after, rhetorical=False)


def _turned(first: str, rest: str, rhetorical: bool) -> str:
    """The question as a statement; a rhetorical "isn't it" assumes that it is."""
    verb = _auxiliary(first)
    words = rest.split()
    if len(words) < 2:
        return ""
    at = _predicate(words, verb)
    subject, predicate = words[:at], words[at:]
    negated = ["not"] if verb != first and not rhetorical else []
    if verb == first:
        subject, predicate = _some(subject), _some(predicate)
    if verb == "did" and predicate[0].lower() in ("use", "used"):
        return " ".join([*subject, "used", *predicate[1:]])
    if verb in ("do", "does") and not negated and predicate[0].lower() != "not":
        return " ".join(subject + (predicate if verb == "do" else _with_does(predicate)))
    return " ".join([*subject, verb, *negated, *predicate]).replace(" can not ", " cannot ")


def _some(words: list[str]) -> list[str]:
    """What is asked as "has anyone ever" is claimed as "someone has"."""
    said = [re.sub(r"\Aany(?=one\Z|body\Z|thing\Z|\Z)", "some", word) for word in words]
    return [word for word in said if word != "ever"] or words


def _predicate(words: list[str], verb: str) -> int:
    """Where the predicate begins, in 1 to len(words) - 1."""
    lower = [word.lower().strip(",") for word in words]
    if lower[0] in _PRONOUNS and lower[1] not in _PREPOSITIONS:
        return 1
    places = [at for at in range(1, len(words)) if _may_end(lower[at - 1])]
    if verb in _BE:
        strong = [at for at in places if _begins_quality(lower, at)]
        weak = [at for at in places if _is_doing(lower[at]) or lower[at] in _PREPOSITIONS - {"of"}]
        return (strong or weak or [len(words) - 1])[0]
    strong = [
        at
        for at in range(1, len(words))
        if lower[at] in _VERBS | _ADVERBS and lower[at - 1] not in _DETERMINERS | _JOINING
    ]
    done = [at for at in places if verb in _HAVE and _is_done(lower[at])]
    chosen = strong or done
    return chosen[0] if chosen else _after_noun(lower)


def _may_end(word: str) -> bool:
    """Whether a subject may end with this word."""
    return word not in _DETERMINERS | _JOINING | _ADVERBS and not (
        word in _QUALITIES or _LIKE_QUALITIES.match(word) or word.endswith(("’s", "'s"))
    )


def _begins_quality(lower: list[str], at: int) -> bool:
    """Whether "is" goes before this word rather than before a later one."""
    word = lower[at]
    if word in _DETERMINERS:
        return not _is_doing(lower[at - 1])
    like = word in _QUALITIES | _ADVERBS or _LIKE_QUALITIES.match(word)
    return bool(like) or _is_done(word)


def _is_doing(word: str) -> bool:
    return word.endswith("ing") and word not in _NOUNS_IN_ING


def _is_done(word: str) -> bool:
    return word in _PARTICIPLES or (len(word) > 4 and word.endswith("ed"))


def _after_noun(lower: list[str]) -> int:
    """The place behind the first noun and what hangs on it: there a verb that is not listed is."""
    at = 0
    while at < len(lower) - 1:
        if not _may_end(lower[at]):
            at += 1
        elif lower[at + 1] in _JOINING and at + 2 < len(lower) - 1:
            at += 2
        else:
            break
    return min(at + 1, len(lower) - 1)


def _with_does(predicate: list[str]) -> list[str]:
    """With "does" taken into the verb: `cause` becomes `causes`; before what is none, it stays."""
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
