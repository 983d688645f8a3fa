"""Render a page for the person who asks for it: navigation by role, notices, choices of forms."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from rookery.desk.accounts import Person, has_role
from rookery.desk.forms import FieldChoice
from rookery.desk.labelling_records import PersonRole
from rookery.desk.stop_switch import has_live_run
from rookery.shell.languages import LANGUAGES, get_language, mark_text
from rookery.shell.rendering import PageAssets

SHORTCUTS_COOKIE = "keys"
"""name of the cookie that is "off" for people who turned single-key shortcuts off"""
READER_PREFIXES = ("/ask", "/answers", "/notebook", "/pages", "/documents")
"""path prefixes of the pages for readers; all other pages belong to the desk"""
NOTICES = {
    "noted": mark_text("Noted. Thank you."),
    "cancelled": mark_text("Cancelled."),
    "in": mark_text("Welcome. You are signed in."),
    "out": mark_text("You are signed out."),
    "done": mark_text("Handed in. Thank you."),
    "extra": mark_text(
        "Handed in. The time for this task had run out and somebody else has taken it up, so yours "
        "is kept as an additional judgement."
    ),
    "again": mark_text(
        "This was handed in already, and the first is what is kept. If that is not what you meant, "
        "correct it in your history."
    ),
    "skipped": mark_text("Skipped. You will not be given this task again."),
    "flagged": mark_text("Flagged. Thank you: somebody will look at it."),
    "corrected": mark_text("Corrected. The earlier version is kept beside it."),
    "decided": mark_text("Decided. What the raters handed in stays beside it."),
    "saved": mark_text("Saved. You can go on whenever you like."),
    "nothing": mark_text("There is nothing more to do for you just now. Look in again later."),
    "late": mark_text(
        "The time for this task has run out and others have taken it up. Thank you all the same."
    ),
    "keys": mark_text("Saved for this browser."),
    "shared": mark_text("Set. Who may read this answer is said below the question."),
    "linked": mark_text("Set. The link stands below the question: whoever has it can read this."),
    "withdrawn": mark_text("The link is withdrawn, and never works again."),
    "deleted": mark_text("Deleted for good."),
}
"""notice at the top of a page about what was just done, by the value of `?said=`"""


class NavigationLink(msgspec.Struct, frozen=True):
    """A link in the head of each page, shown to people with this role or a higher one."""

    address: str
    label: str
    role: PersonRole = "labeller"
    crowd: bool = False
    """True: it is also shown to people who came by a project's crowd link"""


def render_page(request: Request, template: str, status_code: int = 200, **values: Any) -> Response:
    """Render a template as a response.

    Besides `values` it receives request, person, links, keys (whether shortcuts are on), nonce (of
    the content security policy), said (the notice), alive (whether a training run is alive),
    language and languages (codes and names), and texts (of the scripts, translated).
    """
    look: PageAssets = request.app.state.desk.look
    links: tuple[NavigationLink, ...] = request.app.state.desk.links
    person = request.state.person
    common: Mapping[str, Any] = {
        "request": request,
        "person": person,
        "links": select_navigation_links(links, person, request.url.path),
        "keys": request.cookies.get(SHORTCUTS_COOKIE) != "off",
        "nonce": request.state.nonce,
        "alive": False,
        "language": get_language(),
        "languages": LANGUAGES,
        "texts": look.translate_script_texts(),
        "said": NOTICES.get(request.query_params.get("said", ""), ""),
    }
    if person and person.project is None and "alive" not in values:
        values["alive"] = has_live_run(request.app.state.desk.store)
    html = look.templates.get_template(template).render({**common, **values})
    return HTMLResponse(html.encode("utf-8", "replace"), status_code)


def select_navigation_links(
    links: Sequence[NavigationLink], person: Person | None, path: str
) -> list[NavigationLink]:
    """Return the head links that the person may use on the page at this path.

    These are the links of its half of the site (reader pages or desk) and, if the person may use
    anything of the other half, one link to that.
    """
    if person and person.project is not None:
        return [link for link in links if link.crowd]
    first = sorted(links, key=lambda link: link.address not in ("/", "/asked"))
    open_ones = [link for link in first if person and has_role(person, link.role)]
    siblings = [
        link for link in open_ones if _is_reader_path(link.address) == _is_reader_path(path)
    ]
    if len(siblings) == len(open_ones):
        return siblings
    if _is_reader_path(path):
        return [*siblings, NavigationLink("/desk", "Desk")]
    return [NavigationLink("/", "Ask"), *siblings]


def _is_reader_path(path: str) -> bool:
    """Return whether the page at this path is one for readers."""
    return path == "/" or path.startswith(READER_PREFIXES)


def shorten_choice_labels(options: Sequence[FieldChoice]) -> list[tuple[str, str]]:
    """Return (value, short label) of each choice.

    The label is cut before its colon, and loses its last word if all labels share it.
    """
    heads = [choice.label.partition(":")[0].split() for choice in options]
    same = len({head[-1] for head in heads}) == 1 and all(len(head) > 1 for head in heads)
    return [
        (choice.value, " ".join(head[:-1] if same else head))
        for choice, head in zip(options, heads, strict=True)
    ]


def pair_choice_labels(options: Sequence[FieldChoice]) -> list[tuple[str, str]]:
    """Return (value, label) of each choice."""
    return [(choice.value, choice.label) for choice in options]


def number_quote_choices(count: int) -> list[tuple[str, str]]:
    """Return (value, label) for choosing among `count` quotes: values from 0, labels from 1."""
    return [(str(number), str(number + 1)) for number in range(count)]


TEMPLATE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "short": shorten_choice_labels,
    "pairs": pair_choice_labels,
    "numbers": number_quote_choices,
}
"""functions that the templates of forms call"""
