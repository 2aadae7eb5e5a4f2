"""Static slots of builtins: what stands in a call and is no operand, each kind with its reader and its spelling.

The forms in `tensorir.ir.builtins` name the slots; parser, printer and elaborator look them up here.

>>> from tensorir.runtime.errors import Source
>>> from tensorir.text.lexer import tokenize
>>> pairs = SLOTS["pairs"]
>>> value = pairs.read(Cursor(tokenize(Source("p", "I -> J, J -> I"))))
>>> value, pairs.spell(value, False)
((('I', 'J'), ('J', 'I')), 'I → J, J → I')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tensorir.ir.builtins import Builtin
from tensorir.ir.types import Dims, Element, Interval
from tensorir.ir.typing_rules import MODES
from tensorir.text.affine import Affine
from tensorir.text.cursor import Cursor, affine, element, ranges
from tensorir.text.spelling import quoted_name, quoted_string, unquoted
from tensorir.text.syntax import Range

__all__ = ["SLOTS", "Slot", "fix", "lift", "spell_affine", "spell_element", "spell_ranges"]

Sizes = Mapping[str, int]


def _same(value: Any, sizes: Sizes) -> Any:
    return value


def _itself(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Slot:
    """One kind of slot."""

    read: Callable[[Cursor], Any]
    spell: Callable[[Any, bool], str]
    """The text of a value, in Unicode or ASCII."""
    fix: Callable[[Any, Sizes], Any] = _same
    """From what is written to what the node holds, for given sizes."""
    lift: Callable[[Any], Any] = _itself
    """The other way round."""
    default: Any = None
    """What an optional slot (`dim?`) holds when it is left out."""


def fix(row: Builtin, static: tuple[Any, ...], sizes: Sizes) -> tuple[Any, ...]:
    """The static parameters of a node from those of its text."""
    return tuple(SLOTS[slot].fix(value, sizes) for slot, value in zip(row.static_slots, static, strict=True))


def lift(row: Builtin, static: tuple[Any, ...]) -> tuple[Any, ...]:
    """The static parameters of a text from those of its node."""
    return tuple(SLOTS[slot].lift(value) for slot, value in zip(row.static_slots, static, strict=True))


def spell_affine(value: Affine, ascii: bool) -> str:
    return value.spelled(partial(quoted_name, ascii=ascii))


def spell_element(value: Element, ascii: bool) -> str:
    from tensorir.ir.types import TensorType

    return str(TensorType(value)).removeprefix("tensor<").removesuffix(">")


def spell_ranges(value: tuple[Range, ...], ascii: bool) -> str:
    return ", ".join(
        f"{quoted_name(r.dim, ascii)}[{spell_affine(r.start, ascii)}:{spell_affine(r.stop, ascii)}]" for r in value
    )


def _dim(c: Cursor) -> str:
    return c.word("the name of a dim")[0]


def _truth(c: Cursor) -> bool:
    return c.expect("true", "false", "True", "False", help="write true or false.").text in ("true", "True")


def _limit(c: Cursor) -> Affine | None:
    return None if c.accept("none", "None") else affine(c)


def _dims(c: Cursor) -> tuple[str, ...]:
    found = [_dim(c)]
    while (
        c.at(",") and c.at_word(1) and not _is_mode(c, 1) and not (c.ahead().text == "over" and c.ahead(2).text == ":")
    ):
        c.advance()
        found.append(_dim(c))
    return tuple(found)


def _is_mode(c: Cursor, distance: int) -> bool:
    return c.ahead(distance).kind == "name" and c.ahead(distance).text in MODES and c.ahead(distance + 1).text == ")"


def _over(c: Cursor) -> tuple[str, ...]:
    usage = "name the dims that the updates run over: over: (p, q)."
    c.expect("over", help=usage)
    c.expect(":", help=usage)
    c.expect("(", help=usage)
    found: list[str] = []
    while not c.at(")"):
        found.append(_dim(c))
        if not c.accept(","):
            break
    c.expect(")", help=usage)
    return tuple(found)


def _pairs(c: Cursor) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    while not found or c.accept(","):
        old = _dim(c)
        c.expect("→", "->", help="a renaming is written rename(I → J)(x).")
        found.append((old, _dim(c)))
    return tuple(found)


def _string(c: Cursor) -> str:
    if c.token.kind != "string":
        c.missing("a text", 'texts stand between double quotes: "text".')
    token = c.advance()
    text = unquoted(token.text)
    if text is None:
        c.fail("S03", "there is a wrong escape in this text.", token, "escapes are those of JSON: \\n, \\u00e9.")
    return text


def _spell_names(names: tuple[str, ...], ascii: bool) -> str:
    return ", ".join(quoted_name(name, ascii) for name in names)


def _spell_dims(names: tuple[str, ...], ascii: bool) -> str:
    # a dim that is named like a mode would be read as one
    return ", ".join(f"`{name}`" if name in (*MODES, "over") else quoted_name(name, ascii) for name in names)


def _spell_pairs(pairs: tuple[tuple[str, str], ...], ascii: bool) -> str:
    arrow = "->" if ascii else "→"
    return ", ".join(f"{quoted_name(old, ascii)} {arrow} {quoted_name(new, ascii)}" for old, new in pairs)


def _truth_text(value: bool, ascii: bool) -> str:
    return "true" if value else "false"


def _at(value: Affine | None, sizes: Sizes) -> int | None:
    return None if value is None else value.at(sizes)


def _constant(value: int | None) -> Affine | None:
    return None if value is None else Affine(value)


def _intervals(value: tuple[Range, ...], sizes: Sizes) -> Dims:
    return Dims(tuple((r.dim, Interval(r.start.at(sizes), r.stop.at(sizes))) for r in value))


def _ranges(value: Dims) -> tuple[Range, ...]:
    return tuple(Range(dim, Affine(i.start), Affine(i.stop)) for dim, i in value.items)


SLOTS: dict[str, Slot] = {
    "dim": Slot(_dim, quoted_name),
    "dim?": Slot(_dim, quoted_name),
    "int": Slot(affine, spell_affine, _at, _constant),
    "int?": Slot(_limit, lambda v, ascii: "none" if v is None else spell_affine(v, ascii), _at, _constant),
    "bool": Slot(_truth, _truth_text),
    "bool?": Slot(_truth, _truth_text, default=False),
    "element": Slot(element, spell_element),
    "dims": Slot(_dims, _spell_dims),
    "over": Slot(_over, lambda v, ascii: f"over: ({_spell_names(v, ascii)})"),
    "intervals": Slot(ranges, spell_ranges, _intervals, _ranges),
    "pairs": Slot(_pairs, _spell_pairs),
    "mode?": Slot(lambda c: c.word("a rule for indices")[0], quoted_name, default="checked"),
    "string": Slot(_string, quoted_string),
}
"""A reader and a spelling for each static slot that a form can have."""
