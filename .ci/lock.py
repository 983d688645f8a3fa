"""Versions of `pip freeze` on standard input, as any package index knows them, on standard output.

A local build (`torch==2.13.0+cpu`) is named by its public version, a file by its name and version.
"""

import re
import sys
from urllib.parse import unquote

print("# Written by `make lock`; CONTRIBUTING.md says how to install from it.")
for line in sys.stdin:
    name, version = re.split(r"==| @ ", line.strip(), maxsplit=1)
    if "://" in version:
        wheel = unquote(version.split("#")[0].split("?")[0]).rsplit("/", 1)[-1]
        version = wheel.removesuffix(".tar.gz").split("-")[1]
    print(f"{name}=={version.split('+')[0]}")
