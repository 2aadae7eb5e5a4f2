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
from tensorir.runtime.errors import DiagnosticError, did_you_mean, refuse

# Closures that write adjacent parts of one output become one.


@dataclass(frozen=True)
class FuseClosures(Pass):
    """Fuses two consecutive closures that write adjacent parts of one output into one `concat`.

    The second must not read the output.

    >>> from tensorir.passes.base import show
    >>> show(FuseClosures(), '''f(out: tensor<float, I[0:5]>, x: tensor<float, I[0:5]>) {
    ...   out[I[0:2]] ← x; out[I[2:5]] ← -x; }''')
    f(out: tensor<float, I[0:5]>, x: tensor<float, I[0:5]>) {
      out ← concat(subset(x, I[0:2]), subset(-x, I[2:5]));
    }
    """

    def run(self, fencil: Fencil) -> Fencil:
        """Fuses each closure with those before it as long as they can be."""
        fused_closures: list[Closure] = []
        for current in fencil.closures:
            while fused_closures and (fused := _fused(fused_closures[-1], current)) is not None:
                fused_closures.pop()
                current = fused
            fused_closures.append(current)
        return remade(fencil, tuple(fused_closures))


def _fused(a: Closure, b: Closure) -> Closure | None:
    """One closure for two that write adjacent parts of an output; None if the second reads it, or the parts differ in
    several dims, are empty, or are not adjacent.
    """
    if a.output != b.output or a.output in b.value.free:
        return None
    first_dims, second_dims = a.target.dims, b.target.dims
    differing = [n for n in first_dims if first_dims[n] != second_dims[n]]
    if len(differing) != 1 or not first_dims.size or not second_dims.size:
        return None
    (dim,) = differing
    x, y = first_dims[dim], second_dims[dim]
    if x.stop != y.start and y.stop != x.start:
        return None
    try:
        value = call("concat", coerced(a.value, a.target), coerced(b.value, b.target), span=a.span)
    except DiagnosticError:
        return None
    union = first_dims.with_interval(dim, Interval(min(x.start, y.start), max(x.stop, y.stop)))
    region = tuple((n, i) for n, i in union.items if i != a.output.type.dims[n])
    return closure(a.output, value, Dims(region) if region else None, a.span)


# A closure that stores a concatenation becomes one per part: the inverse of `fuse_closures`.


@dataclass(frozen=True)
class SplitClosures(Pass):
    """Splits a closure that stores a concatenation into one per operand, unless the expression reads the output.

    >>> from tensorir.passes.base import show
    >>> show(SplitClosures(), '''f(out: tensor<float, I[0:5]>, x: tensor<float, I[0:2]>, y: tensor<float, I[2:5]>) {
    ...   out ← concat(x, y); }''')
    f(out: tensor<float, I[0:5]>, x: tensor<float, I[0:2]>, y: tensor<float, I[2:5]>) {
      out[I[0:2]] ← x;
      out[I[2:5]] ← y;
    }
    """

    def run(self, fencil: Fencil) -> Fencil:
        """Splits every `concat`, nested ones too, into writes of its non-empty operands."""
        split_closures: list[Closure] = []
        pending = list(reversed(fencil.closures))
        while pending:
            current = pending.pop()
            match current.value:
                case Call("concat", args) if current.output not in current.value.free and current.target.dims.size:
                    parts: list[Closure] = []
                    for arg in args:
                        have, target = arg.tensor.dims, current.target.dims
                        part = Dims(tuple((n, i & have[n] if n in have else i) for n, i in target.items))
                        if part.size:
                            whole = current.output.type.dims
                            region = tuple((n, i) for n, i in part.items if i != whole[n])
                            parts.append(closure(current.output, arg, Dims(region) if region else None, current.span))
                    pending += reversed(parts)
                case _:
                    split_closures.append(current)
        return remade(fencil, tuple(split_closures))


# What nobody reads goes: closures, buffers, and parameters of functions.


