"""Replies of chat models: wrapping taken off, and citations of numbered references, as written.

Chat models cite in more forms than `parse_numbered` reads: [1, 3], [1-2], 【5】, [^2^],
(Reference [3]). All are read, outside code and links; a number that exists is kept where it stands,
and nothing else of the text is changed.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from rookery.pages.passages import find_sentences
from rookery.quotes.citation_syntax import find_claim_start, render_numbered
from rookery.records import Answer, Claim, Page, Quote

_NAME = (
    r"♦?(?:references?|refs?\.?|sources?|src|documents?|docs?|citations?|referenz(?:en)?|quellen?"
    r"|dokumente?|références?|referencias?|fuentes?|参考资料|参考文献|来源)"
)
_SAYS = (
    r"(?=[ \t]+(?:says?|states?|shows?|notes?|explains?|adds?|contradicts?|describes?|recommends?"
    r"|mentions?|gives?|defines?|lists?|disagrees?|confirms?)\b)"
)
"""stands behind a citation that is the subject of its sentence"""
_NUMBER = r"\^?\d{1,4}\^?"
_NUMBERS = rf"{_NUMBER}(?:\s?(?:[,;&–-]|and|to)\s?(?:{_NAME}\s)?{_NUMBER})*"
_PLACE = r"(?:†[^】\]\n]{0,60}|,\s?(?:pp?\.|§|sect?(?:ion|\.)|lines?|chapter)\s?\w[^\[\]\n]{0,60})"
"""where in a reference, which is left out"""
_BRACKETS = (
    rf"(?:\^?\\?[\[［〔](?:{_NAME}:?\s?|♦)?#?{_NUMBERS}{_PLACE}?\\?[\]］〕]"
    r"(?:\((?:#|https?://)[^()\s]*\))?"
    rf"|\[\[{_NUMBER}\]\](?:\([^()\s]*\))?|\[{_NAME}\s\[{_NUMBERS}\]\]"
    rf"|【(?:{_NAME}:?\s?)?{_NUMBERS}{_PLACE}?】)"
)
_MORE = rf"(?:[ \t]?[–-]?[ \t]?{_BRACKETS}|[ \t]?[,;][ \t]?{_BRACKETS}(?!{_SAYS}))*"
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_MARK = re.compile(
    rf"[ \t]*\((?:(?:see|cf\.|from|siehe|vgl\.) )?(?:(?:references?|refs?\.?|sources?)\s?{_NUMBERS}"
    rf"|(?:{_NAME}\s?)?{_BRACKETS})"
    rf"(?:\s?(?:,|;|&|and)?\s?(?:{_NAME}\s)?{_BRACKETS})*\)"
    rf"|[ \t]*(?P<around><(?:sup|cite|b)>|\*\*?|__?)?{_BRACKETS}{_MORE}"
    r"(?(around)(?:</(?:sup|cite|b)>|\*\*?|__?))"
    rf"|(?<=[.!?,;:。，”])(?:<sup>{_NUMBERS}</sup>|[{_RAISED}]{{1,2}})(?![\w{_RAISED}])"
    rf"|(?P<bare>(?-i:\bReferences?)) {_NUMBERS}(?!\w)",
    re.IGNORECASE,
)
"""one or more citations that stand together; a number that links somewhere is one, too"""
_IN_SENTENCE = re.compile(
    r"\b(?:(?:to|in|by|from|and) reference|(?-i:References?|Refs?\.?|Sources?|Documents?|Docs?))\Z"
    r"|\b(?:according to|stated in|see|per|as)\Z",
    re.IGNORECASE,
)
"""stands before a citation that is a word of its sentence: `According to Reference [1], ...`"""
_SAYS_NEXT = re.compile(_SAYS)
_SUBJECT = re.compile(r"(?:\A|[.!?;,:\n]|\b(?:and|but|while|that))[\s*•>-]*\Z")
"""stands before a citation that is the subject of its sentence"""
_RANGE = re.compile(r"(\d+)\^?\]?\s?(?:[–-]|to)\s?\[?\^?(\d+)")
_FOOTNOTE = re.compile(rf"^[ \t]*\[\^(\d+)\]:[^\n]*?(?:{_NAME}\s\[?|\[)(\d+)", re.I | re.M)
_FENCE_MARKS = re.compile(rf"(?im)^([ \t]*(?:```+|~~~+))[ \t]*({_BRACKETS}{_MORE}\.?)[ \t]*$")
"""citations behind the end of a code block, which would be none with them"""
_INDEX = re.compile(r"\s?=\s|\(|\.\w")
"""stands behind brackets that are no citation but an index, where they touch the word before"""
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(?:[^`\n]|(?!\1(?!`))`|\n(?!\s*\n))+?(?<!`)\1(?!`)")
_LINK = re.compile(
    r"\[[^\[\]\n]*\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?: +\"[^\"\n]*\")?\)|\b\w+://[^\s<>]+"
)
_MATHS = re.compile(
    r"\$\$.+?\$\$|\\\(.+?\\\)|\\\[(?!\d).+?\\\]|\$(?![\s$])[^$`\n]*(?<=[^\s$])\$(?!\w)"
    r"|<(?P<tag>code|pre|kbd|samp)\b[^>]*>.{0,500}?</(?P=tag)>",
    re.DOTALL,
)
_WHOLE_FENCE = re.compile(
    r"(`{3,}|~{3,})(?:markdown|md|text)?[ \t]*\n(.*)\n[ \t]*\1\s*\Z", re.DOTALL
)
_HERE = r"here(?:['’]s| is| are) (?:what|the|your|an?|my) [^\n\[]{0,60}"
_GREETING = re.compile(
    r"(?:(?:sure(?: thing)?|certainly|of course|absolutely|great question|okay|ok|hello|hi)\b"
    r"[^\n\[]{0,200}[!:]"
    r"|(?:based on|according to) (?:the |your )?(?:\w+ )?(?:references?|documents?|sources?|context"
    rf"|information|passages?)(?: \w+)?(?:,? {_HERE})?:|{_HERE}(?:answer|summary)[^\n\[]*:)"
    r"[ \t]*\n+|(?:my |i |i(?:['’]m| am) )?(?:apolog(?:ies|i[sz]e)|sorry) (?:for|about)"
    r" (?:the|my|that) [^\n.!:\[]{0,60}[.!:]\s+"
    r"|(?:\*\*|#+ )?(?:final )?answer(?::\*\*|\*\*:|:|(?=\n))\s*",
    re.IGNORECASE,
)
_FAREWELL = re.compile(
    r"\s*\n\s*(?:i hope (?:this|that|it)\b|(?:please )?let me know if|feel free to (?:ask|reach)"
    r"|if you (?:have|need) any (?:other|more|further))[^\n\[]*\Z",
    re.IGNORECASE,
)
_SOURCE_LIST = re.compile(
    r"\n[#*_ \t]*(?:references?|sources?|citations?|works cited|footnotes)[:*_ \t]*"
    rf"(?:\n+[ \t>]*(?:[-*•]|\d{{1,3}}[.)])?[ \t]*[^\n]*)+\Z"
    rf"|(?:\n+[ \t]*(?:[-*•][ \t]*)?{_BRACKETS}:[ \t][^\n]*)+\Z",
    re.IGNORECASE,
)
_SOURCE_ENTRY = re.compile(
    rf"[ \t>]*(?:[-*•][ \t]*)?(?:{_NAME}\s)?(?:{_BRACKETS}|\d{{1,3}}[.):])", re.I
)
_EMPTY_BRACKETS = re.compile(
    r"(?<=[\w.,;:!?)\]”\"'`])[ \t]*(?:\[[ ,;]*\](?!\()|【\s*】|\(\s*\))(?=[ \t.,;:!?]|$)", re.M
)
_WORDS = (
    r"(?:\w+ ){0,3}(?:references?|documents?|sources?|passages?|texts?|information|context|pages?"
    r"|materials?|excerpts?|documentation|manuals?|files?|articles?|notes|minutes)\b"
)
_TELL = (
    r"(?:say|state|mention|contain|provide|include|give|tell|cover|address|describe|explain|specify"
    r"|answer|discuss|have(?! to)|show|hold|offer|indicate|list|name)"
)
_ABSENT = (
    r"(?:stated|mentioned|said|found|answered|covered|available|addressed|specified|determined)"
)
_REFUSAL = re.compile(
    r"(?:\W|i(?:['’]?m| am) (?:sorry|afraid)|sorry|my apologies|unfortunately|but|no\."
    r"|as an ai\b[^,.\n]{0,30},|(?:based on|according to|from|having read|after \w+ing) (?:all )?"
    rf"{_WORDS}[^,.\n]{{0,30}},)*"
    r"(?:(?:not|nicht) (?:found|gefunden)\b|no encontrado|non trouvé|non trovato|не найдено"
    r"|未找到|没有找到|見つかりません|غير موجود"
    rf"|(?:no(?:ne)?|neither|nothing) (?:(?:of|in) )?{_WORDS}[^.\n;]{{0,60}}\b{_TELL}"
    rf"|{_WORDS}[^.\n;]{{0,40}}?(?:(?:do|does|did|can|could)(?: not|n['’]t)"
    rf" (?:actually |directly |explicitly |seem to )?{_TELL}"
    r"|(?:contain|provide|include|give|have|make|offer)s? no\b|says? nothing|lacks?\b"
    r"|(?:is|are) silent)"
    r"|(?:i|we) (?:(?:can(?:not|['’]t| not)|could(?: not|n['’]t)|d(?:o|id)(?: not|n['’]t)"
    r"|(?:am|was|were) (?:not able|unable) to)"
    r" (?:find|answer|determine|tell|say|know|have|locate|see)\b|found (?:no|nothing)\b"
    r"|can(?:not|['’]t) (?:help|assist|comply)\b)"
    r"|(?:there(?:['’]s| [iaw]\w+)(?:(?: no(?:thing|t)?|n['’]t)\b(?: any| enough)?| insufficient)"
    r"|no (?:\w+ )?(?:information|mention|details?)\b|insufficient\b)"
    r"[^.\n]{0,60}(?:references?|documents?|sources?|passages?|information|mention)"
    rf"|(?:this|that|it|the (?:answer|question|information))\b[^.\n;]{{0,40}}(?:not|n['’]t|never)"
    rf" (?:\w+ )?{_ABSENT}\b"
    r"|(?:it(?:['’]s| is) (?:not possible|impossible) to (?:answer|say|tell)"
    r"|the (?:answer|information) (?:\w+ ){0,4}(?:is not|isn['’]t) (?:given )?in)\b"
    rf"|not {_ABSENT}(?: in the {_WORDS}|\W*\Z)"
    r"|(?:unanswerable|n/a|insufficient information)\W*\Z)",
    re.IGNORECASE,
)
_SOURCES = re.compile(
    r"\b(?:references?|documents?|sources?|passages?|documentation|context|information)\b", re.I
)
"""what a refusal names that stands before a cited sentence; a page or a file may be the subject"""
_BUT = re.compile(r"\s*(?:however|but|still|yet|nevertheless|instead)\b", re.IGNORECASE)
"""begins a sentence that answers after all"""


class ChatReply(NamedTuple):
    """A chat model's reply as an answer with citations."""

    answer: Answer
    """its text without citation marks, the references cited in the order of their use, and claims
    where the marks stood"""
    unknown: tuple[int, ...]
    """numbers cited that no reference has, which are left out"""
    refuses: bool
    """it says that the references do not hold the answer"""


