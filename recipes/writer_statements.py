"""Answers in words, made by rules: a question with its answer as a statement, a sentence shortened.

A rule makes a statement of the forms of question that it was written for, and of no other: of many
questions few are enough, and a wrong sentence teaches more than a missing one.
"""

import re
from collections.abc import Container
from itertools import pairwise

from rookery.draft.stance import extract_claim
from rookery.records import Failed

LONGEST_STATEMENT = 34
"""words of a sentence, at most"""
_AUXILIARY = r"(?P<aux>is|are|was|were|did|does|do|has|have|had|can|could|will|would)"
_PREPOSITION = r"(?:in|on|at|by|to|for|from|with|of|as|under|into|against|about|after|near)"
_TIME = re.compile(
    rf"(?:(?P<prep>in|on|at|during) )?(?:what|which) (?P<noun>year|century|decade|month"
    rf"|city|country|state) {_AUXILIARY} (?P<rest>.+)",
    re.I,
)
_WHEN = re.compile(rf"(?:when|where) {_AUXILIARY} (?P<rest>.+)", re.I)
_STRANDED = re.compile(
    rf"(?:who|whom|(?:what|which)(?: (?!kind|type|sort)\w+){{0,3}}?) {_AUXILIARY} "
    rf"(?P<rest>.+ {_PREPOSITION})",
    re.I,
)
_SUBJECT = re.compile(r"who (?P<rest>(?:originally |first )?(?P<verb>\w+) .+)", re.I)
_CHOSEN_SUBJECT = re.compile(
    r"(?:what|which) (?:\w+ ){1,3}?(?P<rest>(?P<aux>is|are|was|were) "
    r"(?:the (?:first|last|only|\w+est)|\w+ed|known|considered|given|built|made|chosen) .+)",
    re.I,
)
_CALLED = re.compile(
    rf"what {_AUXILIARY} (?P<rest>.+ (?:called|named|known as|nicknamed|dubbed|titled))", re.I
)
_IDENTITY = re.compile(
    r"(?i:what|who) (?P<aux>is|are|was|were) "
    r"(?P<subject>(?:the|a|an|one) .+|(?:[A-Z][\w.-]+ )*(?:[A-Z][\w.-]+)['’]s? .+)"
)
_THERE = re.compile(r"how many (?P<noun>.+?) (?P<aux>are|were) there(?P<rest> .+)?", re.I)
_COUNTED = re.compile(
    r"how many (?P<rest>(?P<noun>[\w -]+?) (?P<aux>are|were|have|had) (?:\w+ed|in|on|at|born|held"
    r"|killed|known|made|built|won|been) ?.*)",
    re.I,
)
_OBJECT = re.compile(r"what (?P<aux>did|does) (?P<rest>.+)", re.I)
_WHY = re.compile(rf"why {_AUXILIARY} (?P<rest>.+)", re.I)
_HOW = re.compile(rf"how {_AUXILIARY} (?P<rest>.+)", re.I)
_LEADING = re.compile(
    r"\A(?:in|on|at|during|since|by|from|between|around|near|until|before|after|along"
    r"|within|across|throughout|through|via|with|using|because|because of|due to|to"
    r"|for|as)\b",
    re.I,
)
_BEFORE_ANSWER = re.compile(
    r"\b(in|on|at|during|between|around|near) ((?:the |early |late |about )*)\Z", re.I
)
_NOUN_PHRASE = re.compile(r"(?:[A-Z\"“'‘]|\d|(?:the|a|an|his|her|its|their|some|many|several) )")
_DATE = re.compile(
    r"(?P<month>January|February|March|April|May|June|July|August|September|October"
    r"|November|December)(?P<day> \d{1,2})?(?:,? \d{3,4})?"
)
_NUMBER = re.compile(
    r"(?:about |over |around |nearly |approximately |more than |at least )?(?:\d[\d,.]*"
    r"(?: (?:thousand|million|billion))?|one|two|three|four|five|six|seven|eight|nine"
    r"|ten|eleven|twelve|twenty|thirty|forty|fifty|sixty|hundreds|dozens)"
)
_OPENINGS = re.compile(
    r"\A(?:However|In addition|Moreover|Furthermore|Additionally|Thus|Therefore|Hence|Consequently"
    r"|As a result|For example|For instance|In fact|Indeed|Meanwhile|Nevertheless|Nonetheless"
    r"|Instead"
    r"|On the other hand|In contrast|By contrast|Similarly|Likewise|Finally|Also|Today|Then|Still"
    r"|But|And|So|Yet|Overall|Generally|Note that|Usually|Specifically|In particular),? "
)
_UNBOUND = re.compile(
    r"\A(?:He|She|It|They|This|These|Those|That|Such|His|Her|Its|Their|Some|Others?|Another|Both"
    r"|Each|One|There|Here|The (?:former|latter|above|following|same|two|second|other)"
    r"|In (?:this|that|these)"
    r"|At (?:this|that)|Of (?:these|those)|We|I|As (?:mentioned|shown|described)|See)\b"
)
_ASIDE = re.compile(r" ?(?:\([^()]*\)|\[[^\[\]]*\])")
_APART = re.compile(
    r", (?:but|while|whereas|although|though|which|who|whose|where|when|because|since|with"
    r"|making|leading|resulting|allowing|causing|so|yet)\b"
)
_PAST = {
    pair.split(":")[0]: pair.split(":")[1]
    for pair in """
become:became begin:began break:broke bring:brought build:built buy:bought catch:caught
choose:chose come:came cut:cut die:died draw:drew drive:drove fall:fell feel:felt fight:fought
find:found fly:flew get:got give:gave go:went grow:grew have:had hear:heard hit:hit hold:held
keep:kept know:knew lead:led leave:left lie:lay lose:lost make:made mean:meant meet:met pay:paid
put:put read:read rise:rose run:ran say:said see:saw sell:sold send:sent set:set shoot:shot
sing:sang sit:sat speak:spoke spend:spent split:split spread:spread stand:stood steal:stole
strike:struck swim:swam take:took teach:taught tell:told think:thought throw:threw win:won
write:wrote understand:understood undergo:underwent overthrow:overthrew withdraw:withdrew
forbid:forbade seek:sought sink:sank sleep:slept bear:bore bind:bound cast:cast cost:cost deal:dealt
eat:ate feed:fed forget:forgot hide:hid hurt:hurt lay:laid let:let quit:quit ride:rode ring:rang
shut:shut show:showed wear:wore stop:stopped plan:planned drop:dropped ban:banned refer:referred
occur:occurred admit:admitted commit:committed permit:permitted transfer:transferred
""".split()
}
_ADVERB_FIRST = re.compile(r"\b(\w+ly|first|also) (is|are|was|were|has|have|had)\b")
_LEFTOVER = re.compile(
    r"[\[\]♠]|\bbeing (?:is|are|was|were)\b"
    r"|\b(?:what|which|whom)\b|\.\.|,\.| [.,]|\bdid \w|\bdo(?:es)? [A-Z]|\?"
    r"|\b(?:called|used for|known) (?:at|that|now|for what)\b"
    r"|\b(?:the|a|an|of|to|and) (?:in|of|was|is|were|are|the|a|an)\b"
    r"|\b(?:the|a|an|of|and|or|than)\.\Z"
    r"|\b(?:with|to|by|from|at|for|of) (?:for|on|in|at|after|when|while|to|by|of|that)\b"
)
"""traces of a question that was turned into a statement wrongly"""


