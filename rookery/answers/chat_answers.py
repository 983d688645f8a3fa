"""Answers of a chat model: it writes the searches, reads whole sections, and what it cites is kept.

It is WebGLM (section 3) for models that can choose for themselves: a system message says the rules,
the references are sections with their headings, and a reply without a usable citation is asked for
once more before it is shown as unchecked.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from heapq import nlargest
from random import Random
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from rookery.answers.best_of_n import (
    MAX_ANSWER_CHARACTERS,
    AnswerDraft,
    BestOfNSettings,
    answer_with_best_draft,
    make_failed_episode,
    render_prompt,
)
from rookery.answers.retrieval import RetrievalLimits, find_document_date, gather_passages
from rookery.answers.webglm import WEBGLM_METHOD
from rookery.errors import Failed, Outcome
from rookery.evidence.claim_support import judge_claim_support
from rookery.evidence.evidence_model import EvidenceJudge, EvidencePassage
from rookery.evidence.passage_ranking import PassageRanker, RankingObserver
from rookery.models.chat_prompts import make_reply_form, render_chat_prompt
from rookery.pages.page_text import neutralize_line, neutralize_text
from rookery.pages.passages import PassageSizes, cut_passages, find_sentences
from rookery.quotes.chat_replies import list_hidden_spans, read_chat_reply, strip_wrapping
from rookery.quotes.citation_syntax import render_numbered
from rookery.quotes.repair import list_content_words, list_guarded_words, measure_shared_words
from rookery.records import (
    Answer,
    Claim,
    Episode,
    Failure,
    Hit,
    Library,
    Page,
    Policy,
    Question,
    Quote,
    Step,
)

_FUSION = 10
"""constant of reciprocal rank fusion (Cormack and others 2009, who have 60 for lists of 1,000)"""
CHARACTERS_PER_TOKEN = 4
"""of English text, about"""
_REPEATED_WORDS = 0.8
"""share of a section's words in a better one from which it repeats that"""
_NEARLY_VERBATIM = 0.85
"""share of a sentence's words in a reference from which it rests on that"""
_LIKELY_SOURCE = 0.57
"""the same where the evidence model agrees (WebGLM, section 3.2.2)"""
_UNLIKELY_SOURCE = 0.25
"""share of a claim's words below which its citation is doubtful where the model disagrees"""
_WORTH_ADDING = 0.1
"""share of a claim's words that a further sentence must add to a quote"""
_SEARCH_LINE = re.compile(r"(?im)^[\W\d_]*search(?: for)?\s*:\s*(.+)$")
"""a search that a refusal asks for; a line of an answer may look alike"""
_LAST_SEARCHES = re.compile(r"(?:\n+SEARCH: [^\n]+)+\s*\Z")
_QUERY_MARKS = re.compile(r"^[\s\-*•>]*(?:\d{1,2}[.)]\s*)?(?:(?:search|query)(?: \d)?:\s*)?", re.I)


class ChatSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of answers by a chat model."""

    context_tokens: int = 8000
    """tokens of a prompt, about"""
    references: int = 20
    """maximum number of references in a prompt"""
    rounds: int = 2
    """maximum number of times that is searched: again where the model says what it lacks"""
    queries: int = 3
    """maximum number of searches at a time, beside the question itself"""
    ranked: int = 32
    """maximum number of passages that are ranked"""
    sizes: PassageSizes = PassageSizes(short=1200, long=2400)
    """sizes of a section that is shown"""
    longest: int = 900
    """maximum characters of a quote, which is the part of a section that a claim rests on; 0: the
    section as it is"""
    limits: RetrievalLimits = RetrievalLimits()
    """limits of retrieval"""


class Reference(NamedTuple):
    """A section that the model is shown."""

    page: Page
    quote: Quote
    """the section"""
    heading: str
    """title of the page and headings above the section"""

    def narrow_to_claim(self, claim: str, longest: int) -> tuple[int, int]:
        """Return the span of the sentences that share the most words with a claim.

        Neighbours are added while they share words that the others do not, up to `longest`
        characters.
        """
        text, (start, end) = self.page.text, (self.quote.start, self.quote.end)
        sentences = find_sentences(self.page, start, end) or [(start, end)]
        shares = [_measure_match(claim, text[low:high]) for low, high in sentences]
        first = last = max(range(len(sentences)), key=shares.__getitem__)
        best = shares[first]
        while True:
            wider = [(first - 1, last)] * (first > 0) + [(first, last + 1)] * (
                last + 1 < len(sentences)
            )
            spans = [(a, b, text[sentences[a][0] : sentences[b][1]]) for a, b in wider]
            gains = [
                (_measure_match(claim, words), a, b)
                for a, b, words in spans
                if len(words) <= longest
            ]
            if not gains or max(gains)[0] < best + _WORTH_ADDING:
                return sentences[first][0], min(sentences[last][1], end)
            best, first, last = max(gains)


def answer_by_chat(
    question: Question,
    library: Library,
    policy: Policy,
    planner: Policy,
    rank: PassageRanker,
    choosing: BestOfNSettings = BestOfNSettings(),
    settings: ChatSettings = ChatSettings(),
    observe: RankingObserver = lambda ranked: None,
    on_command: Callable[[str], None] = lambda command: None,
    judge: EvidenceJudge | None = None,
) -> Episode:
    """Answer a question from the sections that a chat model's own searches find.

    `planner` writes the searches, and `policy`, which is the same model, the answer; `on_command`
    gets each search. The citations that it writes stay; one that neither the evidence model nor
    shared words bear out is marked as doubtful, and a sentence without one gets that of a reference
    that it repeats. A reply that cites nothing is asked for once more, and is then shown as it is,
    unchecked, above what it was shown. Where it says that the answer is not there, more is
    searched, and at last the answer is declined.
    """
    steps: list[Step] = []
    search = ChatSearch(question, library, rank, settings, observe, on_command)
    try:
        queries = write_queries(question, planner, steps, settings.queries)
    except Failed as error:
        return make_failed_episode(question, WEBGLM_METHOD, error)
    asking = ChatQuestion(question, policy, choosing, settings, judge)
    for number in range(settings.rounds):
        passages, failures = search.add_searches(queries), search.failures
        if not passages:
            none = Outcome.NO_EVIDENCE
            return Episode(question, WEBGLM_METHOD, tuple(steps), None, none, tuple(failures))
        references = choose_references(passages, settings)
        episode, queries = asking.answer(references, steps, failures)
        queries = [each for each in queries if each not in search.searched][: settings.queries]
        steps = list(episode.steps)
        if not queries or number + 1 == settings.rounds:
            break
    return list_searches(episode, search.searched)


class ChatSearch:
    """Searches of a chat model: passages, ordered by their ranks in all and by a ranker."""

    def __init__(
        self,
        question: Question,
        library: Library,
        rank: PassageRanker,
        settings: ChatSettings,
        observe: RankingObserver,
        on_command: Callable[[str], None],
    ):
        self._question, self._library, self._rank = question, library, rank
        self._settings, self._observe, self._on_command = settings, observe, on_command
        self._passages: dict[tuple[str, int], tuple[Page, Hit]] = {}
        self._scores = defaultdict[tuple[str, int], float](float)
        self.searched: list[str] = []
        self.failures: list[Failure] = []

    def add_searches(self, queries: Sequence[str]) -> list[tuple[Page, Hit]]:
        """Search for each, and return the passages that were found so far, best first."""
        scores, settings = self._scores, self._settings
        for query in queries:
            self._on_command(f"Search {query}")
            self.searched.append(query)
            gathered = gather_passages(query, self._library, settings.limits)
            self.failures += (each for each in gathered.failures if each not in self.failures)
            for place, (page, hit) in enumerate(gathered.found):
                self._passages.setdefault((page.digest, hit.start), (page, hit))
                scores[page.digest, hit.start] += 1 / (_FUSION + place)
        if not scores:
            return []
        fused: dict[tuple[Page, Hit], float] = {}
        for key in nlargest(settings.ranked, scores, scores.__getitem__):
            page, hit = self._passages[key]
            hit = msgspec.structs.replace(
                hit, score=scores[key] * _FUSION / len(self.searched), similarity=0.0
            )
            fused[page, hit] = scores[key]
        ranked = self._rank(self._question.text, list(fused))
        self._observe(ranked)
        for place, each in enumerate(ranked):
            fused[each.page, each.hit] += 2 / (_FUSION + place)
        return sorted(fused, key=lambda each: -fused[each])


def list_searches(episode: Episode, searched: Sequence[str]) -> Episode:
    """Return the episode with what was searched below its answer, if that is declined."""
    answer = episode.answer
    if answer is not None and answer.declined and episode.stop == "declined":
        text = f"{answer.text}\n\nSearched for: {'; '.join(dict.fromkeys(searched))}"
        answer = msgspec.structs.replace(answer, text=text)
    return msgspec.structs.replace(episode, answer=answer)


def write_queries(question: Question, planner: Policy, steps: list[Step], most: int) -> list[str]:
    """Return the question and up to `most` searches that the model writes for it.

    What is asked and said is added to `steps`. Raises what the planner raises.
    """
    prompt = render_chat_prompt(render_prompt("chat_queries"), [show_question(question)])
    [said] = planner.complete(prompt, 1)
    steps.append(Step(prompt, said))
    return [question.text, *_read_queries(said.text, question.text)][: most + 1]


def _read_queries(text: str, question: str) -> list[str]:
    lines = (_QUERY_MARKS.sub("", line).strip(" \"'“”`*") for line in text.splitlines())
    queries = (line for line in lines if 2 < len(line) <= 200 and not line.endswith(":"))
    return [each for each in dict.fromkeys(queries) if each.casefold() != question.casefold()]


def show_question(question: Question) -> str:
    """Render a question for a prompt."""
    return f"Question: {neutralize_text(question.text).strip()}"


def choose_references(
    passages: Sequence[tuple[Page, Hit]], settings: ChatSettings
) -> list[Reference]:
    """Return the sections that hold the passages, best first, as many as the prompt holds.

    A section is as long as its heading and `settings.sizes` allow. One that repeats a better one is
    left out.
    """
    room = settings.context_tokens * CHARACTERS_PER_TOKEN
    sections: dict[str, list[tuple[int, int, str]]] = {}
    references: list[Reference] = []
    words: list[set[str]] = []
    for page, hit in passages:
        if page.digest not in sections:
            sections[page.digest] = [
                (each.start, each.end, f"{each.context} {each.label}".strip())
                for each in cut_passages(page, settings.sizes)
            ]
        overlap = [min(e, hit.end) - max(s, hit.start) for s, e, _ in sections[page.digest]]
        start, end, heading = hit.start, hit.end, ""
        if overlap and max(overlap) > 0:
            start, end, heading = sections[page.digest][overlap.index(max(overlap))]
        own = set(page.text[start:end].lower().split())
        repeated = any(len(own & other) >= _REPEATED_WORDS * len(own) for other in words)
        room -= 0 if repeated else end - start + 200
        if (room < 0 and references) or len(references) == settings.references:
            break
        if not repeated:
            words.append(own)
            title = " › ".join(dict.fromkeys(filter(None, [page.title, *heading.split(" > ")])))
            references.append(Reference(page, page.quote_whole_words(start, end), title))
    return references


def render_reference_blocks(references: Sequence[Reference]) -> str:
    """Render numbered references: title and headings, address, date, and the text with its lines.

    The date is the one that the document gives itself, if it does.
    """
    blocks = []
    for number, (page, quote, heading) in enumerate(references, 1):
        split = urlsplit(quote.url)
        name = unquote(split.path.rpartition("/")[2]) if split.scheme == "file" else quote.url
        place = ", ".join(filter(None, [name, find_document_date(page, quote.start)]))
        head = f"♦Reference [{number}]: {neutralize_line(heading)} ({neutralize_line(place)})"
        blocks.append(f"{head}\n{neutralize_text(quote.text).strip()}")
    return "\n\n".join(blocks)


def render_answer_prompt(question: Question, quotes: Sequence[Quote]) -> str:
    """Render the prompt for an answer from quotes."""
    turn = _ask_from_references(question, _reference_quotes(quotes))
    return render_chat_prompt(render_prompt("chat_answer"), [turn])


def _reference_quotes(quotes: Sequence[Quote]) -> list[Reference]:
    return [Reference(Page("", "", ""), quote, quote.title) for quote in quotes]


def _ask_from_references(question: Question, references: Sequence[Reference]) -> str:
    return f"{render_reference_blocks(references)}\n\n{show_question(question)}"


def choose_by_votes(
    policy: Policy, question: Question, answers: Sequence[Answer]
) -> tuple[int, tuple[Step, ...]]:
    """Have a chat model choose the best answer, twice, in opposite orders that chance decides.

    Returns the index of the first of those with the most votes, and what was asked and said. A
    choice that cannot be read is no vote. Raises what the policy raises.
    """
    order, votes, steps = list(range(len(answers))), [0] * len(answers), list[Step]()
    Random(question.text).shuffle(order)  # by a seed, so that a replay asks the same
    form = make_reply_form(reason="string", best="integer")
    for places in (order, order[::-1]):
        blocks = [_show_answer(n, answers[place]) for n, place in enumerate(places, 1)]
        turn = "\n\n".join([*blocks, show_question(question)])
        prompt = render_chat_prompt(render_prompt("chat_choice"), [turn], reply_form=form)
        [reply] = policy.complete(prompt, 1)
        steps.append(Step(prompt, reply))
        chosen = _BEST.search(reply.text) or re.search(r"(\d{1,3})", reply.text)
        if chosen and 0 < int(chosen[1]) <= len(places):
            votes[places[int(chosen[1]) - 1]] += 1
    return votes.index(max(votes)), tuple(steps)


def _show_answer(number: int, answer: Answer) -> str:
    quotes = (f"[{at}] {each.text[:_SHOWN_QUOTE]}" for at, each in enumerate(answer.quotes, 1))
    text = "\n".join([render_numbered(answer), "Its quotes:", *map(neutralize_line, quotes)])
    return f"♦Answer [{number}]\n{neutralize_text(text)}"


_BEST = re.compile(r"\bbest\b\W*(?:(?:answer|one|number|is)\W*)*(\d{1,3})\b", re.IGNORECASE)
_SHOWN_QUOTE = 600
"""characters of a quote that a model is shown when it chooses"""


class ChatQuestion(NamedTuple):
    """A question that a chat model is asked, once or more."""

    question: Question
    policy: Policy
    choosing: BestOfNSettings
    settings: ChatSettings
    judge: EvidenceJudge | None
    method: str = WEBGLM_METHOD

    def answer_quotes(
        self, quotes: Sequence[Quote], before: Sequence[Step], failures: Sequence[Failure]
    ) -> Episode:
        """Return the episode of an answer from quotes, which stay whole where `longest` is 0."""
        return self.answer(_reference_quotes(quotes), before, failures)[0]

    def answer(
        self, references: Sequence[Reference], before: Sequence[Step], failures: Sequence[Failure]
    ) -> tuple[Episode, list[str]]:
        """Return the episode that these references give, and the searches that the model asks for.

        Where it asks for none, the episode is the last.
        """
        quotes = [each.quote for each in references]
        turns = [_ask_from_references(self.question, references)]
        prompt = render_chat_prompt(render_prompt("chat_answer"), turns)
        episode, drafts = self._sample(prompt, quotes, self.choosing, before, failures)
        if episode.answer is not None or episode.stop != Outcome.BAD_SYNTAX:
            return self._check_episode(episode, references), []
        refused = next((draft for draft in drafts if draft.fault == _REFUSED), None)
        if refused is None:
            turns += [drafts[0].step.said.text, _ASK_AGAIN.format(fault=drafts[0].fault)]
            again = render_chat_prompt(render_prompt("chat_answer"), turns)
            one = msgspec.structs.replace(self.choosing, samples=1)
            episode, more = self._sample(again, quotes, one, episode.steps, failures)
            if episode.answer is not None or episode.stop != Outcome.BAD_SYNTAX:
                return self._check_episode(episode, references), []
            refused = next((draft for draft in more if draft.fault == _REFUSED), None)
            drafts = [*more, *drafts]
        if refused is not None:
            text = refused.step.said.text
            reply = re.sub(r"(?i)\Anot found\W*", "", strip_wrapping(_SEARCH_LINE.sub("", text)))
            nearest = choose_nearest(self.question, references, self.settings.longest)
            answer = Answer(reply, nearest, declined=True)
            episode = msgspec.structs.replace(
                episode, answer=answer, stop="declined", failures=tuple(failures)
            )
            return episode, _SEARCH_LINE.findall(text)
        text = read_chat_reply(drafts[0].step.said.text[:MAX_ANSWER_CHARACTERS], quotes).answer.text
        if text.strip():
            nearest = choose_nearest(self.question, references, self.settings.longest)
            answer = Answer(text, nearest, citations="unchecked")
            episode = msgspec.structs.replace(episode, answer=answer, stop="end")
        return episode, []

    def _sample(
        self,
        prompt: str,
        quotes: Sequence[Quote],
        choosing: BestOfNSettings,
        before: Sequence[Step],
        failures: Sequence[Failure],
    ) -> tuple[Episode, list[AnswerDraft]]:
        drafts: list[AnswerDraft] = []

        def sample(n: int) -> Iterator[AnswerDraft]:
            for said in self.policy.complete(prompt, n):
                answer, fault = read_draft(said.text, quotes)
                if said.stop == "length" and not said.text.strip():
                    fault = (
                        "it came to its limit before it wrote anything: allow more (--max-tokens)"
                    )
                drafts.append(AnswerDraft(Step(prompt, said), answer, fault))
                yield drafts[-1]

        return (
            answer_with_best_draft(self.question, self.method, sample, choosing, failures, before),
            drafts,
        )

    def _check_episode(self, episode: Episode, references: Sequence[Reference]) -> Episode:
        """Return the episode with doubt beside its citations and remarks on what was left out."""
        if episode.answer is None:
            return episode
        quotes = [each.quote for each in references]
        completion = episode.steps[-1].said
        answer, remarks = check_citations(episode.answer, quotes, self.judge)
        unknown = read_chat_reply(completion.text, quotes).unknown
        remarks = [
            *(f"it cites [{number}], of which there are {len(quotes)}" for number in unknown),
            *remarks,
        ]
        if any(claim.doubtful for claim in answer.claims):
            remarks.append("a source with ? does not seem to say what it is cited for: read it")
        if completion.stop == "length":
            remarks.append("the answer was cut off at its limit: allow more (--max-tokens)")
        notes = (Failure(self.method, Outcome.CITATION_NOTED, each) for each in remarks)
        failures = (*episode.failures, *notes)
        if self.settings.longest:
            answer = narrow_quotes(answer, references, self.settings.longest)
        return msgspec.structs.replace(episode, answer=answer, failures=failures)


def choose_nearest(
    question: Question, references: Sequence[Reference], longest: int
) -> tuple[Quote, ...]:
    """Quote the best references, as far as they have the question's words."""
    if not longest:
        return tuple(each.quote for each in references)
    return tuple(
        each.page.quote_whole_words(*each.narrow_to_claim(question.text, longest))
        for each in references[:NEAREST]
    )