def read_chat_reply(text: str, references: Sequence[Quote]) -> ChatReply:
    """Read a reply that cites `references` by numbers from 1; it may cite none.

    A citation that is a word of its sentence stays in the text, with the number that its reference
    has among the answer's quotes.
    """
    notes = {int(note): int(number) for note, number in _FOOTNOTE.findall(text)}
    text = _FENCE_MARKS.sub(r"\1\n\2", strip_wrapping(text))
    hidden = list_hidden_spans(text)
    out, position, unknown = "", 0, list[int]()
    used = dict[int, int]()
    marks = list[tuple[int, tuple[int, ...], bool]]()
    for mark in _MARK.finditer(text):
        numbers = _list_numbers(mark[0])
        numbers = [notes.get(n, n) for n in numbers] if "[^" in mark[0] else numbers
        existing = [n for n in numbers if 0 < n <= len(references)]
        if any(
            start < mark.end() and mark.start() < end
            for start, end in hidden
            if not mark.start() <= start < end <= mark.end()  # a number that is a link
        ):
            continue
        if not _is_citation(text, mark, numbers, existing):
            continue
        unknown += [n for n in numbers if n not in existing]
        cited = tuple(used.setdefault(n - 1, len(used)) for n in existing)
        out += text[position : mark.start()] + (mark["bare"] or "")
        position = mark.end()
        line = out[marks[-1][0] :] if marks and marks[-1][2] else "\n"
        again = "\n" not in line and out[-1:] in ".!?" and text[position : position + 2].strip()
        ahead = bool(again) or not out.rpartition("\n")[2].strip(" \t-*•|>#0123456789.")
        if _IN_SENTENCE.search(out[-40:]) or (
            _SAYS_NEXT.match(text, position) and _SUBJECT.search(out[-40:])
        ):
            out += " " * (bool(cited) and out[-1:] not in "\n ")
            out += "".join(f"[{number + 1}]" for number in cited)
            ahead = True
        elif ahead:
            out += mark[0][: len(mark[0]) - len(mark[0].lstrip(" \t"))]
            position += len(text[position:]) - len(text[position:].lstrip(" \t"))
        marks.append((len(out), cited, ahead))
    out += text[position:]
    quotes = tuple(references[number] for number in used)
    answer = Answer(out, quotes, tuple(_make_claims(out, marks)))
    return ChatReply(answer, tuple(dict.fromkeys(unknown)), _is_refusal(answer))


