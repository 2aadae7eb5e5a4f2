r"""Pieces of LaTeX with how tightly they bind: names, numbers, the notation of elementwise builtins, letters of dims.

>>> from tensorir.ir.types import FLOAT64
>>> a, b = name("a"), name("rate")
>>> applied("multiplies", [applied("plus", [a, b]), number(2.0, FLOAT64)]).text
'\\left(a + \\mathit{rate}\\right) \\cdot 2'
>>> from tensorir.text import parse
>>> f = parse("f(out: tensor<float, I[0:n]>, x: tensor<float, lon[0:2], lat[0:n]>, l: tensor<float>) { out ← l; }")
>>> letters_of(f.program)
{'I': 'i', 'lon': 'lon', 'lat': 'lat'}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tensorir.ir.builtins import AND, COMPARE, NOT, OR, POWER, PRODUCT, SUM, TABLE, UNARY
from tensorir.ir.staggering import HALF
from tensorir.ir.types import BOOL, NEIGHBOUR, Scalar, neighbour_counter
from tensorir.text import lexer, syntax

LOOSE, ATOM = 0, POWER + 1
FOLD = SUM + 0.5
"""Of sums over a dim and their kin, between a sum and a product: what follows would be read as a part of them."""


@dataclass(frozen=True, slots=True)
class Term:
    """A text, and the precedence of what stands outermost in it."""

    text: str
    binding: float = ATOM
    negative: bool = False
    """Whether it is a number with a sign in front."""


def within(term: Term, least: float) -> str:
    """The text where only what binds as tightly may stand; other things between parentheses."""
    return term.text if term.binding >= least else rf"\left({term.text}\right)"


# Names and numbers

_GREEK = frozenset([
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi",
    "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi",
    "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega",
])  # fmt: skip
_ESCAPES = {
    "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    **{c: rf"\{c}" for c in "{}$&#_%"},
}  # fmt: skip


def name(text: str) -> Term:
    r"""A name of the program: letters stand for themselves, and names of Greek letters for these.

    >>> name("u").text, name("eta").text, name("flux_x").text, name("a b").text, name("x''").text
    ('u', '\\eta', '\\mathit{flux\\_x}', '\\text{a b}', "x''")
    """
    plain = text.rstrip("'")
    primes = text[len(plain) :]
    if plain in _GREEK:
        return Term(rf"\{plain}{primes}")
    if len(plain) == 1 and plain.isalpha():
        return Term(text)
    if re.fullmatch(r"[A-Za-z]\w*", plain, re.ASCII):
        return Term(rf"\mathit{{{escaped(plain)}}}{primes}")
    return Term(rf"\text{{{escaped(plain)}}}{primes}")


def escaped(text: str) -> str:
    """A text as it stands in `\\text`."""
    return "".join(_ESCAPES.get(c, c if c.isprintable() else " ") for c in text)


def number(value: bool | int | float, element: Scalar) -> Term:
    r"""A literal, with as many digits as its type needs.

    >>> from tensorir.ir.types import FLOAT64
    >>> number(0.5, FLOAT64).text, number(-1.5e-9, FLOAT64).text, number(1e20, FLOAT64).text
    ('0.5', '-1.5 \\cdot 10^{-9}', '10^{20}')
    """
    if element == BOOL:
        return Term(rf"\text{{{'true' if value else 'false'}}}")
    spelled = lexer.number(value, element).rpartition("(")[2]
    shown = re.match(r"(-?)(nan|inf|[\d.]+)(?:e([+-]?\d+))?", spelled)
    assert shown is not None, value
    sign, digits, exponent = shown.groups()
    text = {"inf": r"\infty", "nan": r"\text{NaN}"}.get(digits) or digits.removesuffix(".0")
    if exponent is not None:
        power = f"10^{{{int(exponent)}}}"
        text = power if text == "1" else rf"{text} \cdot {power}"
    binding = SUM if sign else ATOM if exponent is None else PRODUCT if "cdot" in text else POWER
    return Term(sign + text, binding, negative=bool(sign))


# Builtins

Maker = Callable[[Sequence[Term]], Term]


def applied(op: str, args: Sequence[Term]) -> Term:
    """An elementwise builtin applied to what its operands are at a point."""
    notation = NOTATION.get(op)
    return called(op, args) if notation is None else notation(args)


def called(op: str, args: Sequence[Term]) -> Term:
    r"""A function without a notation of its own, as an operator with a name.

    >>> called("erf", [name("x")]).text
    '\\operatorname{erf}\\left(x\\right)'
    """
    return Term(rf"\operatorname{{{escaped(op)}}}\left({', '.join(a.text for a in args)}\right)")


def _infix(sign: str, precedence: float, right: float | None = None, left: float | None = None) -> Maker:
    """The notation of an operation between two operands; `left` and `right` are the precedences below which these are
    put in parentheses, by default that of the operation, and one more at the right.
    """

    def infix(args: Sequence[Term]) -> Term:
        a, b = args
        text = f"{within(a, left or precedence)} {sign} {within(b, right or precedence + 1)}"
        return Term(text, precedence)

    return infix


def _around(opening: str, closing: str, binding: float = ATOM) -> Maker:
    """The notation of an operation as delimiters around its operands."""
    return lambda args: Term(opening + ", ".join(a.text for a in args) + closing, binding)


def _command(command: str) -> Maker:
    return _around(rf"{command}\left(", r"\right)")


def _product(args: Sequence[Term]) -> Term:
    """A product: x² of two equal atoms, a dot where digits would meet, else a thin space."""
    a, b = args
    if a.text == b.text and a.binding == ATOM:
        return Term(f"{a.text}^{{2}}", POWER)
    left, right = a.text if a.negative else within(a, PRODUCT), within(b, PRODUCT)
    # digits beside digits would be one number
    sign = r" \cdot " if right[0].isdigit() else " " if left[-1].isdigit() and right[0] != "\\" else r" \, "
    return Term(left + sign + right, SUM if a.negative else PRODUCT)


def _quotient(args: Sequence[Term]) -> Term:
    a, b = args
    return Term(rf"\frac{{{a.text}}}{{{b.text}}}", POWER)


def _power(args: Sequence[Term]) -> Term:
    base, exponent = args
    return Term(f"{within(base, ATOM)}^{{{exponent.text}}}", POWER)


def _negated(args: Sequence[Term]) -> Term:
    # of a remainder the sign would be read as one of its first operand
    return Term(f"-{within(args[0], FOLD if args[0].binding == FOLD else PRODUCT)}", SUM)


_FLOOR = _around(r"\left\lfloor ", r"\right\rfloor")

NOTATION: dict[str, Maker] = {
    "plus": _infix("+", SUM, right=FOLD),
    "minus": _infix("-", SUM, right=FOLD),
    "multiplies": _product,
    "divides": _quotient,
    "floordiv": lambda args: _FLOOR([_quotient(args)]),
    "mod": _infix(r"\bmod", PRODUCT - 0.25, left=PRODUCT),
    "power": _power,
    "neg": _negated,
    "abs": _around(r"\left|", r"\right|"),
    "sign": _command(r"\operatorname{sgn}"),
    "min": _command(r"\min"),
    "max": _command(r"\max"),
    "and": _infix(r"\land", AND),
    "or": _infix(r"\lor", OR),
    "xor": _infix(r"\oplus", OR),
    "not": lambda args: Term(rf"\lnot {within(args[0], NOT)}", NOT),
    **{
        op: _infix(sign, COMPARE, left=COMPARE + 1)
        for op, sign in {
            "eq": "=", "not_eq": r"\ne", "less": "<", "less_equal": r"\le", "greater": ">", "greater_equal": r"\ge",
        }.items()
    },
    "bit_and": _infix(r"\mathbin{\&}", TABLE["bit_and"].precedence),
    "bit_or": _infix(r"\mathbin{|}", TABLE["bit_or"].precedence),
    "bit_xor": _infix(r"\mathbin{\hat{}}", TABLE["bit_xor"].precedence),
    "bit_not": lambda args: Term(rf"{{\sim}}{within(args[0], UNARY)}", UNARY),
    "shift_left": _infix(r"\ll", TABLE["shift_left"].precedence),
    "shift_right": _infix(r"\gg", TABLE["shift_right"].precedence),
    "sqrt": _around(r"\sqrt{", "}"),
    "rsqrt": lambda args: Term(rf"\frac{{1}}{{\sqrt{{{args[0].text}}}}}", POWER),
    "cbrt": _around(r"\sqrt[3]{", "}"),
    "exp2": _around("2^{", "}", POWER),
    "expm1": lambda args: Term(rf"\exp\left({args[0].text}\right) - 1", SUM),
    "log": _command(r"\ln"),
    "log2": _command(r"\log_{2}"),
    "log10": _command(r"\log_{10}"),
    "log1p": lambda args: Term(rf"\ln\left(1 + {within(args[0], SUM + 0.25)}\right)"),
    **{op: _command(rf"\{op}") for op in ("exp", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{op: _command(rf"\{op}") for op in ("arcsin", "arccos", "arctan")},
    **{f"arc{op}": _command(rf"\operatorname{{ar{op}}}") for op in ("sinh", "cosh", "tanh")},
    "lgamma": _around(r"\ln\left|\Gamma\left(", r"\right)\right|"),
    "floor": _FLOOR,
    "ceil": _around(r"\left\lceil ", r"\right\rceil"),
    # the comma tells a tuple of one from parentheses
    "make_tuple": lambda args: _around(r"\left(", r",\right)" if len(args) == 1 else r"\right)")(args),
}  # fmt: skip
"""By the name of a builtin, how mathematics writes it; what is not here keeps its name."""


def names_of(program: syntax.Program) -> set[str]:
    """The names of parameters and sizes: what else has a name may need another symbol."""
    return {*(p.name for p in program.params), *_sizes(program)}


def letters_of(program: syntax.Program) -> dict[str, str]:
    """A letter, or a word, for an index along each dim: those of meshes first, all in the order in which they appear.

    A dim whose points lie half way between those of another has the other's letter.
    """
    tables = [{r.dim for r in p.type.ranges} for p in program.params if p.type is not None]
    meshes = {d.removeprefix(NEIGHBOUR) for table in tables if any(map(is_tag, table)) for d in table}
    dims = list(dict.fromkeys(d for d in _dims(program) if not d.startswith(NEIGHBOUR)))
    dims.sort(key=lambda d: d not in meshes)
    names = set(_names(program))
    stems = list(dict.fromkeys(map(_stem, dims)))
    letters: dict[str, str] = {}
    for stem in stems:
        first, word = stem[0].lower(), stem.lower()
        alone = sum(s[0].lower() == first for s in stems) == 1
        candidates = [*([first] if alone else []), word, f"{first}'", f"{word}'"]
        letters[stem] = next((c for c in candidates if c not in names and c not in letters.values()), f"{word}''")
    return {dim: letters[_stem(dim)] for dim in dims}


def slot_letter(program: syntax.Program) -> str:
    """A letter for the slots of neighbours."""
    taken = {*_names(program), *letters_of(program).values()}
    return next((c for c in "srqp" if c not in taken), "s'")


def is_tag(dim: str) -> bool:
    """True if a dim is that of a table's entries."""
    return dim.startswith(NEIGHBOUR) and neighbour_counter(dim) is None


