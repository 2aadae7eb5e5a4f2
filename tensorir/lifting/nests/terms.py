"""Scalar terms: what one iteration of a source program reads, computes and writes, in words that no source owns.

A wing translates its expressions into terms. A term is a number, an index (the variable of a loop), an element of a
buffer, or a builtin of the tensor IR applied to terms; `Affine` is the normal form that whole-number terms take as
soon as they are sums, quotients and remainders of indices. Terms are compared by structure.

>>> from tensorir.ir.types import INT32
>>> i = Index("i", INT32)
>>> show(Op("plus", (i, Number(1, INT32)), INT32))
'plus(i, 1)'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any

import numpy as np

from tensorir.integers.affine import Affine, Quotient
from tensorir.ir.types import DTYPES, FLOAT32, FLOAT64, Scalar
from tensorir.runtime.errors import NOWHERE, Span


@dataclass(eq=False, slots=True)
class Buffer:
    """Memory with a shape: an argument, or storage of the program's own. The object is the identity.

    `loops` is set for values that live for one iteration only: their indices are the variables of those loops.
    """

    name: str
    element: Scalar
    shape: tuple[int, ...]
    argument: bool = False
    span: Span = NOWHERE
    private: tuple[str, ...] = ()
    """The loops of which every iteration has a copy of its own (blocks, or threads, of a kernel)."""
    apart: tuple[str, ...] = ()
    """The loops of which no iteration may find what another one left here."""
    loops: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    """Of the first dims, the loops of which every iteration fills a copy before it reads it."""
    value: object = None
    """What a constant buffer holds."""
    declared: bool = False
    """Whether nothing is in it before something is written: the source, or a caller for a result, allocates it."""
    exact: bool = False
    """Whether what is folded into it keeps the source's order and rounding."""
    memory: Buffer | None = None
    """The buffer whose memory this one is a view of, from its first byte, as elements of its own type."""

    @property
    def root(self) -> Buffer:
        """The buffer that has the memory."""
        return self if self.memory is None else self.memory

    def __repr__(self) -> str:
        return f"<{self.name}: {self.element} {'×'.join(map(str, self.shape))}>"


@dataclass(frozen=True, slots=True)
class Number:
    """One number of an element type."""

    value: bool | int | float
    element: Scalar

    @property
    def key(self) -> object:
        return (type(self.value), repr(self.value), self.element)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, slots=True)
class Index:
    """The variable of a loop."""

    name: str
    element: Scalar


@dataclass(frozen=True, slots=True)
class Linear:
    """A whole-number term in normal form."""

    affine: Affine
    element: Scalar


@dataclass(frozen=True, slots=True)
class Load:
    """An element of a buffer."""

    buffer: Buffer
    indices: tuple[Term, ...]
    span: Span = field(default=NOWHERE, compare=False)
    _hash: int = field(init=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((id(self.buffer), self.indices)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def element(self) -> Scalar:
        return self.buffer.element


@dataclass(frozen=True, slots=True)
class Op:
    """An elementwise builtin of the tensor IR applied to terms; `if` evaluates one of its branches only."""

    op: str
    args: tuple[Term, ...]
    element: Scalar
    _hash: int = field(init=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.op, self.args, self.element)))

    def __hash__(self) -> int:
        return self._hash


Term = Number | Index | Linear | Load | Op


def children(term: Term) -> tuple[Term, ...]:
    if isinstance(term, Op):
        return term.args
    return term.indices if isinstance(term, Load) else ()


def walk(term: Term) -> Iterator[Term]:
    """The term and everything below it, each distinct node once."""
    if not (below := children(term)):
        yield term
        return
    seen, stack = {id(term)}, [*below[::-1]]
    yield term
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if below := children(current):
            stack += below[::-1]


