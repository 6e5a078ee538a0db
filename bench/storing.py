"""Store what a benchmark measured, beside what it was measured on."""

from __future__ import annotations

import datetime
import json
import os
import platform
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import provenance

FOLDER = ROOT / provenance.STORED


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


def today(name: str) -> dict[str, str]:
    """The date, and the code that measures ``name`` today."""
    return {
        "date": datetime.date.today().isoformat(),
        "code": provenance.of_script(
            ROOT, provenance.script_of(ROOT, name)
        ),
    }


def store(name: str, packages: list[str], result: dict[str, Any]) -> Path:
    """Write ``result`` with machine, versions, threads, date and code; all of it or nothing."""
    versions = {package: metadata.version(package) for package in packages}
    whole = {
        **today(name),
        "machine": f"{processor()}, {os.cpu_count()} cores, {platform.system()}",
        "load": round(os.getloadavg()[0], 1)
        if hasattr(os, "getloadavg")
        else None,
        "threads": int(os.environ.get("OMP_NUM_THREADS", "0")),
        "versions": {"python": platform.python_version(), **versions},
        **result,
    }
    return write(name, whole)


def write(name: str, whole: Mapping[str, Any]) -> Path:
    """Write all of it or nothing."""
    path = FOLDER / f"{name}.json"
    part = path.with_suffix(".part")
    part.write_text(
        json.dumps(whole, indent=2, ensure_ascii=False) + "\n", "utf8"
    )
    part.replace(path)
    return path


def store_arrays(name: str, arrays: Mapping[str, np.ndarray]) -> Path:
    """Write arrays with date and code; all of them or nothing."""
    path = FOLDER / f"{name}.npz"
    part = path.with_suffix(".part.npz")
    np.savez_compressed(part, **arrays, **today(name))
    part.replace(path)
    return path
