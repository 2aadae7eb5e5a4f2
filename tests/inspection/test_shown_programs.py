"""Programs as they are shown: listings, explanations, operators and units."""

import html.parser
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from stencils import library

# What a parameter of an applied function stands for is an intermediate of that name


NESTED = """f(out: tensor<float, I[0:4]>, x: tensor<float, I[0:5]>) {
  out ← (λ(z: tensor<float, I[0:5]>, c: tensor<float, I[0:5]>) → (λ(q: tensor<float, I[0:5]>) → ⟪I, 1⟫(q) - c)(z + z))(
    x, cos(x));
}"""


@pytest.mark.parametrize("bound", [False, True])
def test_parameters_of_applied_functions_are_named(bound: bool):
    x = np.arange(5.0)
    program = ti.parse(NESTED)
    found = ti.compile(program.bind(x=x)).inspect() if bound else ti.compile(program).inspect(x=x)
    assert set(found) == {"z", "c", "q"}
    np.testing.assert_array_equal(found["z"], x)
    np.testing.assert_allclose(found["c"], np.cos(x))
    np.testing.assert_array_equal(found["q"], 2 * x)


def test_an_argument_with_a_name_of_its_own_has_both():
    program = ti.parse(
        "f(out: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { "
        "out ← let a = x + 1.0; (λ(z: tensor<float, I[0:4]>) → z × z)(a); }"
    )
    found = ti.compile(program).inspect(x=np.arange(4.0))
    assert found["a"].values.tolist() == found["z"].values.tolist() == [1.0, 2.0, 3.0, 4.0]


# What is shown of lifted programs is what is shown of the tensor programs that they are

