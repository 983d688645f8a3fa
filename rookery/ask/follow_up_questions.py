"""Follow-up questions, rewritten so that they stand alone (Elgohary and others 2019, section 3).

The rule is for English. It looks for words that point back ("they", "its", "what about ravens",
"why?") and takes what they point to from the question before. A question without such words stays
as it is, character for character.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

MOST_CONTEXT_CHARACTERS = 600
"""characters of the question before; nothing is taken from a longer one"""
FOLLOW_UP_PROMPT = """Rewrite the last question of a conversation so that it can be understood \
without the others: put the names of things in place of words such as "it", "they" or "there", and \
add what was left out. Change nothing else, and do not answer. If it can be understood already, \
repeat it as it is.

Question: Who wrote Middlemarch?
Question: When was she born?
Rewritten: When was the writer of Middlemarch born?

Question: How do I list the tables of a database in psql?
Question: How tall is the Eiffel Tower?
Rewritten: How tall is the Eiffel Tower?

{earlier}
Question: {question}
Rewritten:"""
"""prompt of `rewrite_by_model`"""


def _list_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_QUESTION_WORDS = _list_words("how what when where which who whom whose why")
_AUXILIARIES = _list_words(
    "do does did is are was were am can could will would shall should may might must has have had "
    "don't doesn't didn't isn't aren't wasn't weren't can't couldn't won't wouldn't shouldn't"
)
_COPULAS = _list_words("is are was were am isn't aren't wasn't weren't")
_PREPOSITIONS = _list_words(
    "of in on at for from to with by about into onto over after before during without between "
    "under through against than as per via within until since near inside outside behind"
)
_DETERMINERS = _list_words("the a an this that these those my your our some any each every no all")
_LINKS = _list_words(
    "and or but if when while because which who where whether so unless although though until "
    "since once after before what how why to"
)
"""words that begin a clause where they do not begin the question"""
_ADVERBS = _list_words(
    "itself themselves himself herself myself yourself ourselves also still ever never not too "
    "again first now then there here often usually only just really already even else instead yet "
    "always sometimes first exactly"
)
_PERSONS = _list_words("i you we one me us people somebody someone anybody anyone")
_MEASURES = _list_words(
    "many much long often far big large old high deep fast soon heavy tall wide other one ones "
    "kind kinds sort sorts exactly"
)
_SINGULAR = {"it", "its"}
_PLURAL = {"they", "them", "their", "theirs"}
_PERSONAL = {"he", "him", "his", "she", "her", "hers"}
_POSSESSIVE = {"its", "their", "his", "her", "theirs", "hers"}
_POINTING = {"this", "that", "these", "those"}
_PRONOUNS = _SINGULAR | _PLURAL | _PERSONAL
_FUNCTION_WORDS = (
    _QUESTION_WORDS | _AUXILIARIES | _PREPOSITIONS | _DETERMINERS | _LINKS | _ADVERBS | _PRONOUNS
)
# Base forms that stand after a subject; enough to see where most subjects end.
_VERBS = _list_words(
    "abort accept add allow appear apply ask attack avoid become begin behave bend bite block "
    "break breed bring build burn buy call carry catch cause change check choose clean clone "
    "close collect come commit compare compile compute configure connect consume contain control "
    "convert copy cost count cover crash create cut dance deal decide defend define delete "
    "deliver depend describe detect die differ disable display do drink drive drop eat enable "
    "encode end enter escape exclude execute exist expect expire explain export extend fail fall "
    "fear feed feel fetch fight fill find finish fix fly follow forget form gather generate get "
    "give go grow guard handle happen hate have hear help hide hold hunt identify ignore "
    "implement import improve include increase install keep kill know land last lay lead learn "
    "leave let limit list listen live load lock look lose make manage mate matter mean measure "
    "merge migrate move name need nest offer open order own parse pass pay perform pick place "
    "plan plant play prefer prevent print process produce protect prove provide publish pull push "
    "put raise reach read rebase rebuild receive recognise recognize record recover reduce refer "
    "refuse release remember remove rename repair repeat replace report require reset resolve "
    "respond restore return reuse run save say scan scold search see select sell send separate "
    "serve set share show sign sing skip sleep sort speak split spread stand start stay steal "
    "stop store strip support survive swim take talk teach tell test think throw track train "
    "transfer travel treat try turn understand undo unlock update upgrade use verify visit wait "
    "walk want warn watch wear weigh win work write"
)
_IRREGULAR_PARTICIPLES = _list_words(
    "kept made known found built held left lost sent told taught brought bought caught seen done "
    "gone given taken written shown fed set put read cut hurt born worn drawn grown thrown paid "
    "said sold"
)
_IRREGULAR_PLURALS = _list_words("people children mice geese feet teeth men women data media")
_WORD = re.compile(r"[\w$/@-]+(?:['’.][\w]+)*['’]?|[^\w\s]")
_IMPERSONAL = re.compile(
    r"\b(?:is|was|be|isn't) it (?:\w+ ){1,3}?(?:to|that|if|when|for)\b"
    r"|\b(?:does|did|will|would) it (?:take|mean|matter|help|cost|make sense)\b.* "
    r"(?:to|that|if|when|for|before|until)\b"
    r"|\bit (?:rains|snows)\b",
    re.IGNORECASE,
)
_LEADING_LINK = re.compile(r"^(?:and|but|or|so|also|then|ok|okay)\b[\s,]*", re.IGNORECASE)
_WHAT_ABOUT = re.compile(r"^(?:what|how) about\s+", re.IGNORECASE)
_POINTS_BACK = re.compile(
    r"^(?:\S+ ){0,7}(?:the same|instead|the former|the latter|the others?)\W*$"
    r"|^(?:what|who|where|how) else\b|^(?:why|how) not\W*$|^how so\W*$",
    re.IGNORECASE,
)
_SENTENCE_BEFORE = re.compile(r"^(.*\w{2,}[.!?]) +\S", re.DOTALL)
_CONTEXT = re.compile(r"^.*?\?? \((.+)\)$", re.DOTALL)


class _Phrase(NamedTuple):
    """A noun phrase of a question: question[start:end]."""

    start: int
    end: int
    text: str
    plural: bool

    @property
    def definite(self) -> str:
        """The phrase as it is named again: "a branch" as "the branch"."""
        return re.sub(r"^an? ", "the ", self.text, flags=re.IGNORECASE)


class _Parse(NamedTuple):
    """The parts of a question that a follow-up may take over."""

    auxiliary: int
    """offset of the first auxiliary verb; -1 if there is none"""
    phrases: list[_Phrase]
    """noun phrases, the subject first"""
    by_person: bool
    """the subject is "I", "you" or "we" """
    person_end: int
    """offset after that subject; -1 without one"""


def rewrite_follow_up(question: str, before: str) -> str:
    """Rewrite a question that leans on the question `before` so that it stands alone.

    Returns the question as it is if it stands alone. Where what is left out cannot be put in its
    place, the question before is added in brackets.
    """
    asked, context = question.strip(), _strip_context(before)
    if not asked or not context or len(context) > MOST_CONTEXT_CHARACTERS:
        return question
    if _tells_context(asked) or _CONTEXT.match(asked):
        return question
    core = _LEADING_LINK.sub("", asked)
    linked = core != asked
    # Of several sentences it is not known which one names the thing: they are added whole.
    earlier = _Parse(-1, [], False, -1) if _tells_context(context) else _parse_question(context)
    for rewrite in (_complete_fragment, _resolve_pronouns):
        found = rewrite(core, linked, context, earlier)
        if found is not None:
            return _tidy_question(found)
    return _add_context(asked, context) if _POINTS_BACK.search(core) else question


def rewrite_conversation(questions: Sequence[str]) -> str:
    """Return the last question of a conversation, rewritten so that it stands alone.

    Each question is rewritten with the one before it, which has been rewritten itself.
    """
    standing = ""
    for question in questions:
        standing = rewrite_follow_up(question, standing)
    return standing


def rewrite_by_model(
    question: str, earlier: Sequence[str], complete: Callable[[str], str]
) -> str | None:
    """Have a model rewrite a question so that it stands alone without the `earlier` ones.

    `complete` returns what the model writes after a prompt. Returns None where that is no single
    question of a plausible length, so that the rule is used instead.
    """
    listed = "\n".join(f"Question: {' '.join(each.split())}" for each in earlier)
    said = complete(FOLLOW_UP_PROMPT.format(earlier=listed, question=" ".join(question.split())))
    lines = said.strip().splitlines()
    found = lines[0].removeprefix("Rewritten:").strip().strip('"') if lines else ""
    longest = 2 * (len(question) + max(map(len, earlier), default=0))
    return found if found and len(found) <= longest else None


def _strip_context(before: str) -> str:
    """Return the question that names things, that in brackets of "Is it so? (Do crows sing?)"."""
    found = _CONTEXT.match(before.strip())
    return (found[1] if found else before).strip()


def _tells_context(text: str) -> bool:
    """Return True for a question after a sentence that says what it is about."""
    found = _SENTENCE_BEFORE.match(text)
    words = [_fold_word(word) for word in _find_words(found[1])] if found else []
    return sum(_is_content(word) for word in words) >= 2


def _add_context(question: str, context: str) -> str:
    return f"{question} ({context})"


def _tidy_question(text: str) -> str:
    text = " ".join(text.split())
    return text[:1].upper() + text[1:]


def _find_words(text: str) -> list[re.Match[str]]:
    return list(_WORD.finditer(text))


def _fold_word(word: re.Match[str]) -> str:
    return word[0].lower().replace("’", "'")


def _is_content(word: str) -> bool:
    return word[0].isalnum() and word not in _FUNCTION_WORDS and word not in _PERSONS


def _is_plural(word: str) -> bool:
    word = word.lower()
    return word in _IRREGULAR_PLURALS or (
        len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "'s", "’s"))
    )


def _parse_question(text: str) -> _Parse:
    """Find the auxiliary and the noun phrases of a question."""
    words = _find_words(text)
    folded = [_fold_word(word) for word in words]
    places = [n for n, word in enumerate(folded) if word in _AUXILIARIES]
    at = places[0] if places else -1
    starts_with_question = bool(folded) and folded[0] in _QUESTION_WORDS
    person = at + 1 if at >= 0 and at + 1 < len(words) and folded[at + 1] in _PERSONS else -1
    runs = _find_runs(words, folded)
    phrases = list[_Phrase]()
    if at < 0 and not starts_with_question:
        return _Parse(-1, phrases, False, -1)  # a statement, or words as for a search engine
    heads = [run for run in runs if at >= 0 and run[1] <= at]
    for first, last in [run for run in runs if at < 0 or run[0] > at]:
        subject = first == at + 1 if at >= 0 else first <= 1
        if at >= 0 and person >= 0 and first == person + 1:
            first += 1  # the verb
        elif at < 0 and subject and starts_with_question and folded[0] in ("who", "what"):
            first += 1  # the verb of "Who discovered penicillin?"
        elif subject:
            yes_or_no = at == 0 and folded[at] in _COPULAS
            whole = at >= 0 and folded[at] in _COPULAS and not yes_or_no
            last = _find_subject_end(words, folded, first, last, whole)
        if first < last:
            phrases.append(_make_phrase(text, words, first, last))
    for first, last in heads:
        while first < last and folded[first] in _MEASURES:
            first += 1
        if first < last:
            phrases.append(_make_phrase(text, words, first, last))
    start = words[at].start() if at >= 0 else -1
    return _Parse(start, phrases, person >= 0, words[person].end() if person >= 0 else -1)


def _find_runs(words: Sequence[re.Match[str]], folded: Sequence[str]) -> list[tuple[int, int]]:
    """Find runs of content words, each with its article; "of" joins two."""
    runs, n = list[tuple[int, int]](), 0
    while n < len(words):
        first = n
        if folded[n] in _DETERMINERS:
            n += 1
        start = n
        while n < len(words) and _is_content(folded[n]):
            n += 1
        if n == start:
            n = max(n, first + 1)
            continue
        joins = runs and folded[first - 1] == "of" and runs[-1][1] == first - 1 if first else False
        runs[-1:] = [(runs[-1][0], n)] if joins else [*runs[-1:], (first, n)]
    return runs


def _find_subject_end(
    words: Sequence[re.Match[str]], folded: Sequence[str], first: int, last: int, whole: bool
) -> int:
    """Return the index after the subject of words[first:last], which may hold its verb, too."""
    lead = first + (folded[first] in _DETERMINERS)
    for n in range(lead + 1, last):
        if _is_plural(folded[n - 1]) and not _is_plural(folded[n]):
            return n
        if not whole and folded[n] in _VERBS:
            return n
        if folded[n] in _IRREGULAR_PARTICIPLES or folded[n].endswith("ed"):
            return n
    if whole or last - lead < 2 or (last < len(folded) and folded[last] == "do"):
        return last
    object_follows = last < len(folded) and folded[last] in _DETERMINERS
    return last - 1 if object_follows or last - lead == 2 else lead + 2


def _make_phrase(text: str, words: Sequence[re.Match[str]], first: int, last: int) -> _Phrase:
    start, end = words[first].start(), words[last - 1].end()
    head = next((n - 1 for n in range(first + 1, last) if _fold_word(words[n]) == "of"), last - 1)
    return _Phrase(start, end, text[start:end], _is_plural(words[head][0]))


def _complete_fragment(core: str, linked: bool, context: str, earlier: _Parse) -> str | None:
    """Complete a question that is no sentence: "Why?", "And ravens?", "In winter?"."""
    about = _WHAT_ABOUT.sub("", core)
    words = _find_words(about)
    folded = [_fold_word(word) for word in words if word[0][0].isalnum()]
    if not folded or len(folded) > 8:
        return None
    named = about != core
    asks = folded[0] in _QUESTION_WORDS or (
        folded[0] in _PREPOSITIONS and len(folded) > 1 and folded[1] in _QUESTION_WORDS
    )
    content = [word for word in folded if _is_content(word) and word not in _MEASURES]
    if asks and not named:
        bare = [word for word in folded if word not in ("is", "are", "there")]
        if "there" not in folded:
            bare = folded
        if len(content) > 1 or any(word in _AUXILIARIES | _PRONOUNS | _POINTING for word in bare):
            return None
        if len(bare) < len(folded) or earlier.auxiliary < 0 or _POINTS_BACK.search(core):
            return _add_context(core, context)
        head = about.rstrip("?!. ")
        return f"{head} {_lower_first(context[earlier.auxiliary :])}"
    if any(word in _AUXILIARIES | _QUESTION_WORDS for word in folded):
        return None
    if not (named or linked or (folded[0] in _PREPOSITIONS and len(content) <= 1)):
        return None
    said = about.rstrip("?!. ")
    if folded[0] in _PREPOSITIONS:
        return _replace_circumstance(said, folded[0], context)
    if any(word in _PRONOUNS | _POINTING for word in folded):
        said = _substitute_pronouns(said, earlier) or said
    if earlier.by_person and folded[0] in _VERBS:
        return f"{context[: earlier.person_end]} {said}?"
    return _replace_topic(said, context, earlier)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _replace_circumstance(said: str, preposition: str, context: str) -> str:
    """Put "on Windows" in place of "on Linux", or at the end of the question before."""
    end = context.rstrip("?!. ")
    pattern = rf"\b{preposition} (?:\S+ )?\S+$"
    if re.search(pattern, end, re.IGNORECASE):
        return re.sub(pattern, lambda _: _lower_first(said), end, flags=re.IGNORECASE) + "?"
    return f"{end} {_lower_first(said)}?"


def _replace_topic(said: str, context: str, earlier: _Parse) -> str:
    """Put "ravens" in place of "crows" in the question before."""
    if not earlier.phrases:
        return _add_context(f"{said}?", context)
    last = _find_words(said)[-1][0]
    alike = [each for each in earlier.phrases if each.plural == _is_plural(last)]
    taken = (alike or earlier.phrases)[0]
    return context[: taken.start] + said + context[taken.end :]


def _resolve_pronouns(core: str, linked: bool, context: str, earlier: _Parse) -> str | None:
    """Put names in place of the pronouns that point outside the question; None without any."""
    if not _find_outward_words(core):
        return None
    return _substitute_pronouns(core, earlier) or _add_context(core, context)


def _substitute_pronouns(core: str, earlier: _Parse) -> str | None:
    """Return the question with phrases in place of pronouns; None where one has none."""
    text, used = core, dict[str, _Phrase]()
    for word in reversed(_find_outward_words(core)):
        said = _fold_word(word)
        kind = next((k for k in (_SINGULAR, _PLURAL, _PERSONAL) if said in k), None)
        if kind is None:
            return None
        name = "plural" if kind is _PLURAL else "singular"
        found = used.get(name) or _choose_phrase(earlier, kind, set(used.values()))
        if found is None:
            return None
        used[name] = found
        put = found.definite
        if said in _POSSESSIVE:
            put += "'" if put.endswith("s") else "'s"
        text = text[: word.start()] + put + text[word.end() :]
    return text


def _choose_phrase(earlier: _Parse, kind: set[str], used: set[_Phrase]) -> _Phrase | None:
    """Return the phrase that a pronoun stands for: the first that agrees with it."""
    left = [each for each in earlier.phrases if each not in used]
    if kind is _PERSONAL:
        return next((each for each in left if each.start > 0 and each.text[0].isupper()), None)
    agree = [each for each in left if each.plural == (kind is _PLURAL)]
    if agree:
        return agree[0]
    # "They" is also said of one thing; "it" of many things is the fact that was asked about.
    return left[0] if left and kind is _PLURAL else None


def _find_outward_words(core: str) -> list[re.Match[str]]:
    """Find the words that point to something outside the question.

    A pronoun points inside where something that agrees with it was named in an earlier clause: "Do
    crows eat them?" is about others, "Do crows hide seeds before they eat them?" is not. "Their"
    and "its" may point to what is named in their own clause.
    """
    words = _find_words(core)
    folded = [_fold_word(word) for word in words]
    impersonal = _IMPERSONAL.search(core) is not None
    found = list[re.Match[str]]()
    named, closed = set[bool](), set[bool]()
    """numbers (plural or not) of what was named so far, and in earlier clauses"""
    for n, (word, said) in enumerate(zip(words, folded, strict=True)):
        last, after = folded[n - 1] if n else "", folded[n + 1] if n + 1 < len(words) else ""
        ends = not after or not after[0].isalnum()
        if n and (said in _LINKS or said in ",;:.("):
            closed |= named
        elif said == "that" and _is_content(last or "?") and not ends:
            closed |= named  # a relative clause
        elif said == "with" and after not in _PRONOUNS:
            closed |= named  # "with everything on it"
        if said in _PRONOUNS:
            verb = _is_content(after or "?") or after in _AUXILIARIES
            relative = _is_content(last or "?") and verb  # "the waste it inherits"
            near = said in _POSSESSIVE or relative or (last == "for" and after == "to")
            agree = {True, False} if said in _PLURAL else {False}
            if not (named if near else closed) & agree and not (said == "it" and impersonal):
                found.append(word)
                named.add(said in _PLURAL)  # for what comes after: "Where do they put their eggs?"
        elif said in _POINTING:
            relative = after in _PERSONS | _PRONOUNS | {"that", "who", "which", "of"}
            stands = said != "that" or (last in _AUXILIARIES | _PREPOSITIONS) or ends
            if stands and not relative and not closed:
                found.append(word)
        elif said in ("one", "ones") and ends and not named:
            found.append(word)
        elif _is_content(said) and said not in _MEASURES and not _is_verb(folded, n, bool(named)):
            named.add(_is_plural(said))
    return found


def _is_verb(folded: Sequence[str], n: int, named: bool) -> bool:
    """Return True for a word that is the verb of its clause, as far as can be told."""
    last = folded[n - 1] if n else ""
    if last in _DETERMINERS:
        return False
    if last in _PERSONS or (n == 1 and last in ("who", "what")):
        return True
    return folded[n] in _VERBS and (last == "to" or not named)
