"""What we print, TVM reads as the same module that it reads from its own text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

tvm = pytest.importorskip("tvm")
tvm_ffi = pytest.importorskip("tvm_ffi")

sys.path.insert(0, str(Path(__file__).parents[1] / "tir"))

from tir_samples import conformance, kernels

import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError
from tensorir.tir import check, parse, print_function, print_module
from tests.corpus import corpus

NOT_READ_BY_TVM = (
    "vectors",
    "threads, attributes",
    "packed calls",
    "TileLang",
    "calls of every kind",
    "constants that",
)
# TVM gives the annotation of an access pointer another type when it builds it than when it reads it back.
UNSTABLE_IN_TVM = ("buffers: strides",)


def texts() -> list[object]:
    skipped = NOT_READ_BY_TVM + UNSTABLE_IN_TVM
    own = [p for p in kernels("new", "relax") if not any(mark in str(p.id) for mark in skipped)]  # type: ignore[attr-defined]
    return [*own, *(p for p in conformance() if "scatter_elements_ops" not in str(p.id))]  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", texts())
def test_tvm_reads_our_text_as_its_own(text: str):
    try:
        theirs = tvm.script.from_source(text)
    except Exception:
        pytest.skip("TVM does not read this text of its own")
    module = parse(text)
    alone = "I.ir_module" not in text
    ours = print_function(next(iter(module.functions.values()))) if alone else str(module)
    again = tvm.script.from_source(ours)
    assert tvm_ffi.structural_equal(theirs, again), tvm_ffi.get_first_structural_mismatch(theirs, again)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", texts())
def test_we_read_live_objects_of_tvm(text: str):
    try:
        live = tvm.script.from_source(text)
    except Exception:
        pytest.skip("TVM does not read this text of its own")
    module = parse(live)
    assert parse(str(module)) == module


LOWERING = (
    "LowerInitBlock",
    "PlanAndUpdateBufferAllocationLocation",
    "ConvertBlocksToOpaque",
    "CompactBufferAllocation",
    "LowerMatchBuffer",
    "LowerOpaqueBlock",
)
UNARY = ["exp", "tanh", "rsqrt", "sigmoid", "floor", "trunc", "log", "erf", "isnan", "negative", "fast_exp"]
BINARY = ["add", "subtract", "divide", "maximum", "power", "less", "not_equal", "floor_divide", "floor_mod"]


def programs() -> dict[str, object]:
    """Programs of TOPI: what each makes of fresh placeholders."""
    from tvm import te, topi

    a, b = (te.placeholder((4, 6, 8), name=name) for name in "AB")
    index = te.placeholder((4, 6, 8), "int32", name="I")
    image, kernel = te.placeholder((1, 4, 10, 10), name="image"), te.placeholder((8, 4, 3, 3), name="kernel")
    rows = te.placeholder((te.var("n"), 8), name="S")
    long_rows = te.placeholder((tvm.tirx.Var("m", "int64"), 8), name="L")
    made: dict[str, object] = {name: ([a], getattr(topi, name)(a)) for name in UNARY}
    made |= {name: ([a, b], getattr(topi, name)(a, b)) for name in BINARY}
    made |= {
        "sum": ([a], topi.sum(a, axis=1)),
        "argmax": ([a], topi.argmax(a, axis=1)),
        "softmax": ([rows], topi.nn.softmax(rows)),
        "softmax of int64": ([long_rows], topi.nn.softmax(long_rows)),
        "conv2d": ([image, kernel], topi.nn.conv2d_nchw(image, kernel, 1, 1, 1)),
        "avg_pool": ([image], topi.nn.pool2d(image, [3, 3], [2, 2], [1, 1], [1, 1, 1, 1], "avg")),
        "pad": ([a], topi.nn.pad(a, [1, 1, 1], [1, 0, 2], 1.5)),
        "cumsum": ([a], topi.cumsum(a, axis=1)),
        "topk": ([a], topi.topk(a, 3, 1, "both")),
        "sort": ([a], topi.sort(a, axis=1)),
        "gather": ([a, index], topi.gather(a, 1, index)),
        "scatter": ([a, index, b], topi.scatter_elements(a, index, b, 1, "add")),
        "strided_slice": ([a], topi.strided_slice(a, [0, 1, 2], [4, 5, 8], [1, 2, 3])),
        "resize": ([image], topi.image.resize2d(image, [0.0] * 4, (5, 7), "NCHW", "cubic")),
        "cast": ([a], topi.cast(a, "float16")),
    }
    return made


@pytest.mark.filterwarnings("ignore")
def test_tvm_reads_our_text_of_modules_that_it_makes_and_lowers():
    from tvm import te

    seen = 0
    for name, (inputs, outputs) in programs().items():  # type: ignore[misc]
        results = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        module = tvm.IRModule({"main": te.create_prim_func([*inputs, *results])})
        stages = [module]
        for step in LOWERING:
            stages.append(getattr(tvm.s_tir.transform, step)()(stages[-1]))
        passes = tvm.s_tir.transform if hasattr(tvm.s_tir.transform, "FlattenBuffer") else tvm.tirx.transform
        for stage in (stages[0], stages[3], stages[-1], passes.FlattenBuffer()(stages[-1])):
            ours = parse(stage)
            assert parse(print_module(ours, "old")) == parse(str(ours)) == ours, name
            theirs, again = (tvm.script.from_source(text) for text in (stage.script(), str(ours)))
            assert tvm_ffi.structural_equal(theirs, again), (name, tvm_ffi.get_first_structural_mismatch(theirs, again))
            seen += 1
    assert seen >= 100


def test_live_modules_bring_their_constants():
    import numpy as np

    from tensorir.tir import interpret

    relax = tvm.relax
    x = relax.Var("x", relax.TensorType((3,), "float32"))
    arrays = [np.arange(3, dtype="float32"), np.ones(3, "float32"), np.full(3, 7, "float32")]
    constants = [relax.const(array) for array in arrays]
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        value = builder.emit(relax.op.subtract(constants[1], x))
        value = builder.emit(relax.op.multiply(value, constants[2]))
        value = builder.emit(relax.op.add(constants[1], value))
        value = builder.emit(relax.op.add(value, constants[0]))
        made = builder.emit(relax.op.arange(1, 7, 2, "float32"))
        builder.emit_func_output(relax.Tuple([value, made]))
    live = builder.get()
    for module in (live, relax.transform.FoldConstant()(relax.transform.LegalizeOps()(live))):
        found = interpret(parse(module)["main"], np.full(3, 2, "float32"))
        assert found[0].tolist() == [-6, -5, -4]
        assert found[1].tolist() == [1, 3, 5]


def lowered_to_the_end(module: object, target: object) -> Iterator[object]:
    """What TVM's own pipeline makes of a module, one pass after the other."""
    late, early = tvm.tirx.transform, tvm.s_tir.transform
    passes = [late.BindTarget(target), *(getattr(early, name)() for name in LOWERING)]
    passes += [late.FlattenBuffer(), late.BF16ComputeLegalize(), late.NarrowDataType(32), late.VectorizeLoop(True)]
    passes += [late.StorageRewrite(), late.UnrollLoop(), late.StmtSimplify(), late.RemoveNoOp()]
    passes += [late.CommonSubexprElim(), late.AnnotateEntryFunc(), early.ThreadSync("shared")]
    passes += [early.LowerThreadAllreduce(), late.SplitHostDevice(), late.MakePackedAPI(), late.BF16StorageLegalize()]
    for step in (*passes, late.LowerTVMBuiltin(), late.LowerIntrin()):
        module = step(module)
        yield module


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["softmax", "bfloat16", "remainder", "threads"])
def test_what_every_pass_of_tvm_leaves_is_read_and_sound(kind: str):
    from tvm import te, topi

    dtype = "bfloat16" if kind == "bfloat16" else "float32"
    a, b = (te.placeholder((4, 8), dtype, name=name) for name in "AB")
    rows = te.placeholder((te.var("n"), 8), name="S")
    inputs, output = {
        "softmax": ([rows], topi.nn.softmax(rows)),
        "bfloat16": ([a], topi.nn.softmax(a)),
        "remainder": ([a, b], topi.mod(a, b)),
        "threads": ([a], topi.exp(a)),
    }[kind]
    function = te.create_prim_func([*inputs, output]).with_attr("global_symbol", "main")
    module = tvm.IRModule({"main": function})
    target = tvm.target.Target("llvm", host="llvm")
    if kind == "threads":
        schedule = tvm.s_tir.Schedule(module)
        block = schedule.get_sblock("compute")
        for loop, tag in zip(schedule.get_loops(block), ("blockIdx.x", "threadIdx.x"), strict=True):
            schedule.bind(loop, tag)
        module = schedule.mod
        target = tvm.target.Target({"kind": "cuda", "arch": "sm_80"}, host="llvm")
    with target:
        for stage in lowered_to_the_end(module, target):
            ours = parse(stage)
            assert parse(str(ours)) == ours
            check(ours)