@dataclass(frozen=True)
class Prune(Pass):
    """Dead code elimination: closures overwritten before they are read, buffers never read, unused function parameters.

    Parameters of the program that the user declared stay: they are how it is called.

    >>> from tensorir.passes.base import show
    >>> show(Prune(), '''f(out: tensor<float, I[0:4]>, a: tensor<float, I[0:4]>, b: tensor<float, I[0:4]>) {
    ...   out ← b; out ← (λ(x: tensor<float, I[0:4]>, y: tensor<float, I[0:4]>) → x + x)(a, b); }''')
    f(out: tensor<float, I[0:4]>, a: tensor<float, I[0:4]>, b: tensor<float, I[0:4]>) {
      out ← (λ(x: tensor<float, I[0:4]>) → x + x)(a);
    }
    """

    def run(self, fencil: Fencil) -> Fencil:
        """Drops dead closures first, then the buffers that no closure names any more."""
        closures = with_values(fencil.closures, rewrite_all(values(fencil.closures), without_unused_parameters))
        closures = _alive(fencil, closures)
        used = {v for c in closures for v in (c.output, *c.value.free)}
        params = tuple(p for p in fencil.params if p in used or p.name not in fencil.buffers)
        return remade(fencil, closures, params)


def without_unused_parameters(node: Expr) -> Expr | None:
    """An applied function, or a scan, without parameters that the body does not read and their arguments.

    None if nothing changes, or if the scan would lose all operands with the scanned dim.
    """
    match node:
        case Apply(Lambda(params, (body,)) as f, args):
            used = [k for k, p in enumerate(params) if p in body.free]
            if len(used) == len(params):
                return None
            if not used:
                return with_label(body, node.label) if node.label else body
            pruned_function = replace(f, params=tuple(params[k] for k in used))
            return replace(node, function=pruned_function, args=tuple(args[k] for k in used))
        case Call("scan", (Lambda(params, (body,)), init, *args), static):
            used = [k for k, p in enumerate(params[1:]) if p in body.free]
            if len(used) == len(args) or not used:
                return None
            try:
                pruned_function = function([params[0], *(params[1 + k] for k in used)], body)
                new = call("scan", pruned_function, init, *(args[k] for k in used), static=static, span=node.span)
            except DiagnosticError:  # no argument that is left has the scanned dim
                return None
            return new if new.type == node.type else None
        case _:
            return None


def _alive(fencil: Fencil, closures: tuple[Closure, ...]) -> tuple[Closure, ...]:
    """The closures whose output may be read later, found by a backward liveness pass; at least the last closure is
    kept.
    """
    live = {p for p in fencil.params if p.name not in fencil.buffers}
    live_closures: list[Closure] = []
    for current in reversed(closures):
        if current.output not in live:
            continue
        live_closures.append(current)
        if current.region is None:
            live.discard(current.output)
        live |= current.value.free
    return tuple(reversed(live_closures)) or closures[-1:]


# Functions applied where they stand, and buffers computed where they are read: the inverse of `temporaries`.


@dataclass(frozen=True)
class Inline(Pass):
    """Beta reduction of applied functions, and substitution of buffers that are written once, as a whole.

    `functions` turns beta reduction on. `buffers` names written parameters to substitute; those created by passes are
    substituted too, unless `keep` is true. A buffer stays if its inputs are overwritten between its write and a read.

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
        """Inlines functions, then substitutes the buffers one by one where that is legal."""
        closures = fencil.closures
        if self.functions:
            closures = with_values(closures, inlined(values(closures), named=self.named))
        buffer_names = set(self.buffers.replace(",", " ").split())
        outputs = [p.name for p in fencil.params if p in {c.output for c in fencil.closures}]
        for name in sorted(buffer_names.difference(outputs)):
            raise refuse("N22", f"'{fencil.name}' has no output '{name}'.", did_you_mean(name, outputs))
        if not self.keep:
            buffer_names |= fencil.buffers
        params = fencil.params
        for name in [p.name for p in params if p.name in buffer_names]:
            substituted = _substituted(closures, fencil[name])
            if substituted is not None:
                closures, params = substituted, tuple(p for p in params if p.name != name)
        return remade(fencil, closures, params)


def _substituted(closures: tuple[Closure, ...], buffer: Var) -> tuple[Closure, ...] | None:
    """The closures with a buffer replaced by its expression; None if it is not written exactly once, whole, before its
    reads, or if the expression's inputs are overwritten in between.
    """
    writers = [k for k, c in enumerate(closures) if c.output == buffer]
    readers = [k for k, c in enumerate(closures) if buffer in c.value.free]
    if len(closures) == 1 or len(writers) != 1:
        return None
    (position,) = writers
    value = closures[position].value
    if closures[position].region is not None or (readers and readers[0] <= position):
        return None
    outputs_between = {c.output for c in closures[position + 1 : max(readers, default=position)]}
    if not value.free.isdisjoint(outputs_between):
        return None
    expression = coerced(value, buffer.type)
    if not isinstance(expression, Var) and not expression.label:
        expression = replace(expression, label=buffer.name)
    others = (*closures[:position], *closures[position + 1 :])
    return with_values(others, [substitute(c.value, {buffer: expression}) for c in others])


# Intermediate results in buffers of their own.
#
# Four steps: a new parameter of the fencil; a new closure that stores the expression, with the inputs of the original
# function; a new parameter of the original function in place of the expression; and parameters that nobody uses any
# more go. The inverse is `inline`.


@dataclass(frozen=True)
class Temporaries(Pass):
    """Stores expressions in buffers if they are read at several offsets, or several times and are costly.

    `min_uses` is the number of reads from which on an expression is stored, `min_work` the operations per point it must
    have, `costly` the operations if all reads are at one offset, and `min_per_byte` the operations saved for each byte
    that is moved. `plan(fencil)` gives the figures (see `Worth`).

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
        """The fencil with its buffers on the intervals that are read, and the figures of each buffer."""
        used_names = {p.name for p in fencil.params}
        used_names |= {
            p.name for c in fencil.closures for n in postorder(c.value) if isinstance(n, Lambda) for p in n.params
        }
        closures: list[Closure] = []
        buffers: list[Var] = []
        worths: list[Worth] = []
        for current in fencil.closures:
            stored_parts = _Storing(self, fencil, used_names).closure(current)
            closures += stored_parts.closures
            buffers += stored_parts.buffers
            worths += stored_parts.worths
        if not buffers:
            return fencil, ()
        names = fencil.buffers | {b.name for b in buffers}
        stored = replace(remade(fencil, tuple(closures), (*fencil.params, *buffers)), buffers=names)
        shrunk = with_small_buffers(stored)
        return shrunk, tuple(replace(w, buffer=shrunk[w.name].type) for w in worths)


