"""The pages of the book, as the table of contents lists them, with the titles of their sources."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


def pages() -> list[str]:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf8"))
    found = [toc["root"]]

    def walk(entries: list[dict]) -> None:
        for entry in entries:
            if "file" in entry:
                found.append(entry["file"])
            for key in ("chapters", "sections"):
                walk(entry.get(key, []))

    walk(toc.get("parts", []))
    walk(toc.get("chapters", []))
    return found


def title(name: str) -> str:
    """The first heading of a source, without its marks."""
    notebook = ROOT / f"{name}.ipynb"
    if notebook.is_file():
        cells = json.loads(notebook.read_text("utf8"))["cells"]
        text = "\n".join(
            "".join(cell["source"])
            for cell in cells
            if cell["cell_type"] == "markdown"
        )
    else:
        text = (ROOT / f"{name}.md").read_text("utf8")
    (heading,) = re.findall(r"^# +(.+?) *$", text, re.MULTILINE)[:1]
    return heading