NUMBERS = {
    "int8": ["A[vi] + 100", "100 - A[vi]", "A[vi] * 2", "A[vi] // 2", "A[vi] % 3", "T.max(A[vi], 100)",
             "T.min(3, A[vi])", "T.truncdiv(A[vi], 3)", "T.ceildiv(A[vi], 3)", "A[vi] + T.int8(3)", "A[vi] + vi",
             "A[vi] << 3", "3 << A[vi]", "A[vi] & 15", "A[vi] ^ -1", "-A[vi]", "~A[vi]",
             "T.if_then_else(vi < 4, A[vi], 300)", "A[vi] if vi < 4 else 300", "A[vi] < 100", "A[vi] == 100",
             "A[vi] < vi", "A[vi] + 0.5"],
    "uint8": ["A[vi] + 200", "A[vi] > -1", "A[vi] - 1", "A[vi] & 15", "A[vi] >> 1", "T.bitwise_and(A[vi], 2)"],
    "int32": ["A[vi] + 4294967295", "A[vi] * 2**40", "A[vi] < 4294967296", "T.max(A[vi], 4294967296)", "A[vi] * 0.5",
              "A[vi] < 0.5"],
    "uint32": ["A[vi] + 5", "A[vi] < 5"],
    "bool": ["A[vi] + 1", "A[vi] < 1"],
    "float16": ["A[vi] * 0.5", "1.0 / A[vi]", "A[vi] + 1", "A[vi] >= 0.5", "A[vi] == 0.5", "T.max(A[vi], 0.0)",
                "T.pow(A[vi], 2.0)", "T.if_then_else(vi < 4, A[vi], 0.0)", "T.exp(A[vi]) * 2.0"],
    "bfloat16": ["A[vi] * 0.5", "A[vi] * T.bfloat16(0.5)"],
    "float64": ["A[vi] * 0.5", "T.max(A[vi], 0.5)"],
}  # fmt: skip
"""Python's numbers beside elements of each type: TVM gives them types of their own, but not beside `==` and bits."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", NUMBERS)
def test_numbers_have_the_types_that_tvm_gives_them(dtype: str):
    lines = [f'            B[vi] = T.Cast("float64", {formula})' for formula in NUMBERS[dtype]]
    text = "\n".join((
        "@T.prim_func(check_well_formed=False)",
        f'def main(A: T.Buffer((8,), "{dtype}"), B: T.Buffer((8,), "float64")):',
        "    for i in range(8):",
        '        with T.sblock("b"):',
        "            vi = T.axis.spatial(8, i)",
        *lines,
    ))  # fmt: skip
    made = tvm.script.from_source(text, check_well_formed=False).script()
    ours, theirs = (
        [line for line in print_function(parse(form)["main"]).splitlines() if "B[vi] =" in line]
        for form in (text.replace("(check_well_formed=False)", ""), made)
    )
    assert ours == theirs and len(ours) == len(lines)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("dtype", "formula", "number"),
    [("uint8", "A[0] == -1", "-1"), ("uint32", "A[0] > -1", "-1"), ("int8", "A[0] & 300", "300")],
)
def test_numbers_that_tvm_refuses_beside_a_type_are_refused(dtype: str, formula: str, number: str):
    head = f'def main(A: T.Buffer((8,), "{dtype}"), B: T.Buffer((8,), "float64")):\n    B[0] = T.Cast("float64", '
    with pytest.raises(Exception, match=r"negative|Check failed"):
        tvm.script.from_source(f"@T.prim_func\n{head}{formula})")
    with pytest.raises(DiagnosticError, match=f"TS20.*the constant {number} does not fit {dtype}"):
        parse(f"@T.prim_func\n{head}{formula})")


# Regions that a text leaves out are completed as TVM completes them, however the indices come about.


HEAD = """@T.prim_func(s_tir=True)
def main(
    A: T.Buffer((16, 16), "float32"),
    B: T.Buffer((16,), "float32"),
    P: T.Buffer((16,), "int32"),
    C: T.Buffer((16, 16), "float32"),
    n: T.int32,
):
    for i, j in T.grid(4, 4):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
"""

BODIES = {title: text for title, (text, _) in corpus(Path(__file__).with_name("regions.txt")).items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BODIES)
def test_regions_are_completed_as_tvm_completes_them(name: str):
    text = HEAD + "".join(f"            {line}\n" for line in BODIES[name].splitlines())
    theirs = tvm.script.from_source(text).script()
    assert tir.parse(text) == tir.parse(theirs), theirs
