"""Select the files of a folder that are read: by ending, ignore files and the user's patterns.

Nothing is opened here but ignore files: whether a file without a known ending is text, its reader
decides by the content.
"""

import os
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from pathspec import GitIgnoreSpec, Pattern

from rookery.errors import Failed, Outcome
from rookery.records import Failure, Record
from rookery.settings import FileSelection
from rookery.typed_files import read_text_table, require_regular_file

# Paths are bytes here: a name need not be valid text, and scanning is quicker so.
# ruff: noqa: PTH110, PTH113, PTH116, PTH118, PTH120, PTH123


READER_OF_ENDING = {
    ending: reader
    for reader, endings in read_text_table(Path(__file__).with_name("file_types.txt")).items()
    for ending in endings.split()
}
"""the reader of each known ending. Files of other endings are read by their content"""

_DOCUMENTS = "pdf docx pptx xlsx open_document epub mail mailbox notebook feed"
DOCUMENT_READERS = frozenset(_DOCUMENTS.split())
"""the readers of what is no plain text or HTML: they need more time and memory"""

PICTURES_WITH_TEXT = ("png", "jpg", "jpeg", "tif", "tiff")
PICTURE_ENDINGS = tuple(f".{ending}" for ending in PICTURES_WITH_TEXT)
"""endings of pictures whose text can be read where --glob asks for them or they are named"""
_MANUAL_PAGE = re.compile(r"\.[1-9][a-z]*\.gz")

TYPES_NOT_OPENED = {
    ending: what
    for what, endings in read_text_table(Path(__file__).with_name("types_not_opened.txt")).items()
    for ending in endings.split()
}
"""what files of these endings are: they are not opened"""

IGNORE_FILES = (b".gitignore", b".rookeryignore")
"""the later one of a folder decides over the earlier one, and a folder's over those above it"""
_LARGEST_IGNORE_FILE = 1 << 20


def name_unread_type(name: str) -> str:
    """Return the kind of a file whose ending is not read, such as "a picture"; empty for others."""
    stem, _, ending = name.rpartition(".")
    if ending == "gz" and _MANUAL_PAGE.search(name):
        return ""
    return TYPES_NOT_OPENED.get(ending.lower(), "") if stem else ""


class FileStamp(NamedTuple):
    """Size and time of modification of a file: if both are the same, the file was not changed."""

    size: int
    mtime_ns: int


class SkippedGroup(Record, frozen=True):
    """The files and folders that are left out for one reason."""

    reason: str
    """one of SKIP_REASONS"""
    count: int
    examples: tuple[str, ...]
    """some of their paths"""


SKIP_REASONS = read_text_table(Path(__file__).with_name("skip_reasons.txt"))
"""outcomes of what is left out, and how a summary words them. `other` stands for all others, which
a library of another program may give"""


def count_skipped(skipped: Iterable[Failure], examples: int = 5) -> tuple[SkippedGroup, ...]:
    """Group the files left out by their reason: the number and the first few paths of each.

    Reasons are in the order of SKIP_REASONS; outcomes that are not among them are counted together
    as `other`. `examples` is the most paths of each.
    """
    paths = defaultdict[str, list[str]](list)
    for one in skipped:
        paths[one.outcome if one.outcome in SKIP_REASONS else "other"].append(one.what)
    return tuple(
        SkippedGroup(reason, len(paths[reason]), tuple(paths[reason][:examples]))
        for reason in SKIP_REASONS
        if reason in paths
    )


class FolderListing(NamedTuple):
    """One folder: the files to read, and the names left out, each with (outcome, detail)."""

    folder: bytes
    files: dict[bytes, FileStamp]
    skipped: dict[bytes, tuple[str, str]]


def leads_out(path: bytes, roots: Sequence[bytes]) -> bool:
    """Return whether a path leads, by links, to what is neither one of these nor below one."""
    inside = tuple(os.path.realpath(root).rstrip(b"/") + b"/" for root in roots)
    return not (os.path.realpath(path) + b"/").startswith(inside)


