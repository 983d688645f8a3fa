"""What readers think of an answer, kept as the desk keeps judgements: so it can be learnt from.

A verdict is a judgement of an item of the form "thumbs"; that a citation is wrong is a flag of the
same item, which says which. It knows nothing of pages.
"""

from typing import NamedTuple

import msgspec
from sqlalchemy import select

from rookery.judge import filling, guides, handing_in, handout
from rookery.judge.forms import FORMS
from rookery.judge.store import Store
from rookery.judge.tables import judgements
from rookery.judge.work import Item, Judgement, Kind
from rookery.records import Answer, Failed, Failure, digest_of
from rookery.serve.web.asked import Asked

SOURCE = "reading"
"""of the items, and the name of their batch"""
FORM = FORMS["thumbs"]
WRONG = "citation {} is wrong"
LONGEST = 2000
"""characters of what somebody says to it"""


class Said(NamedTuple):
    """What one person said of an answer."""

    thumbs: str
    """up, down or nothing"""
    comment: str
    wrong: frozenset[int]
    """numbers of citations, from 1 on"""


def rate(store: Store, asked: Asked, person: str, thumbs: str, comment: str) -> None:
    """Keeps a person's verdict on an answer, in place of their earlier one. Raises Failed:
    not_rated."""
    item = _item(asked)
    raw = {"thumbs.0": [thumbs], "comment": [comment.strip()[:LONGEST]]}
    read = filling.read(FORM, item, (0,), raw, whole=False)
    if read.problems:
        raise Failed(Failure(asked.id, "not_rated", "say whether the answer is good or bad"))
    key = _laid(store, item)
    before = [each for each in _made(store, key, person) if each.kind in ("done", "extra")]
    made = _judgement(store, asked, key, person, "done", read.filled)
    if not before:
        handing_in.restore(store, [made])
    elif before[0].filled != read.filled:
        handing_in.correct(store, _replaced(made, before[0].id))


def flag(store: Store, asked: Asked, person: str, number: int, words: str) -> None:
    """Keeps that a person holds the citation of this number, from 1 on, to be wrong. Raises Failed:
    not_rated."""
    answer = _answer(asked)
    if not 1 <= number <= len(answer.quotes):
        raise Failed(Failure(asked.id, "not_rated", "name a citation that the answer has"))
    reason = ": ".join(filter(None, [WRONG.format(number), words.strip()[:LONGEST]]))
    key = _laid(store, _item(asked))
    made = _judgement(store, asked, key, person, "flagged", {"reason": reason}, str(number))
    handing_in.restore(store, [made])


def said(store: Store, asked: Asked, person: str) -> Said:
    """What a person said of an answer, as it stands now."""
    found = _made(store, _id(_item(asked)), person)
    verdicts = [each.filled for each in found if each.kind in ("done", "extra")]
    thumbs, comment = "", ""
    if verdicts:
        (thumbs,), comment = verdicts[0]["thumbs"], verdicts[0].get("comment", "")
    reasons = [str(each.filled.get("reason", "")) for each in found if each.kind == "flagged"]
    numbers = range(1, len(_answer(asked).quotes) + 1)
    wrong = {n for n in numbers if any(r.partition(":")[0] == WRONG.format(n) for r in reasons)}
    return Said(thumbs, comment, frozenset(wrong))


def _item(asked: Asked) -> Item:
    assert asked.answered is not None
    episode = asked.answered.episode
    writer = " ".join(filter(None, [episode.by, asked.wanted.model]))
    return Item(FORM.name, episode.question, (_answer(asked),), (writer,), source=SOURCE)


def _answer(asked: Asked) -> Answer:
    """The answer itself. Raises Failed where there is none to rate."""
    if asked.answered is None or asked.answered.episode.answer is None:
        raise Failed(Failure(asked.id, "not_rated", "there is no answer that could be rated"))
    return asked.answered.episode.answer


def _laid(store: Store, item: Item) -> str:
    """The item's id, once it is in the store."""
    handout.add(store, [item], SOURCE, wanted=1)
    return _id(item)


def _id(item: Item) -> str:
    return digest_of(f"{SOURCE}\n{item.to_json()}")


def _made(store: Store, item: str, person: str) -> list[Judgement]:
    """A person's judgements of an item, the newest first."""
    its = (judgements.c.item == item) & (judgements.c.person == person)
    query = select(judgements.c.body).where(its).order_by(judgements.c.number.desc())
    with store.reading() as connection:
        return [Judgement.from_json(body) for body in connection.scalars(query)]


def _judgement(
    store: Store,
    asked: Asked,
    item: str,
    person: str,
    kind: Kind,
    filled: dict[str, object],
    about: str = "",
) -> Judgement:
    return Judgement(
        id=digest_of(f"{SOURCE} {item} {person} {kind} {about}"),
        item=item,
        by=person,
        kind=kind,
        filled=filled,
        form_version=FORM.digest,
        guide_version=guides.guide(store, FORM.name).version,
        order=(0,),
        whole=False,
        began=asked.ended or asked.made,
        ended=store.clock(),
    )


def _replaced(made: Judgement, before: str) -> Judgement:
    return msgspec.structs.replace(made, supersedes=before)
