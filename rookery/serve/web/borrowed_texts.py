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
    localize_value,
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
    # outcomes of failures, where they are counted
    mark_text("timed out"),
    mark_text("robots"),
    mark_text("refused"),
    mark_text("unresolved"),
    mark_text("tls failed"),
    mark_text("blocked address"),
    mark_text("too large"),
    mark_text("truncated"),
    mark_text("malformed"),
    mark_text("unsupported type"),
    mark_text("too many redirects"),
    mark_text("needs javascript"),
    mark_text("empty after extraction"),
    mark_text("encrypted"),
    mark_text("binary"),
    mark_text("minified"),
    mark_text("not found"),
    mark_text("search failed"),
    mark_text("search quota"),
    mark_text("search blocked"),
    mark_text("not in archive"),
    mark_text("url not shown"),
    mark_text("model timed out"),
    mark_text("model broke off"),
    mark_text("model unreachable"),
    mark_text("unreadable"),
    mark_text("stopped early"),
    mark_text("repaired"),
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
    mark_text("there is no code, because of this: %(what)s. Write to us on the platform"),
    mark_text("give a number of days from 1 to %(most)s"),
    mark_text("%(setting)s: give a number"),
    mark_text("%(setting)s: give a whole number"),
    mark_text("use a number of at least 0, and for pass_share one from 0 to 1"),
    mark_text("write currency and completion_code in letters that show"),
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
    # rookery/serve/api: answer workers and sessions
    mark_text("many are asking just now: try again in a moment"),
    mark_text("a document that was chosen is not there any more: choose others, and ask again"),
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
    mark_text("score not measured"),
    mark_text("score %(what)s"),
    mark_text(
        "The probability that the first quote answers, calibrated on questions made from these "
        "documents."
    ),
    mark_text("A %(what)s score, not calibrated on these documents."),
    mark_text(
        "Scores were measured on English only: whether this one holds in this language is not "
        "known."
    ),
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
    # rookery/draft/extract.py, evidence_answers.py, both_sides.py: declined answers and their
    # judges
    mark_text("No passage was found."),
    mark_text("No passage reached %(threshold)s; the closest are below."),
    mark_text("No sentence was judged to be for or against this claim: %(claim)s. %(what)s"),
    mark_text("%(count)s page"),
    mark_text("%(count)s pages"),
    mark_text("%(what)s, and %(count)s of %(most)s searches failed"),
    mark_text("Judged by the evidence model."),
    mark_text(
        "Judged by words alone: only a sentence that says the claim, or that it is not so, in "
        "the claim's own words takes a side."
    ),
    mark_text("Judged by %(model)s."),
    mark_text("Nothing %(what)s it was found in %(what_read)s; that is no proof."),
    mark_text("for"),
    mark_text("against"),
    # rookery/serve/answer_export.py
    mark_text("Declined: no passage reached the threshold. The closest are below."),
    mark_text("%(good)s of %(count)s quotes verified."),
    mark_text("What could not be had on the way"),
    mark_text("NOT VERIFIED"),
    mark_text("read on %(day)s"),
    mark_text("the live page"),
    mark_text("characters %(start)s–%(end)s of the version %(digest)s"),
    mark_text("%(count)s question"),
    mark_text("%(count)s questions"),
    mark_text("%(count)s answered"),
    mark_text("%(count)s declined"),
    mark_text("%(count)s without an answer"),
    mark_text("Report by Rookery, %(day)s"),
    mark_text("quote %(numbers)s"),
    mark_text("quotes %(numbers)s"),
    mark_text("version"),
    mark_text("Sources"),
    mark_text("Answered by Rookery%(what)s, method %(method)s"),
    mark_text(" on %(day)s"),
    # rookery/browse: files and pages that could not be read
    mark_text("a picture"),
    mark_text("sound or film"),
    mark_text("an archive"),
    mark_text("a program"),
    mark_text("a font"),
    mark_text("a database"),
    mark_text("numbers or a model"),
    mark_text("a document of a type that is not read"),
    mark_text("a picture, an archive or a document of a type that is not read"),
    mark_text("its bytes are not text"),
    mark_text("there is nothing in it"),
    mark_text("the page shows no text"),
    mark_text("the file holds only white space"),
    mark_text("the document holds no text"),
    mark_text("no text in the PDF: %(reason)s"),
    mark_text("minified: it was written to be run and not to be read"),
    mark_text("scripts fill it: --render runs them"),
    mark_text("%(size)s bytes; at most %(most)s are read"),
    mark_text("it has more than %(size)s bytes"),
    mark_text("more than %(size)s bytes of text"),
    mark_text("more than %(count)s characters of text"),
    mark_text("more than %(count)s characters"),
    mark_text("more than %(count)s tags"),
    mark_text("more than %(count)s elements of XML"),
    mark_text("Markdown of more than %(count)s characters"),
    mark_text("a table of more than %(count)s characters"),
    mark_text("a table of %(count)s rows and %(most)s columns"),
    mark_text("a book of %(count)s chapters"),
    mark_text("a feed of %(count)s entries"),
    mark_text("a mailbox of %(count)s messages"),
    mark_text("a PDF of %(count)s pages"),
    mark_text("the PDF takes more than %(count)s seconds"),
    mark_text("the PDF cannot be opened (%(error)s)"),
    mark_text("the PDF needs a password"),
    mark_text("the document needs a password"),
    mark_text("the document's archive needs a password"),
    mark_text("the document's archive is damaged (%(error)s)"),
    mark_text("the document's XML is damaged (%(error)s)"),
    mark_text("the document's XML declares entities"),
    mark_text("the document's XML is nested too deeply"),
    mark_text("the archive holds no text of a document"),
    mark_text("the archive holds no workbook"),
    mark_text("the archive holds no list of a book's chapters"),
    mark_text("the book is locked to the programs of the shop that sold it"),
    mark_text("the notebook holds no list of cells"),
    mark_text("the notebook is no JSON (%(error)s)"),
    mark_text("the mail cannot be read (%(error)s)"),
    mark_text("the file is damaged (%(error)s)"),
    mark_text("a picture; text is read in .png, .jpg and .tif files where tesseract is installed"),
    mark_text(
        "its pages are pictures, and reading them by OCR takes too long: let a program such as "
        "ocrmypdf write their text into the PDF"
    ),
    mark_text("%(program)s takes more than %(count)s s to read it"),
    mark_text("%(program)s cannot read it (%(error)s)"),
    mark_text("reading it took more than %(count)s s"),
    mark_text("reading it needs more than %(size)s MB of memory"),
    mark_text("its reader gave up, as it does when %(size)s MB are not enough"),
    mark_text("the process that read it ended with %(reason)s"),
    mark_text("there is no such file or folder: check the path"),
    # rookery/browse: fetching and searching
    mark_text("the server answered %(status)s"),
    mark_text("the server answered %(status)s: it wants a login or a key"),
    mark_text("the server answered %(status)s: it refuses this program or this address"),
    mark_text("the server answered %(status)s: there is no such page"),
    mark_text("the server answered %(status)s: the page is gone for good"),
    mark_text("the server answered %(status)s: too many requests; wait before the next"),
    mark_text("the server answered %(status)s: it is overloaded; try again later"),
    mark_text("%(what)s (after: %(later)s)"),
    mark_text("redirected to %(url)s: %(what)s"),
    mark_text("%(host)s was too slow; raise FetchLimits.seconds or try later"),
    mark_text("no connection to %(host)s: %(error)s; try again later"),
    mark_text("%(host)s ended its answer early (%(error)s); try again"),
    mark_text("%(host)s does not speak proper HTTP: %(error)s"),
    mark_text("the compressed body is broken: %(error)s"),
    mark_text("the body has more than %(size)s bytes; raise FetchLimits.bytes to read it"),
    mark_text("the server announces %(size)s bytes; raise FetchLimits.bytes to read them"),
    mark_text("%(kind)s holds no text to quote"),
    mark_text("robots.txt of %(site)s forbids it to %(robot)s; ask its owner"),
    mark_text("robots.txt of %(site)s did not come in time"),
    mark_text("robots.txt of %(site)s could not be had (%(error)s); try again later"),
    mark_text("other requests to %(host)s took all the time"),
    mark_text("%(host)s wants %(count)s seconds between requests"),
    mark_text("not here after the %(count)s seconds for all pages; allow more time"),
    mark_text("the time for this page was up"),
    mark_text("%(host)s has the address %(address)s, on which pages are never read"),
    mark_text("%(host)s could not be resolved (%(error)s); check the spelling and the network"),
    mark_text("%(host)s has no address"),
    mark_text("the name %(host)s was not resolved in time"),
    mark_text("no trusted TLS connection to %(host)s: %(error)s"),
    mark_text("it wants to know whether a person searches; wait, or use another engine"),
    mark_text("its page holds neither results nor the word that there are none"),
    mark_text("wait, or use another engine (%(error)s)"),
    mark_text("%(engine)s is left alone for %(count)s s more, since it refused"),
    mark_text("%(engine)s was passed over: %(what)s"),
    mark_text("only addresses that a search, an opened page or the user showed are opened"),
    mark_text("this page was never opened: open it once without --offline"),
    mark_text("%(engine)s was never asked this: ask it once without --offline"),
    mark_text("no library could be searched (%(error)s)"),
    mark_text("it is no file of this library: open addresses that a search showed"),
    mark_text("the server redirects %(what)s, at last to %(url)s"),
    mark_text("in a circle"),
    mark_text("more than %(count)s times"),
    mark_text("%(host)s has the address %(address)s, which is not on the public internet"),
    mark_text("%(what)s; allow private addresses (--allow-private) if it is yours"),
    # rookery/cite/verification.py
    mark_text("no copy of %(url)s is stored"),
    mark_text("it has fewer than three words, and no number or name"),
    mark_text("this text was read from %(url)s and never from %(address)s"),
    mark_text("verified against %(what)s; the page now differs and %(what_now)s has these words"),
    mark_text("the version of %(day)s"),
    mark_text("an earlier version"),
    mark_text("still"),
    mark_text("no longer"),
    # rookery/draft, rookery/serve: models and requests
    mark_text("no whole answer after %(count)s seconds: allow more, or ask for less"),
    mark_text("see whether it runs, and whether base_url leads to it"),
    mark_text("the answer broke off: ask again, and look into the server's log"),
    mark_text("the server gave up in the middle of the answer: ask again, and see its log"),
    mark_text("the model was closed before it had answered: ask again"),
    mark_text("nothing that the model wrote is a supported answer: the quotes stand as they are"),
    mark_text("quoted with %(percent)s %% of the page's own words, which are shown instead"),
    mark_text("its commands had no effect; the last was %(command)s"),
    mark_text(
        "the question assumes no single claim that pages could speak for or against: state one,"
        " as in “crows hold grudges”"
    ),
    mark_text("this was not asked before with these settings: ask it once without --offline"),
    mark_text("there is no %(kind)s of this name here: use one of %(known)s"),
    mark_text("the web is searched by itself: name either the web or other places"),
    mark_text("give a number from 0 to 1"),
    mark_text("%(what)s: ask in one sentence"),
    mark_text("this question ended the server more than once: ask it in other words"),
    mark_text("there is no such answer, or it is not shared any more"),
    mark_text("no answer: %(reason)s"),
    mark_text("the question is empty"),
    # rookery/serve/terminal_output.py: what is counted
    mark_text("sentence taken out, which no quote supports"),
    mark_text("sentences taken out, which no quote supports"),
    mark_text("answer quoted, as the model wrote none that is supported"),
    mark_text("shard of the library missing"),
    mark_text("shards of the library missing"),
)
"""Sentences of other modules. `%(what)s`, and names that begin so, are themselves texts here, or as
they are."""
MAX_BORROWED_CHARACTERS = 2000
"""Longer texts are no sentence of a room, and are shown as they are."""
NUMBER_NAMES = frozenset("count good most numbers size start end status".split())
"""Names of placeholders that stand for numbers alone."""
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
            values = {name: localize_value(value) for name, value in found.groupdict().items()}
            values |= {
                name: translate_borrowed_text(found[name])
                for name in values
                if name.startswith("what")
            }
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
        pattern = r"\d[\d,. ]*?" if parts[at] in NUMBER_NAMES else ".*?"
        parts[at] = f"(?P<{parts[at]}>{pattern})"
    return re.compile("".join(parts), re.DOTALL)
