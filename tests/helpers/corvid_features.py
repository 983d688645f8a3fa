"""Which page of the bundled site shows which feature, for tests that need one.

It knows nothing of readers. A feature's file is the clearest example, not the only one.
"""

from importlib.resources import files
from pathlib import Path

SITE = Path(str(files("rookery.library"))) / "corvids"
"""The folder of the bundled site."""

FEATURES = {
    "adverts": "gifts-from-crows.html",
    "anchors": "scrub-jay-memory.html",
    "base": "archive/letters.html",
    "br": "poem.html",
    "broken": "folklore.htm",
    "comments": "feeding.html",
    "cookies": "gifts-from-crows.html",
    "definitions": "glossary.xhtml",
    "docx": "visitor-guide.docx",
    "external": "new-caledonian-crow.html",
    "forum": "forum-hundred-years.html",
    "hidden": "brains.html",
    "image_with_alt": "gifts-from-crows.html",
    "image_without_alt": "feeding.html",
    "infobox": "common-raven.html",
    "latin1": "names.html",
    "layout_table": "tower-ravens.htm",
    "markdown": "howto-observe.md",
    "nested_lists": "nuptial-gifts.xhtml",
    "pdf": "field-report.pdf",
    "pre": "rookery-notes.html",
    "ruby": "jungle-crow.html",
    "semantic": "faces.html",
    "sub": "brains.html",
    "sup": "scrub-jay-memory.html",
    "svg_title": "magpie-mirror.html",
    "table": "numbers.html",
    "text": "crow-checklist.txt",
    "typography": "funerals.html",
    "undeclared": "rookery-notes.html",
    "wrong": "forum-hundred-years.html",
    "xhtml": "bowerbirds.xhtml",
}
"""Feature → file below SITE."""

RIGHT = {
    "crows live for 100 years": {
        "lifespan.htm": "has ever been shown to reach a hundred",
        "american-crow.html": "lives on average for seven or eight years in the wild",
        "numbers.html": "has no support in any ringing record",
        "glossary.xhtml": "For most adult crows in the wild it is less than ten years",
    },
    "crows cannot recognise human faces": {
        "faces.html": "Crows can recognise individual human faces",
        "american-crow.html": "They recognise the faces of people who have caught them",
        "gifts-from-crows.html": "recognise individual people",
    },
    "a magpie has no memory": {
        "eurasian-magpie.html": "magpies remember what kind of food they hid",
        "scrub-jay-memory.html": "Similar results have since been found in other animals",
        "faces.html": "Magpies in Seoul",
    },
}
"""A wrong claim of the page FEATURES["wrong"] → the pages that contradict it, and with what."""
