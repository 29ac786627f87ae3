"""The Sphinx extension: modules written, stale ones removed, no widget data."""

from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx", reason='no Sphinx: pip install "ctlearn[book]"')


def test_modules_are_written_and_stale_ones_removed(tool, tmp_path):
    stale = tmp_path / ".explore" / "explore" / "renamed.js"
    stale.parent.mkdir(parents=True)
    stale.touch()
    config = SimpleNamespace(html_static_path=[])
    app = SimpleNamespace(outdir=tmp_path / "html")
    tool("explorables").write_modules(app, config)
    names = {file.name for file in stale.parent.iterdir()}
    assert {"host.js", "memory_interference.js"} <= names
    assert not names & {"renamed.js", "common.js"}
    assert config.html_static_path == [str(tmp_path / ".explore")]


def test_the_state_of_widgets_is_left_out(tool):
    files = {"ipywidgets_state": ("", {}), "other": ("other.js", {})}
    env = SimpleNamespace(nb_metadata={"page": {"js_files": files}})
    leave_out = tool("explorables").drop_widget_state
    leave_out(SimpleNamespace(env=env), "page", "", {}, None)
    leave_out(SimpleNamespace(env=env), "another", "", {}, None)
    assert list(files) == ["other"]
    assert list(env.nb_metadata) == ["page"]