def state_answer(question: str, answer: str, before: str, known: Container[str]) -> str | None:
    """Return a question with its answer as a statement, or None where no rule fits.

    `before` is the text in front of the answer where it was found, whose preposition and article
    are taken: "When was it founded?" with "1874" after "founded in" becomes "It was founded in
    1874."
    `known` holds words in lower case; a past tense that is not among them is a wrong one.
    """
    asked = " ".join(question.split())
    said = answer.strip(" .,;:")
    if not asked.endswith("?") or asked.count("?") > 1 or not said or len(asked.split()) > 20:
        return None
    asked = asked[:-1].rstrip()
    if re.search(r"[;:\"“]|\b(?:I|you|we|your|my)\b", asked) or len(said.split()) > 12:
        return None
    if article := re.search(r"\b(the|an?) \Z", before, re.I):
        before, said = before[: article.start()], f"{article[1].lower()} {said}"
    for rule in _RULES:
        statement = rule(asked, said, before)
        if statement and is_sound(statement):
            words = (word.strip(",()'\"") for word in statement[:-1].lower().split())
            return statement if all(word in known for word in words) else None
    return None


def is_sound(sentence: str) -> bool:
    """Return True if a sentence has the form of one: length, capital, full stop, no leftovers."""
    words = sentence.split()
    if not 4 <= len(words) <= LONGEST_STATEMENT or not sentence.endswith("."):
        return False
    if not (sentence[0].isupper() or sentence[0].isdigit()):
        return False
    doubled = any(one.lower() == other.lower() for one, other in pairwise(words))
    odd = _LEFTOVER.search(sentence)
    unmatched = any(
        sentence.count(left) != sentence.count(right) for left, right in ("()", "[]", "“”")
    )
    return not doubled and odd is None and not unmatched and sentence.count('"') % 2 == 0