def rewrite_citations(reply: str, references: Sequence[Quote]) -> str:
    """Rewrite a reply so that `parse_numbered` reads its citations, and nothing else as one."""
    answer = read_chat_reply(reply, references).answer
    numbers = [references.index(quote) for quote in answer.quotes]
    claims = tuple(
        Claim(each.start, each.end, tuple(numbers[number] for number in each.quotes))
        for each in answer.claims
    )
    return render_numbered(Answer(answer.text, tuple(references), claims))


def _is_citation(text: str, mark: re.Match[str], numbers: list[int], existing: list[int]) -> bool:
    """Return False for brackets that are an index or a range of characters, or hold a year."""
    touches = mark[0][:1] not in " \t" and text[mark.start() - 1 : mark.start()].isalnum()
    if 0 in numbers or (touches and (not existing or _INDEX.match(text, mark.end()))):
        return False
    return bool(existing) or all(0 < number < 1000 for number in numbers)


def _list_numbers(marks: str) -> list[int]:
    numbers, at = list[int](), 0
    marks = re.sub(_PLACE, "", marks, flags=re.I).translate(str.maketrans(_RAISED, "0123456789"))
    for piece in _RANGE.finditer(marks):
        first, last = int(piece[1]), int(piece[2])
        numbers += map(int, re.findall(r"\d+", marks[at : piece.start()]))
        numbers += range(first, last + 1) if first <= last < first + 100 else (first, last)
        at = piece.end()
    numbers += map(int, re.findall(r"\d+", marks[at:]))
    return list(dict.fromkeys(numbers))


