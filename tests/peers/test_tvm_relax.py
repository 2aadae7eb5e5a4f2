"""Every operator of Relax: its type is the one that TVM infers, and its numbers are those of TVM's LLVM build.

The calls stand in `relax_operators.txt`, in sections; a section is built as one module. Those under "typed only" have
no lowering in TVM, so only their types are compared.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

import tensorir as ti
import tensorir.tir as tir
from tensorir.relax import nodes as r
from tensorir.relax.infer import type_of
from tensorir.relax.operators import OPERATORS

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(5)


def real(*shape: int, low: float = -2, high: float = 2) -> Any:
    return RNG.uniform(low, high, shape).astype(np.float32)


def whole(*shape: int, low: int = -9, high: int = 10, dtype: str = "int32") -> Any:
    return RNG.integers(low, high, shape).astype(dtype)


INPUTS: dict[str, Any] = {
    "x": real(2, 3),
    "y": real(2, 3),
    "u": real(2, 3, low=-0.9, high=0.9),
    "p": real(2, 3, low=1.1, high=3),
    "h": real(2, 3).astype(np.float16),
    "v": real(3),
    "m": real(4, 4),
    "n": whole(2, 3),
    "q": whole(2, 3, low=1, high=5),
    "b": np.array([[1, 0, 1], [0, 0, 1]], bool),
    "b2": np.array([[1, 1, 0], [0, 1, 1]], bool),
    "t3": real(2, 3, 4),
    "v3": np.array([-1, 0, 1.5], np.float32),
    "i": np.array([0, 2, 1, 2], np.int64),
    "i4": real(4),
    "ix": np.array([[1, 0, 1], [1, 1, 0]], np.int64),
    "ind": np.array([[0], [2]], np.int64),
    "rows": real(2, 4),
    "len": np.array([1, 4, 2, 3], np.int32),
    "c": real(4),
    "p4": real(4, low=1.1, high=3),
    "prob": np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]], np.float32),
    "usample": real(4, 1, low=0, high=1),
    "uidx": np.array([[0], [1], [1], [0]], np.int64),
    "s3": np.array([0.1, 0.2, 0.05], np.float32),
    "z3": np.array([3, 0, 120], np.int32),
    "k8": whole(2, 3, low=-100, high=100, dtype="int8"),
    "img": real(1, 4, 9, 9),
    "imgl": real(1, 9, 9, 4),
    "img1": real(1, 4, 9),
    "img3": real(1, 2, 5, 6, 7),
    "img8": whole(1, 4, 9, 9, low=0, dtype="uint8"),
    "w": real(6, 4, 3, 3),
    "w1": real(6, 4, 3),
    "wg1": real(6, 2, 3),
    "wg": real(4, 1, 3, 3),
    "wl": real(3, 3, 4, 6),
    "w8": whole(2, 4, 3, 3, low=0, dtype="uint8"),
    "w3": real(3, 2, 3, 3, 3),
    "wt1": real(4, 5, 3),
    "wt": real(4, 5, 3, 3),
    "wt3": real(2, 3, 3, 3, 3),
    "tgt": np.array([2, 1], np.int64),
    "aq": real(2, 3, 2, 4),
    "ak": real(2, 5, 2, 4),
    "av": real(2, 5, 2, 6),
    "ab": real(2, 2, 3, 5),
    "vq": real(1, 7, 2, 4),
    "vk": real(1, 7, 2, 4),
    "sq": np.array([0, 3, 7], np.int32),
    "sk": np.array([0, 3, 7], np.int32),
    "msq": np.array(4, np.int32),
    "msk": np.array(4, np.int32),
    "grid": real(1, 2, 5, 6, low=-1.3, high=1.3),
    "grid3": real(1, 3, 3, 4, 5, low=-1.3, high=1.3),
    "theta": real(1, 2, 3),
    "theta3": real(1, 3, 4),
    "packed1": real(1, 2, 9, 4),
    "packed": real(1, 2, 9, 8, 4),
    "packed3": real(1, 2, 5, 6, 7, 4),
    "wpacked": real(4, 2, 3, 3, 4, 2),
    "whole": real(1, 5, 6, 4),
    "gridl": real(1, 2, 7, 8),
}
NAME = re.compile(r"(?<![\w.])[a-z]\w*(?![\w(=.])")
# For "xy" TVM states the sizes of "ij", and computes the others.
STATED_WRONGLY = 'R.meshgrid((v, i4), indexing="xy")'


def sections() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / "relax_operators.txt").read_text().splitlines():
        if line.startswith("# "):
            found[line[2:]] = []
        else:
            list(found.values())[-1].append(line)
    return found


SECTIONS = sections()


def inputs(call: str) -> list[str]:
    """The names that a call takes."""
    bound = set(NAME.findall(call.partition("lambda")[2].partition(":")[0]))
    return [name for name in dict.fromkeys(NAME.findall(call)) if name in INPUTS and name not in bound]


def module_of(calls: list[str]) -> str:
    lines = ["@I.ir_module", "class Module:"]
    for k, call in enumerate(calls):
        params = [f'{name}: R.Tensor({INPUTS[name].shape}, "{INPUTS[name].dtype}")' for name in inputs(call)]
        lines += ["    @R.function", f"    def f{k}({', '.join(params)}):"]
        lines += [f"        z = {call}", "        return z", ""]
    return "\n".join(lines)


def leaves(value: Any) -> list[Any]:
    if hasattr(value, "numpy"):
        return [value.numpy()]
    if hasattr(value, "__iter__") and "Shape" not in type(value).__name__:
        return [leaf for item in value for leaf in leaves(item)]
    return [np.array(list(value) if hasattr(value, "__iter__") else value)]


def plain(kind: object) -> str:
    """A type as text, in one spelling."""
    text = re.sub(r"T\.int64\((\d+)\)", r"\1", str(kind)).replace("T.Tuple", "R.Tuple")
    return "".join(text.split())


@pytest.mark.parametrize("section", SECTIONS)
def test_types_are_those_that_tvm_infers(section: str):
    calls = SECTIONS[section]
    text = module_of(calls)
    ours, theirs = tir.parse(text), tvm.script.from_source(text)
    for k, call in enumerate(calls):
        function, other = ours[f"f{k}"], theirs[f"f{k}"]
        assert isinstance(function, r.Function)
        if call != STATED_WRONGLY:
            stated = other.ret_struct_info if hasattr(other, "ret_struct_info") else other.ret_ty
            assert plain(type_of(function.body.body, {})) == plain(stated), call


@pytest.mark.parametrize("section", [s for s in SECTIONS if s != "typed only"])
def test_numbers_are_those_of_tvms_build(section: str):
    from tvm import relax

    calls = SECTIONS[section]
    text = module_of(calls)
    ours = tir.parse(text)
    machine = relax.VirtualMachine(tvm.compile(tvm.script.from_source(text), target="llvm"), tvm.cpu())
    for k, call in enumerate(calls):
        arrays = [INPUTS[name] for name in inputs(call)]
        wanted = leaves(machine[f"f{k}"](*map(tvm.runtime.tensor, arrays)))
        found = [np.asarray(value) for value in tir.interpret(ours[f"f{k}"], *arrays)]
        assert [(a.shape, a.dtype) for a in found] == [(a.shape, a.dtype) for a in wanted], call
        for got, want in zip(found, wanted, strict=True):
            if got.dtype.kind in "iub":
                np.testing.assert_array_equal(got, want, err_msg=call)
            else:
                wide = [a.astype(np.float64) for a in (got, want)]
                close = 1e-3 if got.dtype.itemsize < 4 else 1e-5
                np.testing.assert_allclose(*wide, rtol=2 * close, atol=close, err_msg=call)


@pytest.mark.parametrize("call", SECTIONS["images"])
def test_a_lifted_image_is_that_of_tvms_build(call: str):
    from tvm import relax

    text = module_of([call])
    machine = relax.VirtualMachine(tvm.compile(tvm.script.from_source(text), target="llvm"), tvm.cpu())
    arrays = [INPUTS[name] for name in inputs(call)]
    wanted = leaves(machine["f0"](*map(tvm.runtime.tensor, arrays)))
    for got, want in zip(ti.lift(tir.parse(text)["f0"])(*arrays), wanted, strict=True):
        # a float that becomes a whole number may lie on either side of it, by its last bit
        away = 1 if want.dtype.kind in "iu" else 1e-5
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=2e-5, atol=away)


def test_every_operator_that_computes_is_in_the_table():
    called = {match for calls in SECTIONS.values() for call in calls for match in re.findall(r"R\.([\w.]+)\(", call)}
    hints = {"stop_lift_params", "to_vdevice", "hint_on_device", "cumsum_like", "null_value", "print", "assert_op"}
    shapes = {"shape_to_tensor", "tensor_to_shape"}
    assert set(OPERATORS) - called - hints - shapes == set()
