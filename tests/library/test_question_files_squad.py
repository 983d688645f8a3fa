"""SQuAD files: what is read, what is refused, and the little web that is made of them."""

import json
import lzma
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from growth import AT_MOST, growth_of
from hypothesis import given, settings
from hypothesis import strategies as st

from recipes.squad_site import render_pages, write_site
from rookery.errors import Failed
from rookery.library.folder_library import FolderLibrary
from rookery.library.page_archive import PageArchive
from rookery.library.question_files import SquadArticle, read_squad

ROOKS = "Rooks nest in spring. They like Tall Trees."
TREES = "Tall Trees are <b>old</b> & high; Rooks live there, not Rooksville."


def asking(id: str, text: str, *answers: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "question": text, "answers": [{"text": a} for a in answers], **more}


def file_of(*articles: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "version": "v2.0",
        "data": [
            {
                "title": title,
                "paragraphs": [
                    {"context": context, "qas": qas} for context, qas in paragraphs.items()
                ],
            }
            for title, paragraphs in articles
        ],
    }


LITTLE = file_of(
    (
        "Rooks",
        {
            ROOKS: [
                asking("a", " When do rooks\nnest?", "spring", "in spring", "spring"),
                asking("b", "Where not?", "Tall Trees", is_impossible=True),
            ],
            "A second paragraph.": [asking("a", "Which paragraph?", "second")],
        },
    ),
    ("Tall_Trees", {TREES: [asking("c", "What lives there?", "Rooks")]}),
)


def written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def site(*titled: tuple[str, str]) -> list[SquadArticle]:
    return [SquadArticle(f"{n}.html", title, (text,)) for n, (title, text) in enumerate(titled)]


def test_articles_and_questions_are_read_in_order(tmp_path: Path) -> None:
    squad = read_squad(written(tmp_path / "s.json", LITTLE))
    assert [(a.name, a.title, a.paragraphs) for a in squad.articles] == [
        ("Rooks.html", "Rooks", (ROOKS, "A second paragraph.")),
        ("Tall_Trees.html", "Tall Trees", (TREES,)),
    ]
    assert [(q.id, q.text, q.gold, q.source) for q in squad.questions] == [
        ("a", "When do rooks nest?", ("spring", "in spring"), "Rooks.html"),
        ("b", "Where not?", (), "Rooks.html"),
        ("a-2", "Which paragraph?", ("second",), "Rooks.html"),
        ("c", "What lives there?", ("Rooks",), "Tall_Trees.html"),
    ]
    assert [squad.get_paragraph(question) for question in squad.questions] == [
        ROOKS,
        ROOKS,
        "A second paragraph.",
        TREES,
    ]


def test_a_packed_file_reads_as_the_plain_one(tmp_path: Path) -> None:
    plain = written(tmp_path / "s.json", LITTLE)
    packed = tmp_path / "s.json.xz"
    packed.write_bytes(lzma.compress(b"\xef\xbb\xbf" + plain.read_bytes()))
    assert read_squad(packed) == read_squad(plain)


def test_ids_used_again_stay_apart_from_those_that_look_numbered(tmp_path: Path) -> None:
    asked = [asking(id, "Why?") for id in ("x", "x-2", "x", "x", "x-2")]
    squad = read_squad(written(tmp_path / "s.json", file_of(("T", {"Text.": asked}))))
    assert [question.id for question in squad.questions] == ["x", "x-2", "x-3", "x-4", "x-2-2"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"version": "1.1"}, r"the field `data` is missing"),
        ([], r"it must be an object .*, and is a list"),
        (file_of(("T", {"x": [{"id": "1", "question": 5}]})), r"`data\[0\].*qas\[0\]\.question"),
        (file_of(("T", {"x": [asking("1", "Why?"), asking("2", " ")]})), r"qas\[1\]: .*empty"),
        ({"data": [{"title": "T", "paragraphs": [{"qas": []}]}]}, "`context`"),
    ],
)
def test_what_is_no_squad_file_is_refused_with_the_place(
    tmp_path: Path, content: Any, said: str
) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        read_squad(written(tmp_path / "s.json", content))
    assert str(tmp_path / "s.json") in str(refused.value)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("s.json", b""),
        ("s.json", b'{"data": ['),
        ("s.json", b'{"data": [{"title": "\xff", "paragraphs": []}]}'),
        ("s.json", b'{"x": ' + b"[" * 100_000),
        ("s.json.xz", b"not packed"),
        ("s.json.xz", lzma.compress(b'{"data": []}' * 99)[:-20]),
    ],
)
def test_a_damaged_file_is_refused_in_words(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=re.escape(name)):
        read_squad(tmp_path / name)


@given(st.lists(st.text(max_size=90), min_size=1, max_size=8))
def test_every_article_has_a_file_name_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, titles: list[str]
) -> None:
    content = file_of(*((title, {"Text.": []}) for title in [*titles, "../A/b", "../a?b", ""]))
    squad = read_squad(written(tmp_path_factory.mktemp("named") / "s.json", content))
    names = [article.name for article in squad.articles]
    assert len({name.casefold() for name in names}) == len(titles) + 3
    assert all(re.fullmatch(r"[\w-]+\.html", name) for name in names)
    assert max(len(name.encode()) for name in names) <= 255
    assert all(article.title.strip() for article in squad.articles)


def test_an_article_cannot_name_a_page_elsewhere() -> None:
    with pytest.raises(ValueError, match="cannot name a page"):
        SquadArticle("../up.html", "Up", ())


