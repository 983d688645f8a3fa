"""People who work at a desk, made up."""

from collections.abc import Sequence
from typing import Any

from stores import Clock

from rookery.desk import accounts, labelling_queue
from rookery.desk.forms import FORMS, GoldLabels, Judgement, LabellingItem
from rookery.desk.store import Store
from rookery.records import Answer, Question, digest_of


def some(
    form: str, count: int, gold: dict[str, Any] | None = None, about: str = "crows"
) -> list[LabellingItem]:
    """Items of a form, each with answers of its own."""
    return [
        LabellingItem(
            form,
            Question(f"{about}{number}", f"Why {about} {number}?", gold=("So.",)),
            tuple(Answer(f"{about} {number} {each}") for each in range(FORMS[form].answers)),
            gold=GoldLabels(gold) if gold is not None else None,
        )
        for number in range(count)
    ]


class Desk:
    """A store, and what people do there."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock = store, clock

    def hire(self, *names: str, role: Any = "labeller") -> None:
        """Makes people."""
        for name in names:
            accounts.add_person(self.store, name, role)

    def lay(
        self, items: Sequence[LabellingItem], batch: str = "first", copies: int = 9, **more: Any
    ) -> list[str]:
        """Puts items there; their ids."""
        labelling_queue.add_items(self.store, items, batch, copies, **more)
        return [digest_of(f"{batch}\n{item.to_json()}") for item in items]

    def judge(
        self,
        person: str,
        item: str,
        seconds: float = 600.0,
        supersedes: str = "",
        **filled: Any,
    ) -> str:
        """Fills one in, or corrects it; the judgement's id."""
        began, form = self.clock(), FORMS[labelling_queue.load_item(self.store, item).form]
        self.clock.pass_by(seconds)
        order = labelling_queue.shuffle_answers(item, person, form.answers)
        judgement = Judgement(
            digest_of(f"{item} {person} {supersedes}"),
            item,
            person,
            "done",
            filled,
            form.digest,
            1,
            order,
            False,
            began,
            self.clock(),
            supersedes,
        )
        labelling_queue.restore_judgements(self.store, [judgement])
        return judgement.id

    def skip(self, person: str, item: str, reason: str = "too_long") -> None:
        """Leaves it to others."""
        lease = labelling_queue.claim_item(self.store, person, item=item)
        assert lease is not None
        labelling_queue.skip_item(self.store, lease.token, person, reason)
