"""What notebooks show: everything escaped, bounded in size, with intervals and colours, for both kinds of paper."""

import functools
import html.parser
import re

import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from stencils import library
from tensorir.ir import build
from tensorir.ir.rewrite import with_label
from tensorir.ir.types import Dims, FunctionType, TensorType
from tensorir.runtime.errors import Source, Span

EVIL = '<script>alert("&1")</script>'
HDIFF = library.load("terrain_filter").specialise(n=9, m=8)


class Checker(html.parser.HTMLParser):
    """Tags that are opened and closed in order, and nothing that runs or loads."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert tag not in ("script", "img", "iframe", "link", "object", "foreignobject")
        for name, value in attrs:
            assert not name.startswith("on") and name not in ("src", "href"), (name, value)
        if tag not in ("br", "hr", "meta"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def checked(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert not checker.open
    assert "@import" not in page and "url(" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    return checker


def evil() -> ti.Fencil:
    """A program in which everything that can have a name has this one."""
    source = Source(EVIL, f"{EVIL}\n{EVIL}")
    x = build.var(EVIL, ti.tensor("float", {EVIL: (0, 5)}), Span(source, 0, 8))
    out = build.var(f"{EVIL}out", ti.tensor("float", {EVIL: (0, 5)}))
    value = with_label(build.call("plus", x, x, span=Span(source, 3, 9)), EVIL)
    return build.fencil(EVIL, [out, x], [build.closure(out, build.call("multiplies", value, value))])


@functools.cache
def pages_of_an_evil_program():
    f = evil()
    diagnostic = ti.Diagnostic("A01", EVIL, f[EVIL].span, (EVIL,), EVIL)
    seen = ti.compile(f).inspect(**{EVIL: xr.DataArray(np.ones(5), dims=(EVIL,), attrs={"units": EVIL})})
    table = xr.DataArray(np.array([[0, -1]]), dims=(EVIL, f"_NB_{EVIL}"))
    return {
        "dims": f[EVIL].type.dims,
        "type": f[EVIL].type,
        "function": FunctionType((f[EVIL].type,), (f[EVIL].type, f[EVIL].type)),
        "expression": f.closures[0].value,
        "closure": f.closures[0],
        "fencil": f,
        "bound": f.bind(**{EVIL: np.ones(5)}),
        "template": ti.parse("f(out: tensor<float, I[0:n]>) { out ← 1.0; }"),
        "diagnostic": diagnostic,
        "error": ti.DiagnosticError([diagnostic, diagnostic]),
        "explanation": ti.explain(f),
        "pipeline": ti.Pipeline("cse, temporaries(min_uses=3)"),
        "inspection": seen,
        "units": seen.with_units(**dict.fromkeys(seen, EVIL)),
        "field": ti.full({EVIL: 3}, np.nan),
        "footprint": ti.inspect.footprint(f),
        "dataflow": ti.inspect.dataflow(f),
        "domains": ti.inspect.domains(f),
        "change": ti.inspect.before_after("cse, simplify", f),
        "table": ti.inspect.table(table, 0),
        "accessor": xr.DataArray(np.ones(5), dims=(EVIL,)).tensorir,
    }


@pytest.mark.parametrize("kind", pages_of_an_evil_program())
def test_nothing_of_a_programs_text_becomes_markup(kind):
    page = pages_of_an_evil_program()[kind]._repr_html_()
    assert "<script" not in page
    checked(page)


def test_a_tree_shows_names_intervals_and_lines_in_the_colours_of_the_dims():
    page = HDIFF._repr_html_()
    tags = checked(page).tags
    assert tags.count("details") > 10
    for text in ("lap", "rise_x", "I[1:8]", "J[1:7]", "⟪I, 1⟫", "if · then · else ·", "line "):
        assert text in page
    first, second = (set(re.findall(rf'--hue:(\d+)">{d}\[', page)) for d in "IJ")
    assert len(first) == len(second) == 1 and first != second
    assert "prefers-color-scheme: dark" in page


def test_what_is_used_twice_is_unfolded_once():
    page = HDIFF.closures[1]._repr_html_()
    assert page.count("as above") > 3
    assert page.count(">rise_x</span> = ") == 1


def test_two_to_the_sixty_paths_are_one_short_page():
    x = build.var("x", ti.tensor("float", I=(0, 5)))
    for _ in range(60):
        x = build.call("plus", x, x)
    page = x._repr_html_()
    checked(page)
    assert len(page) < 100_000


def test_a_tree_ten_thousand_deep_is_cut_and_says_so():
    x = out = build.var("x", ti.tensor("float", I=(0, 5)))
    for _ in range(10_000):
        x = build.call("neg", x)
    f = build.fencil("deep", [build.var("out", out.tensor), out], [build.closure(build.var("out", out.tensor), x)])
    for page in (x._repr_html_(), f._repr_html_(), ti.inspect.dataflow(f)._repr_html_()):
        checked(page)
        assert len(page) < 200_000
    assert "is not shown" in x._repr_html_()


def test_pictures_of_thousands_of_shifts_are_short():
    e = x = build.var("x", ti.tensor("float", I=(0, 9_000)))
    for _ in range(3_000):
        e = build.cartesian_shift(e, "I", 1)
    out = build.var("out", e.tensor)
    f = build.fencil("deep", [out, x], [build.closure(out, e)])
    looks = (ti.inspect.dataflow, ti.inspect.domains, ti.inspect.footprint, lambda f: ti.inspect.before_after("cse", f))
    for look in looks:
        picture = look(f)
        assert len(picture.svg) < 100_000 and len(str(picture)) < 1000
    checked(ti.explain(f)._repr_html_())


def test_a_wide_expression_is_cut_too():
    parts = [build.var(f"x{k}", TensorType(ti.tensor("float").element, Dims.of(I=(k, k + 1)))) for k in range(3000)]
    page = build.call("concat", *parts)._repr_html_()
    checked(page)
    assert len(page) < 300_000 and "is not shown" in page


def test_a_long_name_is_cut():
    x = build.var("x" * 100_000, ti.tensor("float"))
    assert len(x._repr_html_()) < 10_000


def test_a_field_shows_its_type_range_and_numbers():
    page = ti.as_field({"I": (2, 5)}, np.array([1.0, np.nan, 3.0]))._repr_html_()
    assert "I[2:5]" in page and "1 to 3, 1 not finite" in page and "nan" in page


def test_a_traced_field_shows_its_type():
    import jax

    pages = []

    def look(f):
        pages.append(f._repr_html_())
        return f

    jax.jit(look)(ti.as_field({"I": 3}, np.zeros(3, "float32")))
    assert "float32" in pages[0] and "not to be had here" in pages[0]


def test_a_diagnostic_shows_its_line_and_its_mark():
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.parse("f(out: tensor<float, I[0:5]>, h: tensor<float, I[0:5]>) {\n  out ← h + ⟪I, 1⟫(h);\n}")
    page = refused.value._repr_html_()
    checked(page)
    assert "error T07" in page and "^^^^^^^^^" in page and "help: declare out" in page


def test_a_cell_that_ends_in_a_diagnostic_shows_the_users_lines_and_no_others():
    def call():
        ti.parse("f(")

    with pytest.raises(ti.DiagnosticError) as refused:
        call()
    shown = refused.value._render_traceback_()
    assert shown[0] == "called in" and shown[-1] == "help: add ')'."
    assert any('ti.parse("f(")' in line for line in shown)
    assert not any("tensorir/" in line for line in shown)


def test_an_explanation_is_words_and_a_picture():
    page = ti.explain(HDIFF)._repr_html_()
    checked(page)
    assert "<svg" in page and "are read." in page and "<table>" in page
