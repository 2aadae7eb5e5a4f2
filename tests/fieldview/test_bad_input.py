"""Bad input, one by one: what is said, whole, and that it is said at the user's line in their file or cell."""

import linecache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti

CELL = """
import numpy as np
import tensorir as ti

I, J, K = ti.dims("I J K")
Vertex, Edge = ti.dims("Vertex Edge")
V2EDim = ti.Dimension("V2E", kind="local")
V2E = ti.FieldOffset("V2E", source=Edge, target=(Vertex, V2EDim))
X = ti.as_field({I: (0, 6), J: (0, 7)}, np.zeros((6, 7)))
OUT = ti.zeros({I: 6, J: 7})
kept = []


@ti.field_operator
def lap(f):
    return f(I + 1) + f(I - 1) + f(J + 1) + f(J - 1) - 4 * f


@ti.program
def smooth(a: ti.Field[[I, J], ti.float64], b: ti.Field[[I, J], ti.float64]):
    lap(a, out=b, domain={K: (0, 1)})


"""


class Cell:
    """Code as a notebook runs it: compiled from a text that `linecache` knows, without a file."""

    def __init__(self, code: str) -> None:
        self.text = CELL + code.strip("\n") + "\n"
        self.name = f"<cell {abs(hash(self.text))}>"
        linecache.cache[self.name] = (len(self.text), None, self.text.splitlines(True), self.name)

    def said(self) -> str:
        with pytest.raises(ti.DiagnosticError) as refused:
            exec(compile(self.text, self.name, "exec"), {})
        return str(refused.value).replace(self.name, "cell")