def sums_in(terms: Sequence[Term]) -> list[Affine] | None:
    """Every sum in settled terms, those inside of quotients among them; None where variables stand outside of sums."""
    pending: list[Affine] = []
    for term in terms:
        for t in walk(term):
            match t:
                case Linear(affine):
                    pending.append(affine)
                case Index():
                    return None
                case _:
                    pass
    found: dict[Affine, None] = {}
    while pending:
        a = pending.pop()
        found[a] = None
        pending += [atom.inner for atom, _ in a.terms if isinstance(atom, Quotient)]
    return list(found)


def extreme(term: Term) -> tuple[str, Term, Term] | None:
    """The operands of which a choice takes the larger, or the smaller, as a comparison of them tells; with its name.

    >>> from tensorir.ir.types import BOOL, INT32
    >>> x, y = Index("x", INT32), Index("y", INT32)
    >>> extreme(Op("if", (Op("greater", (x, y), BOOL), x, y), INT32))[0]
    'max'
    """
    match term:
        case Op("if", (Op("greater" | "less" as op, (a, b)), yes, no)) if a == yes and b == no:
            return ("max" if op == "greater" else "min"), a, b
        case _:
            return None


def loads(term: Term) -> list[Load]:
    """Every read in a term."""
    return [t for t in walk(term) if isinstance(t, Load)]


def indexed_by_data(term: Term) -> bool:
    """True if data tell an index of what a term reads."""
    return any(loads(i) for r in loads(term) for i in r.indices)


def always(term: Term) -> dict[int, Term]:
    """The reads and choices that a term needs whatever its choices choose, by identity."""
    found: dict[int, Term] = {}
    pending = [term]
    while pending:
        current = pending.pop()
        if id(current) in found:
            continue
        match current:
            case Load(_, indices):
                pending += indices
            case Op("if", (condition, _, _)):
                pending.append(condition)
            case Op(_, args):
                pending += args
                continue
            case _:
                continue
        found[id(current)] = current
    return found


def buffers_of(term: Term) -> set[Buffer]:
    """Every buffer that a term reads."""
    return {t.buffer for t in walk(term) if isinstance(t, Load)}


def index_names(term: Term) -> set[str]:
    """The loops whose variables a term uses."""
    found: set[str] = set()
    for t in walk(term):
        match t:
            case Index(name):
                found.add(name)
            case Linear(affine):
                found |= affine.names
            case _:
                pass
    return found


def rebuilt(term: Term, rule: Callable[[Term], Term | None], memo: dict[int, Term] | None = None) -> Term:
    """The term with `rule` applied from the leaves up; None leaves a node as it is. Shared nodes stay shared."""
    done: dict[int, Term] = {} if memo is None else memo
    stack = [term]
    while stack:
        current = stack[-1]
        if id(current) in done:
            stack.pop()
            continue
        below = children(current)
        if waiting := [c for c in below if id(c) not in done]:
            stack += waiting
            continue
        stack.pop()
        new: Term = current
        if below:
            parts = tuple([done[id(c)] for c in below])
            if not all(map(is_, parts, below)):
                match current:
                    case Load(buffer, _, span):
                        new = Load(buffer, parts, span)
                    case Op(op, _, element):
                        new = Op(op, parts, element)
                    case _:
                        raise AssertionError(current)
        changed = rule(new)
        done[id(current)] = new if changed is None else changed
    return done[id(term)]


def show(term: Term) -> str:
    """The term as text, for reports and diagnostics."""
    match term:
        case Number(value):
            return str(value)
        case Index(name):
            return name
        case Linear(affine):
            return str(affine)
        case Load(buffer, indices):
            return f"{buffer.name}[{', '.join(map(show, indices))}]"
        case Op(op, args):
            return f"{op}({', '.join(map(show, args))})"


# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false


def fits(affine: Affine, element: Scalar, ranges: Mapping[str, tuple[int, int]]) -> bool:
    """True if a sum is a number of an element type wherever its variables are."""
    spread = affine.range(ranges)
    if spread is None:
        return element.bits >= 32 and element.range.start < 0
    return spread[0] in element.range and spread[1] in element.range


