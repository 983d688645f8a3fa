"""Words and sentences that other rooms make and pages show, translated as they are shown.

The other rooms know no languages. What they say is listed here for the catalogs as it is, with
`%(name)s` where they fill something in; a test looks for each in the modules.
"""

import re
from functools import cache

from rookery.serve.web.languages import (
    DEFAULT_LANGUAGE,
    get_language,
    load_catalog,
    mark_text,
    translate_text,
)

STORED_WORDS = (
    # roles
    mark_text("reader"),
    mark_text("labeller"),
    mark_text("reviewer"),
    mark_text("researcher"),
    mark_text("admin"),
    # kinds of judgements
    mark_text("done"),
    mark_text("extra"),
    mark_text("skipped"),
    mark_text("flagged"),
    # states of training runs
    mark_text("training"),
    mark_text("silent"),
    mark_text("stopped"),
    mark_text("ended"),
    # grades of scores
    mark_text("high"),
    mark_text("middle"),
    mark_text("low"),
    # what is paid for, measurement levels, pairs of raters
    mark_text("hour"),
    mark_text("item"),
    mark_text("nominal"),
    mark_text("ordinal"),
    mark_text("interval"),
    mark_text("researcher and labeller"),
    mark_text("labellers"),
    mark_text("researchers"),
)
"""Values of records that are shown as they are."""
SENTENCES = (
    # rookery/judge/forms.py: reasons to flag and to skip
    mark_text("It makes no sense"),
    mark_text("It should not be answered"),
    mark_text("I cannot judge this"),
    mark_text("It takes too long"),
    mark_text("I would rather not read this"),
    mark_text("Something is not shown as it should be"),
    mark_text("Support"),
    mark_text("Relevance"),
    # rookery/judge/form_parsing.py
    mark_text("Not filled in yet: %(what)s."),
    mark_text("Not filled in yet: %(what)s of answer %(letter)s."),
    mark_text("Only one can be given: %(what)s."),
    mark_text("Not one of the choices: %(what)s. Choose again."),
    mark_text("At most %(most)s characters, and these are %(count)s: %(what)s."),
    mark_text("At least %(least)s words, and these are %(count)s: %(what)s."),
    mark_text("%(field)s (answer %(letter)s)"),
    mark_text("%(field)s (reference %(number)s)"),
    mark_text("%(field)s (answer %(letter)s, reference %(number)s)"),
    mark_text("the claims"),
    mark_text(
        "One answer is both plausible and supported and the other is not: it should then be the "
        "preferred one."
    ),
    mark_text("%(what)s of “%(claim)s”"),
    mark_text("support"),
    mark_text("relevance"),
    mark_text("A claim is no part of an answer. Mark it again."),
    mark_text("A claim is no part of its answer. Mark it again."),
    mark_text("Marked twice: %(claim)s. Keep one."),
    mark_text("The answer has no such quote: %(claim)s. Choose again."),
    mark_text("There is no such part to fill in: %(field)s. Load it again."),
    # rookery/judge: accounts, crowd links, decisions, hand-out
    mark_text("no such invite was made: copy the whole link, or ask for another"),
    mark_text("it was used before, and each lets one person in once: ask for another"),
    mark_text("it is too old: ask for another"),
    mark_text("give a name without space around it, in letters that show"),
    mark_text("somebody has this name: choose another"),
    mark_text("nobody has this name: look at who there is"),
    mark_text("the link was changed or is not whole: open it from the study again"),
    mark_text("the link has ended: return the study on the platform"),
    mark_text("the link is for another study: open it from the study again"),
    mark_text("this account was closed: return the study on the platform"),
    mark_text("somebody else came with this session: open it from the study again"),
    mark_text("codes are for people of a platform"),
    mark_text("there is still something to do: the code comes after the last task"),
    mark_text("you judged this item yourself: a third person decides"),
    mark_text("there is no such item on which raters disagree: look at the list again"),
    mark_text("no such item: go back to the desk's first page"),
    mark_text("this work was not handed out to you: go back to the desk's first page"),
    mark_text("you handed this in before: correct it in your history"),
    mark_text("say why: others will ask"),
    mark_text("say why: the raters will ask"),
    mark_text("write what came of it"),
    mark_text("name the batch"),
    mark_text("the guide is empty: write what people are to do"),
    mark_text("there is no such batch: look at their names"),
    mark_text("give the snapshot a name of letters that show"),
    mark_text(
        "failed the attention check of %(batch)s: %(right)s of %(of)s right, at least %(share)s "
        "are needed"
    ),
    # rookery/judge/agreement.py
    mark_text("they judged no item in common"),
    mark_text("no item was judged by two people"),
    mark_text("one item says nothing of others"),
    mark_text("too few draws of these items give a number"),
    mark_text("it rests on one item"),
    mark_text("unanimous: everybody always said %(value)s"),
    mark_text("unanimous: both always said %(value)s"),
    # rookery/serve/demonstration_commands.py
    mark_text("this is not in the window any more: mark it again"),
    mark_text("the page holds more between these words than it shows: quote them in parts"),
    mark_text(
        "there is room for %(count)s more characters of quotes: quote less, or begin to answer"
    ),
    mark_text(
        "the same words stand further up in this window, and a quote takes those: mark a little "
        "more, until no other place reads the same, or scroll until the other place is out of sight"
    ),
    mark_text("this is none of the passages that were suggested on this page"),
    mark_text("its first words stand at other places of this page, too: scroll to it and mark it"),
    mark_text("this is longer than the window: mark the part that you need"),
    mark_text(
        "this holds characters that cannot be typed: mark what stands on either side of them"
    ),
    mark_text("no quote is cited: write [1] after what quote 1 says"),
    mark_text("there is nothing to undo"),
    mark_text("wait for the page, or cancel it"),
    mark_text("browsing has ended: go back to reading first"),
    mark_text("this is the end of the page"),
    mark_text("this is the top of the page"),
    mark_text("there is no answer yet: write one, or go back to reading"),
    mark_text("not cited yet: %(numbers)s"),
    mark_text("Searching for"),
    mark_text("Opening"),
    # rookery/serve/api/answer_workers.py
    mark_text("many are asking just now: try again in a moment"),
    # rookery/serve/methods.py
    mark_text("Quotes"),
    mark_text("The sentences that answer best, word for word. Quick, without a model."),
    mark_text("For and against"),
    mark_text("What speaks for a claim and what against it, side by side."),
    mark_text("Browse"),
    mark_text("A model reads like a person: it searches, opens pages, quotes."),
    mark_text("Quote first"),
    mark_text("A model answers and quotes what supports it, held to the page."),
    mark_text("Write"),
    mark_text("A model writes a text, each sentence resting on numbered quotes."),
    # rookery/draft/score_wording.py
    mark_text("about %(percent)s %% likely"),
    mark_text("score %(what)s"),
    mark_text(
        "The probability that the first quote answers, calibrated on questions made from these "
        "documents."
    ),
    mark_text("A %(what)s score, not calibrated on these documents."),
    mark_text(
        "A %(what)s score, not calibrated on these documents. On other documentation, %(right)s of "
        "%(count)s first quotes with such a score by the evidence model were right."
    ),
    # rookery/cite/quote_links.py
    mark_text("%(what)s, columns: %(names)s"),
    mark_text("%(what)s, read by OCR"),
    mark_text("p. %(number)s"),
    mark_text("slide %(number)s"),
    mark_text("message %(number)s"),
    mark_text("sheet “%(name)s”"),
    mark_text("chapter “%(name)s”"),
    mark_text("in “%(heading)s”"),
    mark_text("at the top"),
    mark_text("at the end"),
    mark_text("about %(percent)s %% down"),
    # rookery/serve/web/document_uploads.py, in the background
    mark_text("it has more than %(size)s MB"),
    mark_text("a document of this name is here already%(what)s: give yours another name"),
    mark_text(", %(name)s's"),
    mark_text(
        "%(what)s: HTML, PDF, Office documents, e-books, mail, Markdown and any text are read"
    ),
    # rookery/serve/web/pdf_rendering.py, whose processes import little
    mark_text("this page of the PDF cannot be drawn: read its text instead"),
    # rookery/serve/terminal_output.py
    mark_text("no evidence"),
    mark_text("no answer: the question assumes no claim that could be denied"),
    mark_text("no answer: what the model wrote cites nothing that it was shown"),
    mark_text("no answer: the model quoted nothing to answer from"),
    mark_text("no answer: the model's actions ran out before it quoted anything"),
    mark_text("no answer: the model takes the question for nonsense"),
    mark_text("no answer: the model takes the question for controversial"),
    mark_text("no answer: the model went round in circles"),
    mark_text("no answer: the model could not be asked"),
)
"""Sentences of other modules. `%(what)s` is itself one of the texts here, or as it is."""
MAX_BORROWED_CHARACTERS = 2000
"""Longer texts are no sentence of a room, and are shown as they are."""
_PLACEHOLDER = re.compile(r"%\((\w+)\)s")


