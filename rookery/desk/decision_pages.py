"""Pages on which a third person decides what raters disagree about.

The list of such items, and each item with the raters' judgements side by side above the form on
which the decision is made. What the raters agree on is filled in beforehand.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from rookery.desk import adjudication, labelling_queue
from rookery.desk.adjudication import Disagreement
from rookery.desk.form_parsing import FormControl, TaskForm, make_filled_form
from rookery.desk.form_versions import list_forms, load_form
from rookery.desk.forms import Decision, Judgement, PostedValues
from rookery.desk.judgement_conversion import get_comparison_key
from rookery.desk.page_endpoints import (
    PageHandler,
    explain_refusal,
    get_form_fields,
    get_last_value,
    get_person_name,
    get_posted_value,
    get_store,
    redirect_after_post,
    render_page,
)
from rookery.errors import Failed, Outcome

MAX_LISTED_DISAGREEMENTS = 200
"""most items in the list; undecided ones come first"""


class ComparedField(NamedTuple):
    """One input of the form, with what each rater put in."""

    label: str
    letter: str
    """letter of the answer that it is about; empty: of none, or the only one"""
    quote: int | None
    """number of the quote that it is about, from 0"""
    said: tuple[str, ...]
    """value of each rater in words, in the order of the judgements"""

    @property
    def differs(self) -> bool:
        """True if the raters put in different values."""
        return len(set(self.said)) > 1


def show_disagreements_page(request: Request) -> Response:
    """Show the items on which raters disagree or did so, undecided ones first."""
    disagreements = adjudication.load_disagreements(get_store(request))
    return render_page(
        request,
        "disagreements.html",
        found=disagreements[:MAX_LISTED_DISAGREEMENTS],
        waiting=sum(each.decision is None for each in disagreements),
        count=len(disagreements),
        forms={form.name: form for form in list_forms(get_store(request))},
    )


def show_disagreement_page(request: Request) -> Response:
    """Show one item: the answers, the raters' judgements, and the form of the decision."""
    dispute = adjudication.load_disagreement(get_store(request), request.path_params["item"])
    raw = _find_agreed_values(request, dispute)
    return _render_disagreement(request, dispute, _make_sheet(request, dispute, raw))


def post_decision(request: Request) -> Response:
    """Store the decision on an item, or show what is still missing."""
    store, posted = get_store(request), get_form_fields(request)
    item = request.path_params["item"]
    dispute = adjudication.load_disagreement(store, item)
    empty = _make_sheet(request, dispute, {})
    sheet = _make_sheet(request, dispute, empty.merge_posted(empty.form.steps, posted), check=True)
    if sheet.problems:
        return _render_disagreement(request, dispute, sheet)
    try:
        reason = get_last_value(posted, "reason")
        adjudication.decide_item(store, item, get_person_name(request), sheet.filled, reason)
    except Failed as failed:
        if failed.failure.outcome == Outcome.NO_ITEM:
            raise
        return _render_disagreement(request, dispute, sheet, explain_refusal(failed))
    return redirect_after_post("/disagreements?said=decided")


def _render_disagreement(
    request: Request, dispute: Disagreement, sheet: TaskForm, wrong: str = ""
) -> Response:
    return render_page(
        request,
        "disagreement.html",
        422 if wrong or sheet.problems else 200,
        dispute=dispute,
        sheet=sheet,
        compared=_compare_fields(request, dispute),
        mine=get_person_name(request) in dispute.raters,
        reason=get_posted_value(request, "reason"),
        wrong=wrong,
        wide=True,
    )


def _make_sheet(
    request: Request, dispute: Disagreement, raw: PostedValues, check: bool = False
) -> TaskForm:
    """Return the newest version of the form, with which decisions are made, with the answers in the
    order in which this person sees them."""
    item, person = dispute.placed.item, get_person_name(request)
    order = labelling_queue.shuffle_answers(dispute.placed.id, person, len(item.answers))
    return TaskForm(load_form(get_store(request), item.form), item, order, False, raw, check)


def _read_sheets(
    request: Request, dispute: Disagreement, judgements: Sequence[Judgement | Decision]
) -> list[TaskForm]:
    """Return what was said on each occasion, on the version of the form on which it was said."""
    store, item = get_store(request), dispute.placed.item
    order = _make_sheet(request, dispute, {}).order
    forms = (load_form(store, item.form, each.form_version) for each in judgements)
    return [
        make_filled_form(form, item, order, each.filled)
        for form, each in zip(forms, judgements, strict=True)
    ]


def _find_agreed_values(request: Request, dispute: Disagreement) -> PostedValues:
    """Return the values to begin with: of the decision, else those in which all raters agree.

    Left out are questions whose choices are others now than in the version that was judged.
    """
    judgements = dispute.judgements if dispute.decision is None else (dispute.decision,)
    sheets = _read_sheets(request, dispute, judgements)
    choices = [
        {field.name: get_comparison_key(field) for field in sheet.form.fields}
        for sheet in (_make_sheet(request, dispute, {}), *sheets)
    ]
    return {
        name: values
        for name, values in sheets[0].raw.items()
        if all(list(each.raw.get(name, ())) == list(values) for each in sheets)
        and len({each.get(name.partition(".")[0]) for each in choices}) == 1
    }


def _compare_fields(request: Request, dispute: Disagreement) -> list[ComparedField]:
    sheets = _read_sheets(request, dispute, dispute.judgements)
    # A question that depends on another page is missing where its condition does not hold.
    listed = [
        {each.name: each for step in sheet.form.steps for each in sheet.list_controls(step)}
        for sheet in sheets
    ]
    compared = []
    for name in dict.fromkeys(name for each in listed for name in each):
        controls = [each.get(name) for each in listed]
        first = next(each for each in controls if each is not None)
        if first.field.kind in ("claims", "spans"):
            continue
        letter = sheets[0].answers[first.answer].letter if first.answer is not None else ""
        values = tuple("" if each is None else _describe_values(each) for each in controls)
        if any(values):
            compared.append(ComparedField(first.field.label, letter, first.quote, values))
    return compared


def _describe_values(control: FormControl) -> str:
    labels = {option.value: option.label for option in control.options}
    return ", ".join(labels.get(value, value) for value in control.values)


DECISION_PAGES: Mapping[str, PageHandler] = {
    "/disagreements": show_disagreements_page,
    "/disagreements/{item}": show_disagreement_page,
    "POST /disagreements/{item}": post_decision,
}
"""pages on which disagreements are decided, for reviewers"""
