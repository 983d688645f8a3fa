"""Size of the desk, installed from the wheel into an environment of its own.

Builds the wheel, installs it without and with the extra `serve`, and opens the desk there: its
first page and everything the page names are fetched as a browser does. Needs a package index; in a
small round the dependencies are taken from the environment that runs it. Prints a table and writes
bench/results/installed.json.

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

from bench.report import ROOT, SMALL, choose_size, print_table, write_results

MOST_MIB = 35.0
MOST_PACKAGES = 20
MOST_KIB = 60.0
QUIET = ("--quiet", "--disable-pip-version-check")
OFFLINE_OPTIONS: tuple[str, ...] = choose_size((), ("--no-deps", "--no-index", "--force-reinstall"))
"""Options with which pip fetches nothing."""


def measure_size(folder: Path) -> float:
    """Return MiB of a folder without compiled Python files."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sum(path.stat().st_size for path in files) / 2**20


def install_package(python: Path, what: str) -> tuple[float, int]:
    """Install something and return MiB and number of packages in the environment."""
    subprocess.run([python, "-m", "pip", "install", *QUIET, *OFFLINE_OPTIONS, what], check=True)
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--disable-pip-version-check", "--format", "freeze"],
        check=True,
        capture_output=True,
        text=True,
    )
    return measure_size(python.parent.parent / "lib"), len(listed.stdout.split())


def fetch_url(address: str) -> tuple[str, int]:
    """Fetch a page or file and return its text and its bytes as transferred."""
    request = urllib.request.Request(address, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request) as answer:
        body = answer.read()
        if answer.headers["Content-Encoding"] == "gzip":
            return gzip.decompress(body).decode(), len(body)
        return body.decode(), len(body)


def measure_first_load(rookery: Path, home: Path) -> float:
    """Measure KiB of the page that an invitation opens, with everything it names."""
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
        page, total = fetch_url(found[1] + found[2])
        for name in sorted(set(re.findall(r'(?:href|src)="(/static/[^"]+)"', page))):
            total += fetch_url(found[1] + name)[1]
        return total / 2**10
    finally:
        desk.terminate()
        desk.wait()


def main() -> None:
    """Run the benchmark."""
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
        plain, few = install_package(python, str(wheel))
        whole, many = install_package(python, f"{wheel}[serve]")
        load = measure_first_load(python.with_name("rookery"), home)
    rows = {
        "packages of the extra": {"most": MOST_PACKAGES, "found": float(many - few)},
        "MiB of the extra": {"most": MOST_MIB, "found": whole - plain},
        "KiB of the first page": {"most": MOST_KIB, "found": load},
    }
    print_table(("most", "found"), rows)
    write_results("installed", {"rows": rows, "plain_mib": plain, "wheel": wheel.name})


if __name__ == "__main__":
    main()
