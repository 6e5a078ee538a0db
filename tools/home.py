"""Where this book lives: its repository, its branch, and the address of its pages.

No file of the book says so, since a fork lives elsewhere. It is found each time the pages are built:

* the repository: the variable BOOK_REPOSITORY; else the one that GitHub's machines name; else the git remote `origin`,
  where that is on a public host; else none,
* the branch: BOOK_BRANCH, else the one that GitHub's machines name, else the current one, else `main`,
* the revision that a notebook by itself installs: BOOK_REVISION, else the commit that GitHub's machines name, else the branch,
* the address of the pages: BOOK_URL, else that of GitHub Pages for the repository, else none,
* a JupyterHub that readers have accounts on: BOOK_JUPYTERHUB, else none.

A variable that is empty counts as not set. `none` says that there is none, whatever else is known.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

# Hosts whose repositories anybody may be meant to read. A remote elsewhere can be private: it is no place to send readers.
PUBLIC = ("github.com", "gitlab.com")
# Where tools/publish.sh puts the pages.
PAGES_BRANCH = "gh-pages"
# Of the characters that git admits, those that mean nothing else in an address or on a command line.
NAME = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
BRANCH = re.compile(rf"{NAME}(/{NAME})*")
PATH = re.compile(rf"{NAME}(/{NAME})+")
HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]+)?")
# The short way to write a remote that is reached by ssh: git@host:owner/name.git
SHORT = re.compile(r"(?:[^@/:]+@)?(?P<host>[^@/:]+):(?P<path>[^/].*)")


class HomeError(ValueError):
    """A variable that was set says something that cannot be."""


@dataclass(frozen=True)
class Home:
    """Where the book lives; an empty text where there is none."""

    repository: str = ""  # https://host/owner/name
    branch: str = "main"
    revision: str = "main"
    url: str = ""  # of the pages, with a slash at its end
    jupyterhub: str = ""

    @property
    def host(self) -> str:
        return urlsplit(self.repository).netloc

    @property
    def path(self) -> str:
        """The repository on its host: owner/name."""
        return urlsplit(self.repository).path.strip("/")

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def prefix(self) -> str:
        """What stands before every path of the site."""
        return urlsplit(self.url).path or "/"

    def environment(self) -> dict[str, str]:
        """The variables under which the same home is found at a place without git."""
        return {
            "BOOK_REPOSITORY": self.repository or "none",
            "BOOK_BRANCH": self.branch,
            "BOOK_REVISION": self.revision,
            "BOOK_URL": self.url or "none",
            "BOOK_JUPYTERHUB": self.jupyterhub or "none",
        }


def repository(remote: str, hosts: Iterable[str] | None = None) -> str:
    """The address of a repository for a browser, without any credentials; empty if it cannot be read, or is elsewhere."""
    remote = remote.strip()
    if "://" in remote:
        try:
            parts = urlsplit(remote)
        except ValueError:
            return ""
        if parts.scheme not in ("https", "http", "ssh", "git"):
            return ""
        host, path = parts.netloc.rpartition("@")[2], parts.path
        if parts.scheme == "ssh":
            host = host.partition(":")[0]  # the port of ssh
    elif short := SHORT.fullmatch(remote):
        host, path = short["host"], short["path"]
    else:
        return ""
    host, path = host.lower(), path.strip("/").removesuffix(".git")
    if not (HOST.fullmatch(host) and PATH.fullmatch(path)):
        return ""
    if hosts is not None and host not in hosts:
        return ""
    if host == "github.com" and path.count("/") != 1:
        return ""
    return f"https://{host}/{path}"


def pages_address(repository: str) -> str:
    """Where GitHub shows the pages of a repository; empty for one that is elsewhere."""
    parts = urlsplit(repository)
    if parts.netloc != "github.com":
        return ""
    owner, _, name = parts.path.strip("/").partition("/")
    site = f"{owner.lower()}.github.io"
    return (
        f"https://{site}/"
        if name.lower() == site
        else f"https://{site}/{name}/"
    )


def git(root: Path, *arguments: str) -> str:
    """What git says; nothing where there is no git, or where `root` is not the top of a repository of its own."""
    answers = []
    for call in (["rev-parse", "--show-prefix"], list(arguments)):
        try:
            done = subprocess.run(
                ["git", *call], cwd=root, capture_output=True, text=True
            )
        except OSError:
            return ""
        if done.returncode:
            return ""
        answers.append(done.stdout.strip())
    return "" if answers[0] else answers[1]


def address(environment: Mapping[str, str], variable: str) -> str:
    """An address that a variable gives: with a slash at its end, `none` as it is."""
    given = environment.get(variable, "").strip()
    if given in ("", "none"):
        return given
    try:
        parts = urlsplit(given)
    except ValueError:
        parts = urlsplit("")
    if (
        parts.scheme not in ("https", "http")
        or not HOST.fullmatch(parts.netloc)
        or parts.query
        or parts.fragment
        or not re.fullmatch(r"[\w./~%+-]*", parts.path)
    ):
        raise HomeError(
            f"{variable} is {given!r}; an address such as https://example.org/book/ is wanted, or none"
        )
    return f"{given.rstrip('/')}/"


def plain(environment: Mapping[str, str], variable: str) -> str:
    """A branch or commit that a variable gives."""
    given = environment.get(variable, "").strip()
    if given and not BRANCH.fullmatch(given):
        raise HomeError(
            f"{variable} is {given!r}; the name of a branch or of a commit is wanted, of letters, digits and . _ + - /"
        )
    return given


def find_repository(root: Path, environment: Mapping[str, str]) -> str:
    given = environment.get("BOOK_REPOSITORY", "").strip()
    if given == "none":
        return ""
    if given:
        if found := repository(given):
            return found
        raise HomeError(
            "BOOK_REPOSITORY is no address such as https://github.com/owner/name, nor none"
        )
    if named := environment.get("GITHUB_REPOSITORY", ""):
        server = (
            environment.get("GITHUB_SERVER_URL") or "https://github.com"
        )
        return repository(f"{server}/{named}")
    return repository(git(root, "remote", "get-url", "origin"), PUBLIC)


def find_branch(root: Path, environment: Mapping[str, str]) -> str:
    # What a request wants to change is asked for from the branch that it is to change.
    given = plain(environment, "BOOK_BRANCH")
    named = environment.get("GITHUB_BASE_REF") or environment.get(
        "GITHUB_REF_NAME", ""
    )
    found = (
        given
        or named
        or git(root, "symbolic-ref", "--quiet", "--short", "HEAD")
    )
    return found if BRANCH.fullmatch(found) else "main"


def find(root: Path, environment: Mapping[str, str] = os.environ) -> Home:
    """Where the book in the folder `root` lives.

    Raises:
        HomeError: if a variable BOOK_... says something that cannot be.
    """
    place = find_repository(root, environment)
    url = address(environment, "BOOK_URL") or pages_address(place)
    hub = address(environment, "BOOK_JUPYTERHUB")
    revision = plain(environment, "BOOK_REVISION")
    if not place:
        return Home(
            url=url.removesuffix("none"),
            jupyterhub=hub.removesuffix("none"),
        )
    branch = find_branch(root, environment)
    commit = (
        ""
        if environment.get("GITHUB_BASE_REF")
        else environment.get("GITHUB_SHA", "")
    )
    return Home(
        repository=place,
        branch=branch,
        revision=revision or commit or branch,
        url=url.removesuffix("none"),
        jupyterhub=hub.removesuffix("none"),
    )