def list_folders(
    roots: Sequence[bytes], selection: FileSelection, unreadable: list[Failure]
) -> Iterator[FolderListing]:
    """List each folder at or below `roots` once, however many links lead to it, then named files.

    What links lead to outside of `roots` is left out, unless the selection follows them.
    Files are listed where they are themselves among `roots`, whatever the selection. Folders that
    are left out are not entered. Names in a folder have no order. Folders that cannot be entered
    are added to `unreadable` as the iteration meets them. Raises Failed (bad_pattern), when the
    first folder is asked for, for a pattern that is none.
    """
    patterns = _SelectionPatterns(selection, () if selection.follow_links else roots)
    folders = (root for root in roots if not os.path.isfile(root))
    waiting = deque((root, _FolderRules(root, patterns, _ignored_above(root))) for root in folders)
    linked: deque[tuple[bytes, _FolderRules]] = deque()
    visited: set[tuple[int, int]] = set()
    while waiting or linked:
        folder, rules = (waiting or linked).popleft()
        try:
            about = os.stat(folder)
            if (about.st_dev, about.st_ino) not in visited:
                visited.add((about.st_dev, about.st_ino))
                yield _list_folder(folder, rules, waiting, linked)
        except OSError as error:
            detail = f"this folder cannot be entered ({error.strerror})"
            unreadable.append(Failure(os.fsdecode(folder), Outcome.UNREADABLE, detail))
    yield from _list_named(roots)


def _list_folder(
    folder: bytes,
    rules: "_FolderRules",
    waiting: "deque[tuple[bytes, _FolderRules]]",
    linked: "deque[tuple[bytes, _FolderRules]]",
) -> FolderListing:
    listing = FolderListing(folder, {}, {})
    with os.scandir(folder) as scanned:
        entries = list(scanned)
    rules = rules.enter_folder(folder, {entry.name for entry in entries})
    for entry in entries:
        try:
            is_folder = entry.is_dir()
            why = rules.find_skip_reason(entry.name, entry.path, is_folder)
            if why or (entry.is_symlink() and (why := rules.find_link_reason(entry.path))):
                listing.skipped[entry.name] = why
            elif is_folder:
                # Links last, so that a file is found at its own path first.
                (linked if entry.is_symlink() else waiting).append((entry.path, rules))
            elif entry.is_file():
                about = entry.stat()
                if about.st_size:
                    listing.files[entry.name] = FileStamp(about.st_size, about.st_mtime_ns)
                else:
                    listing.skipped[entry.name] = ("empty", "there is nothing in it")
        except OSError:
            continue  # a link to itself, or gone since it was listed
    return listing


def _list_named(roots: Sequence[bytes]) -> Iterator[FolderListing]:
    """Yield the roots that are files, by folder; whoever names a file wants it, whatever its
    name."""
    found: dict[bytes, dict[bytes, FileStamp]] = {}
    for root in roots:
        if os.path.isfile(root):
            folder, name = os.path.split(root)
            about = os.stat(root)
            found.setdefault(folder, {})[name] = FileStamp(about.st_size, about.st_mtime_ns)
    yield from (FolderListing(folder, files, {}) for folder, files in found.items())


