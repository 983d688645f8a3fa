"""The gettext catalogs of the pages: `make catalogs` brings them up to date and compiles them.

Texts of templates, scripts and modules are extracted into each `rookery.po`, where new ones wait
for a translation; what is translated is compiled into `rookery.mo`, which the server reads. Entries
with the context ELSEWHERE are sentences of modules that know no languages: whoever translates adds
them, and they stay while a module says them. Problems are printed, with exit status 1.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from babel.messages import Catalog, Message
from babel.messages.extract import extract_from_dir, extract_from_file
from babel.messages.mofile import read_mo, write_mo
from babel.messages.pofile import read_po, write_po

from rookery.shell.languages import ELSEWHERE

PACKAGE = Path(__file__).parent.parent / "rookery"
CATALOGS = "shell/locale/*/LC_MESSAGES/rookery.po"
METHODS = [
    ("**/templates/**.html", "jinja2.ext.babel_extract"),
    ("**/static/**.js", "javascript"),
]
OPTIONS = {
    "**/templates/**.html": {"trim_blocks": "true", "lstrip_blocks": "true", "silent": "false"}
}
KEYWORDS = {
    "_": None,
    "gettext": None,
    "ngettext": (1, 2),
    "translate_text": None,
    "translate_plural": (1, 2),
    "mark_text": None,
    "NavigationLink": (2,),
    "render_problem_page": (3,),
    "Failure": (3,),
}
"""Calls whose arguments are texts of the pages, and the numbers of these arguments."""
_MARKS = re.compile(r"from rookery\.shell\.languages import|\brender_problem_page\(")
"""In modules of pages: texts of others are entries of the catalogs with the context ELSEWHERE."""


def extract_catalog(package: Path) -> Catalog:
    """Return the texts of templates, scripts and modules."""
    found = Catalog(project="Rookery", charset="utf-8")
    for file, _, message, _, context in extract_from_dir(
        package, METHODS, OPTIONS, KEYWORDS, directory_filter=lambda _: True
    ):
        found.add(message, locations=[(file, 0)], context=context)
    for module in sorted(package.rglob("*.py")):
        if _MARKS.search(module.read_text(encoding="utf-8")):
            file = str(module.relative_to(package))
            for _, message, _, context in extract_from_file("python", module, KEYWORDS):
                found.add(message, locations=[(file, 0)], context=context)
    said = _read_strings(PACKAGE)
    for path in sorted(package.glob(CATALOGS)):
        for message in _read_catalog(path):
            if message.context == ELSEWHERE and _is_said(message.id, said):
                found.add(message.id, context=ELSEWHERE)
    return found


def _read_strings(package: Path) -> str:
    """Return the strings and the names of enum members in the modules of a package, one a line,
    and its tables of text."""
    nodes = (
        node
        for path in sorted(package.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )
    strings = [
        node.id.lower() if isinstance(node, ast.Name) else str(node.value)
        for node in nodes
        if (isinstance(node, ast.Name) and node.id.isupper())
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    ]
    tables = (path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.txt")))
    return "\n".join([*strings, *tables])


def _is_said(sentence: str, said: str) -> bool:
    """Return whether the strings hold a sentence's words, or the name of a value that it shows."""
    if sentence.replace(" ", "_") in said:
        return True
    for part in re.split(r"%\(\w+\)s", sentence):
        words = part.replace("%%", "%").strip(" ().:;“”")
        # A sentence may be put together of two: each half is looked for.
        if not all(half in said for half in words.split(". On other")):
            return False
    return True


def update_catalogs(package: Path) -> None:
    """Add new texts to each catalog, take out what is gone, and compile it."""
    extracted = extract_catalog(package)
    for path in sorted(package.glob(CATALOGS)):
        catalog = _read_catalog(path)
        dated = catalog.creation_date
        catalog.update(extracted, no_fuzzy_matching=True)
        catalog.creation_date = dated  # else each run would change the file
        with path.open("wb") as file:
            write_po(
                file, catalog, 100, include_lineno=False, ignore_obsolete=True, sort_output=True
            )
        with path.with_suffix(".mo").open("wb") as file:
            write_mo(file, _read_catalog(path))


def list_catalog_problems(package: Path) -> list[str]:
    """Return sentences on texts that are not translated, badly translated, or not compiled."""
    extracted = extract_catalog(package)
    return [
        f"{path.parent.parent.name}: {problem}"
        for path in sorted(package.glob(CATALOGS))
        for problem in _list_problems(path, extracted)
    ]


def _list_problems(path: Path, extracted: Catalog) -> Iterator[str]:
    catalog = _read_catalog(path)
    for message in filter(None, (each if each.id else None for each in extracted)):
        here = catalog.get(message.id, message.context)
        if here is None or not all(_list_texts(here.string)) or here.fuzzy:
            yield f"not translated: {message.id!r}"
        elif not _matches(message, here):
            yield f"other placeholders or tags: {message.id!r}"
    for message in catalog:
        if message.id and extracted.get(message.id, message.context) is None:
            yield f"in no page any more: {message.id!r}"
    with path.with_suffix(".mo").open("rb") as file:
        compiled = _map_texts(read_mo(file))
    if compiled != _map_texts(catalog):
        yield "rookery.mo was not compiled from rookery.po: run make catalogs"


def _map_texts(catalog: Catalog) -> dict[tuple[str, ...], list[str]]:
    """Return the translations by text; texts that wait for one are not compiled."""
    texts = {
        (one.context or "", *_list_texts(one.id)): _list_texts(one.string)
        for one in catalog
        if one.id
    }
    return {message: translated for message, translated in texts.items() if all(translated)}


def _matches(message: Message, here: Message) -> bool:
    """Return whether a translation has the placeholders and tags of the text."""
    texts, wanted = _list_texts(here.string), _list_texts(message.id)[-1]
    least = _list_texts(message.id)[0]  # "One item" need not name the number
    for number, text in enumerate(texts):
        if _count_marks(text) not in (
            [_count_marks(wanted)] if number else [_count_marks(wanted), _count_marks(least)]
        ):
            return False
    return True


def _count_marks(text: str) -> Counter[str]:
    # A percent sign beside placeholders is written twice, else filling them in would fail.
    return Counter(re.findall(r"%\(\w+\)[.\w]|%%|<[^>]+>", text))


def _list_texts(texts: str | tuple[str, ...] | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def _read_catalog(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale=path.parent.parent.name)


if __name__ == "__main__":
    update_catalogs(PACKAGE)
    problems = list_catalog_problems(PACKAGE)
    print("\n".join(problems))
    sys.exit(bool(problems))
