"""What options say: `--set` as names with values, and options that do not go with what they are given for.

>>> pairs(("n=5", "dt=0.1"), "number", "n=8")
{'n': '5', 'dt': '0.1'}
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from tensorir.binding.arrays import refuse
from tensorir.runtime.errors import did_you_mean

__all__ = ["constants", "only_known", "pairs", "refuse_given", "sizes"]


def pairs(settings: Iterable[str], what: str, example: str, option: str = "--set") -> dict[str, str]:
    """The names of an option, each with the text of its value; raises C04 where there is none."""
    found: dict[str, str] = {}
    for text in settings:
        name, _, value = text.partition("=")
        if not name or not value:
            raise refuse("C04", f"'{option} {text}' gives no {what}.", f"write {option} {example}.")
        found[name] = value
    return found


def constants(settings: Iterable[str]) -> dict[str, object]:
    """What stands for names of a kernel: numbers, true and false, strings with quotes, and words without.

    >>> constants(["n=128", "scale=0.5", "causal=true", "dtype=float16", "layout='row major'", "shape=(8, 8)"])
    {'n': 128, 'scale': 0.5, 'causal': True, 'dtype': 'float16', 'layout': 'row major', 'shape': (8, 8)}
    """
    found: dict[str, object] = {}
    for name, text in pairs(settings, "value", "n=128", "--name").items():
        if text in ("true", "false"):
            found[name] = text == "true"
            continue
        try:
            found[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            if not text.isidentifier():
                told = f"'--name {name}={text}' gives neither a number nor a string."
                raise refuse("C04", told, f"write --name {name}=128, or --name {name}=float16.") from None
            found[name] = text
    return found


def sizes(settings: Iterable[str], known: Collection[str], owner: str) -> dict[str, int]:
    """Sizes by name; raises A08 for a name that is none, C04 for a value that is none.

    >>> sizes(["n=5"], ["n"], "smooth")
    {'n': 5}
    """
    given = pairs(settings, "size", "n=100")
    only_known(given, known, owner, "size")
    for name, value in given.items():
        if not value.isdecimal():
            raise refuse("C04", f"'--set {name}={value}' gives no size.", f"write --set {name}=100.")
    return {name: int(value) for name, value in given.items()}


def only_known(given: Iterable[str], known: Collection[str], owner: str, what: str) -> None:
    """Raise A08 for the first name that nothing has."""
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) if known else "leave it out."
            raise refuse("A08", f"'{owner}' has no {what} '{name}'.", hint)


def refuse_given(path: Path, kind: str, options: Mapping[str, object]) -> None:
    """Raise C10 for options that were given and say nothing about a file of this kind."""
    given = [name for name, value in options.items() if value is not None and value is not False and value != []]
    if given:
        one = len(given) == 1
        told = f"'{path}' is {kind}, and {', '.join(given)} {'is' if one else 'are'} not for one."
        raise refuse("C10", told, f"leave {'it' if one else 'them'} out.")
