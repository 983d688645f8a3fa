"""Read the parts of a document that is a zip archive, within limits whatever it declares."""

import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from rookery.errors import Outcome
from rookery.pages.text_documents import ReadLimits, build_read_error
from rookery.pages.xml_parser import parse_xml


class DocumentArchive:
    """The parts of a document by name. Raises Failed: malformed, and see `read_part`."""

    def __init__(self, data: bytes, url: str, limits: ReadLimits) -> None:
        self.url = url
        self.limits = limits
        self._rest = limits.unpacked_bytes
        with self._word_damage():
            self._archive = zipfile.ZipFile(io.BytesIO(data))
            self.names = frozenset(self._archive.namelist())

    @contextmanager
    def _word_damage(self) -> Iterator[None]:
        try:
            yield
        # The zip module raises the last two for names and fields that make no sense.
        except (
            zipfile.BadZipFile, NotImplementedError, EOFError, OSError, zlib.error, ValueError,
            IndexError,
        ) as error:  # fmt: skip
            raise build_read_error(
                self.url, Outcome.MALFORMED, f"the document's archive is damaged ({error})"
            ) from error

    def read_part(self, name: str) -> bytes:
        """Return the content of a part; nothing where there is none.

        Raises Failed: too_large where all that was read is more than the limit, encrypted,
        malformed.
        """
        with self._word_damage():
            if name not in self.names:
                return b""
            info = self._archive.getinfo(name)
            if info.flag_bits & 1:
                raise build_read_error(
                    self.url, Outcome.ENCRYPTED, "the document's archive needs a password"
                )
            most = self._rest
            content = b""
            if info.file_size <= most:
                with self._archive.open(info) as part:
                    content = part.read(most + 1)
            if max(info.file_size, len(content)) > most:
                size = self.limits.unpacked_bytes
                raise build_read_error(
                    self.url, Outcome.TOO_LARGE, f"more than {size:,} bytes of text"
                )
            self._rest -= len(content)
            return content

    def parse_part(self, name: str) -> Element | None:
        """Return the root element of a part that is XML; None where there is no such part."""
        content = self.read_part(name)
        return parse_xml(content, self.url, self.limits) if content else None

    def find_main_part(self, usual: str) -> str:
        """Return the name of the part that an Office document starts from, else `usual`."""
        return next(
            (name for kind, name in self.read_relations("").values() if kind == "officeDocument"),
            usual,
        )

    def read_relations(self, name: str) -> dict[str, tuple[str, str]]:
        """Return what a part of an Office document refers to: by id, the last word of the type and
        the name of the other part, or an address."""
        folder, _, file = name.rpartition("/")
        root = self.parse_part(f"{folder}/_rels/{file}.rels" if folder else f"_rels/{file}.rels")
        found = dict[str, tuple[str, str]]()
        for one in () if root is None else root:
            target = one.get("Target", "")
            if one.get("TargetMode") != "External":
                target = join_part_name(folder, target)
            found[one.get("Id", "")] = (one.get("Type", "").rpartition("/")[2], target)
        return found


def join_part_name(folder: str, target: str) -> str:
    """Return the name in the archive of what a part in `folder` refers to as `target`."""
    return posixpath.normpath(posixpath.join("/", folder, unquote(target)))[1:]