def translate_borrowed_text(text: str) -> str:
    """Return a text that another room made in the language of the request; as it is if unknown."""
    if get_language() == DEFAULT_LANGUAGE or not text or len(text) > MAX_BORROWED_CHARACTERS:
        return text
    exact = load_catalog(get_language()).gettext(text)
    if exact != text:
        return exact
    for sentence, pattern in _compile_sentences():
        if found := pattern.fullmatch(text):
            values = found.groupdict()
            if "what" in values:
                values["what"] = translate_borrowed_text(values["what"])
            return translate_text(sentence, **values)
    return text


@cache
def _compile_sentences() -> list[tuple[str, re.Pattern[str]]]:
    """Return each sentence with a placeholder, and a pattern of it; the longest text first."""
    filled = [sentence for sentence in SENTENCES if "%(" in sentence]
    filled.sort(key=lambda sentence: len(_PLACEHOLDER.sub("", sentence)), reverse=True)
    return [(sentence, _make_pattern(sentence)) for sentence in filled]


def _make_pattern(sentence: str) -> re.Pattern[str]:
    parts = _PLACEHOLDER.split(sentence)
    for at in range(0, len(parts), 2):
        parts[at] = re.escape(parts[at].replace("%%", "%"))
    for at in range(1, len(parts), 2):
        parts[at] = f"(?P<{parts[at]}>.*?)"
    return re.compile("".join(parts), re.DOTALL)
