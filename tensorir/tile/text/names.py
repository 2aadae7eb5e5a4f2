"""What values are called in print: as the text called them, by a label of the table, or by a number."""

from __future__ import annotations

from tensorir.tile.nodes import Module, Operation, Region, Value

__all__ = ["names_of"]


def names_of(module: Module) -> dict[int, str]:
    """A name for each value, by its identity; no two values of an entry have one name."""
    names: dict[int, str] = {}
    for op in module.operations:
        if op.name == "module":
            names.update(names_of(Module(op.regions[0].operations if op.regions else ())))
        else:
            _name_entry(op, names)
    return names


class _Names:
    """The names that an entry has used, and how many numbers."""

    def __init__(self, names: dict[int, str]) -> None:
        self.names = names
        self.used: dict[str, int] = {}
        self.count = 0

    def free(self, wanted: str) -> str:
        if not wanted:
            while (name := str(self.count)) in self.used:
                self.count += 1
            self.count += 1
        else:
            name = wanted
            while name in self.used:
                self.used[wanted] += 1
                name = f"{wanted}_{self.used[wanted]}"
        self.used[name] = 0
        return name

    def argument(self, value: Value, wanted: str) -> None:
        self.names[id(value)] = self.free(value.name or wanted)


def _name_entry(entry: Operation, names: dict[int, str]) -> None:
    own = _Names(names)

    def enter(op: Operation) -> list[Operation]:
        found: list[Operation] = []
        for region in op.regions:
            _name_arguments(op, region, own)
            found += region.operations
        return found

    pending = enter(entry)[::-1]
    while pending:
        op = pending.pop()
        _name_results(op, own)
        if op.regions:
            pending += enter(op)[::-1]


def _name_arguments(op: Operation, region: Region, own: _Names) -> None:
    for k, value in enumerate(region.arguments):
        match op.name:
            case "for":
                wanted = "loopIdx" if k == 0 else f"iterArg{k - 1}"
            case "loop":
                wanted = f"iterArg{k}"
            case "reduce" | "scan":
                wanted = f"{op.name}_{('acc', 'elem')[k % 2]}{k // 2}"
            case _:
                wanted = f"arg{k}"
        own.argument(value, wanted)


def _name_results(op: Operation, own: _Names) -> None:
    if not op.results:
        return
    first = op.results[0].name or op.row.label
    if len(op.results) > 1 and op.row.results[-1].any:
        base = own.free(first)
        for k, value in enumerate(op.results):
            own.names[id(value)] = f"{base}#{k}"
        return
    for k, value in enumerate(op.results):
        plain = op.row.results[min(k, len(op.row.results) - 1)].name
        own.names[id(value)] = own.free(value.name or (op.row.label if k == 0 else plain if op.row.label else ""))
