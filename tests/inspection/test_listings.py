"""A program's page begins with its text, whose pieces say on hover what they are; its tree is folded."""

import html.parser

import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from stencils import library

I, J = ti.dims("I J")
TERRAIN = library.load("terrain_filter").specialise(n=9, m=8)


class Text(html.parser.HTMLParser):
    """What a reader sees before anything is unfolded, the text of the listing, and its pieces with their titles."""

    def __init__(self, page):
        super().__init__()
        self.seen, self.listing, self.hover = "", "", []
        self.folded, self.summary, self.inside, self.open = 0, False, False, []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.folded += tag == "details" and (self.folded > 0 or "open" not in values)
        self.summary |= tag == "summary" and self.folded == 1
        self.inside |= tag == "pre"
        self.open.append((tag, values.get("title"), len(self.listing)))

    def handle_endtag(self, tag):
        _, title, start = self.open.pop()
        self.folded -= tag == "details" and self.folded > 0
        self.summary &= tag != "summary"
        self.inside &= tag != "pre"
        if title:
            self.hover.append((self.listing[start:], title))

    def handle_data(self, data):
        if self.open[-1][0] != "style":
            self.listing += data * self.inside
            self.seen += data * (self.summary or not self.folded)


def test_a_page_shows_the_text_and_folds_the_tree():
    text = Text(TERRAIN._repr_html_())
    assert text.listing == str(TERRAIN)
    assert text.seen == f"{TERRAIN}the tree of terrain_filter, 37 nodes"


def test_hovering_over_a_name_or_an_expression_shows_its_type_and_intervals():
    hover = Text(TERRAIN._repr_html_()).hover
    # the Laplacian lacks the outermost points of I[0:9] J[0:8], a difference along I one more
    assert ("lap", "tensor<float, I[1:8], J[1:7]>") in hover
    assert ("rise_x", "tensor<float, I[1:7], J[1:7]>") in hover
    assert ("⟪I, 1⟫(inp)", "tensor<float, I[-1:8], J[0:8]>") in hover
    assert ("rise_x × (⟪I, 1⟫(inp) - inp) > 0.0", "tensor<bool, I[1:7], J[1:7]>") in hover
    # out is stored whole, and then on a part
    assert [title for piece, title in hover if piece == "out"] == [
        "tensor<float, I[0:9], J[0:8]>", "tensor<float, I[0:9], J[0:8]>", "tensor<float, I[2:7], J[2:6]>",
    ]  # fmt: skip


@pytest.mark.parametrize("name", library.names())
def test_a_listing_is_the_text_of_the_program(name):
    template = library.load(name)
    f = template.specialise(**dict.fromkeys(template.sizes, 9)) if hasattr(template, "specialise") else template
    assert Text(f._repr_html_()).listing == str(f)


def test_a_smoothing_with_two_boundaries_is_a_few_lines():
    @ti.field_operator
    def smooth(h):
        wide = ti.extend(ti.extend(h, {I: 1}, ti.periodic()), {J: 1}, ti.neumann())
        return h + 0.1 * (wide(I + 1) + wide(I - 1) + wide(J + 1) + wide(J - 1) - 4 * h)

    h = xr.DataArray(np.ones((6, 5)), dims=("I", "J"))
    text = Text(smooth.fencil(h)._repr_html_())
    assert text.seen.count("\n") < 8
    assert ("wide", "tensor<float, I[-1:7], J[-1:6]>") in text.hover


def test_an_operator_shows_the_program_of_its_latest_call_and_folds_those_before():
    @ti.field_operator
    def rise(h):
        return h(I + 1) - h

    for n in (4, 7):
        rise(xr.DataArray(np.arange(float(n)), dims="I"))
    text = Text(rise._repr_html_())
    assert "I[0:6]" in text.seen and "I[0:3]" not in text.seen
    assert "out: tensor<float, I[0:3]>" in text.listing


def test_a_name_is_what_was_declared_last():
    f = ti.parse(
        "f(a: tensor<float, I[0:3]>, b: tensor<int>, x: tensor<float, I[0:3]>, n: tensor<int>) {"
        " a ← let t = x + x; t × t; b ← let t = n + n; t × (λ(s) → s + t)(t); }"
    )
    field, number = "tensor<float, I[0:3]>", "tensor<int>"
    assert [title for piece, title in Text(f._repr_html_()).hover if piece == "t"] == [field] * 3 + [number] * 4


def test_the_name_of_a_program_is_no_variable():
    f = ti.parse("x(out: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { out ← x; }")
    assert [piece for piece, _ in Text(f._repr_html_()).hover].count("x") == 2


def test_a_text_beyond_the_limit_is_cut_and_says_so():
    head = "f(out: tensor<float, I[0:5]>, x: tensor<float, I[0:5]>) {"
    text = Text(ti.parse(f"{head} out ← {' + '.join(['x'] * 6_000)}; }}")._repr_html_())
    assert text.listing.startswith(head) and text.listing.endswith("more characters are not shown")
    assert len(text.listing) < 21_000
