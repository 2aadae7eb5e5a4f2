"""What our interpreter computes, TVM's LLVM build computes: operators of TOPI, and programs that a generator writes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

import tensorir as ti
import tensorir.tir as tir
from tests.generate.examples import sampled
from tests.lift.generated_states import state_arrays, state_program
from tests.lift.generated_types import typed_arrays, typed_program
from tests.lift.test_lift_exact import (
    FOLDED,
    IN_ANY_ORDER,
    IN_ORDER,
    SELECTED,
    assert_same_values_and_signs,
    kernel_of_rows,
    kernels_of_statements,
)
from tests.peers import llvm
from tests.peers.llvm import computed

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(7)


def array(shape: tuple[int, ...], dtype: str) -> Any:
    match np.dtype(dtype).kind:
        case "f":
            return RNG.uniform(-2, 2, shape).astype(dtype)
        case "b":
            return RNG.integers(0, 2, shape).astype(bool)
        case _:
            low = 0 if dtype.startswith("u") else -9
            return RNG.integers(low, 10, shape).astype(dtype)


def arguments(func: Any) -> list[Any]:
    """An array for every parameter."""
    buffers = [func.buffer_map[param] for param in func.params]
    return [array(tuple(extent.value for extent in b.shape), str(b.dtype)) for b in buffers]


def compare(module: Any, name: str, arrays: list[Any], built: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """TVM's arrays after the call are ours, bit for bit where they hold integers."""
    theirs = [tvm.runtime.tensor(a) for a in arrays]
    built[name](*theirs)
    func = tir.parse(module)[name]
    for checked in (False, True):
        ours = tir.interpret(func, *arrays, checked=checked)
        for got, want in zip(ours, theirs, strict=True):
            if got.dtype.kind == "f":
                np.testing.assert_allclose(got, want.numpy(), rtol=rtol, atol=atol)
            else:
                np.testing.assert_array_equal(got, want.numpy())