def _finish(*parts: str) -> str:
    text = " ".join(part.strip() for part in parts if part.strip())
    text = re.sub(r"(?<=\w )(The|An?) (?=\w)", lambda article: article[0].lower(), text)
    return f"{text[0].upper()}{text[1:]}."


def _turn(match: re.Match[str]) -> str:
    """Return the statement that a question without its answer assumes; empty if there is none."""
    aux, rest = match["aux"].lower(), match["rest"]
    if re.search(r"\b(?:who|which|what|that|when|where|if|how)\b", rest):
        return ""  # a clause's verb is taken for the main one
    try:
        claim = extract_claim(f"{aux} {rest}?")
    except Failed:
        return ""
    if aux in ("do", "did", "does") and claim.split() == rest.split():
        return claim
    claim = _ADVERB_FIRST.sub(r"\2 \1", claim)
    return inflect_past(claim) if aux == "did" else claim


def inflect_past(claim: str) -> str:
    """Return a claim with its "did" and verb as a past tense; empty if it has none."""
    found = re.search(r" did (\w+ly )?([a-z]+)(?=\Z| )", claim)
    if found is None:
        return ""
    verb = found[2]
    if verb in _PAST:
        past = _PAST[verb]
    elif verb.endswith("e"):
        past = f"{verb}d"
    elif re.search(r"[^aeiou]y\Z", verb):
        past = f"{verb[:-1]}ied"
    else:
        past = f"{verb}ed"
    return f"{claim[: found.start()]} {found[1] or ''}{past}{claim[found.end() :]}"


def _place(answer: str, before: str) -> str:
    """Return an answer of time or place with its preposition; empty where none is known."""
    if _LEADING.match(answer):
        return answer[0].lower() + answer[1:]
    if found := _BEFORE_ANSWER.search(before):
        return f"{found[1].lower()} {found[2] or ''}{answer}"
    if re.fullmatch(r"1\d{3}|20\d\d|\d{3,4} (?:BC|BCE|AD)", answer):
        return f"in {answer}"
    if date := _DATE.fullmatch(answer):
        return f"{'on' if date['day'] else 'in'} {answer}"
    return ""


def _state_time(asked: str, answer: str, before: str) -> str | None:
    if match := _TIME.fullmatch(asked):
        claim = _turn(match)
        if match["noun"].lower() == "year" and not re.fullmatch(
            r"\d{3,4}(?: (?:BC|BCE|AD))?", answer
        ):
            return None
        placed = _place(answer, before) or f"in {'the ' * answer.endswith('0s')}{answer}"
        return _finish(claim, placed) if claim and not claim.endswith((" in", " from")) else None
    if match := _WHEN.fullmatch(asked):
        claim, placed = _turn(match), _place(answer, before)
        return _finish(claim, placed) if placed and _states_event(claim, match["aux"]) else None
    return None


def _states_event(claim: str, auxiliary: str) -> bool:
    """Return True unless a form of "be" lacks a participle, as in "was flood"."""
    if auxiliary.lower() not in ("is", "are", "was", "were"):
        return bool(claim)
    return (
        re.search(
            rf" {auxiliary} (?:\w+ly |first )?(?:[a-z]+(?:ed|wn|en|ung|ought|old|ade)"
            r"|born|built|held|led|cut|put|set|sent|lost|found|won|able|going)\b",
            claim,
            re.I,
        )
        is not None
    )


def _state_stranded(asked: str, answer: str, before: str) -> str | None:
    match = _STRANDED.fullmatch(asked)
    claim = _turn(match) if match and not _LEADING.match(answer) else ""
    return _finish(claim, answer) if claim else None