def fitting(affine: Affine, element: Scalar, ranges: Mapping[str, tuple[int, int]]) -> Term | None:
    """The term of a sum, and of a number what it wraps around to; None where others might wrap around."""
    if affine.is_number:
        low = element.range.start
        return Number((affine.constant - low) % (element.range.stop - low) + low, element)
    return Linear(affine, element) if fits(affine, element, ranges) else None


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "plus": np.add,
    "minus": np.subtract,
    "multiplies": np.multiply,
    "neg": np.negative,
    "min": np.minimum,
    "max": np.maximum,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "eq": np.equal,
    "not_eq": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
    "if": np.where,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}


def _division(op: str, a: Any, b: Any) -> Any:
    safe: Any = np.where(b == 0, np.ones_like(b), b)
    match op:
        case "floordiv":
            return np.floor_divide(a, safe)
        case "mod":
            return np.mod(a, safe)
        case "rem":
            return np.fmod(a, safe)
        case _:
            return a / b if np.asarray(a).dtype.kind == "f" else (a - np.fmod(a, safe)) // safe


def values(term: Term, grid: Mapping[str, Any]) -> Any | None:
    """The values of a term where its indices have the values of the grid; None where it reads data."""
    known: dict[int, Any] = {}
    with np.errstate(all="ignore"):
        for t in reversed(list(walk(term))):
            found = _value(t, grid, known)
            if found is None:
                return None
            known[id(t)] = found
    return known[id(term)]


def _value(t: Term, grid: Mapping[str, Any], known: dict[int, Any]) -> Any | None:
    match t:
        case Number(value, element):
            return DTYPES[element].type(value)
        case Index(name):
            return grid.get(name)
        case Linear(affine, element):
            found = _affine(affine, grid)
            # NumPy makes floats of int64 and uint64 together
            return None if found is None else found.astype(DTYPES[element])
        case Load():
            return None
        case Op(op, args, element):
            parts: list[Any] = []
            for a in args:
                if id(a) not in known:
                    inner = values(a, grid)
                    if inner is None:
                        return None
                    known[id(a)] = inner
                parts.append(known[id(a)])
            if op in ("floordiv", "mod", "divides", "rem"):
                found = _division(op, *parts)
            elif op == "cast":
                found = np.asarray(parts[0]).astype(DTYPES[element])
            elif op in _FUNCTIONS:
                found = _FUNCTIONS[op](*parts)
            else:
                return None
            # whole numbers wrap around
            return np.asarray(found).astype(DTYPES[element]) if element.is_integer else found


_MOST = np.iinfo(np.int64).max


def _affine(affine: Affine, grid: Mapping[str, Any]) -> Any | None:
    if any(abs(n) > _MOST for n in (affine.constant, *(c for _, c in affine.terms))):
        return None
    total: Any = np.int64(affine.constant)
    for atom, c in affine.terms:
        if isinstance(atom, str):
            value = grid.get(atom)
        else:
            inner = _affine(atom.inner, grid)
            value = None if inner is None else np.floor_divide(inner, atom.by)
        if value is None:
            return None
        total = total + np.asarray(value, np.int64) * c
    return total


def folded(term: Op) -> Number | None:
    """The number that an operation on numbers is, some of them floats; None where rounding might be another's.

    Floats of other widths than 32 and 64 bits may be computed in wider ones, and tiny numbers as zeros.
    """
    numbers = [a for a in term.args if isinstance(a, Number)]
    floats = [x.element for x in (term, *numbers) if x.element.is_float]
    if len(numbers) != len(term.args) or not floats or not {FLOAT32, FLOAT64}.issuperset(floats):
        return None
    found = values(term, {})
    if found is None or not np.isfinite(found):
        return None
    value = found.item()
    match term:
        case Op("cast", (Number(x),), element) if element.is_integer:
            return Number(value, element) if np.isfinite(x) and int(x) == value else None
        case Op(_, _, element) if element.is_float:
            least = float(np.finfo(DTYPES[element]).tiny)
            return Number(value, element) if not value or abs(value) >= least else None
        case _:
            return Number(value, term.element)
