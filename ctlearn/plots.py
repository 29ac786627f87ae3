"""One look for all figures: the book's colours, and SVG that suits any ground.

A figure is drawn with matplotlib and shown with `show`, which writes inline SVG. Its
ink is the page's text colour and its colours are the page's variables (`--ctl-key` and
so on), so that one figure serves the light page, the dark page and print. Letters on
it are set in the page's own type. The variables and the classes that colour equations
are made from `PALETTE` too: a colour means the same wherever it stands.

Drawing needs matplotlib (`pip install "ctlearn[plots]"`); the palette does not.
"""

import hashlib
import html
import io
import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

# Okabe and Ito's hues, darkened or lightened until they can be read as text
# (contrast of at least 4.5) on the light and the dark ground of the page.
PALETTE = {
    "key": {"light": "#0072b2", "dark": "#5ab4f0"},
    "value": {"light": "#007a58", "dark": "#2fc79a"},
    "query": {"light": "#5b4bb7", "dark": "#b3a5ff"},
    "state": {"light": "#a8467f", "dark": "#e08fbf"},
    "output": {"light": "#00566b", "dark": "#7fd6e8"},
    "error": {"light": "#c93a00", "dark": "#ff8a55"},
    "decay": {"light": "#966200", "dark": "#e6a100"},
    "rate": {"light": "#5f5e00", "dark": "#e3d84a"},
    "size": {"light": "#5c6066", "dark": "#b4b8bf"},
}

# Black stands for the text colour of the page.
INK = "#000000"
# A full negative entry of a matrix: the ink, no darker than a full positive one.
_DARKEST = 0.6

# One line style a role, so that two lines differ without their colours too.
LINES: dict[str, Any] = {
    "key": "-",
    "value": (0, (6, 1.5)),
    "query": (0, (1, 1.5)),
    "state": "-",
    "output": (0, (4, 1.5, 1, 1.5)),
    "error": "-",
    "decay": (0, (4, 2)),
    "rate": (0, (2, 1)),
    "size": (0, (1, 2.5)),
}

_POINTS_PER_INCH = 72
_PIXELS_PER_INCH = 96
# A larger matrix would make the page heavy, and its cells could not be told apart.
_MOST_CELLS = 4096
_SHADES = 16
_STYLE: Any = {
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 11,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.constrained_layout.use": True,
    "font.family": "sans-serif",
    "font.size": 11,
    "grid.alpha": 0.14,
    "grid.color": INK,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.9,
    "lines.markersize": 5,
    "mathtext.fontset": "dejavusans",
    "patch.edgecolor": INK,
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": INK,
    "xtick.labelsize": 10,
    "ytick.color": INK,
    "ytick.labelsize": 10,
}


def colour(role: str) -> str:
    """The colour of a role, to draw with; `show` makes it the page's.

    Raises ValueError for a role that the palette lacks.
    """
    if role not in PALETTE:
        raise ValueError(f"role is {role!r}; it should be one of {', '.join(PALETTE)}")
    return PALETTE[role]["light"]


