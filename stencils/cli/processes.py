"""Processes of one command: started on this machine (`--processes 4`), or by a launcher that says so around them.

Each is given the same words and its own place. The first speaks; what others say of errors is passed on where it is
news.

>>> placed(["run", "a.fencil", "--processes", "4"], "localhost:1234", 4, 2)
['run', 'a.fencil', '--processes', 'localhost:1234,4,2']
>>> counted(["run", "a.fencil", "--processes=4"]), counted(["run", "a.fencil", "--processes", "auto"])
(4, None)
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import IO, Any

OPTION = "--processes"
TEMPORARY = 75
"""The exit code of a process whose run ended with another one."""
LAUNCHED = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")
"""Variables in which launchers say of how many processes this is one, of those that JAX finds the others of."""


def launched(environment: Mapping[str, str]) -> bool:
    """True if a launcher started this process as one of several.

    >>> launched({"OMPI_COMM_WORLD_SIZE": "4"}), launched({"SLURM_STEP_NUM_TASKS": "1"}), launched({})
    (True, False, False)
    """
    return any(int(environment.get(name) or 1) > 1 for name in LAUNCHED)


def counted(arguments: Sequence[str]) -> int | None:
    """The number of processes that are asked for on this machine."""
    for k, word in enumerate(arguments):
        value = arguments[k + 1] if word == OPTION and k + 1 < len(arguments) else word.partition(f"{OPTION}=")[2]
        if value.isdecimal() and int(value) > 0:
            return int(value)
    return None


def placed(arguments: Sequence[str], address: str, count: int, place: int) -> list[str]:
    """The arguments of one of `count` processes: `--processes` says the address of the first, the count and the place.

    >>> placed(["run", "--processes", "2", "f"], "localhost:1234", 2, 1)
    ['run', 'f', '--processes', 'localhost:1234,2,1']
    """
    kept, words = [], iter(arguments)
    for word in words:
        if word == OPTION:
            next(words)
        elif not word.startswith(f"{OPTION}="):
            kept.append(word)
    return [*kept, OPTION, f"{address},{count},{place}"]


def launched_here(arguments: Sequence[str]) -> None:
    """Run a command on as many processes as it says, and exit; nothing where it says of itself which one it is.

    SIGTERM and Ctrl-C go to all of them, which end after the same step.
    """
    if (count := counted(arguments)) is None:
        return
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    program = [sys.executable, "-m", "tensorir"]
    processes: list[subprocess.Popen[Any]] = []
    before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}

    def pass_on(number: int, frame: FrameType | None) -> None:
        for process in processes:
            process.send_signal(number)

    with ExitStack() as open_files:
        errors = [open_files.enter_context(tempfile.TemporaryFile()) for _ in range(1, count)]
        for place in range(count):
            aside: dict[str, Any] = {"stderr": errors[place - 1], "stdout": errors[place - 1]} if place else {}
            # of Ctrl-C on the terminal each hears once, by this process
            command = [*program, *placed(arguments, address, count, place)]
            aside |= {"start_new_session": True, "preexec_fn": _ends_with_parent} if os.name == "posix" else {}
            processes.append(subprocess.Popen(command, **aside))
        for number in before:
            signal.signal(number, pass_on)
        try:
            codes = [p.wait() for p in processes]
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for process in processes:
                process.kill()
        if any(codes):
            _pass_on_errors(errors, codes)
    raise SystemExit(next((code if code > 0 else 128 - code for code in (*codes[:1], *codes) if code), 0))


def _ends_with_parent() -> None:
    """Let a process get SIGTERM where that which started it is killed (Linux alone can be asked for it)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _pass_on_errors(errors: Sequence[IO[bytes]], codes: Sequence[int]) -> None:
    """The errors of other processes that the first one, which ended otherwise, has not said."""
    for place, (file, code) in enumerate(zip(errors, codes[1:], strict=True), 1):
        file.seek(0)
        text = file.read().decode(errors="replace")
        begin = text.find("error[")
        if begin >= 0 and code not in (codes[0], TEMPORARY):
            sys.stderr.write(f"process {place}: {text[begin:]}")
