"""Small random fencils over every builtin, with strange names, labels and much sharing, made by the typed makers."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from tensorir import DiagnosticError
from tensorir.integers.dims import Dims, Interval
from tensorir.ir import build, nodes
from tensorir.ir.builtins import TABLE
from tensorir.ir.rewrite import with_label
from tensorir.ir.types import SCALARS, TensorType, TupleElement
from tensorir.ir.typing_rules import MODES
from tensorir.runtime.errors import refuse
from tensorir.text.elaborate import function_count, parameter_types

NAMES = [
    *["x", "y", "z", "t1", "t2", "x_1", "state", "Δ", "xₒ", "a b", "if", "λ", "let", "nan", "min", "__plus", "tensor"],
    *["over", "clamp", "none", "fencil", "offsets", "I", "J", "`", '"', "\\", "é\n", "float", "shift", "1", "", "and"],
]
DIMS = ["I", "J", "K", "a dim", "clamp", "over", "xₒ"]
VALUES = [0, 1, -1, 2, 7, 0.1, 0.5, -0.0, 1e-30, 1e30, 123456789.0, math.inf, -math.inf, math.nan, True, False]


def fencil(seed: int, size: int = 40) -> nodes.Fencil:
    """The fencil of a seed."""
    r = Random(seed)
    params = [build.var(name, _type(r)) for name in r.sample(NAMES, 6)]
    for k, dim in enumerate(DIMS[:2]):
        params.append(build.var(f"table{k}", TensorType(INT, Dims.of({dim: (0, 4), f"_NB_{dim}": (0, 3)}))))
    pool: list[nodes.Expr] = [*params, *(_literal(r) for _ in range(6))]
    _grow(r, pool, size)
    closures: list[nodes.Closure] = []
    by_builtin = {getattr(e, "op", ""): e for e in pool if isinstance(e.type, TensorType)}
    for k, value in enumerate(r.sample(list(by_builtin.values()), 6)):
        out = build.var(f"out{k}", value.type)
        params.append(out)
        region = out.type.dims if r.random() < 0.3 and out.type.dims else None
        closures.append(build.closure(out, value, region))
    r.shuffle(params)
    return build.fencil(r.choice(NAMES), params, closures)


INT, FLOAT, BOOL = SCALARS["int32"], SCALARS["float64"], SCALARS["bool"]
FIELDS = [TensorType(FLOAT, Dims.of({d: (0, 4)})) for d in DIMS]
ELEMENTS: list[Any] = [*SCALARS.values(), *[FLOAT] * 12, *[BOOL] * 3, *[INT] * 4]


def _type(r: Random) -> TensorType:
    element = r.choice(ELEMENTS)
    if r.random() < 0.1:
        element = TupleElement((element, SCALARS["float32"]))
    dims = r.sample(DIMS, r.randrange(4))
    return TensorType(element, Dims(tuple((d, Interval(0, 4) if r.random() < 0.8 else Interval(-2, 5)) for d in dims)))


def _literal(r: Random) -> nodes.Expr:
    while True:
        try:
            return build.literal(r.choice(VALUES), r.choice(list(SCALARS.values())))
        except (DiagnosticError, ValueError, OverflowError):
            continue


def _grow(r: Random, pool: list[nodes.Expr], steps: int) -> None:
    for _ in range(steps):
        for _ in range(200):
            op = r.choice([*TABLE, "apply", "apply", "apply"])
            try:
                node = _apply(r, pool) if op == "apply" else _call(r, op, pool)
            except DiagnosticError:
                continue
            if r.random() < 0.15:
                node = with_label(node, r.choice(NAMES))
            pool.append(node)
            break


def _recent(r: Random, pool: list[nodes.Expr]) -> nodes.Expr:
    pool = [e for e in pool if isinstance(e.type, TensorType)]
    return pool[-1 - min(int(r.expovariate(0.2)), len(pool) - 1)] if r.random() < 0.6 else r.choice(pool)


def _function(r: Random, types: tuple[TensorType, ...], pool: list[nodes.Expr]) -> nodes.Expr:
    if len(types) < 4 and r.random() < 0.3:
        rows = [row for row in TABLE.values() if row.elementwise and not row.static_slots]
        return build.operator(r.choice([row.name for row in rows if len(row.form[0]) == len(types)]), *types)
    params = [build.var(name, t) for name, t in zip(r.sample(NAMES, len(types)), types, strict=True)]
    inner = [*(p for p in pool if isinstance(p, nodes.Literal)), r.choice(pool), *params]
    _grow(r, inner, r.randrange(4))
    fitting = [e for e in inner if e.type == types[0]]
    body = fitting[-1] if fitting and r.random() < 0.8 else inner[-1]
    return build.function(params, with_label(body, r.choice(["", "", "body"])))


def _apply(r: Random, pool: list[nodes.Expr]) -> nodes.Expr:
    args = [_recent(r, pool) for _ in range(r.randrange(1, 4))]
    shared = [f for f in pool if isinstance(f, (nodes.Lambda, nodes.Operator))]
    if shared and r.random() < 0.3:
        f = r.choice(shared)
        return build.apply(f, *[_recent(r, pool) for _ in f.type.params])
    f = _function(r, tuple(a.type for a in args), pool)
    if r.random() < 0.3:
        pool.append(f)
    return build.apply(f, *args)


def _call(r: Random, op: str, pool: list[nodes.Expr]) -> nodes.Expr:
    row = TABLE[op]
    slots = [s for group in row.form for s in group]
    many = r.randrange(1, 4)
    args = [_recent(r, pool) for _ in range(sum(s == "x" for s in slots) + many * slots.count("xs"))]
    args = _suited(r, op, args, pool)
    types = [a.type for a in args]
    if not all(isinstance(t, TensorType) for t in types):
        raise refuse("T14", "a function")
    dims = [d for t in types for d in t.dims] or ["I"]
    static = tuple(_static(r, op, slot, dims, types) for slot in row.static_slots)
    if op == "loop":
        carried = args[:many]
        takes = parameter_types(op, static, [a.type for a in carried], ())
        assert takes is not None
        names = [[build.var(f"{n}{k}", t) for n, t in zip("iuvw", takes, strict=False)] for k in range(2)]
        inner: list[nodes.Expr] = [*(p for p in pool if isinstance(p, nodes.Literal)), *names[1]]
        _grow(r, inner, r.randrange(4))
        results = [[e for e in inner if e.type == a.type][-1] for a in carried]
        functions = build.function(names[0], build.literal(True)), build.function(names[1], *results)
        return build.call(op, *functions, *carried, static=(r.randrange(many), static[1]))
    if op == "cond":
        truths = [e for e in pool if e.type == TensorType(BOOL)] or [build.literal(True)]
        first = _function(r, tuple(types), pool)
        second = first if isinstance(first, nodes.Operator) else build.function(first.params, first.body, first.body)
        branches = (first, first) if second is first else (second, build.function(first.params, first.body, first.body))
        index = r.randrange(len(branches[0].type.results))
        return build.call(op, *branches, r.choice(truths), *args, static=(index, static[1]))
    if function_count(op, len(args) + 1):
        takes = parameter_types(op, static, types, ())
        if takes is None:
            raise refuse("T39", "unknown")
        return build.call(op, _function(r, takes, pool), *args, static=static)
    return build.call(op, *args, static=static)


def _suited(r: Random, op: str, args: list[nodes.Expr], pool: list[nodes.Expr]) -> list[nodes.Expr]:
    """Operands that an operation has a chance to accept."""
    tables = [e for e in pool if isinstance(e, nodes.Var) and e.name.startswith("table")]
    if op in ("shift_init", "unstructured_shift") and tables:
        return [r.choice(tables), r.choice([e for e in pool if "I" in getattr(e.type, "dims", ())] or args)]
    if op in ("shift_apply", "reduce"):
        return [r.choice([e for e in pool if "_NB_0" in getattr(e.type, "dims", ())] or args), *args[1:]]
    if op in ("and", "or", "xor", "not"):
        return [r.choice([e for e in pool if getattr(e.type, "element", None) == BOOL] or args) for _ in args]
    if op in ("gather", "scatter") and (wide := [e for e in pool if e.type in FIELDS]):
        ints = [e for e in pool if getattr(e.type, "element", None) == INT] or [build.literal(1)]
        return [r.choice(wide), r.choice(ints), *([build.literal(2.0)] if op == "scatter" else [])]
    if op == "argreduce" and (wide := [e for e in pool if getattr(e.type, "element", None) == FLOAT and e.type.dims]):
        x = r.choice(wide)
        index = build.call("pos", x, static=(r.choice(x.type.dims.names),))
        return [build.literal(0.0), build.literal(-1), x, index]
    if op == "concat" and (wide := [e for e in pool if "I" in getattr(e.type, "dims", ())]):
        x = r.choice(wide)
        start, stop = x.type.dims["I"].start, x.type.dims["I"].stop
        return [build.call("subset", x, static=(Dims.of(I=part),)) for part in [(start, start + 1), (start + 1, stop)]]
    return args


def _static(r: Random, op: str, slot: str, dims: list[str], types: list[TensorType]) -> Any:
    some = r.choice(dims)
    match slot:
        case "dim" | "dim?":
            return some if r.random() < 0.8 else r.choice(DIMS)
        case "int" | "int?":
            return r.choice([0, 1, 2, 4, -1]) if slot == "int" or r.random() < 0.8 else None
        case "bool" | "bool?":
            return r.random() < 0.5
        case "element":
            return r.choice(list(SCALARS.values()))
        case "dims":
            return tuple(dict.fromkeys(r.choice(dims) for _ in range(r.randrange(1, 3))))
        case "over":
            rest = set(types[0].dims) - set()
            return tuple(d for d in dict.fromkeys(d for t in types[1:] for d in t.dims) if d not in rest)
        case "intervals":
            return Dims(
                tuple((d, Interval(i.start, max(i.start, i.stop - r.randrange(2)))) for d, i in types[0].dims.items)
            ) or Dims.of(I=(0, 1))
        case "pairs":
            return tuple((d, r.choice(DIMS)) for d in dict.fromkeys(r.choice(dims) for _ in range(2)))
        case "mode?":
            return r.choice(MODES)
        case _ if op == "argreduce":
            return r.choice(["old", "new", "least", "greatest"])
        case _:
            return r.choice(["a", 'with "quotes"', "é\n\\", ""])
