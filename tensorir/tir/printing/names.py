"""Names for variables and buffers: the hints of the nodes, made unique among the names that are in scope."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable
from typing import Protocol

from tensorir.tir import nodes as n

__all__ = ["Names"]

_WORDS = "T I R cls Module metadata tvm tir tirx relax ir TypeVar range min max len abs int float bool tuple list"
_RESERVED = {*_WORDS.split(), *keyword.kwlist, *keyword.softkwlist} - {"_"}


class Named(Protocol):
    """What has a name in the text: a variable, or a buffer."""

    @property
    def name(self) -> str: ...


class Names:
    """What is called how; a scope that ends gives its names free again."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken: set[str] = {*_RESERVED, *reserved}
        self._known: dict[object, str] = {}
        self._scopes: list[list[Named]] = [[]]
        self._owners: dict[n.Var, n.Buffer] = {}
        self._parts: dict[n.Var, tuple[n.Buffer, str]] = {}

    def push(self) -> None:
        self._scopes.append([])

    def pop(self) -> None:
        for node in self._scopes.pop():
            name = self._known.pop(node, None)
            if name is not None:
                self._taken.discard(name)
            if isinstance(node, n.Buffer) and self._owners.get(node.data) is node:
                del self._owners[node.data]

    def define(self, node: Named) -> str:
        """A name for what is bound here."""
        if (known := self._known.get(node)) is not None:
            return known
        base = _identifier(node.name)
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"_{count}" if base == "_" else f"{base}_{count}"
        self._taken.add(name)
        self._known[node] = name
        self._scopes[-1].append(node)
        if isinstance(node, n.Buffer):
            self._owners.setdefault(node.data, node)
        return name

    def part(self, var: n.Var, buffer: n.Buffer, field: str) -> None:
        """The variable is known as a part of a buffer, `A.elem_offset`, and has no name of its own."""
        self._parts[var] = buffer, field

    def knows(self, node: n.Node) -> bool:
        return node in self._known or node in self._owners

    def owner(self, data: n.Var) -> n.Buffer | None:
        """The buffer in scope whose memory the variable is."""
        return self._owners.get(data)

    def of(self, node: Named) -> str:
        """The name of what is bound; a buffer's memory is `A.data`, what is bound nowhere has its own name."""
        if (known := self._known.get(node)) is not None:
            return known
        if isinstance(node, n.Var) and (part := self._parts.get(node)) is not None:
            return f"{self.of(part[0])}.{part[1]}"
        if isinstance(node, n.Var) and (owner := self._owners.get(node)) is not None:
            return f"{self._known[owner]}.data"
        return self.define(node)


def _identifier(hint: str) -> str:
    name = re.sub(r"\W", "_", hint, flags=re.ASCII)
    if not name:
        return "v"
    return f"v_{name}" if name[0].isdigit() or name.startswith("__") else name
