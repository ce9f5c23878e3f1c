"""Launch buttons: Kaggle beside Colab and Binder, on the chapters, none without an address.

The theme knows Colab and Binder but not Kaggle, and it can't make their links without the
repository's address. Jupyter Book always loads Thebe, which runs code on a page through a server in
the network; this book does not use it, and its script is an error on every page (declared twice).
Only a chapter installs what it needs where it is opened; the pages around them have no buttons.
"""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

_KAGGLE = "https://kaggle.com/kernels/welcome?src="
_NOT_OURS = "https://github.com/executablebooks/jupyter-book"  # what Jupyter Book takes by default
_NEED_ADDRESS = ("use_repository_button", "use_issues_button")  # a tag's pages can't be edited


def kaggle_url(repository: str, branch: str, page: str) -> str:
    """The address at which Kaggle opens the notebook of a page.

    Examples
    --------
    >>> kaggle_url("https://github.com/o/r/", "main", "notebooks/x")
    'https://kaggle.com/kernels/welcome?src=https://github.com/o/r/blob/main/notebooks/x.ipynb'
    """
    return f"{_KAGGLE}{repository.rstrip('/')}/blob/{branch}/{page}.ipynb"


def follow_the_address(app: Sphinx, config: Config) -> None:
    """Switch every button that leads to the repository on or off with its address."""
    options = config.html_theme_options
    known = options.get("repository_url") not in (None, "", _NOT_OURS)
    options.update(dict.fromkeys(_NEED_ADDRESS, known))
    if not known:
        options["launch_buttons"] = {}


def drop_live_code(app: Sphinx, config: Config) -> None:
    """Disconnect Thebe, so that no page carries its scripts or its server's address."""
    for listeners in list(app.events.listeners.values()):
        for listener in list(listeners):
            if listener.handler.__module__ == "sphinx_thebe":
                app.disconnect(listener.id)
    app.registry.css_files = [
        file for file in app.registry.css_files if file[0] != "sphinx-thebe.css"
    ]


def add_kaggle(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Append Kaggle to a chapter's launch buttons; take them from every other page."""
    options = app.config.html_theme_options
    buttons = context.get("header_buttons", [])
    for group in [group for group in buttons if group.get("label") == "launch-buttons"]:
        if not pagename.startswith("notebooks/"):
            buttons.remove(group)
        else:
            branch = options.get("repository_branch") or "main"
            group["buttons"].append({
                "type": "link",
                "text": "Kaggle",
                "tooltip": "Launch on Kaggle",
                "icon": "fa-brands fa-kaggle",
                "url": kaggle_url(options["repository_url"], branch, pagename),
            })


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the steps: before the theme reads its options, and after it made its buttons."""
    app.connect("config-inited", follow_the_address)
    app.connect("config-inited", drop_live_code)
    app.connect("html-page-context", add_kaggle, priority=900)
    return {"version": "1.0", "parallel_read_safe": True, "parallel_write_safe": True}