class Read(HTMLParser):
    """The text of each paragraph and the links: (address, words)."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.paragraphs: list[str] = []
        self.links: list[tuple[str, str]] = []
        self.within = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "p":
            self.within = True
            self.paragraphs.append("")
        if tag == "a":
            self.links.append((dict(attrs)["href"] or "", ""))

    def handle_endtag(self, tag: str) -> None:
        self.within = self.within and tag != "p"

    def handle_data(self, data: str) -> None:
        if self.within:
            self.paragraphs[-1] += data
        if self.links and not self.links[-1][1]:
            self.links[-1] = (self.links[-1][0], data)


def links(*titled: tuple[str, str]) -> list[tuple[str, str]]:
    """Of the first article's page."""
    return Read(next(render_pages(site(*titled)))).links


def test_titles_of_others_are_linked_and_words_are_never_cut() -> None:
    said = "Oak Trees, oak trees, Oak Treeses, xOak Trees; Elms (Oak Trees)."
    assert links(("Elms", said), ("Oak Trees", "")) == [("1.html", "Oak Trees")] * 2


def test_the_longest_title_is_linked_and_the_own_title_hides_what_is_in_it() -> None:
    titled = ("New York City", "New York City is in New York, not in York or New York Citys.")
    assert links(titled, ("New York", ""), ("York", "")) == [
        ("1.html", "New York"),
        ("2.html", "York"),
        ("1.html", "New York"),
    ]


def test_titles_that_are_short_equal_or_begin_with_a_sign() -> None:
    said = "Dog, Lark, (What) now, and 100% Wool."
    others = [
        ("Dog", ""),
        ("Lark", ""),
        ("Lark", ""),
        ("(What) now", ""),
        ("100% Wool", ""),
        ("", ""),
    ]
    assert links(("T", said), *others) == [
        ("2.html", "Lark"),
        ("4.html", "(What) now"),
        ("5.html", "100% Wool"),
    ]


words = st.text(st.sampled_from("ab <>&\"'Ä-"), max_size=12)


@given(st.lists(st.tuples(words, words), min_size=1, max_size=6))
def test_a_page_says_what_the_article_says(titled: list[tuple[str, str]]) -> None:
    for article, page in zip(site(*titled), render_pages(site(*titled)), strict=True):
        assert Read(page).paragraphs == list(article.paragraphs)


letters = st.from_regex(r"[ab][ab (]{3,4}", fullmatch=True)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(st.tuples(letters, st.lists(letters).map("".join)), min_size=1, max_size=9))
def test_links_are_those_of_one_great_pattern(titled: list[tuple[str, str]]) -> None:
    articles = site(*titled)
    names = {a.title: a.name for a in reversed(articles) if len(a.title) > 3}
    names = {title: name for title, name in names.items() if re.search(r"\w", title)}
    pattern = "|".join(re.escape(title) for title in sorted(names, key=len, reverse=True))
    whole = re.compile(rf"(?<!\w)(?:{pattern})(?:(?!\w)|(?<=\W))" if names else "(?!)")
    for article, page in zip(articles, render_pages(articles), strict=True):
        found = [each[0] for each in whole.finditer(article.paragraphs[0])]
        expected = [(names[title], title) for title in found if title != article.title]
        assert Read(page).links == expected


def test_time_grows_with_titles_and_words_and_not_with_their_product() -> None:
    def linked(count: int) -> None:
        text = " ".join(f"The crow saw the {n} and The {n} of Somewhere." for n in range(count))
        titles = ((f"The {n} of Somewhere", "") for n in range(count))
        page = next(render_pages(site(("Crows", text), *titles)))
        assert page.count("<a href=") == count

    assert growth_of(linked, 500) < AT_MOST


@pytest.mark.slow
def test_a_site_opens_as_a_folder_and_its_links_lead_on(tmp_path: Path) -> None:
    squad = read_squad(written(tmp_path / "s.json", LITTLE))
    assert write_site(squad.articles, tmp_path / "site") == 2
    archive = PageArchive(tmp_path / "archive.sqlite")
    with archive, FolderLibrary(tmp_path / "site", archive, tmp_path / "cache") as library:
        trees = library.fetch(library.search("old high", 1)[0].url)
        assert (trees.title, TREES in trees.text) == ("Tall Trees", True)
        [link] = trees.links
        assert library.fetch(link.url).title == "Rooks"


def test_pages_that_are_there_already_are_not_touched(tmp_path: Path) -> None:
    squad = read_squad(written(tmp_path / "s.json", LITTLE))
    write_site(squad.articles, tmp_path)
    (tmp_path / "Rooks.html").write_text("older")
    kept = (tmp_path / "Tall_Trees.html").stat()
    assert write_site(squad.articles, tmp_path) == 1
    assert "Tall Trees" in (tmp_path / "Rooks.html").read_text()
    assert (tmp_path / "Tall_Trees.html").stat() == kept
    assert write_site(squad.articles, tmp_path) == 0


FILLING = """
import resource, sys
from pathlib import Path
from recipes.squad_site import write_site
from rookery.library.question_files import SquadArticle
from rookery.errors import Failed
site = Path(sys.argv[1])
write_site([SquadArticle("a.html", "A", ("old",)), SquadArticle("b.html", "B", ("old",))], site)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    large = SquadArticle("b.html", "B", ("new " * 20_000,))
    write_site([SquadArticle("a.html", "A", ("new",)), large], site)
except Failed as failed:
    print(failed.failure.outcome)
"""


def test_a_disk_that_fills_leaves_every_page_whole(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FILLING, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.strip() == "not_written"
    assert {path.name: Read(path.read_text()).paragraphs for path in tmp_path.iterdir()} == {
        "a.html": ["new"],
        "b.html": ["old"],
    }


@pytest.mark.slow
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Failed) as refused:
        write_site(site(("T", "x")), tmp_path / "file" / "site")
    assert refused.value.failure.outcome == "not_written"
    assert "run again" in refused.value.failure.detail
