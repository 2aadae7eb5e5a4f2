"""The typing rule of every builtin: from static parameters and operands to the type of the result, or a Complaint.

A rule sees operands through their `type` and `free` variables only. `Complaint.at` counts operands from 0.
"""

from tensorir.typing_rules.contractions import argreduce, contract, materialise
from tensorir.typing_rules.domains import add_dim, concat, merge_dims, pos, rename, split_dim, subset, update
from tensorir.typing_rules.elementwise import (
    assert_,
    bitcast,
    cast,
    comparison,
    equality,
    float_tests,
    floats,
    integers,
    logic,
    make_tuple,
    numbers,
    print_,
    selection,
    tuple_get,
)
from tensorir.typing_rules.folds import apply, cond, loop, reduce, reduced_dim, scan, scanned_dim
from tensorir.typing_rules.indirect import MODES, gather, scatter, sort, top_k
from tensorir.typing_rules.operands import Operand, Operands, Static, assignable, function_of, interval_of, tensors_of
from tensorir.typing_rules.shifts import (
    can_deref,
    cartesian_shift,
    highest_neighbour,
    neighbour_source,
    shift_apply,
    shift_init,
    unstructured_shift,
)

__all__ = [
    "MODES",
    "Operand",
    "Operands",
    "Static",
    "add_dim",
    "apply",
    "argreduce",
    "assert_",
    "assignable",
    "bitcast",
    "can_deref",
    "cartesian_shift",
    "cast",
    "comparison",
    "concat",
    "cond",
    "contract",
    "equality",
    "float_tests",
    "floats",
    "function_of",
    "gather",
    "highest_neighbour",
    "integers",
    "interval_of",
    "logic",
    "loop",
    "make_tuple",
    "materialise",
    "merge_dims",
    "neighbour_source",
    "numbers",
    "pos",
    "print_",
    "reduce",
    "reduced_dim",
    "rename",
    "scan",
    "scanned_dim",
    "scatter",
    "selection",
    "shift_apply",
    "shift_init",
    "sort",
    "split_dim",
    "subset",
    "tensors_of",
    "top_k",
    "tuple_get",
    "unstructured_shift",
    "update",
]
