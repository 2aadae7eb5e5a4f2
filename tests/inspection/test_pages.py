"""Pages and pictures, in both themes."""

import functools
import html.parser
import itertools
import math
import re
import xml.etree.ElementTree as ElementTree
import zlib

import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from stencils import library, meshes
from tensorir.distribution.exchange import exchange
from tensorir.distribution.local_program import localised
from tensorir.distribution.partition import Decomposition, Subdomains
from tensorir.distribution.plan import DistributionPlan
from tensorir.inspect.devices import distribution
from tensorir.integers.dims import Dims, Interval
from tensorir.ir import build
from tensorir.ir.rewrite import with_label
from tensorir.ir.types import FunctionType, TensorType
from tensorir.runtime.errors import Source, Span

# What notebooks show


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
        "explanation": ti.passes.explain(f),
        "pipeline": ti.passes.Pipeline("cse, temporaries(min_uses=3)"),
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
    checked(ti.passes.explain(f)._repr_html_())


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
    page = ti.passes.explain(HDIFF)._repr_html_()
    checked(page)
    assert "<svg" in page and "are read." in page and "<table>" in page


# Pages and pictures are as dark as the page in which they stand, on systems of either kind

F = ti.parse("f(out: tensor<float, I[1:9]>, x: tensor<float, I[0:10]>) { out ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x); }")
PAGE = F._repr_html_()
PICTURE = ti.inspect.dataflow(F)._repr_html_()

DARK_PAGES = [
    "html[theme=dark]", "html[data-theme=dark]", "body[data-jp-theme-light=false]", "body.vscode-dark",
    "[data-md-color-scheme=slate]",
]  # fmt: skip
LIGHT_PAGES = [
    "html[theme=light]", "html[data-theme=light]", "body[data-jp-theme-light=true]", "body.vscode-light",
    "[data-md-color-scheme=default]",
]  # fmt: skip


def cascaded(html, element, declared, page, system):
    """What a property of an element is: later rules win, and those for a kind of page win over those for none."""
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    style = re.sub(r"@media \(prefers-color-scheme: (\w+)\)\{((?:[^{}]*\{[^{}]*\})*)\}", _inside(system), style)
    found = []
    for k, (selector, rules) in enumerate(re.findall(r"([^{}]+)\{([^{}]*)\}", style)):
        *before, last = selector.strip().rsplit(" ", 1)
        values = re.findall(rf"(?:^|;){re.escape(declared)}:([^;]*)", rules)
        pages = before[0].removeprefix(":is(").removesuffix(")").split(",") if before else []
        if last == element and values and (not pages or page in pages):
            found.append((len(pages) > 0, k, values[-1]))
    return max(found)[2] if found else None


def _inside(system):
    return lambda media: media[2] if media[1] == system else ""


@pytest.mark.parametrize("system", ["light", "dark"])
@pytest.mark.parametrize("page", [*DARK_PAGES, *LIGHT_PAGES])
def test_a_page_says_whether_it_is_dark_and_the_system_does_not_matter_then(page, system):
    dark = page in DARK_PAGES
    assert cascaded(PAGE, ".tensorir", "--ink", page, system) == ("#ddd" if dark else "#222")
    assert cascaded(PAGE, ".tensorir", "--new", page, system) == ("#22482c" if dark else "#ddf3e1")
    assert cascaded(PICTURE, ".ink-fill", "fill", page, system) == ("#e2e2e2" if dark else "#222222")
    assert cascaded(PICTURE, ".paper-fill", "fill", page, system) == ("#1e1e1e" if dark else "#ffffff")


@pytest.mark.parametrize("page", [None, "body.plain"])
def test_on_a_page_that_says_nothing_it_is_as_the_system_has_it(page):
    assert cascaded(PAGE, ".tensorir", "--ink", page, "dark") == "#ddd"
    assert cascaded(PAGE, ".tensorir", "--ink", page, "light") == "#222"
    assert cascaded(PICTURE, ".ink-fill", "fill", page, "dark") == "#e2e2e2"
    # on light paper shapes have the colours that stand at them
    assert (
        cascaded(PICTURE, ".ink-fill", "fill", page, "light") is None and 'class="ink-fill" fill="#222222"' in PICTURE
    )


