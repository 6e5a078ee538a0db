"""List the files of a Pyodide that a page loads before it runs, with their sizes and hashes.

    python tools/pyodide_lock.py FOLDER [LOCK]

FOLDER holds a whole Pyodide of one version; LOCK is its pyodide-lock.json, that in FOLDER if none is named. The list goes
into book/_live/pyodide-lock.json: a pyodide-lock.json itself, with the few packages that the book needs, to which sizes
and Pyodide's own files are added. A file whose hash is not the one that Pyodide lists for it is refused.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "book" / "_live" / "pyodide-lock.json"
CORE = (
    "pyodide.mjs",
    "pyodide.asm.js",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
)
WANTED = ("numpy", "matplotlib")
# matplotlib asks for them, but draws without: one is for PDF, one for time zones, one for figures that move.
NOT_NEEDED = {"fonttools", "matplotlib-pyodide", "pytz"}


def described(path: Path) -> dict[str, object]:
    content = path.read_bytes()
    return {
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def packages_of(lock: dict) -> dict[str, dict]:
    """The packages that are wanted and what they need, each with its needs among these."""
    found: dict[str, dict] = {}
    todo = list(WANTED)
    while todo:
        name = todo.pop()
        if name in found or name in NOT_NEEDED:
            continue
        entry = dict(lock["packages"][name])
        entry["depends"] = [
            other for other in entry["depends"] if other not in NOT_NEEDED
        ]
        found[name] = entry
        todo += entry["depends"]
    return dict(sorted(found.items()))


def listed(folder: Path, lock: dict) -> dict:
    """The list for a folder and the lock of its version."""
    packages = packages_of(lock)
    for name, entry in packages.items():
        there = described(folder / entry["file_name"])
        if there["sha256"] != entry["sha256"]:
            raise ValueError(
                f"{entry['file_name']} is not the file that Pyodide lists for {name}"
            )
        entry["bytes"] = there["bytes"]
    return {
        "info": lock["info"],
        "core": {name: described(folder / name) for name in CORE},
        "packages": packages,
    }


def main(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    lock = Path(arguments[-1])
    lock = folder / "pyodide-lock.json" if lock == folder else lock
    made = listed(folder, json.loads(lock.read_text("utf8")))
    TARGET.write_text(json.dumps(made, indent=1) + "\n", "utf8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