CASES = {
    "wrong dims in domain": (
        "lap(X, out=OUT, domain={K: (0, 1)})",
        """
cell:24:1: error[V22]: the domain names K, and the result has I[0:6], J[0:7].
  lap(X, out=OUT, domain={K: (0, 1)})
  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: known here: 'I', 'J'.""",
    ),
    "wrong dims in the domain of a program": (
        "smooth(np.zeros((6, 7)), np.zeros((6, 7)))",
        """
cell:21:5: error[V22]: the domain names K, and 'b' has I[0:6], J[0:7].
      lap(a, out=b, domain={K: (0, 1)})
      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "a domain that is none": (
        "lap(X, out=OUT, domain={I: (1, 2, 3)})",
        """
cell:24:1: error[V22]: a domain is intervals by dim.
  lap(X, out=OUT, domain={I: (1, 2, 3)})
  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write domain={I: (1, 9), J: (0, 5)}.""",
    ),
    "a domain the wrong way round": (
        "lap(X, out=OUT, domain={I: (3, 1)})",
        """
cell:24:1: error[V22]: the domain I[3:1] stops before it starts.
  lap(X, out=OUT, domain={I: (3, 1)})
  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: an interval is (start, stop).""",
    ),
    "a domain beyond the buffer": (
        "lap(X, out=OUT, domain={I: (1, 50)})",
        """
cell:24:1: error[V22]: the domain I[1:50] is not inside of I[0:6], all of 'out'.
  lap(X, out=OUT, domain={I: (1, 50)})
  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: make it smaller.""",
    ),
    "a domain that needs points that the input lacks": (
        "lap(X, out=OUT, domain={I: (1, 5), J: (1, 7)})",
        """
cell:16:34: error[T07]: 'out' needs J[1:7], but this provides J[1:6].
      return f(I + 1) + f(I - 1) + f(J + 1) + f(J - 1) - 4 * f
                                   ^^^^^^^^
note: ⟪J, 1⟫ reads one point after, so 1 point is missing there: J[6:7].
help: pass domain={I: (1, 5), J: (1, 6)}, or give 'f' more points: J[0:8].""",
    ),
    "a missing offset": (
        """
@ti.field_operator
def around(e):
    near = e(V2E)
    return ti.neighbor_sum(near, axis=V2EDim)


around(ti.zeros({Edge: 3}), offset_provider={"V2V": np.zeros((2, 2), int)})
""",
        """
cell:26:12: error[V11]: the offset_provider has no 'V2E', only V2V.
      near = e(V2E)
             ^^^^^^
help: call with offset_provider={'V2E': table}.""",
    ),
    "an operator that returns nothing": (
        """
@ti.field_operator
def nothing(x):
    x + 1


nothing(X)
""",
        """
cell:25:1: error[V20]: 'nothing' returns nothing.
  def nothing(x):
  ^^^^^^^^^^^^^^^
help: add a return.""",
    ),
    "a scan that returns nothing": (
        """
@ti.scan_operator(axis=I, init=0.0)
def nothing(state, x):
    state + x


nothing(X)
""",
        """
cell:25:1: error[V20]: 'nothing' returns nothing.
  def nothing(state, x):
  ^^^^^^^^^^^^^^^^^^^^^^
help: return the next state.""",
    ),
    "a value that is kept and used in another operator": (
        """
@ti.field_operator
def keeps(x):
    kept.append(x + 1.0)
    return x


@ti.field_operator
def uses(x):
    return x + kept[0]


keeps(X)
uses(X)
""",
        """
cell:32:12: error[V27]: this value was kept from another run of an operator, and means nothing here.
      return x + kept[0]
             ^^^^^^^^^^^
help: return what is needed later, and pass it as an argument.""",
    ),
    "a value that is kept and used outside": (
        """
@ti.field_operator
def keeps(x):
    kept.append(x + 1.0)
    return x


keeps(X)
kept[0] + 1.0
""",
        """
cell:31:1: error[V27]: this value was kept from another run of an operator, and means nothing here.
  kept[0] + 1.0
  ^^^^^^^^^^^^^
help: return what is needed later, and pass it as an argument.""",
    ),
    "an assignment to a point": (
        """
@ti.field_operator
def assigns(x):
    x[0] = 1.0
    return x


assigns(X)
""",
        """
cell:26:5: error[V06]: a field does not change.
      x[0] = 1.0
      ^^^^
help: return a new one; concat_where puts values on a part of it.""",
    ),
    "a shift along the axis of a scan inside of it": (
        """
@ti.scan_operator(axis=K, forward=True, init=0.0)
def later(state, x):
    return state + x(K + 1)


later(ti.ones({I: 2, K: 3}))
""",
        """
cell:26:20: error[V28]: inside of a scan along K a field has one level of it, and no neighbour there.
      return state + x(K + 1)
                     ^^^^^^^^
help: pass the neighbour as a field of its own: f(x, x(K + 1)).""",
    ),
    "an argument as the number of a neighbour": (
        """
@ti.field_operator
def one(e, k):
    return e(V2E[k])


one(ti.ones({Edge: 3}), 0, offset_provider={"V2E": np.zeros((2, 1), "int32")})
""",
        """
cell:26:14: error[V10]: which of V2E is meant is a whole number, and this is a field.
      return e(V2E[k])
               ^^^^^^
help: write f(V2E[1]); an argument of an operator is a field also where it is a number.""",
    ),
    "conditions on a coordinate that Python puts together": (
        """
@ti.field_operator
def middle(x):
    return ti.concat_where(2 <= I < 4, x, -x)


middle(X)
""",
        """
cell:26:28: error[V16]: a condition on a coordinate is not true or false.
      return ti.concat_where(2 <= I < 4, x, -x)
                             ^^^^^^^^^^
help: write (K >= 2) & (K < 5), and | for either.""",
    ),
    "an assignment to an attribute": (
        """
@ti.field_operator
def assigns(x):
    x.units = "m"
    return x


assigns(X)
""",
        """
cell:26:5: error[V06]: a field does not change.
      x.units = "m"
      ^^^^^^^
help: return a new one; concat_where puts values on a part of it.""",
    ),
    "NumPy writing into a field": (
        """
@ti.field_operator
def adds(x):
    np.add(x, 1.0, out=x)
    return x


adds(X)
""",
        """
cell:26:5: error[V05]: NumPy cannot compute with fields of an operator.
      np.add(x, 1.0, out=x)
      ^^^^^^^^^^^^^^^^^^^^^
help: use the functions of tensorir: ti.sin, ti.where.""",
    ),
    "a state without the structure of its init": (
        """
@ti.scan_operator(axis=I, init=(0.0, 1.0))
def total(state, x):
    return state[0] + x


total(X)
""",
        """
cell:25:1: error[V24]: 'total' returns float64, and its init is (float64, float64).
  def total(state, x):
  ^^^^^^^^^^^^^^^^^^^^
help: return the state in the structure of init.""",
    ),
    "an init that is no number": (
        """
@ti.scan_operator(axis=I, init="zero")
def total(state, x):
    return state + x


total(X)
""",
        """
cell:29:1: error[V09]: str cannot be computed with in an operator.
  total(X)
  ^^^^^^^^
help: use fields, numbers and tuples of them.""",
    ),
    "a boundary on a dim that is not there": (
        "ti.extend(X, {K: 1}, ti.periodic())",
        """
cell:24:1: error[V32]: there is no dim K to put a boundary on, only I[0:6], J[0:7].
  ti.extend(X, {K: 1}, ti.periodic())
  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: name a dim of the field.""",
    ),
    "a boundary in an operator on a dim that is not there": (
        """
@ti.field_operator
def around(x):
    return ti.with_boundary(x, {K: 1}, ti.neumann())


around(X)
""",
        """
cell:26:12: error[V32]: there is no dim K to put a boundary on, only I[0:6], J[0:7].
      return ti.with_boundary(x, {K: 1}, ti.neumann())
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: name a dim of the field.""",
    ),
    "a condition on a field": (
        """
@ti.field_operator
def clip(x):
    if x > 0.0:
        return x
    return -x


clip(X)
""",
        """
cell:26:8: error[V04]: whether a field is true is not known while the operator is traced: \
it differs from point to point.
      if x > 0.0:
         ^^^^^^^
help: choose point by point with ti.where(condition, a, b).""",
    ),
    "a flag as a condition of Python": (
        """
@ti.field_operator
def chosen(x, forward=True):
    if bool(forward):
        return x
    return x


chosen(X)
""",
        """
cell:26:8: error[V04]: whether a number is true is not known while the operator is traced: calls differ.
      if bool(forward):
         ^^^^^^^^^^^^^
help: choose with ti.where(condition, a, b), or decide by a text: 'upwind'.""",
    ),
    "an attribute that fields have outside": (
        """
@ti.field_operator
def mean(x):
    return x.median()


mean(X)
""",
        """
cell:26:12: error[V03]: a field of an operator has no 'median'.
      return x.median()
             ^^^^^^^^
help: it has shifts, f(I + 1), folds, f.mean(I), operators, and functions such as ti.sin; do the rest outside.""",
    ),
    "the length of a field": (
        """
@ti.field_operator
def mean(x):
    return x / len(x)


mean(X)
""",
        """
cell:26:16: error[V05]: how many points a field has is not known to an operator.
      return x / len(x)
                 ^^^^^^
help: pass it as an argument.""",
    ),
    "a product of matrices": (
        """
@ti.field_operator
def product(x):
    return x @ x


product(X)
""",
        """
cell:26:12: error[V05]: fields have no matrix product.
      return x @ x
             ^^^^^
help: multiply them, and sum over neighbours or in a scan.""",
    ),
    "rounding by Python": (
        """
@ti.field_operator
def rounded(x):
    return round(x, 2)


rounded(X)
""",
        """
cell:26:12: error[V05]: Python's round is for single numbers.
      return round(x, 2)
             ^^^^^^^^^^^
help: write ti.round(x).""",
    ),
    "a result that is no field": (
        """
@ti.field_operator
def named(x):
    return {"x": x}


named(X)
""",
        """
cell:25:1: error[V20]: 'named' returns a dict.
  def named(x):
  ^^^^^^^^^^^^^
help: return a field, or a tuple of fields.""",
    ),
    "a scan without a state": (
        """
@ti.scan_operator(axis=I, init=0.0)
def stateless():
    return 1.0
""",
        """
cell:25:1: error[V19]: 'stateless' takes no state.
  def stateless():
  ^^^^^^^^^^^^^^^^
help: write def f(state, x).""",
    ),
    "an offset provider that is none": (
        "lap(X, offset_provider=[1])",
        """
cell:24:1: error[V11]: the offset_provider is a list.
  lap(X, offset_provider=[1])
  ^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: it is a dict of tables: offset_provider={'V2E': table}.""",
    ),
    "a list without an annotation": (
        "lap([[1.0, 2.0], [3.0, 4.0]])",
        """
cell:24:1: error[V12]: 'f' of 'lap' is a list, whose axes have no names.
  lap([[1.0, 2.0], [3.0, 4.0]])
  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: annotate the operator, f: ti.Field[[I, J], ti.float64], or pass a DataArray or a ti.Field; \
numbers one by one are a tuple.""",
    ),
    "a list with rows of different lengths": (
        "lap([[1.0, 2.0], [3.0]])",
        """
cell:24:1: error[A01]: 'f' of 'lap' is a list that is no array.
  lap([[1.0, 2.0], [3.0]])
  ^^^^^^^^^^^^^^^^^^^^^^^^
help: its rows have different lengths.""",
    ),
    "a Dataset in place of a variable": (
        "lap((X.to_xarray('height').to_dataset(),))",
        """
cell:24:1: error[V12]: 'f[0]' of 'lap' is a Dataset.
  lap((X.to_xarray('height').to_dataset(),))
  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: pass one of its variables: f[0]=dataset['name'].""",
    ),
    "a DataArray of texts": (
        "lap(X.to_xarray().astype(str))",
        """
cell:24:1: error[A02]: 'f' of 'lap' holds <U32, which is no element type.
  lap(X.to_xarray().astype(str))
  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: convert it, for example to float64.""",
    ),
    "bare arrays without an annotation": (
        "lap(np.zeros((3, 3)))",
        """
cell:24:1: error[V12]: 'f' of 'lap' is a bare array, whose axes have no names.
  lap(np.zeros((3, 3)))
  ^^^^^^^^^^^^^^^^^^^^^
help: annotate the operator, f: ti.Field[[I, J], ti.float64], or pass a DataArray or a ti.Field.""",
    ),
    "a program that is called wrongly": (
        "smooth(np.zeros((6, 7)))",
        """
cell:24:1: error[V19]: 'smooth' is called wrongly: missing a required argument: 'b'.
  smooth(np.zeros((6, 7)))
  ^^^^^^^^^^^^^^^^^^^^^^^^
help: it is smooth(a: Field[[I, J], float64], b: Field[[I, J], float64]).""",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_told_whole_at_the_users_line(case):
    code, message = CASES[case]
    assert Cell(code).said() == message.strip("\n")


def donated(use):
    """What is said of an array that was donated before."""
    double = ti.compile(
        ti.parse("double(out: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { out ← 2.0 × x; }"), donate=("out",)
    )
    with jax.enable_x64(True):
        buffer = jnp.zeros(4)
        double(out=buffer, x=jnp.ones(4))
        with pytest.raises(ti.DiagnosticError) as refused:
            use(buffer)
    return str(refused.value)


def test_reading_a_field_after_donation_is_told_at_the_users_line():
    @ti.field_operator
    def same(x):
        return x

    message = donated(lambda buffer: same(ti.as_field({"I": 4}, buffer)))
    place, _, rest = message.partition(": error")
    assert place.startswith("test_bad_input.py:")
    assert rest == (
        "[A18]: 'x' was given away: its memory holds the result of the call that it was donated to.\n"
        '      message = donated(lambda buffer: same(ti.as_field({"I": 4}, buffer)))\n'
        "                                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "help: use that result in its place, or keep the array: donate=() when compiling."
    )


@pytest.mark.parametrize("look", [np.asarray, lambda f: f.to_xarray()])
def test_looking_at_a_field_after_donation_is_told(look):
    assert donated(lambda buffer: look(ti.as_field({"I": 4}, buffer))) == (
        "error[A18]: 'field' was given away: its memory holds the result of the call that it was donated to.\n"
        "help: use that result in its place, or keep the array: donate=() when compiling."
    )


def test_an_argument_after_donation_is_told():
    plain = ti.compile(ti.parse("f(out: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { out ← x; }"))
    with jax.enable_x64(True):
        plain(x=jnp.ones(4))
    assert donated(lambda buffer: plain(x=buffer)).startswith("error[A18]: 'x' was given away")


def test_a_notebook_cell_is_called_by_its_number():
    shell_of = pytest.importorskip("IPython.core.interactiveshell")
    shell = shell_of.InteractiveShell.instance()
    try:
        shell.run_cell("import tensorir as ti\n(I,) = ti.dims('I')", store_history=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shell, "showtraceback", lambda *_, **__: None)
            found = shell.run_cell("ti.extend(ti.zeros({I: 3}), {'K': 1}, ti.periodic())", store_history=True)
        assert str(found.error_in_exec).startswith("cell 2:1:1: error[V32]")
    finally:
        shell_of.InteractiveShell.clear_instance()


def test_what_is_converted_in_an_operator_is_converted_by_ti_astype():
    @ti.field_operator
    def f(x):
        return x + np.float32(1.0)

    with pytest.raises(ti.DiagnosticError) as found:
        f(ti.as_field({"I": 2}, np.ones(2)))
    assert str(found.value).endswith(
        "error[T01]: the operands have different element types: float64 and float32.\n"
        "          return x + np.float32(1.0)\n"
        "                 ^^^^^^^^^^^^^^^^^^^\n"
        "help: nothing is converted silently; write ti.astype(x, ti.float64) or ti.astype(x, ti.float32)."
    )


def test_a_whole_number_in_an_operator_says_how_the_field_is_made_wider():
    with pytest.raises(ti.DiagnosticError) as found:
        ti.field_operator(lambda x: x + 300)(ti.as_field({"I": 2}, np.ones(2, np.int8)))
    assert str(found.value).endswith("help: int8 holds -128 to 127; ti.astype(x, ti.int64) is wider.")
    with pytest.raises(ti.DiagnosticError, match=r"ti.astype\(x, ti.uint64\) is wider"):
        ti.field_operator(lambda x: x + 2**63)(ti.as_field({"I": 2}, np.ones(2, np.int64)))


def test_a_gradient_without_64_bits_says_how_they_are_kept():
    x = ti.as_field({"I": 2}, np.ones(2))
    times = ti.field_operator(lambda x, c: x * c)
    with pytest.raises(ti.DiagnosticError) as found:
        jax.grad(lambda y: times(y, x).data.sum())(x)
    assert str(found.value).endswith(
        "note: this transformation of JAX keeps 32 bits, unless it is inside of `with jax.enable_x64(True):`.\n"
        "help: nothing is converted silently; write ti.astype(x, ti.float32) or ti.astype(x, ti.float64)."
    )


@pytest.mark.parametrize(
    ("have", "asked", "renamed"),
    [
        (("time", "latitude", "longitude"), "lat lon", "latitude='lat', longitude='lon'"),
        (("time", "longitude", "latitude"), "LAT LON", "latitude='LAT', longitude='LON'"),
        (("time", "y", "x"), "I J", "y='I', x='J'"),
        (("lat", "lon"), "I J", "lat='I', lon='J'"),
    ],
)
def test_dims_of_like_names_are_proposed_and_otherwise_the_last_ones(have, asked, renamed):
    first, second = ti.dims(asked)
    cross = ti.field_operator(lambda h: h(first + 1) + h(second + 1))
    with pytest.raises(ti.DiagnosticError) as refused:
        cross(ti.as_field(dict.fromkeys(have, 3), np.zeros((3,) * len(have))))
    told = refused.value.diagnostics[0]
    assert (told.code, told.help) == ("V40", f"call them so: x.rename({renamed}).")


@pytest.mark.parametrize(("fold", "method"), [(ti.neighbor_sum, "sum"), (ti.max_over, "max"), (ti.min_over, "min")])
def test_a_fold_along_a_dim_of_the_field_says_what_does_that(fold, method):
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.field_operator(lambda h: fold(h, axis=ti.Dimension("K")))(ti.zeros({"K": 3}))
    assert refused.value.diagnostics[0].help == f"along K itself fold by ti.{method}(x, K)."


@pytest.mark.parametrize("number", [np.float64(1.5), jnp.float32(1.5), "a batch"])
def test_a_number_of_another_type_than_annotated_is_refused_where_it_is_passed(number):
    @ti.field_operator
    def diffused(h, nu: ti.float32):
        return nu * h

    h = ti.as_field({"I": 2}, np.ones(2, "f4"))
    assert diffused(h, 1.5).data.tolist() == [1.5, 1.5]
    if isinstance(number, jax.Array):
        assert np.asarray(diffused(h, number).data).tolist() == [1.5, 1.5]
        return
    with pytest.raises(ti.DiagnosticError) as refused, jax.enable_x64(True):
        jax.vmap(lambda nu: diffused(h, nu).data)(jnp.ones(2)) if number == "a batch" else diffused(h, number)
    told = refused.value.diagnostics[0]
    assert (told.code, told.message) == ("V13", "'nu' of 'diffused' is annotated float32, and this is float64.")
    assert told.help == "convert it, nu.astype('float32'), or change the annotation."