# Pictures

I, J = ti.dims("I J")
MESH = meshes.icosahedral(1)


def texts(picture) -> list[str]:
    """The texts of a picture, which must be well-formed: texts lie inside of it, and not on each other."""
    root = ElementTree.fromstring(picture._repr_svg_())
    assert root.tag.endswith("svg")
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    shown = [("".join(e.itertext()), e) for e in root.iter() if e.tag.endswith("text")]
    boxes: list[tuple[float, float, float, float, str]] = []
    for text, e in shown:
        x, y, size = (float(e.get(name, 0)) for name in ("x", "y", "font-size"))
        long = 0.61 * size * len(text)
        x -= {"start": 0.0, "middle": 0.5, "end": 1.0}[e.get("text-anchor", "")] * long
        assert 0 <= x <= x + long <= width + 1 and 0.7 * size <= y <= height, text
        boxes.append((x, y - 0.7 * size, x + long, y, text))
    for a, b in itertools.combinations(boxes, 2):
        assert min(a[2], b[2]) <= max(a[0], b[0]) or min(a[3], b[3]) <= max(a[1], b[1]), (a, b)
    return [text for text, _ in shown]


def test_a_footprint_has_the_weights_of_a_linear_program():
    found = ti.inspect.footprint(library.load("biharmonic").specialise(n=9, m=9), at={"I": 4, "J": 4})
    by_hand = {(4, 4): 20.0}
    by_hand |= {(4 + a, 4 + b): -8.0 for a, b in ((0, 1), (1, 0), (0, -1), (-1, 0))}
    by_hand |= {(4 + a, 4 + b): 2.0 for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))}
    by_hand |= {(4 + a, 4 + b): 1.0 for a, b in ((0, 2), (2, 0), (0, -2), (-2, 0))}
    assert found.data["inp"].weights == by_hand
    assert str(found) == "out at I = 4, J = 4 reads\ninp: 13 points of I[2:7], J[2:7]; it is linear in them"
    shown = texts(found)
    assert shown.count("-8") == 4 and shown.count("2") >= 4 and "20" in shown


def test_weights_are_the_row_of_jaxs_jacobian():
    import jax
    import jax.numpy as jnp

    @ti.field_operator
    def mixed(h: ti.Field[[I, J], ti.float64]):
        wide = ti.extend(h, {I: 2, J: (0, 1)}, {I: ti.boundary.periodic(), J: ti.boundary.extrapolate()})
        return 0.5 * wide(I + 2) - 3.0 * wide(J + 1)(I - 1) + ti.where(h(J - 1) < 1e9, h, -h)

    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(0).normal(size=(5, 4)))
        row = np.asarray(jax.jacobian(mixed)(x))[0, 2]
    given = ti.inspect.footprint(mixed, at={I: 0, J: 3}).data["h"].weights
    # the comparison is not linear in itself, but chooses one branch everywhere
    assert given == pytest.approx({tuple(map(int, p)): row[tuple(p)] for p in np.argwhere(row)} | zeros(given, row))


def zeros(weights, row):
    """Points that are read and have no weight."""
    return {p: 0.0 for p in weights if row[p] == 0}


def test_a_footprint_of_what_is_not_linear_has_no_weights_and_both_branches():
    found = ti.inspect.footprint(HDIFF, at={"I": 4, "J": 4}, given={"strength": 0.01})
    assert found.data["inp"].weights is None
    assert len(found.data["inp"].points) == 13


