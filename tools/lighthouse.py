"""Measure pages with Lighthouse, which is no part of the project: the median of several runs, on a phone and on a desktop.

    npx --yes lighthouse@12.2.3 --version       (once: npm fetches it)
    python tools/lighthouse.py [--folder _build/html] [--runs 3] [--lighthouse "npx lighthouse@12.2.3"] [--label after]
        [PAGE ...]

The pages are served as a host would, compressed. Chromium is found on the PATH, or CHROMIUM names it. The figures go into
tools/lighthouse.json, with the date and the versions; the table that is printed goes into CONTRIBUTING.md. A score moves
with the machine and with what else it does: tests/pages/test_light.py judges what comes out the same each time.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import gzip
import http.server
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "tools" / "lighthouse.json"
TEXT = {".html", ".css", ".js", ".svg", ".json"}
CATEGORIES = ("performance", "accessibility", "best-practices", "seo")
TIMES = {
    "largest-contentful-paint": "ms until the largest part is there",
    "total-blocking-time": "ms blocked",
    "cumulative-layout-shift": "layout shift",
    "total-byte-weight": "bytes",
}
FRONT = "book/index.html"
HEAVIEST = 3


def usual_pages(folder: Path) -> list[str]:
    """The front page, and the chapters whose own files are the most to load: what all pages share is the same for all."""

    def weight(page: Path) -> int:
        text = page.read_bytes()
        images = set(re.findall(rb'src="([^":]+_images/[^"]+)"', text))
        files = [page.parent / image.decode() for image in images]
        return len(gzip.compress(text, 6)) + sum(
            file.stat().st_size for file in files
        )

    chapters = sorted((folder / "notebooks").glob("*.html"), key=weight)
    names = [page.relative_to(folder).as_posix() for page in chapters]
    return [FRONT, *names[: -HEAVIEST - 1 : -1]]


class Packed(http.server.SimpleHTTPRequestHandler):
    """Serves files as a host does: text compressed, and to be kept by the browser."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        data = path.read_bytes()
        self.send_response(200)
        if path.suffix in TEXT:
            data = gzip.compress(data, 6)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "max-age=31536000")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def measure(command: list[str], url: str, kind: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        subprocess.run(
            [
                *command,
                url,
                "--quiet",
                "--output=json",
                f"--output-path={report}",
                f"--only-categories={','.join(CATEGORIES)}",
                "--chrome-flags=--headless=new --no-sandbox --disable-gpu",
                *(["--preset=desktop"] if kind == "desktop" else []),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        told = json.loads(report.read_text("utf8"))
    found = {
        name: told["categories"][name]["score"] or 0.0
        for name in CATEGORIES
    }
    found |= {name: told["audits"][name]["numericValue"] for name in TIMES}
    found["requests"] = len(
        told["audits"]["network-requests"]["details"]["items"]
    )
    failed = [
        audit
        for name in CATEGORIES[1:]
        for entry in told["categories"][name]["auditRefs"]
        if (audit := entry["id"])
        and entry["weight"]
        and (told["audits"][audit]["score"] or 0) < 1
        and told["audits"][audit]["scoreDisplayMode"] == "binary"
    ]
    for name in failed:
        print(f"    {name}: {told['audits'][name]['title']}")
    return found


def table(stored: dict) -> str:
    """The figures as they stand in CONTRIBUTING.md."""
    lines = [
        "| page | | performance | others | largest part after | blocked | KiB | requests |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for label, measured in stored.items():
        for page, kinds in measured["pages"].items():
            for kind, found in kinds.items():
                others = min(found[name] for name in CATEGORIES[1:])
                lines.append(
                    f"| {Path(page).stem} | {kind}, {label} | {found['performance']:.2f} | {others:.2f} "
                    f"| {found['largest-contentful-paint'] / 1000:.1f} s | {found['total-blocking-time']:.0f} ms "
                    f"| {found['total-byte-weight'] / 1024:.0f} | {found['requests']:.0f} |"
                )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "pages",
        nargs="*",
        help="default: the front page, the heaviest chapters",
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "_build/html")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--lighthouse", default="npx lighthouse@12.2.3")
    parser.add_argument("--label", default="after")
    options = parser.parse_args()
    command = shlex.split(options.lighthouse)
    os.environ["CHROME_PATH"] = (
        os.environ.get("CHROMIUM") or shutil.which("chromium") or ""
    )
    handler = functools.partial(Packed, directory=str(options.folder))
    stored = (
        json.loads(STORED.read_text("utf8")) if STORED.is_file() else {}
    )
    version = subprocess.check_output([*command, "--version"], text=True)
    figures: dict[str, dict] = {}
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), handler
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        home = f"http://127.0.0.1:{server.server_port}/"
        for page in options.pages or usual_pages(options.folder):
            for kind in ("phone", "desktop"):
                runs = [
                    measure(command, home + page, kind)
                    for _ in range(options.runs)
                ]
                median = {
                    name: round(
                        statistics.median(run[name] for run in runs), 3
                    )
                    for name in runs[0]
                }
                figures.setdefault(page, {})[kind] = median
                scores = sorted(run["performance"] for run in runs)
                print(page, kind, scores, median, flush=True)
        server.shutdown()
    stored[options.label] = {
        "date": datetime.date.today().isoformat(),
        "lighthouse": version.strip(),
        "runs": options.runs,
        "pages": figures,
    }
    STORED.write_text(json.dumps(stored, indent=1) + "\n", "utf8")
    print(table(stored))


if __name__ == "__main__":
    main()
