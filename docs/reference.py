"""Pages of the documentation site that are written when it is built: commands and package.

mkdocs calls the functions that begin with `on_` (its hooks), mkdocstrings the class at the end.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "rookery"
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
INDENT = re.compile(r" {2,}")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name the generated pages in the navigation."""
    (reference,) = (each["Reference"] for each in config.nav or () if "Reference" in each)
    for section in reference:
        if "Command line" in section:
            section["Command line"] = [
                "reference/commands/index.md",
                *(f"reference/commands/rookery-{name}.md" for name in _read_commands()),
            ]
        if "Package" in section:
            section["Package"] = [
                "reference/package/index.md",
                *(f"reference/package/{room}.md" for room in ROOMS),
            ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the logo of the application."""
    logo = PACKAGE / "shell" / "static" / "rook.svg"
    files.append(File.generated(config, "pictures/rook.svg", abs_src_path=str(logo)))
    for path, text in (*_write_commands(), *_write_package(), _write_python()):
        files.append(File.generated(config, f"reference/{path}", content=text))
    return files


def _read_help(*command: str) -> str:
    program = [sys.executable, "-m", "rookery", *command, "--help"]
    return subprocess.run(program, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def _read_entries(section: str) -> list[tuple[str, str]]:
    """The names of a section of a help page, and what is said of each."""
    lines = (line.strip() for line in section.splitlines())
    return [(name, said) for name, said in (INDENT.split(line, 1) for line in lines if line)]


def _read_sections(text: str) -> tuple[str, dict[str, str]]:
    """Split a help page into the text before its sections and each section by its name."""
    before, *rest = re.split(r"^(Arguments|Options|Commands):\n", text, flags=re.M)
    return before, dict(zip(rest[::2], rest[1::2], strict=True))


def _read_commands() -> dict[str, str]:
    """The commands of `rookery` and what each does."""
    return dict(_read_entries(_read_sections(_read_help())[1]["Commands"]))


def _write_commands() -> Iterator[tuple[str, str]]:
    commands = _read_commands()
    links = "\n".join(
        f"| [`rookery {name}`](rookery-{name}.md) | {said} |" for name, said in commands.items()
    )
    yield (
        "commands/index.md",
        "# Command line\n\nWritten from `rookery COMMAND --help`, which prints the same.\n\n"
        f"| command | what it does |\n|---|---|\n{links}\n",
    )
    with ThreadPoolExecutor(2) as pool:
        pages = pool.map(lambda name: "\n".join(_describe_command((name,))), commands)
        yield from (
            (f"commands/rookery-{name}.md", page)
            for name, page in zip(commands, pages, strict=True)
        )


def _describe_command(command: tuple[str, ...]) -> Iterator[str]:
    before, sections = _read_sections(_read_help(*command))
    usage, _, about = before.partition("\n")
    yield f"{'#' * len(command)} rookery {' '.join(command)}\n"
    yield f"```text\n{usage.removeprefix('Usage: ')}\n```\n"
    yield f"{_escape(re.sub(r'^ +', '', about, flags=re.M).strip())}\n"
    for name in ("Arguments", "Options"):
        if name in sections:
            yield f"**{name}**\n"
            for entry, said in _read_entries(sections[name]):
                yield f"`{entry}`\n:   {_escape(said)}\n"
    for name, _ in _read_entries(sections.get("Commands", "")):
        yield from _describe_command((*command, name))


def _escape(text: str) -> str:
    return re.sub(r"([\\`*_<>\[\]|])", r"\\\1", text)


def _write_package() -> Iterator[tuple[str, str]]:
    rooms = "\n".join(f"| [`rookery.{room}`]({room}.md) | {_describe(room)} |" for room in ROOMS)
    yield (
        "package/index.md",
        "# Package\n\nThe modules inside, for those who change Rookery. Programs that use it need "
        "[`import rookery`](../../python.md) only; other names may change with any version.\n\n"
        f"| package | what it holds |\n|---|---|\n{rooms}\n",
    )
    for room in ROOMS:
        yield (
            f"package/{room}.md",
            f"# rookery.{room}\n\n{_describe(room)}\n\n"
            + "\n".join(
                f"::: {module}\n    options:\n"
                "      heading_level: 2\n      show_root_full_path: true\n"
                for module in _list_modules(PACKAGE / room)
            ),
        )


def _describe(room: str) -> str:
    """The first line of a package's docstring."""
    code = (PACKAGE / room / "__init__.py").read_text(encoding="utf-8")
    docstring = griffe.visit(room, PACKAGE / room / "__init__.py", code).docstring
    return docstring.value.splitlines()[0] if docstring else ""


def _list_modules(folder: Path) -> Iterable[str]:
    """Modules below a package, without database migrations, which are scripts."""
    for path in sorted(folder.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if path.name != "__init__.py" and "migrations" not in path.parts:
            yield name


def _write_python() -> tuple[str, str]:
    """The page of every public name, from its signature and docstring."""
    source = PACKAGE / "__init__.py"
    module = griffe.visit("rookery", source, source.read_text(encoding="utf-8"))
    names = [str(name) for name in module.exports or ()]
    text = "# Signatures\n\nEvery name of `import rookery` with its signature and docstring. "
    text += "[Python](../python.md) says what each is for.\n"
    for name in sorted(names, key=lambda name: (not name[0].islower(), name)):
        text += f"\n::: rookery.{name}\n    options:\n      heading: rookery.{name}\n"
        text += f"      toc_label: {name}\n      heading_level: 2\n"
    return "python.md", text


class PlainDocstrings(griffe.Extension):  # type: ignore[misc]  # of the site's environment
    """Keep brackets in docstrings as they are: `[1][2]` is how answers cite, and no link."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Escape the brackets outside code."""
        if obj.docstring:
            parts = re.split(r"(``.*?``|`[^`]*`|^ {4}.*$)", obj.docstring.value, flags=re.M)
            parts[::2] = [re.sub(r"([\[\]<>*_])", r"\\\1", part) for part in parts[::2]]
            obj.docstring.value = "".join(parts)