def figure(
    width: float = 5.6,
    height: float = 3.2,
    rows: int = 1,
    columns: int = 1,
    **options: Any,
) -> tuple[Any, Any]:
    """A figure of width x height inches in the book's style, and its axes.

    One axes for one panel, else an array as `matplotlib.pyplot.subplots` returns;
    `options` are passed on to it. A width of 5.6 keeps labels readable on a phone.
    The style stays set for what is drawn on the figure later.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update(_STYLE)
    fig = Figure(figsize=(width, height))
    axes = fig.subplots(rows, columns, **options)
    for ax in np.ravel(axes):
        ax.set_prop_cycle(_lines())
    return fig, axes


def show(fig: Any, *, alt: str, caption: str = "", name: str = "") -> "Figure":
    """The figure as inline SVG for the page.

    `alt` says what is seen to one who cannot see it: axes, curves, the finding. It may
    not be empty. `caption` is a sentence under the figure, plain text. `name` becomes
    the id of the figure, for links to it.

    Raises ValueError for an empty `alt` and for a colour that is not the book's, which
    would be unreadable on one of the grounds.
    """
    if not alt.strip():
        raise ValueError("alt is empty; it should say what the figure shows")
    return Figure(_svg(fig), " ".join(alt.split()), caption, name)


class Figure:
    """A drawn figure: inline SVG in the page, its alt text wherever text is all."""

    def __init__(self, svg: str, alt: str, caption: str = "", name: str = "") -> None:
        self.alt = alt
        self.caption = caption
        self.name = name
        self.svg = svg.replace(
            "<svg ", f'<svg role="img" aria-label="{html.escape(alt)}" ', 1
        )

    def _repr_html_(self) -> str:
        name = f' id="{html.escape(self.name)}"' if self.name else ""
        caption = html.escape(self.caption)
        caption = f"<figcaption>{caption}</figcaption>" if caption else ""
        return f'<figure class="ctl-figure"{name}>{self.svg}{caption}</figure>'

    def __repr__(self) -> str:
        return self.alt


def state_matrix(
    ax: Any,
    S: np.ndarray,
    *,
    role: str = "state",
    limit: float | None = None,
    title: str = "",
    xlabel: str = "values",
    ylabel: str = "keys",
) -> None:
    """Draw a matrix, keys down and values across, on a map centred at zero.

    Positive entries take the colour of `role`, negative ones the ink and a minus sign,
    and both fade to the ground at zero; `limit` is the size that is shown at full
    strength (default: the largest in S). S is [d_k, d_v] with at most 4096 entries,
    real and finite, else ValueError is raised.
    """
    S = np.asarray(S, dtype=float)
    if S.ndim != 2 or S.size > _MOST_CELLS or not np.isfinite(S).all():
        raise ValueError(
            f"S has shape {S.shape}; it should be a finite matrix of at most "
            f"{_MOST_CELLS} entries"
        )
    if limit is None:
        limit = float(np.abs(S).max(initial=0)) or 1.0
    shade = np.rint(np.clip(S / limit, -1, 1) * _SHADES)
    # one path a shade keeps the SVG small
    for level in np.unique(shade[shade != 0]):
        cells = np.argwhere(shade == level)
        ink, full = (colour(role), 1) if level > 0 else (INK, _DARKEST)
        ax.add_patch(_squares(cells, ink, full * abs(level) / _SHADES))
    if min(S.shape) <= 16:
        for i, j in np.argwhere(shade < -1):
            ax.plot([j - 0.12, j + 0.12], [i, i], color=INK, ls="-", lw=0.9)
    rows, columns = S.shape
    ax.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), aspect="equal")
    ax.set(xticks=[], yticks=[], xlabel=xlabel, ylabel=ylabel, title=title)
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set(visible=True, alpha=0.5)


def band(
    ax: Any,
    x: Sequence[float] | np.ndarray,
    samples: np.ndarray,
    role: str,
    **line: Any,
) -> Any:
    """Draw several seeds: their mean as a line, one standard deviation as a band.

    `samples` is [seeds, len(x)]. Returns the line. Options go to the line.
    """
    samples = np.asarray(samples, dtype=float)
    mean, spread = samples.mean(axis=0), samples.std(axis=0)
    style = {"color": colour(role), "ls": LINES[role]} | line
    ax.fill_between(
        x, mean - spread, mean + spread, color=style["color"], alpha=0.16, lw=0
    )
    return ax.plot(x, mean, **style)[0]


def label(
    ax: Any, x: float, y: float, text: str, role: str = "", **options: Any
) -> Any:
    """Write a direct label at a point of the data, in the colour of its role."""
    options = {"color": colour(role) if role else INK, "va": "center"} | options
    return ax.annotate(
        text, (x, y), xytext=(5, 0), textcoords="offset points", **options
    )


def _lines() -> Any:
    """The cycle of colours for lines that no role was given."""
    from cycler import cycler

    roles = ["key", "error", "value", "state", "decay"]
    # five styles in the order of the colours: each line differs in both
    styles = ["-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (9, 2))]
    return cycler(color=[colour(role) for role in roles]) + cycler(linestyle=styles)


def _squares(cells: np.ndarray, ink: str, alpha: float) -> Any:
    """Unit squares centred on the cells [n, 2] (row, column), as one patch."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    corner = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5], [0, 0]])
    corners = cells[:, None, ::-1] + corner
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    path = Path(corners.reshape(-1, 2), codes * len(cells))
    return PathPatch(path, facecolor=ink, edgecolor="none", alpha=alpha, lw=0)


