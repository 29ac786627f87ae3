"""Keep the outputs of executed notebooks where the build says, or not at all.

`book/tools/build.py` names a folder for the code as it now is. A build that names none
cannot know whether kept outputs are stale, so it executes every notebook.
"""

import os

from sphinx.application import Sphinx
from sphinx.config import Config


def choose_cache(app: Sphinx, config: Config) -> None:
    """Set myst-nb's cache folder from CTLEARN_EXECUTION_CACHE."""
    folder = os.environ.get("CTLEARN_EXECUTION_CACHE")
    if folder:
        config.nb_execution_cache_path = folder
    else:
        config.nb_execution_mode = "force"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the choice with Sphinx."""
    app.connect("config-inited", choose_cache)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
