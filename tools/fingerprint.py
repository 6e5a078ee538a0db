"""The content of a set of files as one short string: two states of the project are the same if theirs is."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

# Everything a page can depend on.
PAGES = [
    "_config.yml",
    "_toc.yml",
    "*.md",
    "book",
    "notebooks",
    "src",
    "tests",
    "bench",
    "experiments",
    "tools/build_book.py",
    "tools/build_epub.py",
    "tools/build_paper.py",
    "tools/mathml.cjs",
    "tools/provenance.py",
    "tools/fingerprint.py",
    "tools/home.py",
    "pyproject.toml",
    "requirements.txt",
    "CITATION.cff",
    "LICENSE*",
]
# Everything that a test of a claim can depend on, beyond the packages that are installed.
CLAIMS = ["book", "bench", "experiments", "notebooks", "src", "tests"]
CLAIMS += ["conftest.py", "pyproject.toml"]
CLAIMS += ["tools/fingerprint.py", "tools/provenance.py"]


def fingerprint(root: Path, patterns: Iterable[str], salt: str = "") -> str:
    """The names and contents of all files below `root` that the patterns name, whole folders included."""
    digest = hashlib.sha256(salt.encode())
    found = {path for pattern in patterns for path in root.glob(pattern)}
    files = {
        file
        for path in found
        for file in ([path] if path.is_file() else path.rglob("*"))
    }
    for file in sorted(files):
        parts = file.relative_to(root).parts
        hidden = any(
            part.startswith(".") or part.endswith(".egg-info")
            for part in parts
        )
        if file.is_file() and not hidden and "__pycache__" not in parts:
            digest.update(
                f"{'/'.join(parts)}\0{file.stat().st_size}\0".encode()
            )
            digest.update(file.read_bytes())
    return digest.hexdigest()


def of_claims(root: Path) -> str:
    """What the record of a run of the tests is said to be of."""
    return fingerprint(root, CLAIMS)


def of_pages(root: Path) -> str:
    """What a build of the pages is said to be of."""
    return fingerprint(root, PAGES, sys.version)
