"""Follow-up questions are rewritten so that they stand alone (Elgohary and others 2019, section 3).

A chat model rewrites them, or a few rules for English: an evidence model takes one question, and of
two in one text it may answer the earlier.
"""

import re
from collections.abc import Callable, Sequence

from rookery.models.chat_prompts import render_chat_prompt
from rookery.pages.page_text import neutralize_text
from rookery.pages.search_terms import QUESTION_WORDS

MOST_CONTEXT_CHARACTERS = 600
"""characters of the question before; a longer one is not added"""
MOST_FRAGMENT_WORDS = 3
"""words of a question that is too short to stand alone, such as `Why not?`"""
MOST_POINTING_WORDS = 9
"""words of a question in which "they" points back; in a longer one it points to its own subject"""
_BEGINS_AGAIN = re.compile(r"(?i)\s*(?:(?:and|but|so|even|what about|how about)\b[ ,]*)+")
_POINTS_BACK = re.compile(
    r"(?i)\b(?:its?|they|them|theirs?|him|his|s?he|hers?|this|that|these|those|same|instead|else"
    r"|(?<!are )(?<!is )(?<!were )(?<!was )there)\b"
)
_ASKING = frozenset("what which who whom whose when where why how".split())
_ASKING_ENDS = _ASKING | {"long", "many", "much", "often", "far", "exactly"}
_SPEAKERS = {"i", "we", "you", "one"}
_BE = frozenset(("is", "are", "was", "were"))
_AUXILIARIES = _BE | set(
    "do does did has have had can could will would should may might must".split()
)
_ARTICLES = set("a an the this that these those my our your his her its their each every".split())
_PREPOSITIONS = set(
    """about across after against around at before between by during for from in into
    near of off on out over per since to towards under until up with within without""".split()
)
_BOUNDARIES = {*QUESTION_WORDS, *_PREPOSITIONS, "themselves", "itself"} - {"do", "have"}
"""words that end a phrase"""
_PARTICIPLE = re.compile(
    r".*e[dn]|built|made|held|kept|paid|sold|found|born|led|sent|sung|run|done"
)


def join_questions(questions: Sequence[str]) -> str:
    """Return the last question of a conversation, with what it needs of the earlier ones.

    One that points back ("How tall is it?") is followed by what an earlier one is about, in
    brackets. A fragment ("And in winter?", "Why?") takes its place in the question before. Where
    that one is not understood it is added whole. Any other question stays to the letter.
    """
    before = topic = joined = ""
    for question in questions:
        fragment = _BEGINS_AGAIN.sub("", question, count=1).rstrip(" ?!.").split()
        lower = [word.lower() for word in fragment]
        is_whole = len(lower) > 2 and (lower[0] in _ASKING or not _AUXILIARIES.isdisjoint(lower))
        is_short = len(question.split()) <= MOST_POINTING_WORDS
        points = is_short and _POINTS_BACK.search(question) is not None
        begins_again = _BEGINS_AGAIN.match(question) is not None
        leans = points or begins_again or (not is_whole and len(fragment) <= MOST_FRAGMENT_WORDS)
        if not before.strip() or len(before) > MOST_CONTEXT_CHARACTERS or not leans:
            joined, before, topic = question, question, _find_topic(question)
        elif topic and (is_whole or (points and len(fragment) > 1)):
            joined = f"{question.strip()} ({topic})"
            before = " ".join(fragment) + "?"
            topic = topic if points else _find_topic(before) or topic
        else:
            completed = "" if is_whole else _complete_fragment(fragment, before, begins_again)
            joined = completed or f"{question.strip()} {before.strip()}"
            before = completed or before
            if _POINTS_BACK.search(before):
                joined += f" ({topic})" * bool(topic)
            elif completed:
                topic = _find_topic(completed)
    return joined


def _parse_question(question: str) -> list[list[str]]:
    """Split an English question by the order of its words; empty where that is not seen.

    The parts are what asks, an auxiliary, subject, verb and rest: What | does | the ride on bus 7 |
    cost | in winter.
    """
    words = question.rstrip(" ?!.").split()
    lower = [word.lower() for word in words]
    number = next((n for n, word in enumerate(lower) if word in _AUXILIARIES), len(words))
    asking, auxiliary, tail = words[:number], words[number : number + 1], words[number + 1 :]
    if not auxiliary and lower[:1] == ["who"]:
        return [words[:1], [], [], words[1:2], words[2:]]
    if not tail or tail[0] == "there" or (asking and _ASKING.isdisjoint(lower[:2])):
        return []
    names = lower[number] in _BE and (number > 1 or lower[0] in ("what", "who", "which", "where"))
    start, end = (1, 2) if tail[0].lower() in _SPEAKERS else _find_verb(tail, names=names)
    return [asking, auxiliary, tail[:start], tail[start:end], tail[end:]]