@dataclass(frozen=True, slots=True)
class _Stored:
    closures: tuple[Closure, ...]
    buffers: tuple[Var, ...]
    worths: tuple[Worth, ...]


def _computes(node: Call) -> bool:
    """True if a call computes new values, may run anywhere, and so may be stored: no move, check, effect or loop."""
    joins_or_reshapes = node.op in ("concat", "update", "split_dim", "merge_dims")
    return (joins_or_reshapes or not TABLE[node.op].moves) and node.op != "pos" and not _fails_or_acts(node)


def _fails_or_acts(node: Call) -> bool:
    """True if a call may raise, has an effect, or may not terminate."""
    builtin = TABLE[node.op]
    return builtin.effect or builtin.checks or builtin.endless


@dataclass(slots=True)
class _Storing:
    """Stores expressions of one closure after the other; `taken` are the names in use, which grow."""

    options: Temporaries
    fencil: Fencil
    taken: set[str]

    def closure(self, current: Closure) -> _Stored:
        """The closure with buffers in place of expressions, preceded by closures that compute these."""
        match current.value:
            case Apply(Lambda(params, (body,)), args) if body.free <= set(params):
                return self._parts(current, body, params, args)
            case value:
                return self._parts(current, value, (), ())

    def _parts(self, current: Closure, body: Expr, params: Sequence[Var], args: Sequence[Expr]) -> _Stored:
        """Walks the body bottom-up and replaces each expression worth storing by a buffer.

        `params` and `args` are those of the applied function, if the closure is one: then the buffers become additional
        arguments, and each stored expression a function of the same arguments.
        """
        order = surface(body)
        replacements: dict[int, Expr] = {}
        buffers: list[Var] = []
        worths: list[Worth] = []
        closures: list[Closure] = []
        canonical: dict[Expr, Expr] = {}
        variables, arguments = list(params), list(args)
        uses = reads(body, order)
        stored: dict[int, str] = {}
        for node in order:
            new_node = rebuild(node, tuple(replacements.get(id(c), c) for c in node.children))
            if new_node in canonical:
                replacements[id(node)] = canonical[new_node]
                continue
            replacements[id(node)] = canonical[new_node] = new_node
            readers = uses.get(node, set())
            work = self._work(node, new_node, body, len(readers), len({o for _, o in readers}), stored)
            if work is None:
                continue
            name = free_name(new_node.label or "tmp", self.taken)
            buffer = var(name, TensorType(new_node.tensor.element, new_node.tensor.dims))
            value = with_label(new_node, "")
            value = apply(function(variables, value), *arguments) if variables else value
            value = without_unused_parameters(value) or value
            if not self._may_store(buffer, value, tuple(buffers)):
                continue
            buffers.append(buffer)
            worths.append(Worth(name, max(2, len(readers)), work, buffer.type))
            closures.append(closure(buffer, value, span=current.span))
            if variables:
                replacement = var(free_name("y", self.taken), buffer.type)
                variables.append(replacement)
                arguments.append(buffer)
            else:
                replacement = buffer
            replacements[id(node)] = canonical[new_node] = replacement
            stored[id(node)] = name
        if not buffers:
            return _Stored((current,), (), ())
        result = replacements[id(body)]
        value = apply(function(variables, result), *arguments, span=current.value.span) if variables else result
        value = without_unused_parameters(value) or value
        reduced = replace(current, value=value)
        return _Stored((*closures, reduced), tuple(buffers), tuple(worths))

    def _work(
        self, node: Expr, new: Expr, body: Expr, reads: int, offsets: int, stored: dict[int, str]
    ) -> float | None:
        """The operations per point of an expression that is worth a buffer, None if it is not.

        `node` is the original, `new` the same over earlier buffers; `reads` counts readers, `offsets` distinct
        offsets; `stored` names the buffers of nodes, whose work is not counted again.
        """
        if node is body or not isinstance(new, Call) or not _computes(new):
            return None
        if not new.tensor.dims or any(d.startswith("_NB_") for d in new.tensor.dims) or reads < self.options.min_uses:
            return None
        work = work_of(node, stored)
        differing_offsets = offsets >= self.options.min_uses and work >= self.options.min_work
        if not differing_offsets and work < self.options.costly:
            return None
        worth = Worth("", reads, work, new.tensor)
        return work if worth.per_byte >= self.options.min_per_byte else None

    def _may_store(self, buffer: Var, value: Expr, earlier_buffers: tuple[Var, ...]) -> bool:
        """True if an expression may be computed at all its points: it cannot fail, and no neighbour may be absent
        there.
        """
        nodes = list(postorder(value))
        if any(isinstance(n, Call) and _fails_or_acts(n) for n in nodes):
            return False
        shifts = [n for n in nodes if isinstance(n, Call) and n.op in ("shift_init", "unstructured_shift")]
        if not shifts:
            return True
        if not all(isinstance(n.args[0], Var) for n in shifts):
            return False
        try:
            trial = Fencil("trial", (*self.fencil.params, *earlier_buffers, buffer), (closure(buffer, value),))
        except DiagnosticError:
            return False
        return not analyse_absence(trial, {}).refused


