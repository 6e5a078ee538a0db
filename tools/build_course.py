"""Build what a course hands out, into _build/course, from the finished pages and the sources.

    python tools/build_course.py [--after 3]     (how many steps went before, for the numbers that are printed)

Slides, notebooks for students, the quiz for learning platforms, the project, the teacher's guide as one file. A part that
fails does not stop the others; the exit status is 0 only when all are there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What is built, with the program that does it; all of them write below _build/course.
PARTS = {
    "slides": "build_slides.py",
    "notebooks for students": "student_notebooks.py",
    "quiz for learning platforms": "quiz_files.py",
    "project from an empty file": "scratch_project.py",
    "teacher's guide": "teachers_guide.py",
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Build what a course hands out."
    )
    parser.add_argument("--after", type=int, default=0)
    before = parser.parse_args().after
    failed = []
    for number, (part, program) in enumerate(PARTS.items(), before + 1):
        print(f"[{number}/{before + len(PARTS)}] {part}", flush=True)
        command = [sys.executable, f"tools/{program}"]
        if subprocess.run(command, cwd=ROOT).returncode:
            failed.append(part)
    if failed:
        told = ", ".join(failed)
        print(f"make: not all is there; missing: {told}", file=sys.stderr)
        return 1
    print("All of it is in _build/course.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