def test_what_is_given_is_held_fixed():
    f = ti.parse("f(out: tensor<float, I[0:3]>, a: tensor<float>, x: tensor<float, I[0:4]>) { out ← a × ⟪I, 1⟫(x); }")
    assert ti.inspect.footprint(f, at={"I": 1}).data["x"].weights is None
    assert ti.inspect.footprint(f, at={"I": 1}, given={"a": 2.5}).data["x"].weights == {(2,): 2.5}
    f = ti.parse("f(out: tensor<float, I[0:3]>, a: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { out ← a × x; }")
    assert ti.inspect.footprint(f, at={"I": 1}, given={"a": np.array([5.0, 6.0, 7.0])}).data["x"].weights == {(1,): 6.0}
    f = ti.parse("""
      f(out: tensor<float, I[0:3]>, a: tensor<(float, int), I[0:3]>, x: tensor<float, I[0:3]>) { out ← a[0] × x; }""")
    pair = (np.array([5.0, 6.0, 7.0]), np.ones(3, "int32"))
    assert ti.inspect.footprint(f, at={"I": 1}, given={"a": pair}).data["x"].weights == {(1,): 6.0}


def test_a_footprint_leads_through_a_bound_table():
    f = ti.parse("""
      f(out: tensor<float, V[0:3]>, x: tensor<float, E[0:9]>, T: tensor<int, V[0:3], _NB_E[0:3]>) {
        out ← reduce(+, 0.0)(⟪T⟫(x));
      }""").bind(T=np.array([[0, 8, -1], [3, 3, 5], [1, 2, 3]]))
    assert ti.inspect.footprint(f, at={"V": 0}).data["x"].weights == {(0,): 1.0, (8,): 1.0}
    assert ti.inspect.footprint(f, at={"V": 1}).data["x"].weights == {(3,): 2.0, (5,): 1.0}


def test_a_footprint_names_one_of_several_outputs():
    f = ti.parse(
        "f(a: tensor<float, I[0:3]>, b: tensor<float, I[0:3]>, x: tensor<float, I[0:4]>) { a ← ⟪I, 1⟫(x); b ← x; }"
    )
    assert ti.inspect.footprint(f, out="a", at={I: 1}).data["x"].weights == {(2,): 1.0}
    assert ti.inspect.footprint(f, out="b", at={I: 1}).data["x"].weights == {(1,): 1.0}


def test_a_member_of_a_tuple_has_a_footprint_of_its_own():
    f = ti.parse("""
      f(out: tensor<(float, float), I[1:4]>, x: tensor<float, I[0:5]>) { out ← (⟪I, 1⟫(x), 2.0 × ⟪I, -1⟫(x)); }""")
    assert ti.inspect.footprint(f, out="out[0]", at={I: 2}).data["x"].weights == {(3,): 1.0}
    second = ti.inspect.footprint(f, out="out[1]", at={I: 2})
    assert second.data["x"].weights == {(1,): 2.0}
    assert str(second).startswith("out[1] at I = 2 reads\n")
    assert ti.inspect.footprint(f, at={I: 2}).data["x"].weights is None


def test_an_operator_is_drawn_for_the_types_that_it_was_called_with():
    @ti.field_operator
    def slope(h):
        rise = h(I + 1) - h(I - 1)
        return 0.5 * rise

    with pytest.raises(ti.DiagnosticError) as refused:
        ti.inspect.footprint(slope)
    assert str(refused.value) == (
        "error[I05]: 'slope' was not called yet, so its types are not known.\nhelp: give its fencil: slope.fencil(x)."
    )
    slope(ti.as_field({I: (0, 9)}, np.zeros(9)))
    assert ti.inspect.footprint(slope, at={I: 4}).data["h"].weights == {(3,): -0.5, (5,): 0.5}
    assert "rise" in texts(ti.inspect.dataflow(slope))


def test_dataflow_names_values_bytes_and_shifts():
    words = str(ti.inspect.dataflow(HDIFF)).splitlines()
    assert "inp (576 bytes) → lap through ⟪I, -1⟫, ⟪I, 1⟫, ⟪J, -1⟫, ⟪J, 1⟫" in words
    assert "lap (336 bytes) → rise_x through ⟪I, 1⟫" in words
    assert {"inp", "lap", "flx", "fly", "out", "I[1:8]"} <= set(texts(ti.inspect.dataflow(HDIFF)))