def _stem(dim: str) -> str:
    return dim.removesuffix(HALF) or dim


def _expressions(program: syntax.Program) -> Iterator[syntax.Expression]:
    return syntax.walk(*(e for c in program.closures for e in c.expressions))


def _params(program: syntax.Program) -> Iterator[syntax.Param]:
    """The parameters of a program, then those of the functions in it."""
    yield from program.params
    for node in _expressions(program):
        if isinstance(node, syntax.Lambda):
            yield from node.params


def _dims(program: syntax.Program) -> Iterator[str]:
    """All dims of a program in the order of the text, with repetitions."""
    for param in _params(program):
        yield from (r.dim for r in (param.type.ranges if param.type is not None else ()))
    for node in _expressions(program):
        if isinstance(node, syntax.Call):
            for slot, value in zip(TABLE[node.op].static_slots, node.static, strict=True):
                yield from _of_slot(slot, value)


def _of_slot(slot: str, value: Any) -> Iterator[str]:
    """The dims in the value of a static parameter, by the kind of the parameter (`static_slots`)."""
    match slot:
        case "dim" | "dim?":
            yield from (value,) if value is not None else ()
        case "dims" | "over":
            yield from value
        case "pairs":
            yield from (name for pair in value for name in pair)
        case _:
            pass


def _sizes(program: syntax.Program) -> Iterator[str]:
    """The sizes in the types of parameters: others are given by these."""
    for param in _params(program):
        for r in param.type.ranges if param.type is not None else ():
            yield from (size for bound in (r.start, r.stop) for size in bound.coefficients)


def _names(program: syntax.Program) -> Iterator[str]:
    """All names of a program: parameters, sizes, bindings, parameters of functions and names that are read."""
    yield from names_of(program)
    yield from (b.name for c in program.closures for b in c.before)
    for node in _expressions(program):
        match node:
            case syntax.Name(label):
                yield label
            case syntax.Let(label):
                yield label
            case syntax.Lambda(params):
                yield from (p.name for p in params)
            case _:
                pass