def operators() -> dict[str, Callable[[], list[Any]]]:
    """Programs of TOPI: the placeholders, then the results."""
    from tvm import te, topi

    def over(function: Callable[..., Any], *kinds: tuple[tuple[int, ...], str]) -> Callable[[], list[Any]]:
        def make() -> list[Any]:
            inputs = [te.placeholder(shape, dtype, name=f"in{k}") for k, (shape, dtype) in enumerate(kinds)]
            result = function(*inputs)
            return [*inputs, *(result if isinstance(result, list | tuple) else [result])]

        return make

    f, i, j = ((5, 6), "float32"), ((5, 6), "int32"), ((5, 6), "int64")
    u, h, b, d = ((5, 6), "uint8"), ((5, 6), "int8"), ((5, 6), "bool"), ((5, 6), "float64")
    image, weight = ((1, 4, 8, 8), "float32"), ((6, 4, 3, 3), "float32")
    index = ((3,), "uint8")
    found: dict[str, Callable[[], list[Any]]] = {}
    for name in (
        "exp",
        "tanh",
        "sigmoid",
        "erf",
        "floor",
        "ceil",
        "trunc",
        "round",
        "abs",
        "negative",
        "sign",
        "isnan",
    ):
        found[name] = over(getattr(topi, name), f)
    for name in ("sin", "cos", "tan", "atan", "fast_exp", "fast_tanh", "fast_erf", "isinf", "isfinite", "identity"):
        found[name] = over(getattr(topi, name), f)
    for name in ("add", "subtract", "multiply", "maximum", "minimum", "less", "equal", "not_equal", "greater_equal"):
        for kind in (f, i, j, u, h):
            found[f"{name} {kind[1]}"] = over(getattr(topi, name), kind, kind)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        for kind in (i, u, h):
            found[f"{name} {kind[1]}"] = over(getattr(topi, name), kind, kind)
    for name in ("logical_and", "logical_or", "logical_xor"):
        found[name] = over(getattr(topi, name), b, b)
    for name in ("sum", "max", "min", "prod"):
        for kind in (f, i, j, d):
            found[f"{name} {kind[1]}"] = over(lambda x, n=name: getattr(topi, n)(x, axis=1), kind)
        found[f"{name} of all"] = over(lambda x, n=name: getattr(topi, n)(x), f)
    for name in ("argmax", "argmin"):
        found[name] = over(lambda x, n=name: getattr(topi, n)(x, axis=1), f)
    for source in (f, i, j, u, h, b, d):
        for target in ("float32", "float64", "int32", "int64", "int8", "bool", "float16"):
            if source[1] != target:
                found[f"{source[1]} to {target}"] = over(lambda x, t=target: topi.cast(x, t), source)
    found |= {
        "softmax": over(topi.nn.softmax, f),
        "log_softmax": over(topi.nn.log_softmax, f),
        "relu": over(topi.nn.relu, f),
        "leaky_relu": over(lambda x: topi.nn.leaky_relu(x, 0.1), f),
        "matmul": over(lambda x, y: topi.matmul(x, y, transp_b=True), f, f),
        "matmul of integers": over(lambda x, y: topi.matmul(x, y, transp_b=True), i, i),
        "dense": over(topi.nn.dense, f, f),
        "conv2d": over(lambda x, w: topi.nn.conv2d_nchw(x, w, 1, 1, 1), image, weight),
        "conv2d with stride": over(lambda x, w: topi.nn.conv2d_nchw(x, w, 2, 0, 1), image, weight),
        "max pool": over(lambda x: topi.nn.pool2d(x, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max"), image),
        "average pool": over(lambda x: topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "avg"), image),
        "adaptive pool": over(lambda x: topi.nn.adaptive_pool(x, (3, 3), "avg"), image),
        "pad": over(lambda x: topi.nn.pad(x, (1, 2), (0, 1), 3.0), f),
        "transpose": over(topi.transpose, f),
        "flip": over(lambda x: topi.flip(x, 1), f),
        "concatenate": over(lambda x, y: topi.concatenate((x, y), 1), f, f),
        "stack": over(lambda x, y: topi.stack((x, y), 1), f, f),
        "split": over(lambda x: topi.split(x, 3, 1), f),
        "reshape": over(lambda x: topi.reshape(x, (3, 10)), f),
        "take": over(lambda x, k: topi.take(x, k, axis=0, mode="clip"), f, index),
        "take and wrap": over(lambda x, k: topi.take(x, k, axis=0, mode="wrap"), f, index),
        "where": over(topi.where, b, f, f),
        "one_hot": over(lambda k: topi.one_hot(k, 1, 0, 12, -1, "int32"), i),
        "cumsum": over(lambda x: topi.cumsum(x, axis=1), f),
        "cumsum of integers": over(lambda x: topi.cumsum(x, axis=0), i),
        "tile": over(lambda x: topi.tile(x, (2, 3)), f),
        "repeat": over(lambda x: topi.repeat(x, 2, 0), f),
        "layer_norm": over(lambda x, g, c: topi.nn.layer_norm(x, g, c, [1]), f, ((6,), "float32"), ((6,), "float32")),
        "rms_norm": over(lambda x, g: topi.nn.rms_norm(x, g, [1]), f, ((6,), "float32")),
        "resize": over(lambda x: topi.image.resize2d(x, [0.0] * 4, (5, 11), "NCHW", "linear"), image),
        "resize to nearest": over(
            lambda x: topi.image.resize2d(x, [0.0] * 4, (5, 11), "NCHW", "nearest_neighbor", rounding_method="floor"),
            image,
        ),
        "batch matmul": over(topi.nn.batch_matmul, ((2, 4, 5), "float32"), ((2, 3, 5), "float32")),
        "einsum": over(lambda x, y: topi.einsum("ij,kj->ki", x, y), f, f),
        "shift": over(lambda x: topi.right_shift(x, 3), i),
        "floor divide": over(lambda x: topi.floor_divide(x, topi.full_like(x, 4)), i),
        "floor mod": over(lambda x: topi.floor_mod(x, topi.full_like(x, -4)), i),
        "strided slice": over(lambda x: topi.strided_slice(x, [0, 5], [5, 0], [2, -2]), f),
        "sort": over(lambda x: topi.sort(x, axis=1), f),
        "argsort": over(lambda x: topi.argsort(x, axis=1, dtype="int32"), f),
        "topk": over(lambda x: topi.topk(x, k=3, axis=1), f),
        "scatter": over(
            lambda x, k, y: topi.scatter_elements(x, k, y, axis=0, reduction="add"),
            f,
            ((2, 6), "uint8"),
            ((2, 6), "float32"),
        ),
    }
    return found


CASES = operators()


@pytest.mark.parametrize("name", sampled(CASES))
def test_an_operator_of_topi_gives_its_numbers(name: str):
    from tvm import te

    tensors = CASES[name]()
    module = tvm.IRModule({"main": te.create_prim_func(tensors).with_attr("global_symbol", "main")})
    arrays = arguments(tir.parse(module)["main"])
    if name in ("scatter", "take"):
        arrays = [a % 5 if a.dtype == np.uint8 else a for a in arrays]
    compare(module, "main", arrays, tvm.compile(module, target="llvm"))


def unscheduled(name: str) -> tuple[Any, list[Any], Any]:
    """A program of TOPI, arguments, and what it computes."""
    from tvm import te

    module = tvm.IRModule({"main": te.create_prim_func(CASES[name]()).with_attr("global_symbol", "main")})
    func = tir.parse(module)["main"]
    arrays = arguments(func)
    if name in ("scatter", "take"):
        arrays = [a % 5 if a.dtype == np.uint8 else a for a in arrays]
    return module, arrays, tir.interpret(func, *arrays)


def same(module: Any, arrays: list[Any], wanted: Any) -> None:
    """The module is accepted, and computes in checked mode what is wanted."""
    ours = tir.parse(module)
    tir.check(ours)
    for got, want in zip(tir.interpret(ours["main"], *arrays, checked=True), wanted, strict=True):
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-4, atol=1e-5)


