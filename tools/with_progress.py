"""Run a script that measures, and say every few seconds that it is still at it.

    python tools/with_progress.py bench/online_attention.py [arguments of the script]

What is measured is left alone: the script has a process of its own, and this one only waits. What the
script says is passed on. Where it has said nothing for five seconds, this one says for how long it has run.
"""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable

EVERY = 5.0


def passed_on(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def run(
    command: list[str],
    *,
    every: float = EVERY,
    say: Callable[[str], None] = passed_on,
) -> int:
    """Run a command to its end; return its exit code."""
    start = time.monotonic()
    lines: queue.Queue[str] = queue.Queue()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, encoding="utf8"
    ) as child:

        def read() -> None:
            for line in child.stdout or ():
                lines.put(line)
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        while True:
            try:
                line = lines.get(timeout=every)
            except queue.Empty:
                seconds = time.monotonic() - start
                say(f"still measuring, {seconds:.0f} s so far\n")
                continue
            if not line:
                break
            say(line)
    return child.returncode


if __name__ == "__main__":
    sys.exit(run([sys.executable, *sys.argv[1:]]))
