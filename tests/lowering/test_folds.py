"""Folds over neighbours, compiled and beside the oracle: operator × element type × initial value × pattern of holes."""

from itertools import product

import numpy as np
import pytest

import tensorir as ti
from lowering.kernels import program as program_of_kernels
from lowering.rules import folds
from tensorir.ir.types import DTYPES, SCALARS, Scalar

OPERATORS = {"bool": ("and", "or", "xor"), "int": ("+", "×", "max", "min"), "float": ("+", "×", "max", "min")}
TYPES = ("float32", "float64", "bfloat16", "int32", "int8", "uint8", "bool")
PATTERNS = np.array(list(product([True, False], repeat=3)))
"""Three slots of each row of a table, so that a table has every pattern of holes."""


def extremes(scalar: Scalar) -> tuple[str, ...]:
    """Texts of the least and the largest value of an element type, which start folds by max and min without effect."""
    if scalar.is_float:
        return f"{scalar}(-inf)", f"{scalar}(inf)"
    return f"{scalar}({scalar.range.start})", f"{scalar}({scalar.range.stop - 1})"


def starts(scalar: Scalar) -> tuple[str, ...]:
    if scalar.kind == "bool":
        return "true", "false"
    return f"{scalar}(0)", f"{scalar}(1)", f"{scalar}(3)", *extremes(scalar)


def values_of(scalar: Scalar) -> np.ndarray:
    """Values of which sums and products of four are exact, one above and one below every ordinary start, extremes."""
    if scalar.kind == "bool":
        return np.array([True, False, True, False, False, True])
    if not scalar.is_float:
        return np.array([5, 2, scalar.range.start, 9, scalar.range.stop - 1, 0], DTYPES[scalar])
    return np.array([9.0, -5.0, -np.inf, 2.0, np.inf, -0.0], DTYPES[scalar])


def program(scalar: Scalar, slots: int) -> ti.Fencil:
    """All folds of an element type, an output each; `lambda` hides the operator from what recognises it."""
    kind, rows = "float" if scalar.is_float else "int" if scalar.is_integer else "bool", len(PATTERNS)
    folds = [
        (step, start)
        for op, start in product(OPERATORS[kind], starts(scalar))
        for step in (op, f"λ(a, b) → {op}(a, b)" if op in ("max", "min", "xor") else f"λ(a, b) → a {op} b")
    ]
    outputs = "".join(f"o{k}: tensor<{scalar}, V[0:{rows}]>, " for k in range(len(folds)))
    closures = "\n".join(f"o{k} ← reduce({step}, {start}, _NB_0)(⟪t⟫(x));" for k, (step, start) in enumerate(folds))
    table = f"t: tensor<int, V[0:{rows}], _NB_E[0:{slots}]>"
    return ti.parse(f"folds({outputs}x: tensor<{scalar}, E[0:6]>, {table}) {{\n{closures}\n}}")


def table(slots: int, holes: bool) -> np.ndarray:
    """Neighbours of each row; the patterns of holes are repeated where there are more slots."""
    present = np.tile(PATTERNS, -(-slots // 3))[:, :slots] | (not holes)
    return np.where(present, np.random.default_rng(slots).integers(0, 6, present.shape), -1).astype(np.int32)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("slots", [3, 40], ids=["unrolled", "looped"])
@pytest.mark.parametrize("holes", [True, False], ids=["holes", "whole"])
@pytest.mark.parametrize("name", TYPES)
def test_folds_over_neighbours_are_those_of_the_oracle(name: str, holes: bool, slots: int):
    p, x, t = program(SCALARS[name], slots), values_of(SCALARS[name]), table(slots, holes)
    with np.errstate(all="ignore"):
        expected = ti.reference.run(p.bind(t=t), x=x)
    for results in (p.bind(t=t)(x=x), p(x=x, t=t)):  # the table is known when it is compiled, and is not
        for output, wanted in expected.items():
            result = np.asarray(results[output])
            same = (
                (result == wanted) & (np.signbit(result) == np.signbit(wanted)) if name != "bool" else result == wanted
            )
            same |= (result != result) & (wanted != wanted)
            assert result.dtype == wanted.dtype and same.all(), (output, result, wanted)


NUMPYS = {
    "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "or": np.logical_or, "and": np.logical_and,
    "plus": np.add, "multiplies": np.multiply, "xor": np.logical_xor, "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor,
}  # fmt: skip
OF = {"bool": ("or", "and", "xor"), "float": ("plus", "multiplies", "max", "min")}
OF["int"] = (*OF["float"], "bit_and", "bit_or", "bit_xor")
OF_KERNELS = {
    "bool": ("or", "and", "max", "min"),
    "float": ("add", "mul", "max", "min"),
    "int": ("add", "mul", "max", "min"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*TYPES, "float16", "int64", "uint32"])
def test_what_a_fold_begins_with_leaves_each_value_as_it_is(name: str):
    scalar = SCALARS[name]
    kind, values = "float" if scalar.is_float else "int" if scalar.is_integer else "bool", values_of(scalar)
    for ops, identity in ((OF, folds.identity_of), (OF_KERNELS, program_of_kernels.identity_of)):
        for op in ops[kind]:
            start = identity(op, values.dtype)
            assert start.dtype == values.dtype, op
            np.testing.assert_array_equal(NUMPYS[op](start, values), values, op)