def test_a_thicker_arrow_is_more_bytes():
    import re

    f = ti.parse("""
      f(out: tensor<float, I[0:100000]>, x: tensor<float, I[0:100000]>, a: tensor<float>) { out ← a × x; }""")
    widths = {float(w) for w in re.findall(r'stroke-width="([\d.]+)" opacity="0.55"', ti.inspect.dataflow(f).svg)}
    assert len(widths) == 2 and max(widths) > 3 * min(widths)


def test_domains_say_halos_in_words():
    f = ti.parse("""
      f(out: tensor<float, I[2:8], J[0:5]>, h: tensor<float, I[0:9], J[0:5]>) {
        out ← let up = ⟪I, 1⟫(h) - h; up - ⟪I, -2⟫(h);
      }""")
    assert str(ti.inspect.domains(f)).splitlines() == [
        "out: I[2:8], J[0:5]",
        "up: I[2:8], J[0:5]",
        "h: I[0:9], J[0:5], two more before and one more after along I",
    ]
    assert {"+2", "+1"} <= set(texts(ti.inspect.domains(f)))
    part = ti.inspect.domains(f, {"I": (4, 5)})
    assert str(part).splitlines()[0] == "out: I[4:5], J[0:5]"


def test_before_and_after_of_a_pass_marks_what_changed():
    f = ti.parse("f(out: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) {\n  out ← x × 1.0 + 0.0 × x;\n}")
    same = ti.inspect.before_after("cse", f)
    assert str(same) == "cse: nothing changes."
    found = ti.inspect.before_after("simplify", ti.parse(str(f).replace(" + 0.0 × x", "")))
    assert str(found) == "simplify: 1 line of 3 changed; 3 operations before and 0 after."
    assert {"out ← x × 1.0;", "out ← x;"} <= set(texts(found))


def test_a_mesh_shows_the_neighbours_of_a_point():
    found = ti.inspect.table(MESH, 0, "V2E")
    row = MESH.tables["V2E"][0]
    assert found.data == row.tolist()
    assert {str(k) for k in row if k >= 0} <= set(texts(found))
    assert str(found).endswith("; slot 5 is empty.")
    for name in MESH.tables:
        texts(ti.inspect.table(MESH, 1, name))


def plan(text: str, owners: dict, tables: dict | None = None) -> DistributionPlan:
    local = localised(ti.parse(text), owners, tables or {})
    return DistributionPlan(local, exchange(local))


def shapes(picture, kind: str) -> list[tuple[dict[str, str], str]]:
    """The attributes of shapes of a kind, and what is shown over each."""
    root = ElementTree.fromstring(picture.svg)
    return [(dict(e.attrib), "".join(e.itertext())) for e in root.iter() if e.tag.endswith(kind)]


def numbers(text: str) -> list[float]:
    return [float(x) for x in re.findall(r"-?[\d.]+", text)]


PERIODIC = """f(y: tensor<float, I[0:9], J[1:11]>, x: tensor<float, I[0:9], J[0:12]>) {
  y ← ⟪I, -2⟫(concat(⟪I, 9⟫(subset(x, I[7:9])), x)) + ⟪J, 1⟫(x) - ⟪J, -1⟫(x);
}"""


BLOCKS = {"I": Decomposition("I", "px", Interval(0, 9), 3), "J": Decomposition("J", "py", Interval(0, 12), 5)}
JUMPS = """f(y: tensor<float, V[0:14]>, x: tensor<float, V[0:14]>, T: tensor<int, V[0:14], _NB_V[0:1]>) {
  y ← ⟪T, 0⟫(x) + x;
}"""
OWNERS = np.array([0, 0, *range(1, 13)])
PARTS = {"V": Subdomains("V", "px", Interval(0, 14), 13, OWNERS)}
READS = np.array([[(k + 3) % 14] for k in range(14)])


