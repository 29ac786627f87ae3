"""What stays on one line: a formula with its full stop, and a short word of code."""

from docutils import nodes
from docutils.utils import new_document


def test_a_full_stop_stays_with_its_formula_and_short_code_is_whole(tool):
    document = new_document("a page")
    codes = [
        nodes.literal("", x) for x in ("--text mine.txt", "a-name-that-is-very-long")
    ]
    document += nodes.paragraph(
        "", "", nodes.math("", "k"), nodes.Text("). So"), *codes
    )
    tool("spacing").Spacing(document).run()
    spans = document.findall(nodes.inline)
    (joined,) = [span for span in spans if "unbroken" in span["classes"]]
    assert joined.astext() == "k)."
    assert [code["classes"] for code in codes] == [["whole"], []]