# What is read at several offsets is kept in memory where computing it again costs more.

SHOWN = 16.0
"""How many times the work that decides is counted for a plan: more is not looked at."""


@dataclass(frozen=True)
class Materialise(Pass):
    """Wraps expressions that several offsets read in `materialise(e)` where recomputing them costs more than their
    memory.

    A backend fuses other expressions into every reader and recomputes them there. `min_per_byte` is the number of
    operations saved per byte from which on it pays: 0 keeps all, infinity none.

    >>> from tensorir.passes.base import show
    >>> show(Materialise(), "let y = cos(x) × exp(x); ⟪I, 1⟫(y) + ⟪I, -1⟫(y)", x={"I": (0, 9)})
    let y = materialise(cos(x) × exp(x));
    ⟪I, 1⟫(y) + ⟪I, -1⟫(y)
    """

    min_per_byte: float = MIN_PER_BYTE

    def run(self, fencil: Fencil) -> Fencil:
        """Wraps the expressions that `worth_storing` finds."""
        worth = worth_storing(fencil, self.min_per_byte)

        def wrapped(node: Expr, new_node: Expr) -> Expr:
            if id(node) not in worth:
                return new_node
            return replace(call("materialise", replace(new_node, label=""), span=node.span), label=new_node.label)

        return remade(fencil, with_values(fencil.closures, rewrite_nodes(values(fencil.closures), wrapped)))

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
        """A decision for each expression that was weighed, stored or not."""
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

    def _why(self, weighed_node: Weighed) -> str:
        """The reason for a decision on an expression."""
        if weighed_node.joined and weighed_node.stored:
            return "at each point of each reader it would be asked which part it is in"
        return self.reason() if weighed_node.stored else "computing it again costs less than its bytes"

    def reason(self) -> str:
        return f"read at several offsets, it saves {self.min_per_byte:g} operations for each byte that is kept"
