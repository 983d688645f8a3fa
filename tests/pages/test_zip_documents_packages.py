"""Books whose packages are written otherwise than the standard says."""

import io
import zipfile

import pytest

from rookery.pages.page_reader import read_page

CONTAINER = '<container{}><rootfiles><rootfile full-path="a/b.opf"/></rootfiles></container>'
OASIS = ' xmlns="urn:oasis:names:tc:opendocument:xmlns:container"'
DC = "http://purl.org/dc/elements/1.1/"
PLAIN = f'<metadata xmlns:dc="{DC}"><dc:title>Fords</dc:title></metadata>'
OLD = f'<metadata><x xmlns:dc="{DC[:-2]}0/"><dc:Title>Fords</dc:Title></x></metadata>'
OEB = ' xmlns="http://openebook.org/namespaces/oeb-package/1.0/"'


@pytest.mark.parametrize("container", [CONTAINER.format(OASIS), CONTAINER.format(""), ""])
@pytest.mark.parametrize(("space", "metadata"), [("", PLAIN), (OEB, PLAIN), (OEB, OLD)])
def test_books_of_odd_packages_are_read(container: str, space: str, metadata: str) -> None:
    package = (
        f'<package{space}>{metadata}<manifest><item id="c" href="c%201.html#p"/>'
        '</manifest><spine><itemref idref="c"/></spine></package>'
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", container)
        archive.writestr("a/b.opf", package)
        archive.writestr("a/c 1.html", "<html><body><p>The ford was passable.</p></body></html>")
    page = read_page(packed.getvalue(), "file:///fords.epub")
    assert (page.title, page.text) == ("Fords", "The ford was passable.")
