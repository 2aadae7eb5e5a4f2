"""`tensorir run model.py:step`: a field operator of a Python module on the arrays of files, once or many times."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from inspect import Parameter
from typing import Any

import tensorir as ti
from stencils.cli.files import ARRAYS, Names, check_target, opened_or_read, read_arrays
from stencils.cli.inputs import arrays_of
from stencils.cli.options import only_known, pairs
from stencils.cli.run import Request, check_steps, clock_from, deliver, encoded, forcing_of, on_host, silent
from tensorir.runtime.errors import Interrupted, did_you_mean, refuse


def run(operator: Any, request: Request, say: Callable[[str], None], warn: Callable[[str], None]) -> None:
    """Call an operator on arrays by the names of its parameters, and write what it gives.

    One result is called `out`, several `out_0`, `out_1` and so on. With steps they are the next values of the first
    arrays, in order, or of those that `--next h=out` says, and what is written has the names of these.
    """
    check_target(request.out, ARRAYS)
    check_target(request.plot, (".png", ".svg", ".pdf"))
    check_steps(request)
    read = read_arrays
    if request.devices is not None:
        read = opened_or_read  # of which devices read their blocks
        if not request.devices.join():
            request, say = replace(request, out=None, plot=None), silent
    names = list(operator.signature.parameters)
    arrays = arrays_of(request.inputs, request.named, operator.name, names, names, read)
    settings = pairs(request.settings, "value", "dt=0.1")
    only_known(settings, names, operator.name, "parameter")
    numbers = {name: _read_number(name, text) for name, text in settings.items()}
    dims = Names(pairs(request.rename, "dim", "latitude=J", "--rename"))
    have = [str(d) for a in arrays.values() for d in getattr(a, "dims", ())]
    for dim in dims.pairs:
        if dim not in have:
            raise refuse("C13", f"no input has a dim '{dim}'.", did_you_mean(dim, have))
    inside = {n: dims.inside(a) for n, a in arrays.items()}
    forcing = {n: dims.inside(a) for n, a in forcing_of(request, operator.name, names).items()}
    inside = {n: a for n, a in inside.items() if n not in forcing}
    for name, parameter in operator.signature.parameters.items():
        is_named = parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        if is_named and parameter.default is Parameter.empty and name not in {**inside, **numbers, **forcing}:
            hint = f"write --input {name}=arrays.nc, or --set {name}=1."
            raise refuse("A11", f"'{name}' of '{operator.name}' is not given.", hint)
    begin = time.perf_counter()
    run = operator if request.devices is None else request.devices.distributed(operator)
    first = {n: a.isel(time=0, drop=True).compute() for n, a in forcing.items()}
    results = _name_results(run(**inside, **numbers, **first))
    if request.steps is None:
        if request.next:
            raise refuse("C03", "--next repeats an operator, and no number of steps is given.", "add --steps 100.")
    else:
        pairs_of_arrays = _feedback(operator.name, request.next, inside, results)
        _refuse_records(pairs_of_arrays, inside, results)
        try:
            results = _run_steps(run, inside, numbers, pairs_of_arrays, forcing, request)
        except Interrupted as stopped:
            goes_on = "" if request.checkpoint is None else "; the same command goes on from there"
            warn(f"stopped after {stopped.steps:,} of {request.steps:,} steps{goes_on}.")
            raise SystemExit(128 + stopped.signal) from None
    if request.devices is not None:
        results = on_host(results)
    outcome = {n: encoded(dims.outside(v), arrays) for n, v in results.items()}
    seconds = time.perf_counter() - begin
    where = "" if request.devices is None else f", on {request.devices} devices"
    deliver(operator.name, arrays, outcome, request, f"{seconds:.2f} s with compilation{where}", say)


def _read_number(name: str, text: str) -> bool | int | float:
    """The number or truth value in `--set name=text`; raises C04 for other texts."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise refuse("C04", f"'--set {name}={text}' gives no number.", f"write --set {name}=1.5.")


def _name_results(results: Any) -> dict[str, Any]:
    return {f"out_{k}": v for k, v in enumerate(results)} if isinstance(results, tuple) else {"out": results}


def _feedback(
    name: str, settings: tuple[str, ...], arrays: Mapping[str, Any], results: Mapping[str, Any]
) -> dict[str, str]:
    """The pairs of arrays and the results that they take for the next step."""
    said = pairs(settings, "result", "h=out", "--next")
    only_known(said, arrays, name, "array")
    for source in said.values():
        if source not in results:
            raise refuse("C01", f"'{source}' is not a result of '{name}'.", did_you_mean(source, results))
    return said or dict(zip(arrays, results, strict=False))


def _refuse_records(feedback: Mapping[str, str], arrays: Mapping[str, Any], results: Mapping[str, Any]) -> None:
    """Raise A20 for an input along time, of which each step would add all records to the state."""
    for name, result in feedback.items():
        later = [n for n, a in arrays.items() if n not in feedback and "time" in getattr(a, "dims", ())]
        if later and "time" in results[result].dims and "time" not in arrays[name].dims:
            message = f"the step turns '{name}' into one along time, of which '{later[0]}' has records"
            raise refuse("A20", f"{message}.", f"give '{later[0]}' as a forcing: --forcing instead of --input.")


def _run_steps(
    operator: Any, arrays: Mapping[str, Any], numbers: Mapping[str, Any], feedback: Mapping[str, str],
    forcing: Mapping[str, Any], request: Request,
) -> dict[str, Any]:  # fmt: skip
    """The arrays that steps change, after the last or, with `--every`, along the time of snapshots."""

    def step(state: Any, forced: Mapping[str, Any] | None = None) -> Any:
        results = _name_results(operator(**state, **numbers, **(forced or {})))
        return {n: results[feedback[n]] if n in feedback else value for n, value in state.items()}

    def keep(state: Any) -> Any:
        return {n: state[n] for n in feedback}

    assert request.steps is not None
    dt, start = clock_from(request)
    options: dict[str, Any] = {"dt": dt, "start": start}
    if forcing:
        options |= {"forcing": dict(forcing), "forcing_method": request.forcing_method or "linear"}
    if request.checkpoint is not None:
        options |= {"checkpoint_dir": request.checkpoint, "checkpoint_every": request.often}
        options |= {} if request.every is None else {"to": request.checkpoint / "snapshots.zarr"}
    if request.every is None:
        last = ti.iterate(step, dict(arrays), request.steps, **options)
        return {n: last[n] for n in feedback}
    _, kept = ti.iterate(step, dict(arrays), request.steps, every=request.every, keep=keep, **options)
    return {n: kept[n] for n in feedback}