def test_halos_are_drawn_at_the_side_from_which_they_come_in_the_colour_of_their_sender():
    found = distribution(plan(PERIODIC, BLOCKS))
    assert texts(found)[-1] == "the first blocks along each dim"
    rects = [(numbers(" ".join(a[n] for n in ("x", "y", "width", "height"))), a, said)
             for a, said in shapes(found, "rect") if said]  # fmt: skip
    blocks = {said: (box, a["stroke"]) for box, a, said in rects if "→" not in said}
    # blocks of device (k, j), of which the first four along J are drawn, are beside each other along both dims
    at = {(k, j): blocks[f"I[{3 * k}:{3 * k + 3}], J[{3 * j}:{3 * j + 3}]"] for k in range(3) for j in range(4)}
    assert len(blocks) == 12 and len({colour for _, colour in blocks.values()}) == 12
    for (k, j), ((x, y, w, h), _) in at.items():
        right, below = at.get((k + 1, j)), at.get((k, j + 1))
        assert right is None or (right[0][0] > x + w and right[0][1] == y)
        assert below is None or (below[0][1] > y + h and below[0][0] == x)
        (name,) = [said for a, said in shapes(found, "text") if said == f"{k}, {j}" and x < float(a["x"]) < x + w]
        assert name
    halos, arrows = set(), set()
    for (x, y, w, h), a, said in rects:
        if "→" in said:
            axis, source, target = said[:2], int(said[3]), int(said[7])
            along, line = ("px", [k for k in at if k[0] == target]), ("py", [k for k in at if k[1] == target])
            (place,) = [
                k for k in (along if axis == "px" else line)[1]
                if (at[k][0][1] == y if axis == "px" else at[k][0][0] == x)
            ]  # fmt: skip
            left, top, wide, high = at[place][0]
            before = {left - x - w, top - y - h} & {2.0}
            assert before or {x - left - wide, y - top - high} & {2.0}, said
            sender = (source, place[1]) if axis == "px" else (place[0], source)
            assert a["fill"] == at[sender][1]
            (points,) = [t for b, t in shapes(found, "text") if b["fill"] == "#ffffff" and x < float(b["x"]) < x + w
                         and y < float(b["y"]) <= y + h]  # fmt: skip
            halos.add((axis, source, place, bool(before), points))
    lines = [numbers(a["d"]) for a, _ in shapes(found, "path")]
    for x, y, x2, y2 in (line for line in lines if len(line) == 4):
        # an arrow runs from block to block and ends in a tip that opens backwards
        centres = {k: (left + wide / 2, top + high / 2) for k, ((left, top, wide, high), _) in at.items()}
        start, end = (min(centres, key=lambda k: math.dist(centres[k], p)) for p in ((x, y), (x2, y2)))
        assert start != end
        arrows.add((start, end))
        (tip,) = [p for p in lines if len(p) == 6 and p[2:4] == [x2, y2]]
        back = [(tip[k] - x2) * (x2 - x) + (tip[k + 1] - y2) * (y2 - y) for k in (0, 4)]
        assert back[0] < 0 and back[1] < 0 and (tip[0], tip[1]) != (tip[4], tip[5])
    periodic = {("px", (k - 1) % 3, (k, j), True, "2") for k in range(3) for j in range(4)}
    upwards = {("py", j + 1, (k, j), False, "1") for k in range(3) for j in range(3)}
    downwards = {("py", j, (k, j + 1), True, "1") for k in range(3) for j in range(3)}
    assert halos == periodic | upwards | downwards
    across = {((k, j), (k + 1, j)) for k in range(2) for j in range(4)}
    down = {((k, j), (k, j + 1)) for k in range(3) for j in range(3)}
    assert arrows == across | down | {(b, a) for a, b in down}


