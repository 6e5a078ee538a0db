"""Load the Sphinx extensions of the book, which live outside the package."""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTENSIONS = ROOT / "book" / "_ext"
# Extensions import each other, as they do in a build.
if str(EXTENSIONS) not in sys.path:
    sys.path.append(str(EXTENSIONS))


def loaded(path):
    specification = importlib.util.spec_from_file_location(
        f"book_{path.stem}", path
    )
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


def extension(name):
    return loaded(EXTENSIONS / f"{name}.py")