def _find_verb(words: Sequence[str], *, names: bool) -> tuple[int, int]:
    """Return where the verb begins and ends in the words behind the auxiliary.

    It is the last word of a phrase, but for one behind an article or a preposition; or any behind a
    bare plural. Behind "What is" (`names`) it is a participle. Without one it is empty, and stands
    before the first preposition other than "of".
    """
    if re.fullmatch(r"[a-z]+[^\Ws]s", words[0]) and _BOUNDARIES.isdisjoint(words[:2]):
        return 1, 2
    places = [
        (behind[:1].isupper(), n)
        for n, (word, behind) in enumerate(zip(words, [*words[1:], ""], strict=True))
        if (not behind.islower() or behind in _BOUNDARIES)
        and (n and word.islower() and word not in _BOUNDARIES)
        and words[n - 1].lower() not in _ARTICLES | _PREPOSITIONS
        and (not names or _PARTICIPLE.fullmatch(word))
    ]
    if places:  # "the boat Marigold sails" has a verb behind, "the virus reached Rome" has none
        return min(places)[1], min(places)[1] + 1
    return (end := _find_phrase_end(words, 0)), end


def _find_phrase_end(words: Sequence[str], start: int) -> int:
    """Return where the next preposition other than "of" stands, or else the end."""
    ends = (n for n, word in enumerate(words) if n > start and word in _PREPOSITIONS - {"of"})
    return next(ends, len(words))


def _find_topic(question: str) -> str:
    """Return what a question is about, without what it asks; empty where that is not seen."""
    if not (parsed := _parse_question(question)):
        return ""
    _, _, subject, verb, rest = parsed
    if not subject or subject[0].lower() in _SPEAKERS:
        return " ".join(rest)
    return " ".join([*subject, *([] if _PREPOSITIONS.issuperset(rest) else verb + rest)])


def _complete_fragment(fragment: list[str], before: str, begins_again: bool) -> str:
    """Put a fragment in the place of what it varies in the question before.

    Returns nothing where that place is not seen.
    """
    words, parsed = before.rstrip(" ?!.").split(), _parse_question(before)
    lower = [word.lower() for word in fragment]
    if not _PREPOSITIONS.isdisjoint(lower[:1]) and _ASKING.isdisjoint(lower):
        place = words.index(lower[0]) if lower[0] in words else len(words)
        words[place : _find_phrase_end(words, place)] = fragment
        return f"{' '.join(words)}?"
    if not fragment or not parsed or parsed[2][:1] in (["this"], ["that"]):
        return ""
    asking, auxiliary, subject, verb, rest = parsed
    if len(asking) < 2 and subject and lower[-1] in _ASKING_ENDS:
        asking, auxiliary = fragment, [auxiliary[0].lower()]
    elif not begins_again or not _ASKING.isdisjoint(lower):
        return ""
    elif not subject or subject[0].lower() in _SPEAKERS:
        rest = fragment
    else:
        subject = fragment
    completed = " ".join([*asking, *auxiliary, *subject, *verb, *rest])
    return f"{completed[0].upper()}{completed[1:]}?"


MAX_TURN_CHARACTERS = 4000
"""characters of the last question before, and of its answer, that a chat model is shown; of each
before that, half as many"""
MIN_TURN_CHARACTERS = 50
"""the same below which a conversation is not followed back any further"""


def rewrite_by_model(
    question: str,
    earlier: Sequence[str],
    complete: Callable[[str], str],
    replies: Sequence[str] = (),
) -> str | None:
    """Have a chat model rewrite a question so that it stands alone without the `earlier` ones.

    `complete` returns what the model writes after a prompt. `replies` are the answers to the last
    of the earlier questions, "" where one has none. Returns None where what it writes is no single
    question of a plausible length.
    """
    from rookery.answers.best_of_n import render_prompt

    question = " ".join(question.split())
    longest = 2 * (len(question) + max(map(len, earlier), default=0)) + 200
    turns, room = [f"Last question: {question}"], MAX_TURN_CHARACTERS
    replies = [*[""] * (len(earlier) - len(replies)), *replies]
    for before, reply in zip(reversed(earlier), reversed(replies), strict=True):
        if room < MIN_TURN_CHARACTERS:
            break
        answer = f"\nAnswer: {reply.strip()[:room]}" if reply.strip() else ""
        turns.insert(0, f"Question: {' '.join(before.split())[:room]}{answer}")
        room //= 2
    turn = neutralize_text("\n\n".join(turns))
    prompt = render_chat_prompt(render_prompt("chat_follow_up"), [turn])
    line = complete(prompt).strip().partition("\n")[0]
    line = re.sub(r"^(?:rewritten|(?:last )?question): *", "", line, flags=re.IGNORECASE)
    rewritten = line.strip('"*` ')
    return rewritten if rewritten and len(rewritten) <= longest else None
