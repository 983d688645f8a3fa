"""How much does the desk weigh, installed from the wheel into an environment of its own?

Builds the wheel, installs it without and with the extra `serve`, and opens the desk there: its
first page and all that this page names are fetched as a browser fetches them. Needs a package
index; in a small round what it depends on is taken from the
environment that runs it. Prints a table and writes bench/results/installed.json.

    python -m bench.installed
"""

import gzip
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import urllib.request
import venv
from pathlib import Path

from bench.report import ROOT, SMALL, show, sized, write

MOST_MIB = 35.0
MOST_PACKAGES = 20
MOST_KIB = 60.0
QUIET = ("--quiet", "--disable-pip-version-check")
ALONE: tuple[str, ...] = sized((), ("--no-deps", "--no-index", "--force-reinstall"))
"""options that have pip fetch nothing"""


def size(folder: Path) -> float:
    """In MiB, without what Python compiles."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sum(path.stat().st_size for path in files) / 2**20


def installed(python: Path, what: str) -> tuple[float, int]:
    """MiB and packages that there are once this is installed."""
    subprocess.run([python, "-m", "pip", "install", *QUIET, *ALONE, what], check=True)
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--disable-pip-version-check", "--format", "freeze"],
        check=True,
        capture_output=True,
        text=True,
    )
    return size(python.parent.parent / "lib"), len(listed.stdout.split())


def fetched(address: str) -> tuple[str, int]:
    """A page or file, and its bytes on the way."""
    request = urllib.request.Request(address, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request) as answer:
        body = answer.read()
        if answer.headers["Content-Encoding"] == "gzip":
            return gzip.decompress(body).decode(), len(body)
        return body.decode(), len(body)


def first_load(rookery: Path, home: Path) -> float:
    """KiB of the page that an invitation opens, and of all that it names."""
    places = {name: str(home / name) for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME")}
    desk = subprocess.Popen(
        [rookery, "serve", "desk", "--in", "rookery:corvids", "--port", "0"],
        env=os.environ | places,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert desk.stdout is not None
        said = next(line for line in desk.stdout if "/enter/" in line)
        found = re.search(r"(http://[^/]+)(/enter/\S+)", said)
        assert found is not None
        page, total = fetched(found[1] + found[2])
        for name in sorted(set(re.findall(r'(?:href|src)="(/static/[^"]+)"', page))):
            total += fetched(found[1] + name)[1]
        return total / 2**10
    finally:
        desk.terminate()
        desk.wait()


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place]
        subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        wheel = next(home.glob("*.whl"))
        venv.create(home / "env", with_pip=True)
        python = home / "env" / "bin" / "python"
        if SMALL:
            packages = next((home / "env" / "lib").glob("python*/site-packages"))
            here = sysconfig.get_path("purelib")
            (packages / "here.pth").write_text(f"import site; site.addsitedir({here!r})\n")
        plain, few = installed(python, str(wheel))
        whole, many = installed(python, f"{wheel}[serve]")
        load = first_load(python.with_name("rookery"), home)
    rows = {
        "packages of the extra": {"most": MOST_PACKAGES, "found": float(many - few)},
        "MiB of the extra": {"most": MOST_MIB, "found": whole - plain},
        "KiB of the first page": {"most": MOST_KIB, "found": load},
    }
    show(("most", "found"), rows)
    write("installed", {"rows": rows, "plain_mib": plain, "wheel": wheel.name})


if __name__ == "__main__":
    main()