def _make_claims(text: str, marks: Sequence[tuple[int, tuple[int, ...], bool]]) -> list[Claim]:
    """Return a claim for each mark, or for those of one sentence where one stands ahead in it.

    A mark is its place in the text, the quotes that it cites, and whether it stands ahead of what
    it is for.
    """
    ends = [end for _, end in find_sentences(Page("", "", text), 0, len(text))]
    claims, floor, pending = list[Claim](), 0, tuple[int, ...]()
    for number, (place, cited, ahead) in enumerate(marks):
        cited = tuple(dict.fromkeys((*pending, *cited)))
        end, pending = place, ()
        if ahead:
            line = text.find("\n", place)
            line = len(text) if line < 0 else line
            end = min([line, *(each for each in ends if each > place)])
            if number + 1 < len(marks) and marks[number + 1][0] <= end:
                pending = cited
                continue
        end = floor + len(text[floor:end].rstrip())
        if cited and end == floor and claims:
            cited = tuple(dict.fromkeys((*claims[-1].quotes, *cited)))
            claims[-1] = Claim(claims[-1].start, floor, cited)
        elif cited and end > floor:
            start = find_claim_start(text, floor, end)
            if (fence := text[max(floor, end - 3) : end]) in ("```", "~~~"):
                start = max(text.rfind(fence, floor, end - 3), floor)
                end = min(end + 1, place)  # a mark beside the fence would keep it open
            start = end - len(text[start:end].lstrip(" ,;"))
            # marks on both sides of a dot
            if claims and not any(map(str.isalnum, text[start:end])):
                start, cited = claims[-1].start, tuple(dict.fromkeys((*claims[-1].quotes, *cited)))
                claims.pop()
            claims.append(Claim(start, end, cited))
            floor = end
    return claims