LOWERING = (
    "LowerInitBlock",
    "PlanAndUpdateBufferAllocationLocation",
    "ConvertBlocksToOpaque",
    "CompactBufferAllocation",
    "LowerMatchBuffer",
    "LowerOpaqueBlock",
    "FlattenBuffer",
    "StorageRewrite",
)


@pytest.mark.parametrize("name", sampled(list(CASES)[::6]))
def test_every_step_of_tvms_lowering_computes_the_same(name: str):
    module, arrays, wanted = unscheduled(name)
    for step in LOWERING:
        maker = getattr(tvm.s_tir.transform, step, None) or getattr(tvm.tirx.transform, step)
        module = maker()(module)
        same(module, arrays, wanted)


@pytest.mark.parametrize("name", sampled(list(CASES)[::6]))
def test_default_schedules_for_gpus_compute_the_same(name: str):
    from tvm.s_tir import dlight

    module, arrays, wanted = unscheduled(name)
    limits = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
    with tvm.target.Target({"kind": "cuda", "arch": "sm_80", **limits}):
        rules = [dlight.gpu.Matmul(), dlight.gpu.GEMV(), dlight.gpu.Reduction(), dlight.gpu.GeneralReduction()]
        scheduled = dlight.ApplyDefaultSchedule(*rules, dlight.gpu.Fallback())(module)
    same(scheduled, arrays, wanted)


# ------------------------------------------------------------------------------------------------------------ generated

KINDS = ("int32", "int64", "int8", "uint8", "float32")
PROGRAMS = 6
PER_BUILD = 20
"""Of each kind of statement that the generator writes there are ten and more among them."""