NEAREST = 3
"""quotes below an answer that is declined or unchecked"""
_REFUSED = "it says that the references do not hold the answer"
_ASK_AGAIN = (
    "That reply cannot be used: {fault}. Write the whole answer again, with the numbers of the "
    "references behind each sentence, as in [1] or [2][3]. If they do not hold the answer, begin "
    "with NOT FOUND."
)


def read_draft(text: str, quotes: Sequence[Quote]) -> tuple[Answer | None, str]:
    """Read a reply: return its answer and "", or None and why it cannot be used."""
    if not text.strip():
        return None, "it said nothing"
    if len(text) > MAX_ANSWER_CHARACTERS:
        return None, f"it said more than {MAX_ANSWER_CHARACTERS:,} characters"
    reply = read_chat_reply(_LAST_SEARCHES.sub("", text), quotes)
    if reply.refuses:
        return None, _REFUSED
    answer = cite_bare_sentences(reply.answer, quotes)
    if not answer.claims:
        return None, "no sentence of it cites anything"
    return answer, ""


def check_citations(
    answer: Answer, quotes: Sequence[Quote], judge: EvidenceJudge | None
) -> tuple[Answer, list[str]]:
    """Return the answer with doubtful citations marked, and those that bare sentences get.

    The list says which sentences cite nothing. Nothing that the model cites is taken away.
    """
    answer = cite_bare_sentences(answer, quotes, judge)
    claims = []
    for claim in answer.claims:
        words = answer.text[claim.start : claim.end]
        code = _LED_CODE.match(answer.text, claim.end)
        texts = [words, f"{words}\n{code[1]}"] if code else [words]
        doubtful = tuple(
            number
            for number in claim.quotes
            if all(_is_doubtful(text, number, claim.quotes, answer.quotes, judge) for text in texts)
        )
        claims.append(msgspec.structs.replace(claim, doubtful=doubtful))
    bare = [answer.text[slice(*span)] for span in list_bare_sentences(answer)]
    remarks = [f"this sentence cites nothing: {' '.join(sentence.split())}" for sentence in bare]
    return msgspec.structs.replace(answer, claims=tuple(claims)), remarks