def _is_refusal(answer: Answer) -> bool:
    refusal = _REFUSAL.match(answer.text)
    if refusal is None or not answer.claims:
        return refusal is not None
    sentences = find_sentences(Page("", "", answer.text), 0, len(answer.text))
    begun = sentences[0][1] if sentences else 0
    named = _SOURCES.search(answer.text, 0, begun)
    return bool(named) and answer.claims[0].start >= begun and not _BUT.match(answer.text, begun)


def strip_wrapping(text: str) -> str:
    """Return a reply without what stands around the answer; the rest stays as it is.

    That is a fence round everything, a greeting, `Answer:`, a closing offer of help, a closing list
    of the references, and empty brackets.
    """
    text = text.strip()
    if (whole := _WHOLE_FENCE.match(text)) and _MARK.search(whole[2]) and "```" not in whole[2]:
        text = whole[2].strip()
    for _ in range(2):
        greeting = _GREETING.match(text)
        text = text[greeting.end() :] if greeting and greeting.end() < len(text) else text
    text = _FAREWELL.sub("", text)
    listed = _SOURCE_LIST.search(text)
    if listed and _MARK.search(text, 0, listed.start()):
        head, *entries = listed[0].strip().splitlines()
        entries = [each for each in (head, *entries) if each.strip()][
            _SOURCE_ENTRY.match(head) is None :
        ]
        if entries and all(map(_SOURCE_ENTRY.match, entries)):
            text = text[: listed.start()]
    hidden, out, position = list_hidden_spans(text), "", 0
    for empty in _EMPTY_BRACKETS.finditer(text):
        if not any(start < empty.end() and empty.start() < end for start, end in hidden):
            out += text[position : empty.start()]
            position = empty.end()
    return (out + text[position:]).strip()


def list_hidden_spans(text: str) -> list[tuple[int, int]]:
    """List the spans of Markdown in which brackets are no citations: code, links and formulas."""
    from markdown_it import MarkdownIt

    lines = [0]
    for line in text.split("\n"):
        lines.append(lines[-1] + len(line) + 1)
    spans = [
        (lines[token.map[0]], min(lines[min(token.map[1], len(lines) - 1)], len(text)))
        for token in MarkdownIt("commonmark").parse(text)
        if token.type in ("fence", "code_block") and token.map
    ]
    for pattern in (_CODE_SPAN, _LINK, _MATHS):
        spans += [match.span() for match in pattern.finditer(text)]
    return spans
