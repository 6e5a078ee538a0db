"""Store what a benchmark measured, beside what it was measured on."""

from __future__ import annotations

import datetime
import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

FOLDER = (
    Path(__file__).resolve().parents[1] / "src/attention_in_detail/stored"
)


def processor() -> str:
    """Return the processor's own name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf8").splitlines()
    except OSError:
        lines = []
    names = [
        line.partition(":")[2].strip()
        for line in lines
        if line.startswith("model name")
    ]
    return names[0] if names else platform.machine()


def store(name: str, packages: list[str], result: dict[str, Any]) -> Path:
    """Write ``result`` with machine, versions, threads and date; all of it or nothing."""
    versions = {package: metadata.version(package) for package in packages}
    whole = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{processor()}, {os.cpu_count()} cores, {platform.system()}",
        "load": round(os.getloadavg()[0], 1)
        if hasattr(os, "getloadavg")
        else None,
        "threads": int(os.environ.get("OMP_NUM_THREADS", "0")),
        "versions": {"python": platform.python_version(), **versions},
        **result,
    }
    path = FOLDER / f"{name}.json"
    part = path.with_suffix(".part")
    part.write_text(
        json.dumps(whole, indent=2, ensure_ascii=False) + "\n", "utf8"
    )
    part.replace(path)
    return path