PRODUCT = """
@T.prim_func
def main(A: T.Buffer((6, 5), "float32"), B: T.Buffer((5, 4), "float32"), C: T.Buffer((6, 4), "float32")):
    for i, j, k in T.grid(6, 4, 5):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
SIZED = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    for i in range(n):
        C[i] = A[i] * T.float32(2)
"""
LIFTED = ti.lift(ti.tir.parse(PRODUCT)["main"])
LOOKS = {
    "dataflow": ti.inspect.dataflow,
    "domains": ti.inspect.domains,
    "explain": ti.passes.explain,
    "footprint": lambda program: ti.inspect.footprint(program, at={"i": 2, "j": 1}),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_lifted_program_is_shown_as_its_fencil(look):
    assert str(LOOKS[look](LIFTED)) == str(LOOKS[look](LIFTED.fencil))


def test_one_point_of_a_product_reads_a_row_and_a_column():
    said = str(LOOKS["footprint"](LIFTED))
    assert "A: 5 points of i[2:3], k[0:5]" in said and "B: 5 points of k[0:5], j[1:2]" in said


@pytest.mark.parametrize("look", LOOKS)
def test_sizes_that_only_a_call_tells_are_asked_for(look):
    with pytest.raises(ti.DiagnosticError) as refused:
        LOOKS[look](ti.lift(ti.tir.parse(SIZED)["main"]))
    assert "'main' has sizes that only a call tells." in str(refused.value)


# An explanation names the chain of shifts through which each parameter is read, and no other

MESH = """f(y: tensor<float, C[0:2]>, T: tensor<int, C[0:2], _NB_I[0:2]>, x: tensor<float, I[0:9]>) {
  y ← ⟪T, 1⟫(⟪I, -2⟫(x)) + reduce(+, 0.0)(⟪T⟫(cos(x)));
}"""


def test_a_table_is_read_directly_and_a_field_through_it():
    bound = ti.parse(MESH).bind(T=np.array([[2, 3], [4, 5]]))
    assert str(ti.passes.explain(bound)) == (
        "f stores y at C[0:2].\n"
        "T: C[0:2], _NB_I[0:2] are read.\n"
        "x: I[1:6] are read.\n"
        "  ⟪T⟫ reads neighbours, ⟪T, 1⟫⟪I, -2⟫."
    )


def test_shifts_of_a_grid_are_named_by_their_net_offset():
    program = ti.parse(
        "f(y: tensor<float, I[0:2]>, x: tensor<float, I[0:9]>) { y ← ⟪I, 2⟫(x) + x × ⟪I, 1⟫(⟪I, 3⟫(x)); }"
    )
    assert str(ti.passes.explain(program)) == (
        "f stores y at I[0:2].\nx: I[0:6] are read.\n"
        "  the point itself, ⟪I, 2⟫ reads 2 points after along I, ⟪I, 4⟫ reads 4 points after along I."
    )


def test_every_neighbour_of_a_stencil_of_stencils_is_named_once():
    told = str(ti.passes.explain(library.load("hdiff").bind(n=20, m=20, l=3)))
    (line,) = [text for text in told.split("\n") if text.startswith("  the point itself")]
    found = {tuple(sorted(re.findall(r"([IJ]), (-?\d)", part))) for part in line.split("⟪")[1:]}
    near = {(i, j) for i in range(-2, 3) for j in range(-2, 3) if 0 < abs(i) + abs(j) <= 2}
    assert found == {tuple((d, str(n)) for d, n in (("I", i), ("J", j)) if n) for i, j in near}
    assert line.count("⟪") == len(near) == 12


def test_a_long_chain_of_shifts_is_followed_once_for_each_offset():
    steps = "".join(f"let x{k + 1} = ⟪I, 1⟫(x{k}) + ⟪I, -1⟫(x{k}); " for k in range(40))
    told = str(ti.passes.explain(ti.parse(
        f"f(y: tensor<float, I[50:60]>, x: tensor<float, I[0:100]>) {{ y ← let x0 = x; {steps}x40; }}"
    )))  # fmt: skip
    assert told.count("⟪") == 40  # every second offset from -40 to 40, but 0
    assert "the point itself" in told


def test_chains_that_are_not_followed_are_said():
    names = [f"D{k}" for k in range(11)]
    value = "x"
    for d in names:
        value = f"(let z{d} = {value}; z{d} + ⟪{d}, 1⟫(z{d}))"
    dims, more = (", ".join(f"{d}[0:{n}]" for d in names) for n in (1, 2))
    told = str(ti.passes.explain(ti.parse(f"f(y: tensor<float, {dims}>, x: tensor<float, {more}>) {{ y ← {value}; }}")))
    assert told.endswith("and through more than are followed.")


def test_a_periodic_boundary_is_said_and_its_other_end_is_no_offset():
    lon, between = ti.dims("lon lonHalf")

    @ti.field_operator
    def smooth(h, w):
        wide = ti.extend(h, {lon: 1}, ti.boundary.periodic())
        rise = wide(between + 0.5) - wide(between - 0.5)
        return (w * rise)(lon + 0.5) - (w * rise)(lon - 0.5)

    program = smooth.fencil(h=ti.tensor("float", lon=(0, 30)), w=ti.tensor("float", lat=(0, 5)))
    assert str(ti.passes.explain(program)) == (
        "smooth stores out at lat[0:5], lon[0:30].\n"
        "wide: lon[-1:31] are needed.\n"
        "rise: lonHalf[0:31] are needed.\n"
        "h: lon[0:30] are read.\n"
        "  the point itself, ⟪lon, -1⟫ reads one point before along lon, ⟪lon, 1⟫ reads one point after along lon, "
        "periodic in lon.\n"
        "w: lat[0:5] are read."
    )


# A program's page begins with its text, whose pieces say on hover what they are; its tree is folded

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
        wide = ti.extend(ti.extend(h, {I: 1}, ti.boundary.periodic()), {J: 1}, ti.boundary.neumann())
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


# Looking into operators by the names of their variables; units; the accessor of DataArrays

K = ti.Dimension("K")
Vertex, Edge = ti.dims("Vertex Edge")
V2EDim = ti.Dimension("V2E", kind="local")
V2E = ti.FieldOffset("V2E", source=Edge, target=(Vertex, V2EDim))
H = xr.DataArray([0.0, 1.0, 4.0, 9.0, 16.0], dims="I", coords={"I": np.arange(5)}, attrs={"units": "m"}, name="h")


@ti.field_operator
def rise(f):
    up = f(I + 1)
    return up - f


@ti.field_operator
def curvature(h, a):
    slope = rise(h)
    bend = slope - slope(I - 1)
    grown = a * bend
    return ti.where(grown > 2.0, grown, 0.0)


def test_an_operator_is_looked_into_by_the_names_of_its_variables():
    seen = curvature.inspect(H, 0.5)
    assert list(seen) == ["up", "slope", "bend", "grown"]
    np.testing.assert_array_equal(seen["slope"], [1.0, 3.0, 5.0, 7.0])
    np.testing.assert_array_equal(seen["slope"].coords["I"], [0, 1, 2, 3])
    np.testing.assert_array_equal(seen["grown"], [1.0, 1.0, 1.0])


def test_an_operators_intermediates_are_found_by_line_and_by_what_stands_in_the_source():
    seen = curvature.inspect(H, 0.5)
    line = next(i.line for i in seen.intermediates if i.name == "bend")
    text = Path(__file__).read_text(encoding="utf-8").splitlines()[line - 1]
    assert text.strip() == "bend = slope - slope(I - 1)"
    assert list(seen.at(line)) == ["bend"]
    assert list(seen.find("a * bend")) == ["grown"]
    assert list(seen.find("⟪I, -1⟫(slope)")) == ["bend"]


def line_of(text):
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return 1 + next(k for k, line in enumerate(lines) if line.strip() == text)


def test_what_another_operator_computes_is_found_where_it_is_assigned():
    seen = curvature.inspect(H, 0.5)
    assert list(seen.at(line_of("slope = rise(h)"))) == ["slope"]
    assert list(seen.find("rise(h)")) == ["slope"]
    assert list(seen.find("up - f")) == ["slope"]
    assert seen.tree()["slope"].attrs["line"] == line_of("slope = rise(h)")


@ti.field_operator
def steps(h):
    for _ in range(2):
        h = rise(h)
    return 2.0 * h


def test_each_of_several_values_of_one_name_is_found_where_it_is_assigned():
    assert list(steps.inspect(H).at(line_of("h = rise(h)"))) == ["h_1", "h_2"]


@ti.field_operator
def named_inside(f):
    difference = f(I + 1) - f
    return difference


@ti.field_operator
def named_outside(h):
    ascent = named_inside(h)
    return 2.0 * ascent


def test_a_variable_is_there_also_where_the_operator_that_is_called_has_its_own_name_for_the_value():
    assert list(named_outside.inspect(H)) == ["ascent"]


def test_an_operators_text_has_its_names_and_parses_back():
    fencil = curvature.fencil(H, 0.5)
    assert "let bend = " in str(fencil) and "let grown = " in str(fencil)
    assert ti.parse(str(fencil)) == fencil


def test_names_are_there_also_where_the_text_is_not_to_be_had():
    scope = {"ti": ti, "I": I}
    code = """
@ti.field_operator
def waved(h):
    wide = ti.extend(h, {I: 1}, ti.boundary.periodic())
    slope = ti.where(wide(I + 1) > wide, 1.0, 0.0)
    return slope + wide
"""
    exec(compile(code, "<nowhere>", "exec"), scope)
    assert list(scope["waved"].inspect(H)) == ["wide", "slope"]


def test_one_name_for_several_values_gets_numbers():
    @ti.field_operator
    def twice(f):
        for _ in range(2):
            f = f(I + 1) - f
        return 2.0 * f

    assert list(twice.inspect(H)) == ["f_1", "f_2"]


def test_scans_and_absence_in_operators():
    @ti.scan_operator(axis=K, init=0.0)
    def below(state, x):
        return state + x

    @ti.field_operator
    def column(x):
        total = below(x)
        return total / 2.0

    seen = column.inspect(xr.DataArray([1.0, 2.0, 3.0], dims="K"))
    np.testing.assert_array_equal(seen["total"], [1.0, 3.0, 6.0])

    @ti.field_operator
    def around(e):
        near = e(V2E)
        return ti.neighbor_sum(near, axis=V2EDim)

    table = np.array([[0, 1], [1, -1]], np.int32)
    seen = around.inspect(xr.DataArray([1.0, 10.0], dims="Edge"), offset_provider={"V2E": table})
    np.testing.assert_array_equal(seen["near"], [[1.0, 10.0], [10.0, np.nan]])


def test_units_follow_where_they_must_and_are_given_where_they_cannot():
    seen = curvature.inspect(H, 0.5)
    units = {name: seen[name].attrs.get("units") for name in seen}
    assert units == {"up": "m", "slope": "m", "bend": "m", "grown": None}
    assert seen.with_units(grown="m2")["grown"].attrs["units"] == "m2"
    with pytest.raises(ti.DiagnosticError, match=r"I01.*nothing here is named 'grow'"):
        seen.with_units(grow="m")


def test_the_accessor_reads_from_the_left():
    assert H.tensorir.intervals == {"I": ti.Interval(0, 5)}
    assert str(H.tensorir.type) == "tensor<float, I[0:5]>"
    xr.testing.assert_identical(H.tensorir.apply(rise), rise(H))
    xr.testing.assert_identical(H.tensorir.apply(curvature, 0.5), curvature(H, 0.5))
    xr.testing.assert_identical(
        H.tensorir.extend({I: 1}, ti.boundary.neumann()), ti.extend(H, {I: 1}, ti.boundary.neumann())
    )
    np.testing.assert_array_equal(H.tensorir.inspect(curvature, 0.5)["slope"], [1.0, 3.0, 5.0, 7.0])
    assert repr(H.tensorir.field()) == "Field(float64, I[0:5])"
    assert str(H.tensorir.domain()) == "h: I[0:5]"


def test_a_part_is_taken_by_intervals():
    part = H.tensorir.on({I: (1, 3)})
    np.testing.assert_array_equal(part, [1.0, 4.0])
    np.testing.assert_array_equal(part.coords["I"], [1, 2])
    bare = xr.DataArray(np.arange(4.0), dims="I").tensorir.on({"I": (2, 4)})
    assert bare.tensorir.intervals == {"I": ti.Interval(2, 4)}
    elsewhere = xr.DataArray([1.0, 2.0, 4.0], dims="I", coords={"I": [5, 6, 7]}).tensorir
    for (start, stop), values in (((5, 7), [1.0, 2.0]), ((6, 7), [2.0]), ((5, 8), [1.0, 2.0, 4.0])):
        part = elsewhere.on({"I": (start, stop)})
        assert part.values.tolist() == values and part["I"].values.tolist() == list(range(start, stop))
    for domain, message in (
        ({J: (0, 1)}, "error[A05]: the array has no dim J, only I."),
        ({I: (1, 9)}, "error[A06]: I[1:9] is asked for, and the array has I[0:5]."),
    ):
        with pytest.raises(ti.DiagnosticError) as refused:
            H.tensorir.on(domain)
        assert str(refused.value) == message


def test_there_is_no_shift_with_the_other_sign():
    assert not hasattr(H.tensorir, "shift")


@pytest.mark.parametrize(
    "code",
    [
        "import tensorir, xarray",
        "import xarray, tensorir",
        pytest.param("import tensorir.xarray, xarray", marks=pytest.mark.nightly),
    ],
)
def test_the_accessor_is_there_however_the_two_are_imported(code):
    code += "; print(xarray.DataArray([1.0], dims='I').tensorir)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "<tensorir accessor of tensor<float, I[0:1]>>"
