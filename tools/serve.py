"""Show the built pages on this machine only, until Ctrl-C.

python tools/serve.py [--step 4/4] [--port 8000] [--folder _build/html]
"""

from __future__ import annotations

import argparse
import errno
import re
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Pages(SimpleHTTPRequestHandler):
    """Serve files without a line for each request, and without the browser keeping old ones."""

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def send_error(
        self,
        code: int,
        message: str | None = None,
        explain: str | None = None,
    ) -> None:
        """Show the site's own page for what is not there, as its host does; here, the site stands at the top."""
        page = Path(self.directory) / "404.html"
        if code != 404 or not page.is_file():
            super().send_error(code, message, explain)
            return
        html = page.read_text("utf8")
        if prefix := re.search(r'data-content_root="(/[^"]+/)"', html):
            html = html.replace(f'="{prefix[1]}', '="/')
        body = html.encode()
        self.send_response(404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


def bind(folder: Path, port: int, tries: int = 100) -> ThreadingHTTPServer:
    """A server at the first free port from `port` on."""
    handler = partial(Pages, directory=str(folder))
    for candidate in range(port, min(port + tries, 65536)):
        try:
            return ThreadingHTTPServer(("127.0.0.1", candidate), handler)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
    raise SystemExit(f"no free port between {port} and {candidate}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Show the built pages on this machine."
    )
    parser.add_argument(
        "--step", default="", help="how to count this step, such as 4/4"
    )
    parser.add_argument(
        "--port", type=int, default=8000, help="the first port to try"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "_build/html")
    options = parser.parse_args()
    if not (options.folder / "index.html").is_file():
        raise SystemExit(
            f"{options.folder} has no index.html: run `make book` first"
        )
    with bind(options.folder, options.port) as server:
        label = f"[{options.step}] " if options.step else ""
        print(
            f"{label}serving: http://localhost:{server.server_port}/ (Ctrl-C ends it)",
            flush=True,
        )
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    sys.exit(main())