def narrow_quotes(answer: Answer, references: Sequence[Reference], longest: int) -> Answer:
    """Return the answer with quotes of those sentences of its references that its claims rest on.

    The claims that cite one reference share a quote where that is not longer than `longest`.
    """
    by_section = {each.quote: each for each in references}
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    for at, claim in enumerate(answer.claims):
        words = answer.text[claim.start : claim.end]
        for number in claim.quotes:
            spans[at, number] = by_section[answer.quotes[number]].narrow_to_claim(words, longest)
    numbers: dict[Quote, int] = {}
    claims = []
    for at, claim in enumerate(answer.claims):
        renamed = dict[int, int]()
        for number in claim.quotes:
            same = [span for (_, other), span in spans.items() if other == number]
            whole = min(same)[0], max(end for _, end in same)
            start, end = whole if whole[1] - whole[0] <= longest else spans[at, number]
            quote = by_section[answer.quotes[number]].page.quote_whole_words(start, end)
            renamed[number] = numbers.setdefault(quote, len(numbers))
        quotes = tuple(dict.fromkeys(renamed.values()))
        doubtful = tuple(renamed[number] for number in claim.doubtful)
        claims.append(Claim(claim.start, claim.end, quotes, doubtful))
    return msgspec.structs.replace(answer, quotes=tuple(numbers), claims=tuple(claims))


