"""`--devices 2x2 --dims I,J`: which dims of a program are parted over how many devices, of one process or several."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Any

import tensorir as ti
from tensorir.binding.arrays import refuse

__all__ = ["Devices"]


@dataclass(frozen=True, slots=True)
class Devices:
    """How many devices lie along each distributed dim."""

    along: dict[str, int]
    processes: str | None = None
    """Who takes part: "auto", or an address, how many there are and which of them this is."""

    @classmethod
    def of(cls, devices: str | None, dims: str | None, processes: str | None = None) -> Devices | None:
        """What the options say.

        >>> Devices.of("2x3", "I,J")
        Devices(along={'I': 2, 'J': 3}, processes=None)
        """
        if devices is None and dims is None and processes is None:
            return None
        names = [d for d in (dims or "").split(",") if d]
        if devices is None or not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", devices):
            alone = "--processes" if dims is None else "--dims"
            given = f"{alone} alone" if devices is None else f"--devices {devices}"
            raise refuse("C03", f"{given} does not say how many devices there are.", "write --devices 2x2 --dims I,J.")
        counts = [int(n) for n in devices.split("x")]
        if len(set(names)) != len(counts):
            told = f"--devices {devices} is for {len(counts)} dims, and --dims {dims or ''} names {len(set(names))}."
            raise refuse("C03", told.replace("1 dims", "1 dim"), f"write --dims {','.join('IJK'[: len(counts)])}.")
        return cls(dict(zip(names, counts, strict=True)), processes)

    def join(self) -> bool:
        """Join the other processes; whether this is the first, which writes and speaks for all."""
        from lowering.distribution.meshes import join

        if self.processes is None:
            return True
        asked = re.fullmatch(r"auto|(\S+:\d+),([1-9]\d*),(\d+)", self.processes)
        if asked is None or (asked[2] and int(asked[3]) >= int(asked[2])):
            told = f"--processes {self.processes} does not say who takes part."
            raise refuse(
                "C03", told, "write --processes HOST:PORT,4,0 for the first of four, or auto under Slurm or MPI."
            )
        count, place = (None, None) if asked[2] is None else (int(asked[2]), int(asked[3]))
        try:
            return join(asked[1], count, place, prod(self.along.values()))
        except ValueError as found:
            told = f"--processes auto finds no launcher of processes: {found}"
            raise refuse("C03", told, "write --processes HOST:PORT,4,0 for the first of four.") from None

    def distributed(self, program: Any) -> Any:
        """The program on a mesh of the devices; C03 where there are fewer."""
        from lowering.distribution.meshes import available, mesh_of

        extents = tuple(self.along.values())
        if (found := available(prod(extents))) < prod(extents):
            there = "is 1" if found == 1 else f"are {found}"
            raise refuse("C03", f"--devices {self} asks for more devices than there are: there {there}.")
        mesh = mesh_of(extents)
        return ti.distribute(program, mesh, {d: f"p{k}" for k, d in enumerate(self.along)})

    def __str__(self) -> str:
        return "x".join(map(str, self.along.values()))
