"""Build the pages of the book, with every warning an error.

    python tools/build_book.py [--step 3/3] [--clean]

Nothing is done when no source has changed in content since the last build that succeeded. Otherwise
the pages are built from the start: a partial build repeats no warning about a page that it does not
read again, so a broken book could pass at the second try.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Everything a page can depend on.
SOURCES = [
    "_config.yml",
    "_toc.yml",
    "*.md",
    "book",
    "notebooks",
    "src",
    "tools/build_book.py",
]
SOURCES += [
    "pyproject.toml",
    "requirements.txt",
    "CITATION.cff",
    "LICENSE*",
]
COMMAND = (
    "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
)


def fingerprint(root: Path) -> str:
    """The names and contents of all sources, as one short string."""
    digest = hashlib.sha256(sys.version.encode())
    found = {path for pattern in SOURCES for path in root.glob(pattern)}
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


def build(root: Path, log: Path) -> int:
    """Build from the start; return the exit status."""
    for made in (".doctrees", "html", "jupyter_execute"):
        shutil.rmtree(root / "_build" / made, ignore_errors=True)
    log.parent.mkdir(exist_ok=True)
    arguments = ["build", ".", "-W", "-n", "--keep-going"]
    with log.open("w", encoding="utf-8") as stream:
        return subprocess.run(
            [sys.executable, "-c", COMMAND, *arguments],
            cwd=root,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, "NO_COLOR": "1", "PYTHONUTF8": "1"},
        ).returncode


def show_failure(log: Path) -> None:
    """Print the warnings of the build, or its last lines when it has none."""
    text = log.read_text(encoding="utf-8", errors="replace").replace(
        f"{ROOT}/", ""
    )
    lines = re.sub(
        "\x1b\\[[0-9;]*m", "", text
    ).splitlines()  # without the colours
    words = ("WARNING", "ERROR", "CRITICAL")
    told = [line for line in lines if any(word in line for word in words)]
    print("\n".join(told[:25] or lines[-25:]), file=sys.stderr)
    if len(told) > 25:
        print(f"... and {len(told) - 25} more", file=sys.stderr)
    number = "1 warning" if len(told) == 1 else f"{len(told)} warnings"
    reason = (
        f"{number}, each counts as an error"
        if told
        else "see the lines above"
    )
    where = f"all of it: {log.relative_to(ROOT)}"
    print(
        f"make: the book was not built: {reason} ({where})", file=sys.stderr
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Build the pages of the book."
    )
    parser.add_argument(
        "--step", default="", help="how to count this step, such as 3/3"
    )
    parser.add_argument(
        "--clean",
        action="store_true",
        help="build even when nothing has changed",
    )
    options = parser.parse_args()
    label = f"[{options.step}] book" if options.step else "book"
    index, stamp = (
        ROOT / "_build/html/index.html",
        ROOT / "_build/.built-from",
    )
    now = fingerprint(ROOT)
    last = stamp.read_text(encoding="utf-8") if stamp.is_file() else ""
    if last == now and index.is_file() and not options.clean:
        print(f"{label}: unchanged since it was last built")
    else:
        print(
            f"{label}: building the pages, warnings count as errors",
            flush=True,
        )
        stamp.unlink(missing_ok=True)
        start, log = time.monotonic(), ROOT / "_build/build.log"
        if build(ROOT, log) != 0 or not index.is_file():
            show_failure(log)
            return 1
        stamp.write_text(now, encoding="utf-8")
        print(f"       built in {time.monotonic() - start:.0f} s")
    print(
        f"Open {index.relative_to(ROOT)} in a browser, or run `make serve`."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