def _svg(fig: Any) -> str:
    """The figure as SVG that scales to its column, the same text every time."""
    import matplotlib as mpl

    buffer = io.StringIO()
    # the salt makes matplotlib's own ids repeatable
    with mpl.rc_context(_STYLE | {"svg.hashsalt": "ctlearn"}):
        fig.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    width, height = fig.get_size_inches()
    box = f"0 0 {width * _POINTS_PER_INCH:g} {height * _POINTS_PER_INCH:g}"
    # matplotlib sets these two by a rule that would reach the whole page
    style = (
        f"width:100%;max-width:{width * _PIXELS_PER_INCH:.0f}px;height:auto;"
        "font-family:var(--pst-font-family-base,inherit);"
        "fill:currentColor;stroke-linejoin:round;stroke-linecap:butt"
    )
    body = _own_ids(_recolour(_powers(_compact(svg[svg.index("<svg ") :]))))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" style="{style}">'
        f"{body}"
    )


def _compact(svg: str) -> str:
    """What follows the opening tag, in the page's type and without what is not seen."""
    unseen = r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>"
    svg = re.sub(unseen, "", svg[svg.index(">") + 1 :], flags=re.DOTALL)
    svg = re.sub(r"\s*font-family: [^;\"]*;?", "", svg)
    svg = svg.replace("xlink:href", "href")
    # a hundredth of a point is finer than any screen
    svg = re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}", svg)
    svg = re.sub(r"\s+", " ", svg)
    return svg.replace("> <", "><").replace(' "', '"').strip()


def _powers(svg: str) -> str:
    """Powers of ten as running text: matplotlib places each digit for its own font."""
    glyph = (
        r'<tspan x="([^"]+)" y="([^"]+)" style="(font-size: [^"]+)">([\d.−×])</tspan>'
    )

    def power(text: re.Match[str]) -> str:
        glyphs = re.findall(glyph, text[0])
        start, end = float(glyphs[0][0]), float(glyphs[-1][0])
        runs, height = "", 0.0
        for (y, style), run in itertools.groupby(glyphs, key=lambda glyph: glyph[1:3]):
            digits = "".join(digit for *_, digit in run)
            # a y of its own would begin another text, to be centred by itself
            runs += f'<tspan dy="{float(y) - height:.2f}" style="{style}">'
            runs += f"{digits}</tspan>"
            height = float(y)
        # the last digit of an exponent is some four points wide
        return (
            f'<text x="{(start + end) / 2 + 2:.2f}" text-anchor="middle">{runs}</text>'
        )

    return re.sub(f"<text>(?:{glyph})+</text>", power, svg)


def _own_ids(svg: str) -> str:
    """Keep the ids that are referred to, and make them this figure's own."""
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", svg))
    prefix = f"f{hashlib.sha256(svg.encode()).hexdigest()[:8]}-"
    svg = re.sub(r"(url\(|href=\")#", rf"\g<1>#{prefix}", svg)
    return re.sub(
        r' id="([^"]+)"',
        lambda m: f' id="{prefix}{m[1]}"' if m[1] in used else "",
        svg,
    )


def _recolour(svg: str) -> str:
    """Replace the palette's colours by the page's variables, the ink by its text."""
    names = {tone["light"]: role for role, tone in PALETTE.items()}

    def page_colour(match: re.Match[str]) -> str:
        hexadecimal = match[0].lower()
        if hexadecimal == INK:
            return "currentColor"
        if hexadecimal not in names:
            raise ValueError(
                f"the figure uses the colour {hexadecimal}; it should be one of "
                "plots.colour(role) or plots.INK"
            )
        return f"var(--ctl-{names[hexadecimal]}, {hexadecimal})"

    return re.sub(r"#[0-9a-fA-F]{6}\b", page_colour, svg)