def _state_subject(asked: str, answer: str, before: str) -> str | None:
    if (match := _SUBJECT.fullmatch(asked)) and _NOUN_PHRASE.match(answer):
        verb = match["verb"].lower()
        several = " and " in answer or answer.endswith("s")
        if verb in ("did", "does", "do", "can", "could", "will", "would", "has", "have", "had"):
            return None
        if verb in ("are", "were") and not several:
            return None
        if verb in ("is", "was") and not re.match(
            r"\w+ (?:the|a|an|\w+ed|known|born|elected)\b", match["rest"]
        ):
            return None
        return _finish(answer, match["rest"])
    if (match := _CHOSEN_SUBJECT.fullmatch(asked)) and _NOUN_PHRASE.match(answer):
        several = " and " in answer or answer.endswith("s")
        return _finish(answer, match["rest"]) if several or match["aux"] in ("is", "was") else None
    return None


def _state_name(asked: str, answer: str, before: str) -> str | None:
    match = _CALLED.fullmatch(asked)
    claim = _turn(match) if match else ""
    return _finish(claim, answer) if claim else None


def _state_identity(asked: str, answer: str, before: str) -> str | None:
    match = _IDENTITY.fullmatch(asked)
    if not match or re.search(
        rf"\b(?:{_PREPOSITION}|called|named|known|used|made|given|doing|like)\Z", asked
    ):
        return None
    if not (_NOUN_PHRASE.match(answer) or len(answer.split()) < 4):
        return None
    return _finish(match["subject"], match["aux"].lower(), answer)


def _state_count(asked: str, answer: str, before: str) -> str | None:
    if not _NUMBER.match(answer):
        return None
    match = _THERE.fullmatch(asked) or _COUNTED.fullmatch(asked)
    if not match:
        return None
    noun = match["noun"].lower()
    number = answer if noun.split()[-1] not in answer.lower() else ""
    if not number or not _NUMBER.fullmatch(number):
        return None
    if "there" in asked.lower().split():
        return _finish("there", match["aux"].lower(), number, match["noun"], match["rest"] or "")
    return _finish(number, match["rest"])


def _state_object(asked: str, answer: str, before: str) -> str | None:
    """State the object of a verb that ends the question."""
    match = _OBJECT.fullmatch(asked)
    claim = _turn(match) if match else ""
    if not match or not claim or claim.split()[-1] == match["rest"].split()[-1]:
        return None
    return _finish(claim, answer)


def _state_reason(asked: str, answer: str, before: str) -> str | None:
    if match := _WHY.fullmatch(asked):
        claim, placed = _turn(match), answer
        if not re.match(r"(?:because|due to|to|for|in order)\b", answer, re.I):
            found = re.search(
                r"\b(because of|because|due to|in order to|so that|since) (the |its |their )?\Z",
                before,
            )
            if not found:
                return None
            placed = f"{found[1]} {found[2] or ''}{answer}"
        return _finish(claim, placed) if claim else None
    if (match := _HOW.fullmatch(asked)) and re.match(
        r"(?:by|through|via|with|using)\b", placed := _place(answer, before)
    ):
        claim = _turn(match)
        return _finish(claim, placed) if claim else None
    return None


_RULES = (
    _state_time,
    _state_count,
    _state_name,
    _state_stranded,
    _state_object,
    _state_subject,
    _state_identity,
    _state_reason,
)


def shorten_sentence(sentence: str, kept: str) -> str | None:
    """Return a sentence without what can be left out, `kept` not among it; None if it cannot stand.

    Asides in brackets, an opening such as "However," and a subordinate clause at the end go. A
    sentence whose subject is a pronoun says nothing without the one before it.
    """
    short = " ".join(_ASIDE.sub(lambda part: part[0] if kept in part[0] else "", sentence).split())
    short = _OPENINGS.sub("", short).strip()
    if not short or _UNBOUND.match(short) or re.search(r"[:;?!]|\b(?:I|we|our)\b", short):
        return None
    for cut in _APART.finditer(short):
        head = short[: cut.start()]
        if kept in head and len(head.split()) >= 6 and head.count(",") <= 2:
            short = f"{head}."
            break
    short = f"{short[0].upper()}{short[1:]}".replace(" ,", ",")
    return short if kept in short and is_sound(short) else None
