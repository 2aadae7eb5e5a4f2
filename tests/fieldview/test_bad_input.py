"""Bad input, one by one: what is said, whole, and that it is said at the user's line in their file or cell."""

import linecache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from tests.corpus import corpus

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


CASES = corpus(Path(__file__).with_name("bad_input.txt"))


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_told_whole_at_the_users_line(case):
    code, message = CASES[case]
    assert Cell(code).said() == message


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
            found = shell.run_cell("ti.extend(ti.zeros({I: 3}), {'K': 1}, ti.boundary.periodic())", store_history=True)
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