class Generator:
    """Writes well-typed functions: loops, guards, reductions, casts, lets, over arrays of several types."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def expression(self, kind: str, depth: int, loops: list[str]) -> str:
        pick = self.random
        if depth == 0:
            return pick.choice([self.element(kind, loops), self.element(kind, loops), self.constant(kind)])
        a, b = (self.expression(kind, depth - 1, loops) for _ in range(2))
        forms = [f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"T.max({a}, {b})", f"T.min({a}, {b})"]
        condition = self.condition(depth - 1, loops)
        forms += [f"T.Select({condition}, {a}, {b})", f"T.if_then_else({condition}, {a}, {b})"]
        if kind == "float32":
            forms += [f"T.floor({a})", f"T.fabs({a})"]
        else:
            constant = f"T.{kind}({pick.choice([1, 2, 3, 5, 7])})"
            forms += [f"T.FloorDiv({a}, {constant})", f"T.FloorMod({a}, {constant})"]
            forms += [f"T.truncdiv({a}, {constant})", f"T.truncmod({a}, {constant})"]
            forms += [f"T.bitwise_and({a}, {b})", f"T.bitwise_xor({a}, {b})", f"T.bitwise_or({a}, {b})"]
            forms += [f"T.shift_right({a}, T.{kind}({pick.randrange(7)}))"]
            other = pick.choice([k for k in KINDS if k not in (kind, "float32")])
            forms += [f'T.Cast("{kind}", {self.expression(other, depth - 1, loops)})']
        return pick.choice(forms)

    def condition(self, depth: int, loops: list[str]) -> str:
        kind = self.random.choice(KINDS)
        sign = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        one = f"({self.expression(kind, depth, loops)} {sign} {self.expression(kind, depth, loops)})"
        if depth > 0 and self.random.random() < 0.3:
            return f"({one} {self.random.choice(['and', 'or'])} {self.condition(0, loops)})"
        return one

    def constant(self, kind: str) -> str:
        if kind == "float32":
            return f"T.float32({self.random.choice([0.5, 1.5, -2.0, 3.0])})"
        return f"T.{kind}({self.random.randrange(0, 100)})"

    def element(self, kind: str, loops: list[str]) -> str:
        return f"{kind}_in[{self.random.choice(loops)}, {self.random.choice(loops)}]"

    def function(self, name: str) -> str:
        """One function, as text."""
        kind = self.random.choice(KINDS)
        arguments = ", ".join(f'{k}_in: T.Buffer((6, 6), "{k}")' for k in KINDS)
        head = f'    @T.prim_func(s_tir=True)\n    def {name}({arguments}, out: T.Buffer((6, 6), "{kind}")):\n'
        loops = ["i", "j", "k"]
        value = self.expression(kind, 3, loops)
        where, order = self.random.choice(["i, j", "j, i"]), self.random.choice(["i, j, k", "i, k, j", "k, j, i"])
        words = {
            "reduction": [
                "for i, j, k in T.grid(6, 6, 6):",
                '    with T.sblock("sum"):',
                '        vi, vj, vk = T.axis.remap("SSR", [i, j, k])',
                "        with T.init():",
                f"            out[vi, vj] = {self.constant(kind)}",
                f"        out[vi, vj] = out[vi, vj] + {self._renamed(value)}",
            ],
            "serial": [f"for {order} in T.grid(6, 6, 6):", f"    out[{where}] = out[{where}] + {value}"],
            "guarded": [
                f"for {order} in T.grid(6, 6, 6):",
                f"    if {self.condition(1, loops)}:",
                f"        out[{where}] = {value}",
                "    else:",
                f"        out[{where}] = out[{where}] - {self.expression(kind, 1, loops)}",
            ],
            "recurrence": [
                "for k, i, j in T.grid(6, 5, 6):",
                f"    x: T.let[T.{kind}] = {value}",
                "    out[i + 1, j] = T.max(out[i, j], x)",
            ],
            "histogram": [f"for {order} in T.grid(6, 6, 6):", f"    out[T.FloorMod(int32_in[i, j], 6), k] = {value}"],
            "parallel": [
                "for i in T.parallel(6):",
                "    for j in T.vectorized(6):",
                "        for k in range(6):",
                f"            out[i, j] = {value}",
            ],
        }
        lines = words[self.random.choice(list(words))]
        return head + "".join(f"        {line}\n" for line in lines)

    @staticmethod
    def _renamed(text: str) -> str:
        for loop in "ijk":
            text = text.replace(f"[{loop},", f"[v{loop},").replace(f", {loop}]", f", v{loop}]")
        return text


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_generated_programs_give_tvms_numbers_bit_for_bit(seed: int):
    generator = Generator(seed)
    names = [f"f{k}" for k in range(PER_BUILD)]
    text = "@I.ir_module\nclass Module:\n" + "".join(generator.function(name) for name in names)
    ours = tir.parse(text)
    tir.check(ours)
    theirs = tvm.script.from_source(str(ours))
    built = tvm.compile(theirs, target="llvm")
    for name in names:
        arrays = arguments(ours[name])
        tensors = [tvm.runtime.tensor(a) for a in arrays]
        built[name](*tensors)
        found = tir.interpret(ours[name], *arrays)[-1]
        want = tensors[-1].numpy()
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5, err_msg=str(ours[name]))
        else:
            np.testing.assert_array_equal(found, want, err_msg=str(ours[name]))


@pytest.mark.parametrize("line", [*(f"B[i, j] = {value}" for value in SELECTED), *FOLDED])
def test_comparisons_select_among_nan_infinities_and_zeros_of_both_signs_as_llvm_does(line: str):
    function, arrays = kernel_of_rows(line)
    for found, wanted in zip(tir.interpret(function, *arrays), llvm.computed(function, arrays), strict=True):
        assert_same_values_and_signs(found, wanted)


@pytest.mark.parametrize("text", [*IN_ORDER, *IN_ANY_ORDER])
def test_statements_that_compare_keep_nan_and_signs_of_zeros_as_llvm_does(text: str):
    """What lifts make of the same statements is compared with the interpreter (`tests/lift/test_lift_exact.py`).

    TVM 0.27 alone takes `x != y` for false where one is NaN, and `x == x` for true.
    """
    for function, arrays in kernels_of_statements(text):
        for found, wanted in zip(tir.interpret(function, *arrays), llvm.computed(function, arrays), strict=True):
            assert_same_values_and_signs(found, wanted)


# Functions made at random: the interpreter computes what TVM's LLVM build of them computes.


@pytest.mark.parametrize("seed", range(8))
def test_states_in_odd_loops_hold_what_tvm_makes_them_hold(seed: int):
    function, given = tir.parse(state_program(seed))["main"], state_arrays(seed)
    for ours, theirs in zip(tir.interpret(function, *given), computed(function, given), strict=True):
        np.testing.assert_array_equal(ours, theirs, state_program(seed))


@pytest.mark.parametrize("seed", range(8))
def test_types_views_and_vectors_hold_what_tvm_makes_them_hold(seed: int):
    function, given = tir.parse(typed_program(seed))["main"], typed_arrays(seed)
    for ours, theirs in zip(tir.interpret(function, *given), computed(function, given), strict=True):
        np.testing.assert_array_equal(ours, theirs, typed_program(seed))


# What TVM's LowerIntrin makes of mathematics for each kind of target computes what it did before.


LIMITS = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
TARGETS = {
    "llvm": {"kind": "llvm"},
    "c": {"kind": "c"},
    "cuda": {"kind": "cuda", "arch": "sm_80", **LIMITS},
    "opencl": {"kind": "opencl"},
    "metal": {"kind": "metal"},
    "vulkan": {"kind": "vulkan"},
}
MATHEMATICS = {
    "llvm": ("float32", "float64", "float16"),
    "c": ("float32", "float64"),
    "cuda": ("float32", "float64", "float16"),
    "opencl": ("float32", "float64", "float16"),
    "metal": ("float32", "float16"),
    "vulkan": ("float32", "float64"),
}
"""The element types for which TVM lowers mathematics to a library of the target."""
UNARY = [
    "exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "asinh", "atan", "erf", "sigmoid", "floor", "ceil", "trunc", "round", "nearbyint", "abs",
]  # fmt: skip
BINARY = ("pow", "atan2", "hypot", "copysign", "fmod", "nextafter")


def mathematics(kind: str) -> Any:
    """One output per function, of numbers from 1 to 2."""
    from tvm import te

    a: Any = te.placeholder((5,), kind, "A")
    names = [*UNARY, *(BINARY if kind != "float16" else ())]
    if kind == "float16":
        names = [n for n in names if n in ("exp", "log", "sqrt", "sin", "cos", "tanh", "floor", "ceil", "pow")]

    def made(name: str) -> Any:
        f = getattr(tvm.tirx, name)
        return te.compute((5,), lambda i: f(a[i], a[4 - i]) if name in BINARY else f(a[i]), name=f"B_{name}")

    return te.create_prim_func([a, *map(made, names)]).with_attr("global_symbol", "main")


@pytest.mark.parametrize(("target", "kind"), [(target, kind) for target in TARGETS for kind in MATHEMATICS[target]])
def test_mathematics_lowered_for_a_target_is_what_it_was(target: str, kind: str):
    function = mathematics(kind)
    lowered = tvm.IRModule({"main": function.with_attr("target", tvm.target.Target(TARGETS[target]))})
    passes = tvm.s_tir.transform if hasattr(tvm.s_tir.transform, "LowerIntrin") else tvm.tirx.transform
    before: Any = tir.parse(function.script())["main"]
    after: Any = tir.parse(passes.LowerIntrin()(lowered))["main"]
    assert "call_" in str(after)
    a = np.linspace(1, 2, 5).astype(kind)
    arrays = [a, *(np.zeros_like(a) for _ in before.params[1:])]
    wanted = tir.interpret(before, *arrays)[1:]
    tolerance = {"float16": 1e-2, "float32": 2e-6, "float64": 1e-8}[kind]
    for found in (tir.interpret(after, *arrays)[1:], ti.lift(after)(*arrays)):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(one), other, rtol=tolerance)
