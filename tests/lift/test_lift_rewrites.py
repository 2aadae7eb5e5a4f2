"""Every rule of the canonical form: it applies to what stands here, and what it makes of that has the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorir import reference
from tensorir.ir.build import closure, fencil, var
from tensorir.ir.nodes import Call, Expr
from tensorir.ir.types import BOOL, INT32, Dims, TensorType, tensor
from tensorir.lifting.rewrites.canonical import OUTSIDE, RULES
from tensorir.passes import simplify
from tensorir.text import parse_expr

KINDS = {
    "x": tensor("float", I=(0, 6)),
    "y": tensor("float", I=(0, 6)),
    "z": tensor("float", I=(6, 9)),
    "a": tensor("float", I=(0, 4), J=(0, 3)),
    "b": tensor("float", I=(0, 4), J=(0, 3)),
    "w": tensor("float", I=(1, 3), J=(0, 3)),
    "n": tensor("int", K=(0, 7)),
    "p": tensor("float"),
    "c": tensor("bool"),
    "t": tensor("bool", I=(0, 6)),
}
WIDE = "update(add_dim(I, -2, 9, 0.0), x)"
WINDOW = "pos(K, add_dim(K, 0, 3, 0)) + 2"
ROWS_READ = "gather(J, clamp)(a, pos(j, add_dim(j, 0, 2, 0)) + 1)"
PARTS = "gather(I, clamp)(x, 3 × pos(A, add_dim(A, 0, 2, 0)) + pos(B, add_dim(B, 0, 3, 0)) - 1)"
TABLE = "exp(cast(2 × pos(I, add_dim(I, 0, 6, 0)), float)) + 1.0"
DIGITS = (
    "floordiv(pos(N, add_dim(N, {0}, 0)), 3), pos(N, add_dim(N, {0}, 0)) - 3 × floordiv(pos(N, add_dim(N, {0}, 0)), 3)"
)
N = "pos(N, add_dim(N, 0, 12, 0))"
ROW_OF_N = f"floordiv({N}, 3)"
IN_ROW = f"{N} - 3 × {ROW_OF_N}"
ROWS_OF_N = f"gather(I, J, clamp)(a, {ROW_OF_N}, {IN_ROW})"
PLACES = "2 × pos(A, add_dim(A, 0, 2, 0)) + pos(B, add_dim(B, 0, 2, 0))"
SUM = "pos(A, add_dim(A, 0, 4, 0)) + pos(B, add_dim(B, 0, 3, 0))"
FEW = "6 × pos(A, add_dim(A, 0, 2, 0)) + pos(B, add_dim(B, 0, 3, 0))"
AROUND = "add_dim(A, 0, 3, add_dim(B, 0, 2, 0.0))"
CUT = "update(add_dim(I, -2, 9, 1.0), cartesian_shift(I, -1)(subset(x, I[0:2])))"
TALL = "update(add_dim(J, 0, 3, add_dim(I, -2, 5, 1.0)), a)"
PRODUCT = "λ(a: tensor<float>, b: tensor<float>) → a × b"
ROWS = [
    ("small_first", "1.0 < x"),
    ("known_bound", f"{PLACES} < 4"),
    ("known_bound", f"{PLACES} ≥ 4"),
    ("known_bound", f"{ROW_OF_N} ≤ 3"),
    ("bound_of_rows", "6 × pos(A, add_dim(A, 0, 4, 0)) + pos(B, add_dim(B, 0, 3, 0)) ≥ 12"),
    ("bound_of_rows", "pos(B, add_dim(B, 0, 2, 0)) + 2 × pos(A, add_dim(A, -2, 4, 0)) + 3 < 7"),
    ("last_coordinate", "pos(I, x) = 5"),
    ("plus_nothing", "x + 0.0"),
    ("sum_from_nothing", "add_dim(I, 0, 4, 0.0) + reduce(+, 0.0, J)(a)"),
    ("sum_from_nothing", "contract(float, I)(x, y) + 0.0"),
    ("row_of_split", "gather(A, clamp)(split_dim(J, B, C, 3)(split_dim(I, A, K, 2)(a)), 1)"),
    ("row_of_split", "gather(C, A, clamp)(split_dim(J, B, C, 3)(split_dim(I, A, K, 2)(a)), n, 0)"),
    ("contraction_of_parts", "contract(float, A, B)(split_dim(I, A, B, 3)(x), split_dim(I, A, B, 3)(y))"),
    ("contraction_of_parts", "contract(float, J, B, A)(split_dim(I, A, B, 2)(a), split_dim(I, A, B, 2)(b))"),
    ("merge_of_whole", "merge_dims(A, B, K)(contract(float, J)(split_dim(I, A, B, 2)(a), rename(I → L)(b)))"),
    ("choice_of_the_same", "if x < y then exp(x) else exp(x)"),
    ("choice_in_a_choice", "if c then (if x < y then exp(x) else y) else y"),
    (
        "concat_of_padded",
        "concat(update(add_dim(I, -1, 6, 0.0), x), "
        "update(add_dim(I, 6, 9, 0.0), cartesian_shift(I, -6)(subset(x, I[0:2]))))",
    ),
    ("choice_of_truth", "if t then x < y else false"),
    ("choice_of_truth", "if t then true else gather(I, zero)(t, pos(I, x) + 2)"),
    ("choice_of_padded", f"if pos(I, {WIDE}) < 7 then {WIDE} × 2.0 else 0.0"),
    ("choice_of_padded", f"if pos(I, {WIDE}) ≥ -1 ∧ pos(I, {WIDE}) ≤ 7 then {WIDE} else 1.0"),
    ("choice_of_padded", f"if pos(I, {WIDE}) < -2 then {WIDE} else 1.0"),
    ("start_of_added", "reduce(+, add_dim(J, 0, 3, p), I)(a)"),
    ("fold_of_one", "reduce(+, 0.0, K)(add_dim(K, 2, 3, x) × y)"),
    ("fold_of_one", "reduce(×, 1.0, K)(reduce(+, 0.5, J)(a × add_dim(K, 2, 3, b)))"),
    ("fold_of_one", "reduce(+, 0.0, I)(subset(x, I[2:3]))"),
    ("start_within", "reduce(max, 0.0, I)(reduce(max, -1.0, J)(a))"),
    ("start_within", "reduce(min, 0.0, I)(reduce(min, 0.5, J)(a))"),
    ("start_within", "reduce(max, 0.0, I)(max(-1.0, a))"),
    ("start_within", "reduce(max, 0.0, I)(reduce(max, -1.0, J)(max(a, -2.0)))"),
    ("start_again", "max(reduce(max, 0.0, J)(a), -1.0)"),
    ("start_again", "min(0.5, reduce(min, 0.5, J)(a))"),
    ("fold_of_merged", "reduce(+, p, K)(merge_dims(I, J, K)(a))"),
    ("fold_of_merged", "reduce(max, -9.0, K)(merge_dims(J, I, K)(add_dim(L, 0, 2, a)))"),
    ("fold_of_digits", f"reduce(+, p, N)({ROWS_OF_N} × gather(J, clamp)(b, {IN_ROW}))"),
    ("fold_of_digits", f"reduce(+, 0.0, N)({ROWS_OF_N} × cast({N}, float))"),
    ("fold_of_digits", f"reduce(+, 0.0, N)({ROWS_OF_N} × merge_dims(I, J, N)(b))"),
    (
        "fold_of_digits",
        f"reduce(+, 0.0, N)(update(add_dim(N, 0, 12, 0.0), exp(gather(I, J, clamp)(a, {DIGITS.format('0, 6')}))))",
    ),
    ("extreme_of_padded", "reduce(max, 0.0, I)(update(add_dim(I, -2, 9, -1.0), x))"),
    ("extreme_of_padded", "reduce(min, -1.0, I)(update(add_dim(I, -2, 9, add_dim(J, 0, 3, -1.0)), a))"),
    ("fold_of_fold", "reduce(+, 0.0, A)(reduce(+, 0.0, B)(split_dim(I, A, B, 3)(x)))"),
    ("sum_of_padded", f"reduce(+, 0.0, I)({WIDE} × {WIDE})"),
    ("merge_of_whole", f"merge_dims(A, B, K)({PARTS} × p)"),
    (
        "sum_of_padded",
        f"reduce(+, 0, I)(cast({WIDE}, int) × cast(update(add_dim(I, -2, 9, 0.0), subset(y, I[1:3])), int))",
    ),
    ("sum_of_padded", "reduce(+, 0.0, I)(gather(J, clamp)(update(add_dim(I, -2, 9, add_dim(J, 0, 3, 0.0)), a), 2))"),
    ("merge_of_whole", "merge_dims(A, B, I)(gather(J, clamp)(split_dim(I, A, B, 2)(a), 2))"),
    ("merge_of_whole", f"merge_dims(A, B, I)({PARTS})"),
    ("merge_of_whole", f"merge_dims(C, D, K)(rename(A → C, J → L)(rename(B → D)({PARTS}) × b))"),
    ("merge_of_whole", f"merge_dims(A, B, K)({PARTS.replace('A, 0, 2', 'A, 1, 3').replace('- 1', '- 4')})"),
    ("merge_of_whole", f"merge_dims(A, B, K)(reduce(+, 0.5, J)({PARTS} × b))"),
    ("merge_of_whole", f"merge_dims(A, B, K)(floordiv({PLACES}, 3) + 1)"),
    ("merge_of_whole", "merge_dims(A, B, K)(split_dim(I, A, B, 3)(x) × add_dim(A, 0, 2, add_dim(B, 0, 3, 2.0)))"),
    ("merge_of_parts", "merge_dims(A, R, K)(merge_dims(B, J, R)(exp(split_dim(I, A, B, 2)(a))))"),
    ("merge_of_padded", f"merge_dims(I, J, K)({TALL})"),
    ("merge_of_padded", "merge_dims(I, J, K)(update(add_dim(J, 0, 3, add_dim(I, -2, 9, 1.0)), x))"),
    ("reshaped_number", "merge_dims(I, J, K)(add_dim(J, 0, 3, add_dim(L, 0, 2, add_dim(I, 0, 4, 2.0))))"),
    ("reshaped_number", "split_dim(I, A, B, 2)(add_dim(I, 2, 6, add_dim(L, 0, 2, 2.0)))"),
    ("reshaped_number", "gather(I, clamp)(add_dim(L, 0, 2, add_dim(I, 2, 6, 2.0)), 9)"),
    ("added_point", "add_dim(I, 2, 3, gather(I, clamp)(x, 2) + 2.0 × gather(I, clamp)(y, 2))"),
    (
        "prefix_of_scan",
        f"concat(subset(x, I[0:1]), scan({PRODUCT}, true, gather(I, clamp)(x, 0))(subset(x, I[1:6])))",
    ),
    ("concat_of_concat", "concat(concat(subset(x, I[0:2]), subset(y, I[2:6])), z)"),
    ("concat_of_added", "concat(add_dim(J, 0, 1, x), add_dim(J, 0, 1, z))"),
    ("gather_by_position", "gather(I, clamp)(x, pos(K, add_dim(K, 0, 3, 0)))"),
    ("gather_by_digits", f"gather(I, J, clamp)(a, {DIGITS.format('0, 12')})"),
    ("gather_by_digits", f"gather(I, J, clamp)(a, {DIGITS.format('2, 11')})"),
    ("read_of_digits", f"gather(I, J, clamp)(a, floordiv({PLACES}, 3), mod({PLACES}, 3))"),
    ("read_of_digits", f"gather(J, I, zero)(a, mod({PLACES} + 5, 3), floordiv({PLACES} + 5, 3))"),
    (
        "read_of_merged",
        f"gather(K, clamp)(merge_dims(I, J, K)(a), {FEW})",
    ),
    ("read_of_merged", "gather(K, clamp)(merge_dims(J, I, K)(a), 11 - 4 × pos(A, add_dim(A, 0, 2, 0)))"),
    (
        "read_of_parts",
        f"gather(N, clamp)({ROWS_OF_N} × 2.0, {FEW})",
    ),
    (
        "read_of_parts",
        f"gather(N, clamp)(update(add_dim(N, -3, 12, 1.0), {ROWS_OF_N}), 3 × pos(A, add_dim(A, -1, 2, 0)) + 2)",
    ),
    ("part_of_windows", f"subset(gather(I, clamp)({TALL}, {WINDOW}), J[1:2])"),
    (
        "padding_of_windows",
        f"update({AROUND}, gather(I, clamp)({WIDE}, 4 × ({PLACES}) - 2))",
    ),
    (
        "padding_of_windows",
        f"update(add_dim(A, -2, 2, add_dim(B, 0, 2, 0.0)), gather(I, clamp)({WIDE}, 2 × ({PLACES}) - 1))",
    ),
    ("windows_of_whole", f"gather(I, clamp)({CUT}, 8 × pos(A, add_dim(A, 0, 2, 0)))"),
    (
        "windows_of_whole",
        f"gather(I, clamp)({CUT.replace('I[0:2]', 'I[2:4]')}, 8 - 9 × pos(A, add_dim(A, 0, 2, 0)))",
    ),
    ("read_of_rows", f"gather(I, clamp)(x, {PLACES})"),
    ("read_of_rows", f"gather(J, I, clamp)(a, 2, {PLACES})"),
    ("read_of_rows", f"gather(I, clamp)(x, {PLACES} + 2)"),
    (
        "point_of_computed",
        "gather(J, clamp)(exp(x × update(add_dim(I, 0, 6, add_dim(J, 0, 3, 0.0)), add_dim(J, 0, 1, y))), 0)",
    ),
    (
        "point_of_computed",
        "gather(K, clamp)(split_dim(I, A, B, 2)(merge_dims(J, L, M)(add_dim(L, 0, 2, a × add_dim(K, 2, 4, b)))), 3)",
    ),
    ("point_of_computed", "gather(K, clamp)(reduce(+, 0.5, J)(a × add_dim(K, 2, 4, b)), 3)"),
    ("read_of_coordinates", f"gather(I, clamp)({TABLE}, {WINDOW})"),
    ("read_of_read", f"gather(B, clamp)({PARTS}, pos(K, add_dim(K, 0, 2, 0)) + 1)"),
    ("read_of_read", f"gather(A, B, clamp)({PARTS}, 1, 2 - pos(K, add_dim(K, 0, 2, 0)))"),
    (
        "read_of_read",
        f"gather(I, j, clamp)({ROWS_READ}, pos(K, add_dim(K, 0, 3, 0)) + 1, pos(L, add_dim(L, 0, 2, 0)))",
    ),
    ("point_of_update", "gather(I, J, clamp)(update(a, w), 0, 1)"),
    ("point_of_added", "gather(K, clamp)(add_dim(K, 0, 3, x), 2)"),
    ("point_of_shifted", "gather(J, clamp)(cartesian_shift(I, 1)(a), 2)"),
    ("gather_of_point", f"gather(I, clamp)(gather(J, clamp)(a, 1), {WINDOW})"),
    ("read_of_part", f"gather(I, clamp)(subset(x, I[1:6]), {WINDOW})"),
    ("read_of_part", "gather(I, clamp)(subset(a, I[1:3], J[1:2]), 2)"),
    (
        "read_through_padding",
        f"gather(I, clamp)(update(add_dim(I, 0, 7, add_dim(j, 0, 2, 0.0)), {ROWS_READ}), {WINDOW})",
    ),
    ("rename_of_subset", "rename(K → L)(subset(rename(I → K)(x), K[1:3]))"),
    ("choice_of_renamed", "rename(I → K)(if c then x else y)"),
    ("cut_of_padded", f"subset({WIDE}, I[0:6])"),
    ("shift_of_shift", "cartesian_shift(I, 2)(cartesian_shift(I, -3)(x))"),
    ("shift_of_subset", "cartesian_shift(I, 2)(subset(x, I[1:3]))"),
    ("merge_of_whole", "merge_dims(A, B, I)(exp(split_dim(I, A, B, 3)(x)))"),
    ("split_of_merged", "split_dim(K, A, B, 3)(merge_dims(I, J, K)(a))"),
    ("split_of_renamed", "split_dim(K, A, B, 3)(rename(I → K)(x))"),
    ("split_of_shifted", "split_dim(J, A, B, 3)(cartesian_shift(I, 1)(a))"),
    ("split_of_point", "split_dim(I, A, B, 2)(gather(J, clamp)(a, 1))"),
    ("split_of_choice", "split_dim(I, A, B, 3)(if c then x else p)"),
    ("split_of_padded", "split_dim(J, A, B, 3)(update(add_dim(J, 0, 3, add_dim(I, 0, 4, 0.0)), w))"),
    ("split_of_digits", f"split_dim(N, A, B, 3)({ROWS_OF_N} × gather(J, clamp)(b, {IN_ROW}))"),
    ("choice_of_windows", f"if {SUM} ≥ 1 ∧ {SUM} < 5 then gather(I, clamp)(x, {SUM} - 1) else 2.0"),
    ("choice_of_windows", f"if {SUM} ≥ 2 then gather(I, zero)(x, {SUM} - 2) else 0.0"),
    ("choice_of_windows", f"if {SUM} < 4 then gather(I, J, zero)(a, {SUM}, 1) else 3.0"),
    ("padding_with_the_same", "update(add_dim(I, 0, 9, 2.0), add_dim(I, 2, 4, 2.0))"),
    (
        "padding_of_padded",
        "update(add_dim(A, 0, 2, add_dim(B, 0, 2, add_dim(J, 0, 5, 0.0))), "
        "split_dim(I, A, B, 2)(update(add_dim(I, 0, 4, add_dim(J, 0, 3, 0.0)), w)))",
    ),
    ("padding_of_padded", f"update(add_dim(I, -3, 10, 0.0), {WIDE})"),
    ("whole_of_parts", "update(update(x, subset(y, I[0:2])), subset(x × 2.0, I[2:6]))"),
    ("update_of_itself", "update(x, subset(x, I[1:3]))"),
    ("choice_of_updates", "update(x, if c then subset(y, I[1:4]) else subset(x, I[1:4]))"),
    ("cut_of_wider", f"{WIDE} × 2.0 + y"),
    ("cut_outside", "subset(x, I[0:3]) + subset(⟪I, 1⟫(x), I[0:3])"),
    ("cut_outside", "subset(x, I[0:3]) + y × subset(y, I[0:3])"),
    ("cut_outside", "subset(a, J[1:2]) × subset(b, J[1:2])"),
    ("fold_beside_constant", "reduce(+, 0.0, I)(concat(x, add_dim(I, 6, 9, 0.0)))"),
    ("fold_beside_constant", "reduce(+, 1.0, I)(concat(add_dim(I, -2, 0, 0.0), x, add_dim(I, 6, 9, 0.0)))"),
    ("fold_beside_constant", "reduce(max, 0.0, I)(concat(x, add_dim(I, 6, 9, -1.0)))"),
    ("read_inside", f"gather(I, zero)(x, {WINDOW})"),
    ("read_of_less_padding", f"gather(I, clamp)({WIDE}, pos(K, add_dim(K, 0, 7, 0)) - 1)"),
    ("read_of_less_padding", f"gather(I, clamp)({TALL}, pos(i, add_dim(i, 0, 6, 0)) - 1)"),
    ("shift_outside", "cartesian_shift(I, 1)(x) × cartesian_shift(I, 1)(y)"),
    ("gather_outside", "gather(I, clamp)(x, n) × gather(I, clamp)(y, n)"),
    ("split_outside", "split_dim(I, P, Q, 2)(x) × 2.0"),
    ("merge_outside", "merge_dims(I, J, L)(a) - merge_dims(I, J, L)(b)"),
]
ALONE = [
    ("choice_in_a_choice", "if c then (if x < y then y else exp(x)) else y", "another side"),
    ("known_bound", f"{PLACES} < 3", "some of both"),
    (
        "fold_of_digits",
        f"reduce(+, 0.0, N)(gather(I, J, clamp)(a, {DIGITS.format('0, 6')}) × rename(I → N)(x))",
        "data",
    ),
    ("bound_of_rows", "3 × pos(A, add_dim(A, 0, 4, 0)) + pos(B, add_dim(B, 0, 3, 0)) ≥ 7", "a place inside of a row"),
    ("fold_of_digits", f"reduce(+, 0.0, N)(subset({ROWS_OF_N}, N[3:9]))", "a part"),
    ("extreme_of_padded", "reduce(max, -2.0, I)(update(add_dim(I, -2, 9, -1.0), x))", "padding that counts"),
    ("extreme_of_padded", "reduce(max, -0.0, I)(update(add_dim(I, -2, 9, 0.0), x))", "the sign of a zero counts"),
    ("read_of_digits", f"gather(I, J, clamp)(a, floordiv({PLACES}, 2), mod({PLACES}, 2))", "other digits"),
    ("read_of_digits", f"gather(I, J, clamp)(a, floordiv({PLACES} + 9, 3), mod({PLACES}, 3))", "a row behind the end"),
    ("read_of_merged", f"gather(K, clamp)(merge_dims(I, J, K)(a), {PLACES})", "parts of rows"),
    (
        "read_of_merged",
        "gather(K, clamp)(merge_dims(I, J, K)(a), 3 × pos(A, add_dim(A, 0, 5, 0)))",
        "a row behind the end",
    ),
    ("read_of_parts", f"gather(N, clamp)({ROWS_OF_N} × 2.0, {PLACES})", "parts of rows"),
    ("part_of_windows", f"subset(gather(I, clamp)({TALL}, {WINDOW}), K[1:2])", "fewer windows"),
    (
        "padding_of_windows",
        f"update({AROUND}, gather(I, clamp)({WIDE}, {PLACES}))",
        "data",
    ),
    (
        "padding_of_windows",
        f"update(add_dim(A, 0, 3, add_dim(B, 0, 2, 1.0)), gather(I, clamp)({WIDE}, 4 × ({PLACES})))",
        "another number",
    ),
    (
        "windows_of_whole",
        f"gather(I, clamp)({CUT}, {PLACES})",
        "a read of more",
    ),
    ("read_of_rows", f"gather(I, clamp)(x, {PLACES} + 3)", "a place behind the end"),
    ("read_of_rows", f"gather(I, clamp)(x, {PLACES.replace('2 ×', '3 ×')})", "gaps between the rows"),
    ("point_of_computed", "gather(J, clamp)(exp(a), 0)", "data along the dim"),
    ("merge_of_parts", "merge_dims(A, R, K)(merge_dims(B, J, R)(split_dim(I, B, A, 2)(a)))", "the other order"),
    ("merge_of_padded", "merge_dims(I, J, K)(update(add_dim(J, 0, 5, add_dim(I, 0, 4, 1.0)), a))", "padded rows"),
    ("split_of_digits", f"split_dim(N, A, B, 2)({ROWS_OF_N})", "other digits"),
    ("choice_of_windows", f"if {SUM} ≥ 1 then gather(I, zero)(x, {SUM} + 2) else 2.0", "a read behind the end"),
    ("choice_of_windows", f"if {SUM} ≥ 1 then gather(I, zero)(x, {SUM} + 2) else -0.0", "the sign of a zero"),
    ("choice_of_windows", f"if {SUM} ≥ 1 then gather(I, clamp)(x, n) else 0.0", "another place"),
    ("padding_with_the_same", "update(add_dim(I, 0, 9, 0.0), add_dim(I, 2, 4, -0.0))", "the sign of a zero counts"),
    ("gather_by_digits", f"gather(J, I, clamp)(b, {DIGITS.format('0, 9')})", "the other digits"),
    ("gather_by_digits", f"gather(I, J, clamp)(a, {DIGITS.format('0, 13')})", "a coordinate behind the end"),
    ("read_of_coordinates", f"gather(I, clamp)({TABLE}, {WINDOW} + 2)", "a read that the table's end holds back"),
    (
        "read_of_coordinates",
        f"gather(I, clamp)({TABLE}, {WINDOW.replace('3', '2')} + pos(L, add_dim(L, 0, 4, 0)) - 2)",
        "more to compute",
    ),
    ("read_of_coordinates", f"gather(I, clamp)({TABLE} + x, {WINDOW})", "data"),
    ("read_of_read", f"gather(B, clamp)({PARTS}, pos(K, add_dim(K, 0, 3, 0)) + 1)", "a read that an end holds back"),
    ("read_of_read", f"gather(A, clamp)({PARTS}, pos(B, add_dim(B, 0, 2, 0)))", "a name that is taken"),
    ("read_of_read", f"gather(B, clamp)({PARTS}, min(pos(K, add_dim(K, 0, 2, 0)), 1))", "no sum of coordinates"),
    ("merge_of_whole", f"merge_dims(A, B, K)({PARTS.replace('3 ×', '2 ×')})", "parts that count otherwise"),
    ("merge_of_whole", f"merge_dims(A, B, K)({PARTS} × cast(pos(A, add_dim(A, 0, 2, 0)), float))", "a part alone"),
    (
        "merge_of_whole",
        f"merge_dims(A, B, K)({PARTS} × reduce(+, 0.0, D)(rename(B → D)({PARTS})))",
        "a part of the same name that is folded",
    ),
    ("merge_of_whole", f"merge_dims(A, B, J)(reduce(+, 0.0, J)({PARTS} × b))", "a name that is taken inside"),
    ("choice_of_truth", "if t then gather(I)(t, pos(I, x)) else false", "an index that is an error"),
    ("choice_of_padded", "if pos(I, x) < 3 then x else 0.0", "nothing is padded"),
    ("start_within", "reduce(max, -1.0, I)(reduce(max, 0.0, J)(a))", "what the inner folds start from counts"),
    ("start_within", "reduce(max, -1.0, I)(max(0.0, a))", "what the terms are compared with counts"),
    ("start_within", "reduce(max, -0.0, I)(reduce(max, 0.0, J)(a))", "the sign of a zero counts"),
    ("start_again", "max(0.5, reduce(max, 0.0, J)(a))", "a larger number counts"),
    ("start_again", "max(0.0, reduce(max, -0.0, J)(a))", "the sign of a zero counts"),
    ("start_again", "max(0.0, reduce(min, 0.5, J)(a))", "another fold"),
    ("read_of_part", f"gather(I, clamp)(subset(x, I[3:6]), {WINDOW})", "a read that the part's end holds back"),
    ("cut_outside", "exp(subset(x, I[0:3]))", "a result that would be computed for more"),
    ("cut_outside", "subset(x, I[0:3]) + y", "a cut that is not that of all"),
    ("fold_beside_constant", "reduce(+, 0.0, I)(concat(x, add_dim(I, 6, 9, 1.0)))", "ones that count"),
    ("fold_beside_constant", "reduce(max, 0.0, I)(concat(x, add_dim(I, 6, 9, 1.0)))", "what is the greatest"),
    ("read_inside", "gather(I, zero)(x, pos(K, add_dim(K, 0, 3, 0)) + 4)", "a zero that is read"),
    ("read_of_less_padding", f"gather(I, clamp)({WIDE}, n)", "places that data tell"),
    ("gather_outside", "gather(I, clamp)(x, n) × gather(I, clamp)(subset(y, I[0:3]), n)", "other ends"),
    ("gather_outside", "gather(I, clamp)(a, n) × gather(I, clamp)(subset(x, I[0:4]), n)", "an outer product"),
    ("gather_outside", "gather(I, clamp)(x, 2 × pos(K, add_dim(K, 0, 2, 0))) × 2.0", "fewer elements than there are"),
    ("split_outside", "split_dim(I, P, Q, 2)(x) × split_dim(I, P, Q, 2)(y)", "a product of a contraction"),
    ("split_outside", "if c then split_dim(I, P, Q, 2)(x) else 0.0", "what another rule undoes"),
    ("merge_outside", "merge_dims(I, J, L)(a) × x", "what is not merged"),
]
EVERY: dict[str, Any] = {f.__name__: f for rules in RULES.values() for f in rules}
EVERY |= {f.__name__: f for f in OUTSIDE}


def computed(e: Expr) -> Any:
    rng = np.random.default_rng(0)
    given = {v.name: v for v in e.free}
    # dims are told apart by their names: in which order they stand says nothing
    out = var("result", e.tensor.on(Dims(tuple(sorted(e.tensor.dims.items)))))
    made = fencil("made", [out, *given.values()], [closure(out, e)])
    return reference.run(made, **{n: some(v.tensor, rng) for n, v in sorted(given.items())})["result"]


def some(kind: TensorType, rng: Any) -> Any:
    shape = kind.dims.shape
    if kind.element == BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(-3, 9, shape).astype(np.int32) if kind.element == INT32 else rng.normal(size=shape)


def applied(name: str, text: str) -> tuple[Expr, Expr | None]:
    e = parse_expr(text, KINDS)
    assert isinstance(e, Call)
    return e, EVERY[name](e)


def test_every_rule_has_a_row():
    own = {name for name, f in EVERY.items() if f.__module__ != simplify.__name__}
    assert own == {name for name, _ in ROWS}


@pytest.mark.parametrize(("name", "text"), ROWS)
def test_a_rule_applies_and_keeps_the_values(name: str, text: str):
    before, after = applied(name, text)
    assert after is not None and after != before and after.type == before.type
    np.testing.assert_allclose(computed(after), computed(before), rtol=1e-12)


@pytest.mark.parametrize(("name", "text", "why"), ALONE)
def test_a_rule_does_not_apply_to(name: str, text: str, why: str):
    assert applied(name, text)[1] is None, why
