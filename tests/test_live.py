"""Running a chapter where it is read: which chapters can be, what the site serves for it, how a cell tells what came."""

from __future__ import annotations

import ast
import base64
import io
import json
import linecache
import subprocess
import sys
import textwrap
import types
import zipfile
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import yaml
from matplotlib.font_manager import findfont
from PIL import Image

from attention_in_detail.exercises import CHAPTERS
from tests.book_support import assert_built, page_of
from tests.extension_support import ROOT, extension, loaded

live = extension("live")
shell = loaded(ROOT / "book" / "_live" / "live_shell.py")
lock_tool = loaded(ROOT / "tools" / "pyodide_lock.py")

CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))
SETTING = CONFIG["sphinx"]["config"]["live_pyodide"]
LOCK = json.loads((live.PARTS / live.LOCK).read_text("utf8"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def modules():
    return live.Modules(live.package_root())


@pytest.fixture(scope="module")
def served():
    return live.of_site()


def entries(content):
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


# Which chapters


def test_part_one_runs_and_what_trains_does_not(modules):
    lacks = {
        path.stem: live.missing(live.cells_of(path), modules)
        for path in NOTEBOOKS
    }
    runs = sorted(name[:2] for name, found in lacks.items() if not found)
    assert set(runs) >= {*(f"0{n}" for n in range(1, 8)), "12", "13", "26"}
    assert lacks["11_masks"] == {"torch", "keras"}
    assert lacks["14_end_to_end"] == {"torch"}
    # 23 imports torch itself; without that line it would need it all the same, through what it imports.
    cells = live.cells_of(ROOT / "notebooks" / "23_pruning.ipynb")
    assert "import torch\n" in cells[0]
    cells[0] = cells[0].replace("import torch\n", "")
    cells = [cell for cell in cells if "torch." not in cell]
    assert live.missing(cells, modules) == {"torch"}


@pytest.mark.parametrize(
    ("cell", "lacks"),
    [
        ("import numpy as np, math", set()),
        ("def f():\n    import torch", {"torch"}),
        ("if True:\n    from keras.layers import Dense", {"keras"}),
        ("try:\n    a\nexcept ImportError:\n    import scipy", {"scipy"}),
        ("with a:\n    pass\nclass B:\n    import jax", {"jax"}),
        ("from attention_in_detail import attention", set()),
        ("import attention_in_detail.nn", {"torch"}),
        ("from attention_in_detail import nn", {"torch"}),
        ("from attention_in_detail.nn.layers import x", {"torch"}),
        ("from attention_in_detail.figures import bars", set()),
        # Inside a function of the package: a page can load the one, and none can load the other.
        ("from attention_in_detail import shape_checked", set()),
        ("from attention_in_detail.models import minilm", set()),
    ],
)
def test_what_a_cell_needs(cell, lacks, modules):
    assert live.missing([cell], modules) == lacks


def test_imports_for_a_type_checker_alone_do_not_count(tmp_path):
    files = {
        "__init__.py": "",
        "a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\nelse:\n    import jax",
        "sub/__init__.py": "from .inner import x",
        "sub/inner.py": "from ..a import y\nfrom .. import b",
        "b.py": "import cupy\ndef f():\n    import torch",
    }
    for name, text in files.items():
        path = tmp_path / "attention_in_detail" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf8")
    modules = live.Modules(tmp_path / "attention_in_detail")
    assert modules.others(["attention_in_detail.a"]) == {"jax"}
    # Relative imports, and the package that a module lies in.
    assert modules.others(["attention_in_detail.sub.inner"]) == {
        "jax",
        "cupy",
    }


# What the site serves


def test_the_same_bytes_each_time(served):
    again = live.of_site()
    assert again == served
    book = zipfile.ZipFile(io.BytesIO(served["book.zip"])).infolist()
    assert [entry.filename for entry in book] == sorted(
        entry.filename for entry in book
    )
    assert {entry.date_time for entry in book} == {(1980, 1, 1, 0, 0, 0)}


def test_the_package_is_served_without_what_needs_torch(served, modules):
    book = entries(served["book.zip"])
    root = live.package_root()
    for name, content in book.items():
        if name.startswith("attention_in_detail/"):
            assert (root.parent / name).read_bytes() == content
    code = {
        name: text for name, text in book.items() if name.endswith(".py")
    }
    assert "attention_in_detail/__init__.py" in code
    assert not [
        name for name in code if "/nn/" in name and "array" not in name
    ]
    assert "attention_in_detail/tasks/training.py" not in code
    assert "attention_in_detail/stored/minilm.npz" in book
    assert "attention_in_detail/figures/attention_viewer.js" in book
    for name, text in code.items():
        if name.startswith("attention_in_detail/"):
            found = {
                part.partition(".")[0]
                for line in live.imported(ast.parse(text).body)
                for part in live.asked(line, "x.y", None)
            }
            assert not found & {"torch", "keras"}, name


def test_the_package_and_its_needs_are_found_in_what_is_served(served):
    """With nothing installed but NumPy and matplotlib, the chapters' imports work from the zip file alone."""
    code = """
        import sys
        sys.meta_path.insert(0, type("No", (), {"find_spec": staticmethod(block)})())
        sys.path.insert(0, sys.argv[1])
        import attention_in_detail, attention_in_detail.figures, array_api_compat, jaxtyping
        import attention_in_detail.models.maps, attention_in_detail.insights.fast_weights
        for module in (attention_in_detail, array_api_compat, jaxtyping):
            assert module.__file__.startswith(sys.argv[1]), module
        from attention_in_detail.stored import stored_result
        print(sorted(stored_result("parallelism"))[0], "torch" in sys.modules)
    """
    blocked = textwrap.dedent("""
        def block(name, path=None, target=None):
            if name.partition(".")[0] in ("torch", "keras", "beartype", "transformers"):
                raise ImportError(name)
    """)
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(io.BytesIO(served["book.zip"])) as opened:
            opened.extractall(folder)
        done = subprocess.run(
            [sys.executable, "-c", blocked + textwrap.dedent(code), folder],
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("False\n")


def test_what_others_wrote_comes_with_its_licence(served):
    book, beartype = (
        entries(served[name]) for name in ("book.zip", "beartype.zip")
    )
    for name in ("jaxtyping", "wadler_lindig"):
        assert [
            path
            for path in book
            if path.startswith(f"{name}-") and path.endswith("LICENSE")
        ]
    (about,) = (
        text
        for path, text in book.items()
        if path.startswith("array_api_compat-")
        and path.endswith("METADATA")
    )
    assert b"MIT" in about
    assert [path for path in beartype if path.endswith("LICENSE")]


def test_nothing_is_listed_that_is_not_needed():
    """NEEDS and LATER are what the modules that are served import, at once and when a function is called."""
    at_once, in_functions = set(), set()
    for name, content in live.of_package(live.package_root()):
        if not name.endswith(".py"):
            continue
        tree = ast.parse(content)
        for found, inside in ((at_once, False), (in_functions, True)):
            for line in live.imported(tree.body, inside):
                if getattr(line, "level", 0):
                    continue
                parts = live.asked(line, "x.y", None)
                found |= {part.partition(".")[0] for part in parts}
    ours = {"attention_in_detail"}
    at_once -= sys.stdlib_module_names | ours | set(live.FROM_PYODIDE)
    in_functions -= sys.stdlib_module_names | ours | at_once
    assert at_once == {"array_api_compat", "jaxtyping"}
    assert at_once < {name.replace("-", "_") for name in live.NEEDS}
    # Two read trained weights that are not on a page either; Pillow comes with matplotlib. PyTorch is asked for by exercises
    # of chapters that no browser runs, as the next test says.
    assert in_functions - set(live.FROM_PYODIDE) == {
        *live.LATER,
        "PIL",
        "safetensors",
        "tokenizers",
        "torch",
    }


def test_the_exercises_of_a_chapter_that_runs_need_no_more_than_it():
    runs = [
        module
        for chapter, module in CHAPTERS.items()
        if not live.missing(
            live.cells_of(ROOT / f"notebooks/{chapter}.ipynb"),
            live.Modules(live.package_root()),
        )
    ]
    assert len(runs) > 10
    folder = live.package_root() / "exercises"
    for module in runs:
        text = (folder / f"{module}.py").read_text("utf8")
        assert "import torch" not in text, module


def test_a_missing_package_is_named():
    with pytest.raises(
        live.ExtensionError, match="no-such-thing is missing"
    ):
        list(live.of_distribution("no-such-thing"))


# Pyodide's place


def test_the_version_of_the_setting_is_the_one_that_is_listed():
    version = LOCK["info"]["version"]
    assert live.is_address(SETTING)
    assert SETTING.endswith(f"/v{version}/full/")
    assert live.place_of(SETTING) == "cdn.jsdelivr.net"
    assert live.place_of("vendored/pyodide") == "this site"


def test_the_versions_that_come_are_ones_that_the_package_admits():
    lowest = loaded(ROOT / "tools" / "versions.py").bounds()
    for name in live.FROM_PYODIDE:
        version = LOCK["packages"][name]["version"]
        assert [int(part) for part in version.split(".")] >= [
            int(part) for part in lowest[name].split(".")
        ]


@pytest.fixture
def distribution(tmp_path):
    """A folder like one of Pyodide's, and its lock."""
    names = ["numpy", "matplotlib", "pillow", "pytz"]
    lock = {"info": {"version": "1"}, "packages": {}}
    for name in names:
        file = tmp_path / f"{name}-1.whl"
        file.write_text(name, "utf8")
        depends = (
            ["numpy", "pillow", "pytz"] if name == "matplotlib" else []
        )
        lock["packages"][name] = {
            "depends": depends,
            "file_name": file.name,
            "sha256": live.described(name.encode())["sha256"],
        }
    for name in lock_tool.CORE:
        (tmp_path / name).write_text(name, "utf8")
    return tmp_path, lock


def test_the_list_has_what_is_needed_and_no_more(distribution):
    folder, lock = distribution
    made = lock_tool.listed(folder, lock)
    assert sorted(made["packages"]) == ["matplotlib", "numpy", "pillow"]
    assert made["packages"]["matplotlib"]["depends"] == ["numpy", "pillow"]
    assert made["packages"]["numpy"]["bytes"] == 5
    assert sorted(made["core"]) == sorted(lock_tool.CORE)
    assert lock["packages"]["matplotlib"]["depends"][-1] == "pytz"
    (folder / "pillow-1.whl").write_text("other", "utf8")
    with pytest.raises(ValueError, match=r"pillow-1.whl is not the file"):
        lock_tool.listed(folder, lock)


def test_a_folder_is_copied_and_a_wrong_file_is_refused(distribution):
    folder, lock = distribution
    made = lock_tool.listed(folder, lock)
    target = folder / "site" / "pyodide"
    live.copy_pyodide(folder, target, made)
    names = sorted(path.name for path in target.iterdir())
    assert names == sorted(live.pyodide_files(made))
    assert "pytz-1.whl" not in names
    (folder / "numpy-1.whl").write_text("other", "utf8")
    with pytest.raises(
        live.ExtensionError, match=r"numpy-1.whl .* not the"
    ):
        live.copy_pyodide(folder, target, made)
    (folder / "numpy-1.whl").unlink()
    with pytest.raises(
        live.ExtensionError, match=r"numpy-1.whl is missing"
    ):
        live.copy_pyodide(folder, target, made)


# Pages

CHAPTER = {
    "cells": [
        {
            "cell_type": "markdown",
            "id": "a",
            "metadata": {},
            "source": "# A chapter\n\nWords.",
        },
        {
            "cell_type": "code",
            "execution_count": 1,
            "id": "b",
            "metadata": {},
            "outputs": [],
            "source": "import numpy as np",
        },
    ],
    "metadata": {
        "kernelspec": {"name": "python3", "display_name": "Python"},
        "language_info": {"name": "python", "pygments_lexer": "ipython3"},
    },
    "nbformat": 4,
    "nbformat_minor": 5,
}
CONF = """
extensions = ["myst_nb", "live"]
nb_execution_mode = "off"
live_pyodide = {setting!r}
"""
PAGE = "notebooks/one"


@pytest.fixture
def built(tmp_path):
    def build(setting, code="import numpy as np", builder="html"):
        cells = [
            CHAPTER["cells"][0],
            {**CHAPTER["cells"][1], "source": code},
        ]
        chapter = json.dumps({**CHAPTER, "cells": cells})
        settings = CONF.format(setting=setting)
        return assert_built(
            tmp_path, settings, f"{PAGE}.ipynb", chapter, builder
        )

    return build


def test_a_chapter_gets_a_button_that_says_what_will_come(built):
    out = built("https://example.org/pyodide/v1/full")
    page = page_of(out, PAGE)
    bar = page.select_one("h1 + .live")
    assert bar["data-pyodide"] == "https://example.org/pyodide/v1/full/"
    assert bar.button.get_text() == "Run this page"
    served = live.of_site()
    lock = json.loads(served[live.LOCK])
    sizes = [file["bytes"] for file in live.pyodide_files(LOCK).values()]
    sizes.append(lock["site"]["book.zip"]["bytes"])
    assert (
        f"up to {round(sum(sizes) / 1e6)}\N{NO-BREAK SPACE}MB from example.org."
        in bar.get_text()
    )
    for name, content in served.items():
        assert (out / "_static" / "live" / name).read_bytes() == content
    # One small script, on this page alone, and nothing from elsewhere.
    scripts = page.select("script[src*=live]")
    assert [script["src"].partition("?")[0] for script in scripts] == [
        "../_static/live/start.js"
    ]
    assert scripts[0].has_attr("defer")
    assert len(served["start.js"]) < 2000
    front = page_of(out, "index")
    assert not front.select("script[src*=live], .live")


def test_a_chapter_that_needs_torch_says_so_and_offers_its_notebook(built):
    out = built("https://example.org/", "import torch\nimport keras")
    page = page_of(out, PAGE)
    (line,) = page.select("h1 + p.live-notice")
    assert "computes with PyTorch and Keras, which no browser" in line.text
    assert line.a["href"] == "../_sources/notebooks/one.ipynb"
    assert not page.select(".live, script[src*=live]")


@pytest.mark.slow
def test_without_a_place_no_chapter_has_a_button(built):
    out = built("")
    page = page_of(out, PAGE)
    assert not page.select(".live, .live-notice, script[src*=live]")
    assert not (out / "_static" / "live").exists()


@pytest.mark.slow
def test_other_formats_have_neither_button_nor_files(built):
    out = built("https://example.org/", builder="epub")
    assert not list(out.rglob("*live*"))
    html = (out / "notebooks" / "one.xhtml").read_text("utf8")
    assert "Run this page" not in html


def test_names_are_listed_as_one_says_them():
    assert live.listed(["a"]) == "a"
    assert live.listed(["a", "b", "c"]) == "a, b and c"


# The shell


def ran(*cells, one=None):
    """What the last of some cells tells."""
    one = one or shell.Shell()
    for number, cell in enumerate(cells, start=1):
        told: list[str] = []
        good = one.run(cell, number, told.append)
    # Text of one stream comes in pieces; where it is cut depends on the clock.
    whole: list[dict] = []
    for part in map(json.loads, told):
        last = whole[-1] if whole else {}
        if part["kind"] == "stream" and last.get("name") == part["name"]:
            last["text"] += part["text"]
        else:
            whole.append(part)
    return good, whole


def test_what_is_printed_and_shown_comes_in_order():
    code = """
        import sys
        print("a")
        print("b")
        print("c", file=sys.stderr)
        display(1, "two")
        print("d", end="")
        3 + 4
    """
    good, told = ran(textwrap.dedent(code))
    assert good
    assert [
        (x["kind"], x.get("name"), x.get("text") or x["data"]["text/plain"])
        for x in told
    ] == [
        ("stream", "stdout", "a\nb\n"),
        ("stream", "stderr", "c\n"),
        ("display", None, "1"),
        ("display", None, "'two'"),
        ("stream", "stdout", "d"),
        ("display", None, "7"),
    ]


def test_cells_share_names_and_the_streams_are_given_back():
    kept = sys.stdout, sys.stderr
    good, told = ran("x = 2", "x", "x; None", "y = x + 1", "y;")
    assert (good, told) == (True, [])
    assert (sys.stdout, sys.stderr) == kept
    assert ran("")[1] == []
    assert ran("# nothing")[1] == []
    assert ran("__name__")[1][0]["data"]["text/plain"] == "'__main__'"


def test_what_shows_itself_is_shown_in_its_forms():
    from attention_in_detail import attention, show_source
    from attention_in_detail.figures import weights_heatmap

    picture = weights_heatmap(np.eye(2))
    data, metadata = shell.forms_of(picture)
    assert data["image/png"].startswith("iVBOR")
    assert metadata["image/png"]["alt"] == picture.text_alternative
    with Image.open(io.BytesIO(base64.b64decode(data[shell.DARK]))) as dark:
        np.testing.assert_array_equal(
            np.asarray(dark.convert("RGB"))[0, 0], [0x12] * 3
        )
    assert shell.DARK not in shell.forms_of(3)[0]
    data, _ = shell.forms_of(show_source(attention))
    assert data["text/markdown"].startswith("```python\n@checked")
    assert data["text/plain"].startswith("@checked")
    html = types.SimpleNamespace(_repr_html_=lambda: "<b>x</b>")
    assert shell.forms_of(html)[0]["text/html"] == "<b>x</b>"
    png = types.SimpleNamespace(
        _repr_png_=lambda: b"\x89PNG", _repr_html_=lambda: None
    )
    data, _ = shell.forms_of(png)
    assert data["image/png"] == "iVBORw=="
    assert "text/html" not in data
    assert shell.forms_of(type(html))[0].keys() == {"text/plain"}
    only = types.SimpleNamespace(
        _repr_mimebundle_=lambda: {"text/html": "<i>"}
    )
    data, metadata = shell.forms_of(only)
    assert (data["text/html"], metadata) == ("<i>", {})


def test_an_error_reads_as_pythons_and_names_the_line_of_the_cell():
    code = """
        import numpy as np
        from attention_in_detail import attention
        x = np.zeros((2, 3))
        attention(x, x[:, :2], x)
    """
    good, told = ran("1", textwrap.dedent(code).strip())
    (error,) = told
    assert not good
    assert (error["name"], error["line"]) == ("ValueError", 4)
    lines = error["text"].splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == '  File "cell 2", line 4, in <module>'
    assert lines[2] == "    attention(x, x[:, :2], x)"
    assert lines[-1].startswith("ValueError: keys has D_k = 2")
    # Nothing of the shell, of the package or of a machine.
    assert error["text"].count("File ") == 1


def test_an_error_in_a_function_of_another_cell_shows_both():
    good, told = ran("def f(x):\n    return 1 / x", "print('before')\nf(0)")
    assert [x["kind"] for x in told] == ["stream", "error"]
    assert (told[1]["name"], told[1]["line"]) == ("ZeroDivisionError", 2)
    text = told[1]["text"]
    assert 'File "cell 2", line 2, in <module>\n    f(0)' in text
    assert 'File "cell 1", line 2, in f\n    return 1 / x' in text
    assert not good


def test_causes_are_told_too_and_only_in_the_lines_of_cells():
    code = """
        import json
        try:
            json.loads("{")
        except ValueError as error:
            raise KeyError("no") from error
    """
    _, (error,) = ran(textwrap.dedent(code))
    assert "direct cause of the following exception" in error["text"]
    assert "json/decoder.py" not in error["text"]
    assert error["text"].count('File "cell 1"') == 2
    group = "raise ExceptionGroup('two', [ValueError(1), KeyError(2)])"
    _, (error,) = ran(group)
    assert "KeyError: 2" in error["text"]


@pytest.mark.parametrize("code", ["x = (", "x = 1\ny = = 2", "if 1:\npass"])
def test_a_mistake_of_syntax_names_its_line(code):
    good, (error,) = ran(code)
    assert not good
    assert error["name"] in ("SyntaxError", "IndentationError")
    last = 1 if code == "x = (" else 2
    assert error["line"] == last
    assert f'File "cell 1", line {last}' in error["text"]
    assert "live_shell" not in error["text"]


def test_what_ends_a_program_ends_a_cell():
    good, (error,) = ran("import sys\nsys.exit(2)")
    assert not good
    assert (error["name"], error["line"]) == ("SystemExit", 2)
    good, (error,) = ran("name = input('who? ')")
    assert "write the value into the cell" in error["text"]
    assert not good


def test_endless_text_is_cut():
    _, told = ran("for n in range(60_000): print(n)")
    text = "".join(x["text"] for x in told)
    assert len(text) < shell.LIMIT + 100
    assert text.startswith("0\n1\n2\n")
    assert text.endswith("cut after 100,000 characters\n")


def test_text_comes_while_a_cell_runs(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(shell.time, "monotonic", lambda: next(clock))
    told = []
    stream = shell.Stream("stdout", told.append)
    assert stream.writable()
    assert stream.write("a\n") == 2
    assert json.loads(told[0])["text"] == "a\n"
    # The first line is sent as soon as it is whole, those right after it together.
    monkeypatch.setattr(shell.time, "monotonic", lambda: 100.0)
    told.clear()
    stream = shell.Stream("stdout", told.append)
    for text in ("a", "\n", "b", "\n", "c", "\n"):
        stream.write(text)
    assert [json.loads(text)["text"] for text in told] == ["a\n"]
    stream.flush()
    assert json.loads(told[1])["text"] == "b\nc\n"


def test_figures_of_pyplot_are_shown_and_closed():
    import matplotlib

    matplotlib.use("agg")
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2]);"
    good, told = ran(code)
    assert good
    (figure,) = told
    assert figure["data"]["image/png"].startswith("iVBOR")
    about = figure["metadata"]["image/png"]
    assert "without words" in about["alt"]
    assert about["width"] == pytest.approx(614.4)
    import matplotlib.pyplot as plt

    assert plt.get_fignums() == []


def test_source_of_a_function_of_a_cell_can_be_shown():
    code = "import inspect\ninspect.getsource(f)"
    _, (told,) = ran("def f():\n    return 1\n", code)
    assert "return 1" in told["data"]["text/plain"]
    linecache.clearcache()


def test_a_package_is_fetched_when_it_is_imported(tmp_path, monkeypatch):
    asked = []

    def fetch(name):
        asked.append(name)
        return live.zipped([(f"{name}/__init__.py", b"x = 5")])

    later = shell.Later(str(tmp_path), ["a_later_package"], fetch)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [later, *sys.meta_path])
    assert asked == []
    _, told = ran("import a_later_package\na_later_package.x")
    assert told[0]["data"]["text/plain"] == "5"
    ran("import a_later_package, json")
    assert asked == ["a_later_package"]
    sys.modules.pop("a_later_package")


def test_fonts_of_printers_are_removed_and_no_others(tmp_path):
    for name in ("afm/a.afm", "pdfcorefonts/b.afm", "ttf/c.ttf"):
        path = tmp_path / "fonts" / name
        path.parent.mkdir(parents=True)
        path.write_text("a font")
    shell.drop_printer_fonts(tmp_path)
    left = [p.name for p in (tmp_path / "fonts").rglob("*") if p.is_file()]
    assert left == ["c.ttf"]
    # The folders are those of matplotlib, in which the pictures of a page find their own fonts.
    fonts = Path(matplotlib.get_data_path()) / "fonts"
    assert {p.name for p in fonts.iterdir()} >= {"afm", "pdfcorefonts"}
    assert findfont("DejaVu Sans").startswith(str(fonts / "ttf"))


PREPARED = """
import gc, importlib.util, json, logging, sys
spec = importlib.util.spec_from_file_location("live_shell", sys.argv[1])
shell = importlib.util.module_from_spec(spec)
spec.loader.exec_module(shell)
shell.prepare()
there = "matplotlib.font_manager" in sys.modules
quiet = not logging.getLogger("matplotlib.font_manager").isEnabledFor(logging.WARNING)
frozen = gc.get_freeze_count()
import array_api_compat.numpy
import attention_in_detail
loaded = [name in sys.modules for name in ("numpy.f2py", "unittest.mock")]
print(json.dumps([there, quiet, frozen > 10_000, *loaded]))
"""


def test_what_takes_long_is_imported_first_and_what_is_of_no_use_never():
    """In another process: the tests share this one."""
    given = [sys.executable, "-c", PREPARED, shell.__file__]
    said = subprocess.run(given, capture_output=True, text=True, check=True)
    assert json.loads(said.stdout) == [True, True, True, False, False]