class _IgnorePattern(NamedTuple):
    """One line of an ignore file, matched against an entry itself and not by a folder above it.

    The library's own check of a file also matches the folders above it, and then `*` and `!*/`
    together leave out folders that git enters.
    """

    compiled: Pattern
    folders_only: bool

    def matches_path(self, path: str, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        found = self.compiled.match_file(path)
        # The only group is the slash behind a folder by which the rest of the path matched.
        return found is not None and not any(found.match.groupdict().values())


def _parse_pattern(line: str) -> _IgnorePattern | None:
    """Return the pattern of a line; None for a comment or nothing. Raises ValueError."""
    kept = line.rstrip("\r\n")
    kept = kept if kept.endswith("\\ ") else kept.rstrip()
    folders_only = kept.endswith("/")
    (compiled,) = GitIgnoreSpec.from_lines([kept.rstrip("/") if folders_only else kept]).patterns
    return None if compiled.include is None else _IgnorePattern(compiled, folders_only)


class _SelectionPatterns:
    """The patterns of a selection, ready to match, and the folders that links may not lead out of;
    none: they may lead anywhere. Raises Failed (bad_pattern)."""

    def __init__(self, selection: FileSelection, inside: Sequence[bytes]) -> None:
        self.inside = inside
        try:
            self.glob = GitIgnoreSpec.from_lines(selection.glob) if selection.glob else None
            parsed = map(_parse_pattern, selection.exclude)
            self.exclude = [pattern for pattern in parsed if pattern]
        except ValueError as error:
            patterns = " ".join((*selection.glob, *selection.exclude))
            detail = f"write it as in a .gitignore, such as *.md or docs/ ({error})"
            raise Failed(Failure(patterns, Outcome.BAD_PATTERN, detail)) from error


class _IgnoreFile(NamedTuple):
    """The patterns of one ignore file, which hold below its folder."""

    folder: bytes
    name: str
    patterns: list[_IgnorePattern]


class _FolderRules:
    """The rules that leave out entries of one folder below a root."""

    def __init__(
        self, root: bytes, patterns: _SelectionPatterns, ignore_files: tuple[_IgnoreFile, ...]
    ) -> None:
        self._root = root
        self._patterns = patterns
        self._ignore_files = ignore_files

    def enter_folder(self, folder: bytes, names: set[bytes]) -> "_FolderRules":
        """Return these rules and those of the ignore files among the `names` in `folder`."""
        own = [name for name in IGNORE_FILES if name in names]
        if not own:
            return self
        found = _read_ignore_files(folder, own)
        return _FolderRules(self._root, self._patterns, (*self._ignore_files, *found))

    def find_skip_reason(self, name: bytes, path: bytes, is_folder: bool) -> tuple[str, str] | None:
        """(outcome, detail) of a file or folder that is left out, None for one that is read."""
        if name.startswith(b"."):
            return Outcome.HIDDEN, "its name begins with a dot"
        unread_type = "" if is_folder else name_unread_type(os.fsdecode(name))
        if unread_type and not self._asks_for_picture(name, path):
            return Outcome.UNSUPPORTED_TYPE, unread_type
        if ignored := _find_ignoring_file(self._ignore_files, path, is_folder):
            return Outcome.IGNORED, f"by {ignored}"
        exclude, glob = self._patterns.exclude, self._patterns.glob
        if exclude and _last_match(exclude, _get_relative_path(path, self._root), is_folder):
            return Outcome.EXCLUDED, "by --exclude"
        if glob and not is_folder and not glob.match_file(_get_relative_path(path, self._root)):
            return Outcome.EXCLUDED, "no --glob matches it"
        return None

    def find_link_reason(self, path: bytes) -> tuple[str, str] | None:
        """(outcome, detail) of a link that leads out and is not followed; None for others."""
        if self._patterns.inside and leads_out(path, self._patterns.inside):
            return Outcome.LEADS_OUT, "it leads out of the folder: --follow-links reads it"
        return None

    def _asks_for_picture(self, name: bytes, path: bytes) -> bool:
        """Tell whether --glob asks for a picture: its text is read, which takes seconds."""
        glob, ending = self._patterns.glob, os.fsdecode(name).lower().rpartition(".")[2]
        if glob is None or ending not in PICTURES_WITH_TEXT:
            return False
        return glob.match_file(_get_relative_path(path, self._root))


def _find_ignoring_file(ignore_files: Sequence[_IgnoreFile], path: bytes, is_folder: bool) -> str:
    """Return the ignore file by which `path` is left out; empty where it is not."""
    for ignore_file in reversed(ignore_files):
        relative = _get_relative_path(path, ignore_file.folder)
        decided = _last_match(ignore_file.patterns, relative, is_folder)
        if decided is not None:
            return ignore_file.name if decided else ""
    return ""


def _last_match(patterns: Sequence[_IgnorePattern], path: str, is_folder: bool) -> bool | None:
    """Return whether the last pattern that matches leaves the path out; None if no pattern
    matches."""
    for pattern in reversed(patterns):
        if pattern.matches_path(path, is_folder):
            return pattern.compiled.include
    return None


def _get_relative_path(path: bytes, folder: bytes) -> str:
    return os.fsdecode(path[len(folder.rstrip(b"/")) + 1 :])


def _read_ignore_files(folder: bytes, names: Sequence[bytes]) -> Iterator[_IgnoreFile]:
    for name in names:
        path = os.path.join(folder, name)
        try:
            with open(require_regular_file(path), "rb") as file:
                lines = os.fsdecode(file.read(_LARGEST_IGNORE_FILE)).removeprefix("\ufeff")
        except OSError:
            continue
        if patterns := list(_parse_ignore_file(lines.split("\n"))):
            yield _IgnoreFile(folder, os.fsdecode(path), patterns)


def _parse_ignore_file(lines: Iterable[str]) -> Iterator[_IgnorePattern]:
    """Yield the patterns of these lines; as git does, lines that are no pattern are passed over."""
    for line in lines:
        with suppress(ValueError):
            if pattern := _parse_pattern(line):
                yield pattern


def _ignored_above(root: bytes) -> tuple[_IgnoreFile, ...]:
    """Return the ignore files from the top of the repository that holds `root` down to above it.

    None where they leave out `root` itself: whoever names a folder wants what is in it.
    """
    folders, folder = list[bytes](), root
    while not os.path.exists(os.path.join(folder, b".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return ()
        folder = above
        folders.append(folder)
    read = (_read_ignore_files(each, IGNORE_FILES) for each in reversed(folders))
    patterns = tuple(chain.from_iterable(read))
    below = (root, *folders)[:-1] if folders else ()
    return () if any(_find_ignoring_file(patterns, path, True) for path in below) else patterns