def test_the_first_devices_of_a_mesh_are_a_ring_with_the_bytes_that_each_sends():
    found = distribution(plan(JUMPS, PARTS, {"T": READS}))
    assert texts(found)[-1] == "points of V; lines: bytes sent; the first 12 devices"
    sends = {(OWNERS[READS[k, 0]], OWNERS[k]) for k in range(14)}
    drawn = {(a, b) for a, b in sends if max(a, b) < 12 and a != b}
    discs = {k: tuple(numbers(f"{a['cx']} {a['cy']}")) for k, (a, _) in enumerate(shapes(found, "circle"))}
    assert [said for _, said in shapes(found, "circle")] == ["2 V", *["1 V"] * 11]
    curves = [numbers(a["d"]) for a, _ in shapes(found, "path")]
    where = {place: k for k, place in discs.items()}
    assert {(where[x, y], where[x2, y2]) for x, y, _, _, x2, y2 in curves} == drawn and len(curves) == len(drawn)
    # each line bends to the left of its way, so that one back lies beside it, and its number stands at it
    for x, y, x1, y1, x2, y2 in curves:
        assert (x2 - x) * (y1 - y) - (y2 - y) * (x1 - x) < 0
    assert texts(found)[: len(drawn)] == ["8"] * len(drawn)
    middle = np.mean(list(discs.values()), axis=0)
    reach = [np.hypot(*(place - middle)) for place in discs.values()]
    np.testing.assert_allclose(reach, np.mean(reach), rtol=1e-2)


SUM = ti.parse("""
  f(y: tensor<float, I[0:19], J[0:3]>, x: tensor<float, I[-2:20], J[0:3], K[0:4]>, a: tensor<float, I[-1:19]>) {
    y ← let s = reduce(+, 0.0, K)(⟪I, -2⟫(x)) + ⟪I, 1⟫(reduce(+, 0.0, K)(x)); s × 2.5e-4 - 1e6 × ⟪I, -1⟫(a);
  }""")
WIDE = ti.parse("""
  f(y: tensor<float, I[0:40], J[0:2]>, x: tensor<float, I[0:60], J[0:2]>) {
    y ← ⟪I, 20⟫(x) - 2.0 × x + ⟪I, 3⟫(x);
  }""")
ROW = "f(y: tensor<float, I[2:10]>, x: tensor<float, I[0:12]>) { y ← ⟪I, 2⟫(x) - ⟪I, -2⟫(x); }"
LINES = ti.parse("f(y: tensor<float, I[0:2]>, x: tensor<float, I[0:2]>) {" + "y ← x × 1.0; y ← x + y;" * 60 + "}")
LOOKED_AT = {
    "the weights of a stencil": (lambda: ti.inspect.footprint(HDIFF, at={"I": 4, "J": 4}), 2814207750),
    "large and small weights of two inputs": (lambda: ti.inspect.footprint(SUM, at={"I": 7, "J": 1}), 2866764623),
    "weights at the edge of an input that is wide": (lambda: ti.inspect.footprint(WIDE, at={"I": 39}), 2317737297),
    "points of a mesh": (
        lambda: ti.inspect.footprint(
            library.load("nabla").bind(**{n: MESH.tables[n] for n in ("E2V", "V2E")}), at={"Vertex": 5}
        ), 4098353849,
    ),
    "the dataflow of a stencil": (lambda: ti.inspect.dataflow(HDIFF), 1944751607),
    "the dataflow of a scan": (
        lambda: ti.inspect.dataflow(library.load("tridiagonal").specialise(n=9, m=9, l=9)), 80810532,
    ),
    "single operations": (lambda: ti.inspect.dataflow(SUM), 3480947974),
    "nested domains": (lambda: ti.inspect.domains(HDIFF), 2100814965),
    "domains along three dims": (lambda: ti.inspect.domains(SUM), 1017791022),
    "a change": (lambda: ti.inspect.before_after("temporaries(min_uses=2), simplify", HDIFF), 2045616002),
    "a change of a hundred lines": (lambda: ti.inspect.before_after("simplify", LINES), 1673491440),
    "halos along two dims": (lambda: distribution(plan(PERIODIC, BLOCKS)), 1165101339),
    "halos along one dim": (
        lambda: distribution(plan(ROW, {"I": Decomposition("I", "px", Interval(0, 12), 5)})), 1980095590,
    ),
    "parts of a mesh": (lambda: distribution(plan(JUMPS, PARTS, {"T": READS})), 3231146829),
    "neighbours in a list": (lambda: ti.inspect.table(np.array([[7, 8], [3, -1], [1, 2]]), 1), 4024722468),
} | {f"neighbours {name}": (lambda name=name: ti.inspect.table(MESH, 3, name), known) for name, known in (
    ("V2V", 625097236),
    ("V2E", 2714941630),
    ("V2C", 1049330769),
    ("E2V", 4194449952),
    ("E2C", 3306640923),
    ("E2C2V", 2303915793),
    ("E2C2E", 1294558704),
    ("C2V", 602413775),
    ("C2E", 1296029474),
    ("C2C", 2404649558),
)}  # fmt: skip