def _measure_match(claim: str, sentence: str) -> float:
    """Return the share of a claim's words in a sentence, plus that of its numbers and names."""
    guarded = list_guarded_words(f". {claim}")
    inside = set(list_guarded_words(f". {sentence}"))
    share = sum(word in inside for word in guarded) / len(guarded) if guarded else 0.0
    return measure_shared_words(claim, sentence) + share


_LED_CODE = re.compile(r"[*_]*:[*_]*\s*\n(```.+?```)", re.DOTALL)
"""code below the words that lead to it, which rests on what these cite"""


def _is_doubtful(
    words: str,
    number: int,
    together: Sequence[int],
    quotes: Sequence[Quote],
    judge: EvidenceJudge | None,
) -> bool:
    """Tell whether neither shared words nor the evidence model bear a citation out.

    One of several that are cited `together`, such as the head of a table beside a row, does not
    bear out all: it is not doubtful if it adds a number, a name or two words.
    """
    quote = quotes[number]
    if measure_shared_words(words, quote.text) >= _UNLIKELY_SOURCE:
        return False
    others = "\n".join(quotes[other].text for other in together if other != number)
    if others:
        for least, listed in ((1, list_guarded_words), (2, list_content_words)):
            own, added, repeated = ({*listed(f". {text}")} for text in (words, quote.text, others))
            if len((own & added) - repeated) >= least:
                return False
    return judge is None or not _is_supported(words, quote, judge)


