"""Mutants that the definitions call sound merely compute something else: what TVM's LLVM build computes of them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

sys.path.insert(0, str(Path(__file__).parents[1] / "tir_check"))

from by_definition import verdict
from mutations import mutants
from test_checks import PROGRAMS, program

import tensorir.tir as tir

ON_A_DEVICE = ("thread", "barrier")


@pytest.mark.filterwarnings("ignore")
def test_sound_mutants_give_tvms_numbers():
    compared = 0
    for title in [title for title in PROGRAMS if not any(word in title for word in ON_A_DEVICE)][::2]:
        func, arrays = program(title)
        sound = [mutant for _, mutant in list(mutants(func))[::11] if verdict(mutant, arrays) is None][:3]
        for mutant in sound:
            text = str(mutant).replace("@T.prim_func\n", "@T.prim_func(s_tir=True)\n")
            try:
                theirs = tvm.script.from_source(text).with_attr("global_symbol", "main")
                built = tvm.compile(tvm.IRModule({"main": theirs}), target="llvm")
            except Exception:
                continue  # TVM folds a constant into a division by zero, or wants a loop that it can vectorize
            tensors = [tvm.runtime.tensor(array) for array in arrays]
            built["main"](*tensors)
            for got, want in zip(tir.interpret(mutant, *arrays), tensors, strict=True):
                if got.dtype.kind == "f":
                    np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, err_msg=text)
                else:
                    np.testing.assert_array_equal(got, want.numpy(), err_msg=text)
            compared += 1
    assert compared >= 25
