"""Write into notebooks and pages the numbers that the experiments measured.

    python tools/fill_measured.py [FILE ...]

In every ``{measured}`` role the shown number is replaced by what is stored; nothing else changes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from attention_in_detail.insights.results import fill_measured

ROOT = Path(__file__).resolve().parents[1]


def filled(path: Path) -> str:
    """What the file should hold. A notebook's texts are changed as they are stored, line by line."""
    text = path.read_text("utf8")
    if path.suffix != ".ipynb":
        return fill_measured(text)
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            source = fill_measured("".join(cell["source"]))
            cell["source"] = source.splitlines(keepends=True)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def main(names: list[str]) -> int:
    paths = [Path(name) for name in names] or [
        *sorted((ROOT / "notebooks").glob("*.ipynb")),
        *sorted((ROOT / "book").glob("*.md")),
    ]
    for path in paths:
        try:
            new = filled(path)
        except ValueError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            return 1
        if new != path.read_text("utf8"):
            part = path.with_suffix(path.suffix + ".part")
            part.write_text(new, "utf8")
            part.replace(path)
            print("filled", path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
