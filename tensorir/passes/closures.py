"""Closures and buffers: fused, split, inlined, pruned, and temporaries that are kept in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorir.analysis.absence import analyse_absence
from tensorir.analysis.cost import (
    BEYOND,
    CACHE,
    FEWEST_READS,
    MIN_PER_BYTE,
    Weighed,
    Worth,
    bytes_of,
    weighed,
    work_of,
    worth_storing,
)
from tensorir.analysis.uses import reads, surface
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import apply, call, closure, coerced, free_name, function, var
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Apply, Call, Closure, Expr, Fencil, Lambda, Var
from tensorir.ir.rewrite import (
    postorder,
    rebuild,
    rewrite_all,
    rewrite_nodes,
    substitute,
    values,
    with_label,
    with_values,
)
from tensorir.ir.substitution import inlined
from tensorir.ir.types import TensorType
from tensorir.passes.base import Pass, remade
from tensorir.passes.decisions import Decision, Places, Threshold
from tensorir.passes.restrict import with_small_buffers
from tensorir.runtime.errors import DiagnosticError

# Closures that write adjacent parts of one output become one.


@dataclass(frozen=True)
class FuseClosures(Pass):
    """Two closures in a row that write adjacent parts of one output become one, by `concat`.

    The second must not read the output.

    >>> from tensorir.passes.base import show
    >>> show(FuseClosures(), '''f(out: tensor<float, I[0:5]>, x: tensor<float, I[0:5]>) {
    ...   out[I[0:2]] ← x; out[I[2:5]] ← -x; }''')
    f(out: tensor<float, I[0:5]>, x: tensor<float, I[0:5]>) {
      out ← concat(subset(x, I[0:2]), subset(-x, I[2:5]));
    }
    """

    def run(self, fencil: Fencil) -> Fencil:
        done: list[Closure] = []
        for one in fencil.closures:
            while done and (both := _fused(done[-1], one)) is not None:
                done.pop()
                one = both
            done.append(one)
        return remade(fencil, tuple(done))


def _fused(a: Closure, b: Closure) -> Closure | None:
    if a.output != b.output or a.output in b.value.free:
        return None
    first, second = a.target.dims, b.target.dims
    differing = [n for n in first if first[n] != second[n]]
    if len(differing) != 1 or not first.size or not second.size:
        return None
    (dim,) = differing
    x, y = first[dim], second[dim]
    if x.stop != y.start and y.stop != x.start:
        return None
    try:
        value = call("concat", coerced(a.value, a.target), coerced(b.value, b.target), span=a.span)
    except DiagnosticError:
        return None
    whole = first.with_interval(dim, Interval(min(x.start, y.start), max(x.stop, y.stop)))
    left = tuple((n, i) for n, i in whole.items if i != a.output.type.dims[n])
    return closure(a.output, value, Dims(left) if left else None, a.span)


# A closure that stores a concatenation becomes one per part: the inverse of `fuse_closures`.


@dataclass(frozen=True)
class SplitClosures(Pass):
    """Each part of a concatenation is stored by itself, where the expression does not read the output.

    >>> from tensorir.passes.base import show
    >>> show(SplitClosures(), '''f(out: tensor<float, I[0:5]>, x: tensor<float, I[0:2]>, y: tensor<float, I[2:5]>) {
    ...   out ← concat(x, y); }''')
    f(out: tensor<float, I[0:5]>, x: tensor<float, I[0:2]>, y: tensor<float, I[2:5]>) {
      out[I[0:2]] ← x;
      out[I[2:5]] ← y;
    }
    """

    def run(self, fencil: Fencil) -> Fencil:
        done: list[Closure] = []
        waiting = list(reversed(fencil.closures))
        while waiting:
            one = waiting.pop()
            match one.value:
                case Call("concat", args) if one.output not in one.value.free and one.target.dims.size:
                    parts: list[Closure] = []
                    for arg in args:
                        have, target = arg.tensor.dims, one.target.dims
                        part = Dims(tuple((n, i & have[n] if n in have else i) for n, i in target.items))
                        if part.size:
                            whole = one.output.type.dims
                            region = tuple((n, i) for n, i in part.items if i != whole[n])
                            parts.append(closure(one.output, arg, Dims(region) if region else None, one.span))
                    waiting += reversed(parts)
                case _:
                    done.append(one)
        return remade(fencil, tuple(done))


# What nobody reads goes: closures, buffers, and parameters of functions.


@dataclass(frozen=True)
class Prune(Pass):
    """Closures whose result is overwritten unread, buffers of passes that nobody reads, unused function parameters.

    Parameters of the program that the user declared stay: they are how it is called.

    >>> from tensorir.passes.base import show
    >>> show(Prune(), '''f(out: tensor<float, I[0:4]>, a: tensor<float, I[0:4]>, b: tensor<float, I[0:4]>) {
    ...   out ← b; out ← (λ(x: tensor<float, I[0:4]>, y: tensor<float, I[0:4]>) → x + x)(a, b); }''')
    f(out: tensor<float, I[0:4]>, a: tensor<float, I[0:4]>, b: tensor<float, I[0:4]>) {
      out ← (λ(x: tensor<float, I[0:4]>) → x + x)(a);
    }
    """

    def run(self, fencil: Fencil) -> Fencil:
        closures = with_values(fencil.closures, rewrite_all(values(fencil.closures), without_unused_parameters))
        closures = _alive(fencil, closures)
        used = {v for c in closures for v in (c.output, *c.value.free)}
        params = tuple(p for p in fencil.params if p in used or p.name not in fencil.buffers)
        return remade(fencil, closures, params)


def without_unused_parameters(node: Expr) -> Expr | None:
    """Parameters of applied functions and of scans that the body does not use, and their arguments."""
    match node:
        case Apply(Lambda(params, (body,)) as f, args):
            kept = [k for k, p in enumerate(params) if p in body.free]
            if len(kept) == len(params):
                return None
            if not kept:
                return with_label(body, node.label) if node.label else body
            smaller = replace(f, params=tuple(params[k] for k in kept))
            return replace(node, function=smaller, args=tuple(args[k] for k in kept))
        case Call("scan", (Lambda(params, (body,)), init, *args), static):
            kept = [k for k, p in enumerate(params[1:]) if p in body.free]
            if len(kept) == len(args) or not kept:
                return None
            try:
                smaller = function([params[0], *(params[1 + k] for k in kept)], body)
                new = call("scan", smaller, init, *(args[k] for k in kept), static=static, span=node.span)
            except DiagnosticError:  # no argument that is left has the scanned dim
                return None
            return new if new.type == node.type else None
        case _:
            return None


def _alive(fencil: Fencil, closures: tuple[Closure, ...]) -> tuple[Closure, ...]:
    """The closures whose result somebody may read, the last ones first."""
    read = {p for p in fencil.params if p.name not in fencil.buffers}
    alive: list[Closure] = []
    for one in reversed(closures):
        if one.output not in read:
            continue
        alive.append(one)
        if one.region is None:
            read.discard(one.output)
        read |= one.value.free
    return tuple(reversed(alive)) or closures[-1:]


# Functions applied where they stand, and buffers computed where they are read: the inverse of `temporaries`.


@dataclass(frozen=True)
class Inline(Pass):
    """Applied functions are substituted; buffers that are written once, as a whole, become expressions again.

    `functions` says whether functions are. `buffers` names written parameters that shall go; the buffers that passes
    made go in any case, unless `keep` is true. What reads a buffer must not be overwritten in between.

    >>> from tensorir.passes.base import show
    >>> show(Inline(), '''f(out: tensor<float, I[0:4]>, inp: tensor<float, I[0:5]>) {
    ...   out ← (λ(x: tensor<float, I[0:5]>) → ⟪I, 1⟫(x) - x)(inp); }''')
    f(out: tensor<float, I[0:4]>, inp: tensor<float, I[0:5]>) {
      out ← ⟪I, 1⟫(inp) - inp;
    }
    >>> show(Inline(buffers="tmp"), '''
    ... f(out: tensor<float, I[0:4]>, inp: tensor<float, I[0:5]>, tmp: tensor<float, I[0:5]>) {
    ...   tmp ← cos(inp); out ← ⟪I, 1⟫(tmp) - tmp; }''')
    f(out: tensor<float, I[0:4]>, inp: tensor<float, I[0:5]>) {
      out ← let tmp = cos(inp); ⟪I, 1⟫(tmp) - tmp;
    }
    """

    functions: bool = True
    buffers: str = ""
    """Names, with blanks or commas between them."""
    keep: bool = False
    named: bool = False
    """Whether what a parameter of an applied function stands for is labelled with its name."""

    def run(self, fencil: Fencil) -> Fencil:
        closures = fencil.closures
        if self.functions:
            closures = with_values(closures, inlined(values(closures), named=self.named))
        wanted = set(self.buffers.replace(",", " ").split())
        if not self.keep:
            wanted |= fencil.buffers
        params = fencil.params
        for name in [p.name for p in params if p.name in wanted]:
            substituted = _substituted(closures, fencil[name])
            if substituted is not None:
                closures, params = substituted, tuple(p for p in params if p.name != name)
        return remade(fencil, closures, params)


def _substituted(closures: tuple[Closure, ...], buffer: Var) -> tuple[Closure, ...] | None:
    """The closures without a buffer; None where it is not written once, whole, before it is read."""
    writers = [k for k, c in enumerate(closures) if c.output == buffer]
    readers = [k for k, c in enumerate(closures) if buffer in c.value.free]
    if len(closures) == 1 or len(writers) != 1:
        return None
    (at,) = writers
    value = closures[at].value
    if closures[at].region is not None or (readers and readers[0] <= at):
        return None
    between = {c.output for c in closures[at + 1 : max(readers, default=at)]}
    if not value.free.isdisjoint(between):
        return None
    place = coerced(value, buffer.type)
    if not isinstance(place, Var) and not place.label:
        place = replace(place, label=buffer.name)
    rest = (*closures[:at], *closures[at + 1 :])
    return with_values(rest, [substitute(c.value, {buffer: place}) for c in rest])


# Intermediate results in buffers of their own.
#
# Four steps: a new parameter of the fencil; a new closure that stores the expression, with the inputs of the original
# function; a new parameter of the original function in place of the expression; and parameters that nobody uses any
# more go. The inverse is `inline`.


@dataclass(frozen=True)
class Temporaries(Pass):
    """Expressions that are read at more than one offset, or more than once and costly, are stored.

    `min_uses` is at how many places an expression must be read, `min_work` how many operations per point it must
    have, `costly` how many where all reads are at one offset, and `min_per_byte` how many operations a byte that is
    moved must save. `plan(fencil)` gives the figures (see `Worth`).

    >>> from tensorir.passes.base import show
    >>> show(Temporaries(), '''fencil(out: tensor<float, I[1:99]>, inp: tensor<float, I[0:100]>) {
    ...   out ← (λ(x: tensor<float, I[0:100]>) → ⟪I, 1⟫(cos(x)) + ⟪I, -1⟫(cos(x)))(inp) }''')
    fencil(out: tensor<float, I[1:99]>, inp: tensor<float, I[0:100]>, tmp: tensor<float, I[0:100]>) {
      tmp ← (λ(x: tensor<float, I[0:100]>) → cos(x))(inp);
      out ← (λ(y: tensor<float, I[0:100]>) → ⟪I, 1⟫(y) + ⟪I, -1⟫(y))(tmp);
    }
    """

    min_uses: int = 2
    min_work: float = 1.0
    costly: float = 8.0
    min_per_byte: float = 0.01

    def run(self, fencil: Fencil) -> Fencil:
        return self._stored(fencil)[0]

    def plan(self, fencil: Fencil) -> tuple[Worth, ...]:
        """The buffers that the pass makes, in the order of their closures, each with its figures."""
        return self._stored(fencil)[1]

    def _stored(self, fencil: Fencil) -> tuple[Fencil, tuple[Worth, ...]]:
        taken = {p.name for p in fencil.params}
        taken |= {
            p.name for c in fencil.closures for n in postorder(c.value) if isinstance(n, Lambda) for p in n.params
        }
        closures: list[Closure] = []
        buffers: list[Var] = []
        worths: list[Worth] = []
        for one in fencil.closures:
            parts = _Storing(self, fencil, taken).closure(one)
            closures += parts.closures
            buffers += parts.buffers
            worths += parts.worths
        if not buffers:
            return fencil, ()
        names = fencil.buffers | {b.name for b in buffers}
        stored = replace(remade(fencil, tuple(closures), (*fencil.params, *buffers)), buffers=names)
        small = with_small_buffers(stored)
        return small, tuple(replace(w, buffer=small[w.name].type) for w in worths)


@dataclass(frozen=True, slots=True)
class _Stored:
    closures: tuple[Closure, ...]
    buffers: tuple[Var, ...]
    worths: tuple[Worth, ...]


def _computes(node: Call) -> bool:
    """True if a call is one that may be done where nobody asked for it, and is worth a buffer."""
    merges = node.op in ("concat", "update", "split_dim", "merge_dims")
    return (merges or not TABLE[node.op].moves) and node.op != "pos" and not _fails_or_acts(node)


def _fails_or_acts(node: Call) -> bool:
    row = TABLE[node.op]
    return row.effect or row.checks or row.endless


@dataclass(slots=True)
class _Storing:
    options: Temporaries
    fencil: Fencil
    taken: set[str]

    def closure(self, one: Closure) -> _Stored:
        """A closure, and before it those that store a part of it."""
        match one.value:
            case Apply(Lambda(params, (body,)), args) if body.free <= set(params):
                return self._parts(one, body, params, args)
            case value:
                return self._parts(one, value, (), ())

    def _parts(self, one: Closure, body: Expr, params: Sequence[Var], args: Sequence[Expr]) -> _Stored:
        order = surface(body)
        stands: dict[int, Expr] = {}
        buffers: list[Var] = []
        worths: list[Worth] = []
        closures: list[Closure] = []
        seen: dict[Expr, Expr] = {}
        variables, arguments = list(params), list(args)
        uses = reads(body, order)
        stored: dict[int, str] = {}
        for node in order:
            new = rebuild(node, tuple(stands.get(id(c), c) for c in node.children))
            if new in seen:
                stands[id(node)] = seen[new]
                continue
            stands[id(node)] = seen[new] = new
            readers = uses.get(node, set())
            work = self._work(node, new, body, len(readers), len({o for _, o in readers}), stored)
            if work is None:
                continue
            name = free_name(new.label or "tmp", self.taken)
            buffer = var(name, TensorType(new.tensor.element, new.tensor.dims))
            value = with_label(new, "")
            value = apply(function(variables, value), *arguments) if variables else value
            value = without_unused_parameters(value) or value
            if not self._may_store(buffer, value, tuple(buffers)):
                continue
            buffers.append(buffer)
            worths.append(Worth(name, max(2, len(readers)), work, buffer.type))
            closures.append(closure(buffer, value, span=one.span))
            if variables:
                inner = var(free_name("y", self.taken), buffer.type)
                variables.append(inner)
                arguments.append(buffer)
            else:
                inner = buffer
            stands[id(node)] = seen[new] = inner
            stored[id(node)] = name
        if not buffers:
            return _Stored((one,), (), ())
        result = stands[id(body)]
        value = apply(function(variables, result), *arguments, span=one.value.span) if variables else result
        value = without_unused_parameters(value) or value
        last = replace(one, value=value)
        return _Stored((*closures, last), tuple(buffers), tuple(worths))

    def _work(
        self, node: Expr, new: Expr, body: Expr, reads: int, offsets: int, stored: dict[int, str]
    ) -> float | None:
        """The operations per point of an expression that is worth a buffer."""
        if node is body or not isinstance(new, Call) or not _computes(new):
            return None
        if not new.tensor.dims or any(d.startswith("_NB_") for d in new.tensor.dims) or reads < self.options.min_uses:
            return None
        work = work_of(node, stored)
        several = offsets >= self.options.min_uses and work >= self.options.min_work
        if not several and work < self.options.costly:
            return None
        worth = Worth("", reads, work, new.tensor)
        return work if worth.per_byte >= self.options.min_per_byte else None

    def _may_store(self, buffer: Var, value: Expr, before: tuple[Var, ...]) -> bool:
        """True if it is there at every point, and may be computed at every point."""
        nodes = list(postorder(value))
        if any(isinstance(n, Call) and _fails_or_acts(n) for n in nodes):
            return False
        shifts = [n for n in nodes if isinstance(n, Call) and n.op in ("shift_init", "unstructured_shift")]
        if not shifts:
            return True
        if not all(isinstance(n.args[0], Var) for n in shifts):
            return False
        try:
            trial = Fencil("trial", (*self.fencil.params, *before, buffer), (closure(buffer, value),))
        except DiagnosticError:
            return False
        return not analyse_absence(trial, {}).refused


# What is read at several offsets is kept in memory where computing it again costs more.

SHOWN = 16.0
"""How many times the work that decides is counted for a plan: more is not looked at."""


@dataclass(frozen=True)
class Materialise(Pass):
    """Materialisation: an expression that is read at several offsets, and saves `min_per_byte` operations for each
    byte, becomes `materialise(e)`.

    A backend fuses what is not kept into every reader and computes it at each; 0 keeps all of it, infinity nothing.

    >>> from tensorir.passes.base import show
    >>> show(Materialise(), "let y = cos(x) × exp(x); ⟪I, 1⟫(y) + ⟪I, -1⟫(y)", x={"I": (0, 9)})
    let y = materialise(cos(x) × exp(x));
    ⟪I, 1⟫(y) + ⟪I, -1⟫(y)
    """

    min_per_byte: float = MIN_PER_BYTE

    def run(self, fencil: Fencil) -> Fencil:
        worth = worth_storing(fencil, self.min_per_byte)

        def keep(node: Expr, new: Expr) -> Expr:
            if id(node) not in worth:
                return new
            return replace(call("materialise", replace(new, label=""), span=node.span), label=new.label)

        return remade(fencil, with_values(fencil.closures, rewrite_nodes(values(fencil.closures), keep)))

    def on(self, platform: str) -> Pass | None:
        # there the backend decides: a kernel keeps in registers what is computed again
        return None if platform == "gpu" else self

    def thresholds(self) -> tuple[Threshold, ...]:
        where = "docs/lowering.md, Pointwise stencils; python -m tests.benchmarks.stored"
        return (
            Threshold("min_per_byte", self.min_per_byte, "operations saved per byte", where),
            Threshold("CACHE", CACHE, f"bytes, beyond which a byte is {BEYOND:g} times as dear", where),
            Threshold("FEWEST_READS", FEWEST_READS, "offsets from which on joined parts are stored", where),
        )

    def decided(self, before: Fencil, after: Fencil) -> tuple[Decision, ...]:
        limit, _, offsets = self.thresholds()
        places = Places(before)
        expressions = weighed(before, self.min_per_byte, SHOWN)
        return tuple(
            Decision(
                self.name(), f"{'kept' if w.stored else 'computed'} for reads at {w.uses} offsets", places.of(w.node),
                w.stored, self._why(w), w.uses if w.joined else w.per_byte(self.min_per_byte),
                offsets if w.joined else limit, bytes_of(w.node.tensor) if w.stored else 0, w.node.span,
            )
            for w in expressions
        )  # fmt: skip

    def _why(self, w: Weighed) -> str:
        if w.joined and w.stored:
            return "at each point of each reader it would be asked which part it is in"
        return self.reason() if w.stored else "computing it again costs less than its bytes"

    def reason(self) -> str:
        return f"read at several offsets, it saves {self.min_per_byte:g} operations for each byte that is kept"