def _is_supported(words: str, quote: Quote, judge: EvidenceJudge) -> bool:
    passage = EvidencePassage(quote.text, quote.title)
    return judge_claim_support(words, [passage], judge).outcome == "supports"


def cite_bare_sentences(
    answer: Answer, quotes: Sequence[Quote], judge: EvidenceJudge | None = None
) -> Answer:
    """Give sentences without a citation that of the reference which they repeat nearly verbatim.

    With a judge, a reference with enough of a sentence's words that supports it will do, too. Its
    numbers, names and negations must all stand in the reference.
    """
    cited, claims = list(answer.quotes), list(answer.claims)
    for start, end in list_bare_sentences(answer):
        words = answer.text[start:end]
        shares = [measure_shared_words(words, quote.text) for quote in quotes]
        best = max(range(len(quotes)), key=shares.__getitem__, default=None)
        if best is None or shares[best] < _LIKELY_SOURCE:
            continue
        quote = quotes[best]
        if not set(list_guarded_words(words)) <= set(list_guarded_words(f". {quote.text}")):
            continue
        if shares[best] >= _NEARLY_VERBATIM or (judge and _is_supported(words, quote, judge)):
            if quote not in cited:
                cited.append(quote)
            claims.append(Claim(start, end, (cited.index(quote),)))
    claims.sort(key=lambda claim: claim.start)
    return msgspec.structs.replace(answer, quotes=tuple(cited), claims=tuple(claims))


def list_bare_sentences(answer: Answer) -> list[tuple[int, int]]:
    """Return the spans of an answer's sentences that no claim touches: no code, headings, leads."""
    taken = [*list_hidden_spans(answer.text), *((each.start, each.end) for each in answer.claims)]
    return [
        (start, end)
        for start, end in find_sentences(Page("", "", answer.text), 0, len(answer.text))
        if not any(low < end and start < high for low, high in taken)
        and not _NO_STATEMENT.search(answer.text[start:end])
    ]


_NO_STATEMENT = re.compile(
    r"\A\s*#|[:?]\W*(?:\d{1,3}[.)]\W*)?\Z|\A\W*(?:\w+\W*){0,2}\Z|\A[\s|:-]*\Z"
)
"""a sentence that says nothing to be cited: a heading, a lead to a list, a question, a few words"""
