"""The buttons of a page that lead out of the site: to the repository, and to places where a chapter runs.

Where the book lives is found at each build (``tools/home.py`` says how), so that a fork's buttons lead to the fork.
Nowhere known: no buttons. They are links and nothing else; no page loads anything from these places.

* Colab opens the notebook that the site offers for download, on the branch where ``tools/publish.sh`` puts the site: its
  first cell installs the package, pinned to the commit from which the site was made.
* Binder opens the repository, in the environment that ``.binder`` describes. That has no PyTorch, so chapters that
  need it have no such button.
* JupyterHub opens the repository on the hub that BOOK_JUPYTERHUB names.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import quote, urlencode

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ConfigError

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

from first_cell import needs, read
from home import PAGES_BRANCH, Home, HomeError, find

COLAB = "https://colab.research.google.com"
BINDER = "https://mybinder.org"
ICON = "fas fa-arrow-up-right-from-square"


def places(
    home: Home, page: str, missing_on_binder: bool
) -> list[tuple[str, str]]:
    """(name, address) of each place where the notebook of a page can be opened."""
    found = []
    notebook = f"{page}.ipynb"
    if home.host == "github.com":
        found.append(
            (
                "Colab",
                f"{COLAB}/github/{home.path}/blob/{PAGES_BRANCH}/_sources/{notebook}",
            )
        )
    at = {
        "github.com": f"gh/{home.path}",
        "gitlab.com": f"gl/{quote(home.path, safe='')}",
    }.get(home.host)
    if at and not missing_on_binder:
        branch = quote(home.branch, safe="")
        found.append(
            (
                "Binder",
                f"{BINDER}/v2/{at}/{branch}?urlpath=lab/tree/{notebook}",
            )
        )
    if home.repository and home.jupyterhub:
        asked = urlencode(
            {
                "repo": home.repository,
                "branch": home.branch,
                "urlpath": f"lab/tree/{home.name}/{notebook}",
            },
            safe="/",
        )
        found.append(
            (
                "JupyterHub",
                f"{home.jupyterhub}hub/user-redirect/git-pull?{asked}",
            )
        )
    return found


def settle(app: Sphinx, config: Config) -> None:
    """Find out where the book lives, before anything asks."""
    try:
        app.home = find(Path(app.confdir))
    except HomeError as error:
        raise ConfigError(str(error)) from None
    config.html_baseurl = app.home.url
    if app.home.repository:
        config.html_theme_options |= {
            "repository_url": app.home.repository,
            "repository_branch": app.home.branch,
            # What the button says with its picture; the theme refuses a host that it does not know.
            "repository_provider": "gitlab"
            if "gitlab" in app.home.host
            else "github",
            "use_repository_button": True,
        }


def add_buttons(
    app: Sphinx, page: str, template: str, context: dict, doctree: object
) -> None:
    source = Path(app.srcdir) / f"{page}.ipynb"
    if (
        context.get("page_source_suffix") != ".ipynb"
        or not source.is_file()
    ):
        return
    absent = needs(read(source)) & {"torch", "keras"}
    found = places(app.home, page, bool(absent))
    if found and "header_buttons" in context:
        context["header_buttons"].append(
            {
                "type": "group",
                "tooltip": "Run this chapter elsewhere",
                "icon": "fas fa-rocket",
                "label": "launch-buttons",
                "buttons": [
                    {
                        "type": "link",
                        "text": f"Open in {name}",
                        "tooltip": f"Open this chapter in {name}, in a new tab",
                        "icon": ICON,
                        "label": f"launch-{name.lower()}",
                        "url": address,
                    }
                    for name, address in found
                ],
            }
        )


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("config-inited", settle)
    # After the theme has begun its list of buttons.
    app.connect("html-page-context", add_buttons, priority=502)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
