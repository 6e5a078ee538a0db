"""Build the pages of the book, with every warning an error.

    python tools/build_book.py [--step 3/3] [--clean] [--strict]

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

from fingerprint import of_claims, of_pages
from home import HomeError, find

ROOT = Path(__file__).resolve().parents[1]
# What the tests wrote down: the pages show it.
RECORD = "_build/evidence.json"
# How the lines begin that whoever builds is to see.
NOTES = ("formulas: ", "light: ")
COMMAND = (
    "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
)


def state(root: Path) -> str:
    """Everything that decides how the pages come out, as one short string."""
    record = root / RECORD
    told = record.read_bytes() if record.is_file() else b""
    # Buttons and links lead to where the book lives.
    parts = [told, repr(find(root)).encode()]
    digests = " ".join(hashlib.sha256(part).hexdigest() for part in parts)
    return f"{of_pages(root)} {of_claims(root)} {digests}"


def book_files(root: Path, now: str) -> list[str]:
    """The forms in which the book was built as one file from the state `now`."""
    return [
        form
        for form in ("pdf", "epub")
        if (
            root / "_build" / form / f"attention-in-detail.{form}"
        ).is_file()
        and (stamp := root / "_build" / form / ".built-from").is_file()
        and stamp.read_text(encoding="utf-8") == now
    ]


def build(root: Path, log: Path, strict: bool, forms: list[str]) -> int:
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
            env={
                **os.environ,
                "NO_COLOR": "1",
                "PYTHONUTF8": "1",
                # So that the Evidence page can say whether the record is of this code.
                "EVIDENCE_CODE": of_claims(root),
                "EVIDENCE_STRICT": "1" if strict else "",
                # The front page has links to them.
                "BOOK_FILES": " ".join(forms),
            },
        ).returncode


def lines_of(log: Path) -> list[str]:
    """The lines of a log, without colours and with paths below this folder."""
    text = log.read_text(encoding="utf-8", errors="replace").replace(
        f"{ROOT}/", ""
    )
    return re.sub("\x1b\\[[0-9;]*m", "", text).splitlines()


def warnings_in(lines: list[str]) -> list[str]:
    words = ("WARNING", "ERROR", "CRITICAL")
    return [line for line in lines if any(word in line for word in words)]


def show_failure(log: Path) -> None:
    """Print the warnings of the build, or its last lines when it has none."""
    lines = lines_of(log)
    told = warnings_in(lines)
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


def show_notes(log: Path) -> None:
    """Print what an extension of the book says about the pages, such as how many formulas were set."""
    for line in log.read_text("utf-8", "replace").splitlines():
        if line.startswith(NOTES):
            print(f"       {line}")


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
    parser.add_argument(
        "--strict",
        action="store_true",
        help="each claim needs a test that passed in the last run of this very code",
    )
    options = parser.parse_args()
    label = f"[{options.step}] book" if options.step else "book"
    index, stamp = (
        ROOT / "_build/html/index.html",
        ROOT / "_build/.built-from",
    )
    try:
        now = state(ROOT)
    except HomeError as error:
        print(f"make: the book was not built: {error}", file=sys.stderr)
        return 1
    forms = book_files(ROOT, now)
    now = " ".join([now, *forms])
    last = stamp.read_text(encoding="utf-8") if stamp.is_file() else ""
    # What was built strictly is the same pages.
    good = [f"{now} strict"] if options.strict else [now, f"{now} strict"]
    if last in good and index.is_file() and not options.clean:
        print(f"{label}: unchanged since it was last built")
    else:
        print(
            f"{label}: building the pages, warnings count as errors",
            flush=True,
        )
        stamp.unlink(missing_ok=True)
        start, log = time.monotonic(), ROOT / "_build/build.log"
        if (
            build(ROOT, log, options.strict, forms) != 0
            or not index.is_file()
        ):
            show_failure(log)
            return 1
        stamp.write_text(good[0], encoding="utf-8")
        print(f"       built in {time.monotonic() - start:.0f} s")
        show_notes(log)
    print(
        f"Open {index.relative_to(ROOT)} in a browser, or run `make serve`."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
