"""Guides: one comes with each form, people write others, and no version is ever lost."""

import re
import threading
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from markdown_it import MarkdownIt
from stores import Clock

from rookery.desk import tables
from rookery.desk.accounts import list_audit_entries
from rookery.desk.form_versions import (
    MAX_GUIDE_CHARACTERS,
    list_guide_versions,
    load_guide,
    read_packaged_guide,
    write_guide,
)
from rookery.desk.forms import FORMS
from rookery.desk.store import Store
from rookery.errors import Failed

ROOT = Path(__file__).parent.parent.parent
OTHERS_WORDS = (
    "You should only use information from this app",
    "reasonable reply to the question if you were having a conversation",
    "all things considered, which answer would be more helpful",
    "avoids asserting a false statement",
    "Evaluating whether",
)


def refused(store: Store, form: str, text: str) -> str:
    with pytest.raises(Failed) as failed:
        write_guide(store, form, text, "ada")
    return failed.value.failure.outcome


@pytest.mark.parametrize("form", list(FORMS))
def test_each_form_has_a_guide_with_a_title_and_an_example(form: str) -> None:
    text = read_packaged_guide(form)
    assert re.match(r"# .+\n", text)
    assert len(re.findall("^# ", text, re.M)) == 1
    assert "\n> " in text
    assert len(text.split()) > 100


@pytest.mark.parametrize("form", list(FORMS))
def test_guides_are_plain_markdown_without_html_or_links(form: str) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(read_packaged_guide(form))
    inline = [child for token in tokens for child in token.children or []]
    assert not {"html_block", "html_inline", "link_open", "image"} & {
        token.type for token in [*tokens, *inline]
    }


@pytest.mark.parametrize("form", list(FORMS))
def test_guides_say_it_in_their_own_words(form: str) -> None:
    text = " ".join(read_packaged_guide(form).split())
    assert not any(words in text for words in OTHERS_WORDS)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        # What the papers' instructions ask for.
        ("compare", ("Do no research", "common knowledge", "strong", "weak", "irrelevant", "flag")),
        ("compare_short", ("Explain", "search engine", "last ten years", "link")),
        ("supported", ("whole", "title", "need anything more", "prefer it", "Do not search")),
        ("best_of_four", ("1 to 4", "depends on the task")),
        ("best_summary", ("1 to 4", "important points", "quotation marks")),
        ("most_positive", ("1 to 4", "tone", "sexual or insulting")),
        ("most_descriptive", ("1 to 4", "number of details", "vividness")),
        ("truthful", ("any", "says nothing false", "superstition")),
        ("demonstrate", ("Supported", "To the point", "Coherent", "common knowledge")),
        ("survey", ("N/A",)),
    ],
)
def test_a_guide_asks_for_what_its_paper_does(form: str, words: tuple[str, ...]) -> None:
    text = read_packaged_guide(form)
    assert [each for each in words if not re.search(each, text, re.I)] == []


def test_the_order_of_what_matters_is_webgpt_s() -> None:
    text = read_packaged_guide("compare").split("## 7.")[1]
    listed = re.findall(r"^\d\. (.+)", text, re.M)
    keys = ("not supported", "core", "more that helps", "coherent", "irrelevant")
    assert [key in line for key, line in zip(keys, listed, strict=True)] == [True] * 5


def test_every_criterion_is_explained_in_its_guide() -> None:
    text = read_packaged_guide("criteria")
    assert [
        field.label for field in FORMS["criteria"].fields if f"**{field.label}**" not in text
    ] == []


@pytest.mark.slow
def test_the_guide_that_comes_along_is_the_first_version(store: Store, clock: Clock) -> None:
    first = load_guide(store, "thumbs")
    assert (first.version, first.text, first.by) == (1, read_packaged_guide("thumbs"), "rookery")
    assert first.at == clock.now
    clock.pass_by(60)
    assert load_guide(store, "thumbs") == first
    assert list_guide_versions(store, "thumbs") == [first]


def test_what_people_write_is_the_next_version_and_nothing_is_lost(
    store: Store, clock: Clock
) -> None:
    clock.pass_by(5)
    second = write_guide(store, "thumbs", "# Thumbs\r\n\r\nUp: good.\r\n\r\n", "ada")
    assert (second.version, second.text, second.by) == (2, "# Thumbs\n\nUp: good.\n", "ada")
    assert load_guide(store, "thumbs") == second
    assert load_guide(store, "compare").version == 1
    assert [each.version for each in list_guide_versions(store, "thumbs")] == [2, 1]
    assert [
        (each.person, each.what) for each in list_audit_entries(store) if each.action == "guide"
    ] == [
        ("rookery", "thumbs, version 1"),
        ("ada", "thumbs, version 2"),
        ("rookery", "compare, version 1"),
    ]


def test_the_same_text_again_is_no_other_version(store: Store) -> None:
    write_guide(store, "thumbs", "Up or down.", "ada")
    assert write_guide(store, "thumbs", "\nUp or down.\n\n", "bob").by == "ada"
    assert len(list_guide_versions(store, "thumbs")) == 2


def test_a_newer_rookery_s_guide_becomes_a_version_unless_people_wrote_one(store: Store) -> None:
    older = {"version": 1, "text": "What an older Rookery said.\n", "by": "rookery", "at": 1.0}
    with store.begin_write() as connection:
        for form in ("thumbs", "survey"):
            connection.execute(tables.guides.insert().values(form=form, **older))
    newest = load_guide(store, "thumbs")
    assert (newest.version, newest.text, newest.by) == (2, read_packaged_guide("thumbs"), "rookery")
    write_guide(store, "survey", "Ours.", "ada")
    assert load_guide(store, "survey").text == "Ours.\n"
    assert [each.version for each in list_guide_versions(store, "survey")] == [3, 2, 1]
    assert list_guide_versions(store, "survey")[-1].text == older["text"]


def test_bad_guides_are_refused_with_a_reason(store: Store) -> None:
    assert refused(store, "compere", "x") == "no_form"
    assert refused(store, "thumbs", " \n") == "no_text"
    assert refused(store, "thumbs", "x" * MAX_GUIDE_CHARACTERS) == "too_long"
    assert len(list_guide_versions(store, "thumbs")) == 1


def test_many_who_read_and_write_at_once_make_each_version_once(store: Store) -> None:
    texts = [f"Text {number}.\n" for number in range(6)]
    writes = [
        threading.Thread(target=write_guide, args=(store, "thumbs", text, "ada")) for text in texts
    ]
    reads = [threading.Thread(target=load_guide, args=(store, "thumbs")) for _ in range(6)]
    for each in [*writes, *reads]:
        each.start()
    for each in [*writes, *reads]:
        each.join()
    found = list_guide_versions(store, "thumbs")
    assert [each.version for each in found] == [7, 6, 5, 4, 3, 2, 1]
    assert sorted(each.text for each in found) == sorted([*texts, read_packaged_guide("thumbs")])


@pytest.mark.slow
def test_the_built_package_holds_the_guides_and_the_forms(tmp_path: Path) -> None:
    [wheel] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"rookery/desk/guides/{form}.md" for form in FORMS} <= names
    assert {f"rookery/desk/packaged_forms/{form}.toml" for form in FORMS} <= names
