"""How attributes, symbols and strings are spelled."""

from __future__ import annotations

from tensorir.tile.attributes import (
    Array,
    Attribute,
    Bounded,
    Dense,
    Dictionary,
    DivBy,
    Hints,
    Keyword,
    Number,
    SameElements,
    Symbol,
    Typed,
    Unit,
)
from tensorir.tile.text.literals import spelled_dense, spelled_number

__all__ = ["quoted", "spelled_attribute", "spelled_hints", "symbol"]

_PLAIN_SYMBOL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$.")


def symbol(name: str) -> str:
    plain = bool(name) and not name[0].isdigit() and name[0] not in "$." and all(c in _PLAIN_SYMBOL for c in name)
    return name if plain else quoted(name)


def quoted(text: str) -> str:
    """A string with what no literal holds as bytes in hexadecimal."""
    raw = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in raw) + '"'


def spelled_hints(hints: Hints) -> str:
    def plain(value: Attribute) -> str:
        return (
            str(value.value) if isinstance(value, Number) and value.element.name == "i32" else spelled_attribute(value)
        )

    said = (f"{_key(n)} = {{{', '.join(f'{_key(k)} = {plain(v)}' for k, v in d.entries)}}}" for n, d in hints.entries)
    return f"<{', '.join(said)}>"


def spelled_attribute(value: Attribute) -> str:
    """An attribute as dictionaries and the generic form write it."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return quoted(value)
        case int():
            return str(value)
        case tuple():
            return f"array<i32: {', '.join(map(str, value))}>" if value else "array<i32>"
        case Number():
            return spelled_number(value)
        case Unit():
            return "unit"
        case Keyword(text):
            return text
        case Symbol(name):
            return "::".join(f"@{symbol(part)}" for part in name.split("::"))
        case Typed(type):
            return str(type)
        case Array(items):
            return f"[{', '.join(map(spelled_attribute, items))}]"
        case Dictionary(entries):
            items = (n if isinstance(v, Unit) else f"{_key(n)} = {spelled_attribute(v)}" for n, v in entries)
            return f"{{{', '.join(items)}}}"
        case Hints():
            return f"#cuda_tile.optimization_hints{spelled_hints(value)}"
        case DivBy() | SameElements() | Bounded():
            return f"#cuda_tile.{value}"
        case Dense():
            return f"dense<{spelled_dense(value)}> : {value.type}"


def _key(name: str) -> str:
    plain = bool(name) and not name[0].isdigit() and all(c in _PLAIN_SYMBOL for c in name)
    return name if plain else quoted(name)
