"""Run notebooks and store their outputs, so that a second run gives the same bytes.

    python tools/run_notebooks.py [--step 3/3] [--twice] [notebooks/02_attention.ipynb ...]

Without names: every notebook in notebooks/. Nothing that changes from run to run or from machine to
machine is stored: no times, no kernel version, no order in which the pieces of a printed text came.
A notebook that fails stays as it was. With --twice nothing is stored: each notebook runs, and where the result
is not what is stored it runs again; two of the three have to be the same bytes.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CELL_TIMEOUT = 300  # seconds
KERNELSPEC = {
    "display_name": "Python 3 (ipykernel)",
    "language": "python",
    "name": "python3",
}
LANGUAGE_INFO = {
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "pygments_lexer": "ipython3",
}


class NotebookFailed(Exception):
    """A notebook did not run to its end; the message names the notebook and the cell."""


def merge_streams(outputs: list) -> list:
    """Join neighbouring pieces of one stream: how a text was cut into messages is chance."""
    merged: list = []
    for output in outputs:
        last = merged[-1] if merged else None
        same = (
            last is not None
            and last.output_type == output.output_type == "stream"
        )
        if same and last.name == output.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged


def tidy(notebook) -> None:
    """Remove from a notebook that has been run everything that tells when and where it ran."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata.kernelspec = KERNELSPEC
    notebook.metadata.language_info = LANGUAGE_INFO
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = merge_streams(cell.outputs)


def first_line(source: str) -> str:
    return next((line for line in source.splitlines() if line.strip()), "")


def kernel_class() -> type:
    """A kernel of this very Python, whatever kernels a user has registered; quiet on start."""
    from ipykernel.kernelspec import get_kernel_dict
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    class ThisPython(AsyncKernelManager):
        @property
        def kernel_spec(self) -> KernelSpec:
            return KernelSpec(**get_kernel_dict(["--log-level=ERROR"]))

    return ThisPython


def executed(path: Path) -> str:
    """The text of the notebook with fresh outputs; NotebookFailed if a cell does not run."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import (
        CellExecutionError,
        CellTimeoutError,
        DeadKernelError,
    )

    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    client = NotebookClient(
        notebook,
        kernel_manager_class=kernel_class(),
        timeout=CELL_TIMEOUT,
        record_timing=False,
        resources={"metadata": {"path": str(path.resolve().parent)}},
    )
    current = {}
    client.on_cell_start = lambda cell, cell_index: current.update(
        index=cell_index, cell=cell
    )
    try:
        # A profile of the user could load code before the first cell; an empty one cannot.
        with tempfile.TemporaryDirectory() as profile:
            client.execute(env={**os.environ, "IPYTHONDIR": profile})
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        if isinstance(error, CellExecutionError):
            reason = f"{error.ename}: {error.evalue}"
        elif isinstance(error, CellTimeoutError):
            reason = f"it took longer than {CELL_TIMEOUT} s"
        else:
            reason = "the kernel died"
        cell = current.get("cell")
        where = (
            f"cell {current['index']} (id {cell.id})"
            if cell
            else "before the first cell"
        )
        line = f"\n    {first_line(cell.source)}" if cell else ""
        raise NotebookFailed(f"{where}: {reason}{line}") from error
    tidy(notebook)
    nbformat.validate(notebook)
    return (
        nbformat.writes(notebook, version=nbformat.NO_CONVERT).rstrip("\n")
        + "\n"
    )


def store(path: Path, text: str) -> None:
    """Replace the file in one move: an interrupted run leaves the old one or the new one."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def handle(path: Path, twice: bool) -> str:
    """Run one notebook and store it, or compare two runs; say in a few words what happened."""
    text = executed(path)
    same = text == path.read_text(encoding="utf-8")
    if twice:
        # What is stored came from a run as well, perhaps on another machine.
        if not same and text != executed(path):
            raise NotebookFailed("two runs gave different bytes")
        return f"{'the stored run and this one' if same else 'two runs'}, the same bytes"
    if same:
        return "unchanged"
    store(path, text)
    return "stored"


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Run notebooks and store their outputs."
    )
    parser.add_argument(
        "notebooks", nargs="*", type=Path, help="default: all in notebooks/"
    )
    parser.add_argument(
        "--step", default="", help="how to count this step, such as 3/3"
    )
    parser.add_argument(
        "--twice",
        action="store_true",
        help="compare a run with what is stored, or else with a second one; store nothing",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=int(os.environ.get("WORKERS") or 1),
        help="how many run at the same time (default: WORKERS, or 1)",
    )
    options = parser.parse_args()
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
    ):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    paths = options.notebooks or sorted(
        (ROOT / "notebooks").glob("*.ipynb")
    )
    if missing := [str(path) for path in paths if not path.is_file()]:
        print(f"no such notebook: {', '.join(missing)}", file=sys.stderr)
        return 2
    print(
        f"{f'[{options.step}] ' if options.step else ''}notebooks: {len(paths)} to run",
        flush=True,
    )

    def run(path: Path) -> bool:
        start = time.monotonic()
        try:
            said = handle(path, options.twice)
        except NotebookFailed as error:
            print(f"  {path.name}: FAILED in {error}", flush=True)
            return False
        print(
            f"  {path.name}: {said} ({time.monotonic() - start:.0f} s)",
            flush=True,
        )
        return True

    # Each notebook has a kernel of its own, a process; here is only waiting.
    with ThreadPoolExecutor(max(1, options.workers)) as pool:
        passed = list(pool.map(run, paths))
    failed = [
        path.name
        for path, good in zip(paths, passed, strict=True)
        if not good
    ]
    if failed:
        print(
            f"failed, files left as they were: {', '.join(failed)}",
            file=sys.stderr,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