@pytest.mark.parametrize(("picture", "known"), LOOKED_AT.values(), ids=LOOKED_AT)
def test_a_picture_is_the_one_that_was_looked_at(picture, known, tmp_path):
    svg = re.sub("<style>.*?</style>", "", picture().svg, flags=re.DOTALL)
    (tmp_path / "picture.svg").write_text(svg, encoding="utf-8")
    assert zlib.crc32(svg.encode()) == known, f"look at {tmp_path / 'picture.svg'}, and write its number if it is right"


def test_pictures_are_saved(tmp_path):
    picture = ti.inspect.domains(HDIFF)
    for name in ("a.svg", "a.html"):
        picture.save(tmp_path / name)
        assert "<svg" in (tmp_path / name).read_text(encoding="utf-8")
    with pytest.raises(ti.DiagnosticError, match=r"I04.*a picture is not saved as '.png'"):
        picture.save(tmp_path / "a.png")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ti.inspect.footprint(HDIFF, out="aut"),
         "error[N22]: 'terrain_filter' has no output 'aut'.\nhelp: did you mean 'out'?"),
        (lambda: ti.inspect.footprint(HDIFF, out="out[0]"),
         "error[N22]: 'out' has no member 0 to look at: it holds numbers."),
        (lambda: ti.inspect.footprint(HDIFF, at={"K": 1}),
         "error[A15]: 'out' has no dim K.\nhelp: known here: 'I', 'J'."),
        (lambda: ti.inspect.footprint(HDIFF, at={"I": 9}),
         "error[A16]: I = 9 is not inside of I[0:9], all of 'out'."),
        (lambda: ti.inspect.footprint(HDIFF, at={"I": 4.7}),
         "error[A16]: I = 4.7 is no point: a coordinate is a whole number."),
        (lambda: ti.inspect.footprint(HDIFF, given={"strong": 0.01}),
         "error[A08]: 'terrain_filter' has no parameter 'strong'.\nhelp: did you mean 'strength'?"),
        (lambda: ti.inspect.footprint(HDIFF, given={"inp": "high"}), "error[A01]: 'inp' is a str, not an array.\n"
         "help: pass a NumPy or JAX array, a DataArray, a Field or a number."),
        (lambda: ti.inspect.domains(library.load("heat")),
         "error[B09]: 'heat' has sizes that are not known yet.\nhelp: bind them: f.bind(n=10)."),
        (lambda: ti.inspect.table(MESH, 0, "V2X"),
         "error[I07]: the mesh has no table 'V2X'.\nhelp: did you mean 'V2V'?"),
        (lambda: ti.inspect.table(MESH, 42, "V2E"), "error[I06]: the table has no point 42, only 0 to 41."),
        (lambda: ti.inspect.table(np.zeros(3), 0),
         "error[I07]: this is no neighbour table: its shape is (3,), and it holds float64."),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(call, message):
    with pytest.raises(ti.DiagnosticError) as refused:
        call()
    assert str(refused.value) == message
