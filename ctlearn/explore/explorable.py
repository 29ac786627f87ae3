"""The base of every explorable: one declaration, on the static page and in Jupyter.

A subclass declares its settings as traits and names nothing twice: the sliders, the
limits, the address of a setting and the Python line are all made from them. Its module
is NAME.js beside NAME.py, joined with what all share, since a widget's module cannot
import a file beside it.

Shown in Jupyter, the object is a widget whose traits follow the sliders. Shown on the
static page, it is a `div` with its settings as JSON, which `host.js` brings to life; a
figure stands in it until then, and where there are no scripts.
"""

import html
import json
import pkgutil
from abc import ABCMeta, abstractmethod
from importlib import import_module
from importlib.resources import files
from typing import Any, ClassVar

import anywidget
import traitlets
from traitlets.traitlets import MetaHasTraits

from ctlearn import explore, plots

_FOLDER = files("ctlearn.explore")


def whole(default: int, low: int, high: int, label: str, **shown: Any) -> traitlets.Int:
    """A setting that is a whole number in [low, high], on a slider.

    `label` is its name in words, with letters between dollars. Of `shown`, `role`
    colours it, `when={"rule": "delta"}` says for which choice of another setting, or
    for which of a list of them, it matters, `most="pairs"` keeps it at most the value
    of another, and `step` is the slider's step. With `log=True` the slider is
    logarithmic and a step is in octaves. `verb="write"` makes it the progress of a
    play, which stops at the value of another with `end="pairs"`.
    """
    trait = traitlets.Int(default, min=low, max=high)
    shown = {"step": 1} | shown
    return trait.tag(sync=True, setting=True, kind="whole", label=label, **shown)


def number(
    default: float, low: float, high: float, step: float, label: str, **shown: Any
) -> traitlets.Float:
    """A setting that is a real number in [low, high], on a slider; see `whole`."""
    trait = traitlets.Float(default, min=low, max=high)
    return trait.tag(
        sync=True, setting=True, kind="number", step=step, label=label, **shown
    )


def choice(
    options: dict[str, str], label: str, *, default: str = "", **shown: Any
) -> traitlets.Enum:
    """A setting that is one of a few words, each with its label.

    The first is set, if no other is the `default`. With `menu=True` they stand in a
    list that opens, as many do.
    """
    trait = traitlets.Enum(list(options), default_value=default or next(iter(options)))
    return trait.tag(
        sync=True,
        setting=True,
        kind="choice",
        options=list(options.items()),
        label=label,
        **shown,
    )


def several(low: float, high: float, most: int, **shown: Any) -> traitlets.List:
    """A setting of up to `most` real numbers in [low, high], set in the picture."""
    trait = traitlets.List(traitlets.Float(min=low, max=high), maxlen=most)
    bounds = {"min": low, "max": high, "most": most}
    return trait.tag(sync=True, setting=True, kind="several", bounds=bounds, **shown)


class _Meta(ABCMeta, MetaHasTraits):
    """That of a widget that has abstract methods."""


class Explorable(anywidget.AnyWidget, metaclass=_Meta):
    """A figure that reacts; subclasses give it settings, numbers and a stand-in."""

    title: ClassVar[str]

    def __init__(self, **settings: Any) -> None:
        self._esm = self.module()
        super().__init__(**settings)

    @classmethod
    def name(cls) -> str:
        """The stem of its two files, which is also its name in an address."""
        return cls.__module__.rpartition(".")[2]

    @classmethod
    def setting_traits(cls) -> dict[str, Any]:
        """The traits that are settings, in the order in which they were declared."""
        traits = cls.class_traits(setting=True)
        declared = [name for base in reversed(cls.__mro__) for name in vars(base)]
        return {name: traits[name] for name in declared if name in traits}

    @classmethod
    def schema(cls) -> list[dict[str, Any]]:
        """The settings as the module reads them: kind, default, limits, label."""
        return [
            {"name": name, "default": trait.default()} | _limits(trait) | trait.metadata
            for name, trait in cls.setting_traits().items()
        ]

    @classmethod
    def module(cls) -> str:
        """The module that draws it: shared parts and its own, joined as one text."""
        constants = {
            "NAME": cls.name(),
            "TITLE": cls.title,
            "SETTINGS": cls.schema(),
            "STYLE": _colours() + _read("common.css"),
            **cls.constants(),
        }
        lines = [f"const {key} = {json.dumps(x)};" for key, x in constants.items()]
        return "\n".join([*lines, _read("common.js"), _read(f"{cls.name()}.js")])

    @classmethod
    def constants(cls) -> dict[str, Any]:
        """What else the module takes from the package, by the name that it has there.

        It has to fit into JSON.
        """
        return {}

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as they stand, by name."""
        return {name: getattr(self, name) for name in self.setting_traits()}

    def numbers(self) -> dict[str, Any]:
        """Every number shown at these settings, by the `compute` of its module."""
        return import_module(type(self).__module__).compute(**self.settings)

    @abstractmethod
    def figure(self) -> plots.Figure:
        """The static figure that stands in where the module cannot run."""

    def _repr_html_(self) -> str:
        state = html.escape(json.dumps(self.settings), quote=True)
        try:
            still = self.figure()._repr_html_()
        except ImportError:  # no matplotlib: the figure that reacts does not need it
            still = ""
        return (
            f'<div class="explorable" data-module="{self.name()}" '
            f'data-state="{state}">{still}<noscript><p>With scripts allowed, this '
            "figure has controls and reacts to them.</p></noscript></div>"
        )

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict, dict] | None:
        bundle = super()._repr_mimebundle_(**options)
        if bundle is None:
            return None
        data, metadata = bundle
        return data | {"text/html": self._repr_html_()}, metadata

    def __repr__(self) -> str:
        traits = self.setting_traits()
        changed = [
            f"{name}={value!r}"
            for name, value in self.settings.items()
            if value != traits[name].default()
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def collect() -> dict[str, type[Explorable]]:
    """Every explorable of the package, by name."""
    modules = pkgutil.iter_modules(explore.__path__, "ctlearn.explore.")
    found = [vars(import_module(module.name)).values() for module in modules]
    classes = [x for names in found for x in names if isinstance(x, type)]
    return {
        cls.name(): cls
        for cls in classes
        if issubclass(cls, Explorable) and cls is not Explorable
    }


def _limits(trait: Any) -> dict[str, Any]:
    """The range of a trait, in the words of an HTML slider."""
    bounds = trait.metadata.get("bounds")
    if bounds:
        return bounds
    return {key: getattr(trait, key) for key in ("min", "max") if hasattr(trait, key)}


def _colours() -> str:
    """The palette as the module's variables, for pages that do not set ours."""

    def rule(selector: str, scheme: str) -> str:
        tones = plots.PALETTE.items()
        body = "".join(f"--x-{r}:var(--ctl-{r},{tone[scheme]});" for r, tone in tones)
        return f"{selector}{{{body}}}\n"

    # JupyterLab and Visual Studio Code say so when they are dark
    dark = '[data-jp-theme-light="false"] .explorable,.vscode-dark .explorable'
    uses = {"": "color", "fill-": "fill", "stroke-": "stroke"}
    return (
        rule(".explorable", "light")
        + rule(dark, "dark")
        + "".join(
            f".explorable .x-{use}{role}{{{property}:var(--x-{role})}}\n"
            for use, property in uses.items()
            for role in plots.PALETTE
        )
    )


def _read(file: str) -> str:
    return (_FOLDER / file).read_text(encoding="utf-8")
