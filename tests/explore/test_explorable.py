"""The base of explorables: one declaration for the page, the address and Python."""

import html
import json
import re
import sys

import anywidget
import pytest
import traitlets

from ctlearn.explore import explorable
from ctlearn.explore.explorable import collect

EXPLORABLES = list(collect().items())
every = pytest.mark.parametrize(
    ("name", "cls"), EXPLORABLES, ids=[name for name, _ in EXPLORABLES]
)


def test_explorables_are_found():
    assert "memory_interference" in collect()


@every
def test_a_module_lies_beside_its_class(root, name, cls):
    assert (root / "ctlearn" / "explore" / f"{name}.js").exists()
    assert cls.title


@every
def test_no_setting_takes_a_name_of_the_widget(name, cls):
    taken = set(dir(anywidget.AnyWidget)) | set(dir(explorable.Explorable))
    own = set(cls.setting_traits())
    assert not own & taken


@every
def test_all_of_a_setting_is_synchronised(name, cls):
    for trait in cls.setting_traits().values():
        assert trait.metadata["sync"]


@every
def test_settings_keep_the_order_of_their_declaration(name, cls):
    assert list(cls.setting_traits()) == [x for x in vars(cls) if x in cls().settings]


@every
def test_limits_hold_in_python_too(name, cls):
    for setting in cls.schema():
        wrong = {"choice": "nonsense", "several": [1e9]}.get(setting["kind"], 1e9)
        with pytest.raises(traitlets.TraitError):
            cls(**{setting["name"]: wrong})


@every
def test_the_module_is_one_text_without_imports(name, cls):
    module = cls.module()
    assert not re.search(r"^import |^export .* from ", module, flags=re.MULTILINE)
    assert f'const NAME = "{name}";' in module
    assert "https://" not in module
    assert module.count("http://") == module.count("http://www.w3.org/2000/svg")


@every
def test_the_module_runs_without_a_page(node, name, cls):
    say = "console.log(JSON.stringify([NAME, SETTINGS, typeof explorable]))"
    assert node(cls.module() + say) == [
        name,
        json.loads(json.dumps(cls.schema())),
        "function",
    ]


@every
def test_html_holds_the_settings_and_a_figure(name, cls):
    page = cls()._repr_html_()
    assert page.startswith(f'<div class="explorable" data-module="{name}"')
    state = re.search(r'data-state="([^"]*)"', page)
    assert json.loads(html.unescape(state[1])) == cls().settings
    assert page.count('role="img"') == 1
    assert "<noscript>" in page
    assert "<script" not in page
    assert len(page) < 80_000


@every
def test_the_bundle_is_a_widget_and_a_page(name, cls):
    data, _ = cls()._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/html"] == cls()._repr_html_()
    assert data["text/plain"] == f"{cls.__name__}()"


@every
def test_without_matplotlib_the_figure_still_reacts(monkeypatch, name, cls):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = cls()._repr_html_()
    assert "<svg" not in page
    assert "data-state" in page


@every
def test_the_repr_is_the_call_that_makes_it(name, cls):
    settings = (x for x in cls.schema() if x["kind"] in ("whole", "number"))
    setting = next(x for x in settings if x["min"] < x["default"])
    changed = cls(**{setting["name"]: setting["min"]})
    assert repr(changed) == f"{cls.__name__}({setting['name']}={setting['min']})"
