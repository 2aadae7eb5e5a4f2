"""A model's step recorded from the calls of its programs, and replayed as one function."""

from __future__ import annotations

import contextvars
import threading
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import tensorir as ti
from tensorir.integers.dims import Dims
from tensorir.iterator.recorded import Form, Tape
from tests.peers.gt4py.sides import E2V, V2E, Edge, K, V2EDim, Vertex, field, gtx, values, xla_cpu
from tests.peers.gt4py.test_refusals import without_place
from tests.peers.gt4py.test_unstructured import E2V_TABLE, PROVIDER, V2E_TABLE

from gt4py.next import neighbor_sum  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

EK = gtx.Field[[Edge, K], gtx.float64]
VK = gtx.Field[[Vertex, K], gtx.float64]
LEVELS = 3


@gtx.field_operator
def _divergence(vn: EK) -> VK:
    return neighbor_sum(vn(V2E), axis=V2EDim)


@gtx.program(backend=xla_cpu)
def divergence(vn: EK, div: VK, first: gtx.int32, last: gtx.int32):
    _divergence(vn, out=div, domain={Vertex: (first, last), K: (0, 3)})


@gtx.field_operator
def _accelerated(vn: EK, div: VK, dt: gtx.float64) -> EK:
    return vn + dt * (div(E2V[1]) - div(E2V[0])) * vn


@gtx.program(backend=xla_cpu)
def accelerated(vn: EK, div: VK, dt: gtx.float64, new: EK):
    _accelerated(vn, div, dt, out=new)


def model() -> tuple[Any, Any, Any]:
    return field({Edge: 5, K: LEVELS}), field({Vertex: 4, K: LEVELS}), field({Edge: 5, K: LEVELS})


def run(vn: Any, div: Any, new: Any) -> None:
    divergence(vn, div, 0, 4, offset_provider=PROVIDER)
    accelerated(vn, div, 0.25, new, offset_provider=PROVIDER)


def by_numpy(vn: np.ndarray) -> dict[str, np.ndarray]:
    div = np.where((V2E_TABLE >= 0)[..., None], vn[V2E_TABLE], 0.0).sum(1)
    return {"div": div, "new": vn + 0.25 * (div[E2V_TABLE[:, 1]] - div[E2V_TABLE[:, 0]]) * vn}


def said(call: Any, program: str = "") -> str:
    """A message, without the place of the call of a program."""
    with pytest.raises(ti.DiagnosticError) as caught:
        call()
    return without_place(str(caught.value), program) if program else str(caught.value)


def test_a_recorded_step_is_a_function_of_all_fields_that_were_touched() -> None:
    vn, div, new = model()
    start = vn.asnumpy().copy()
    with ti.iterator.record() as step:
        run(vn, div, new)
    assert (step.reads, step.writes) == (("vn",), ("div", "new"))
    other = values(5, LEVELS)
    for x in (start, other):
        found = step({"vn": x})
        np.testing.assert_allclose(found["div"], by_numpy(x)["div"], rtol=1e-14)
        np.testing.assert_allclose(found["new"], by_numpy(x)["new"], rtol=1e-14)
        assert found["vn"] is x
    np.testing.assert_allclose(new.asnumpy(), by_numpy(start)["new"], rtol=1e-14)
    assert str(step) == "1: divergence: div of vn\n2: accelerated: new of vn, div"


def recorded(**options: Any) -> Any:
    fields = model()
    with ti.iterator.record(**options) as step:
        run(*fields)
    return step


def test_gradients_of_a_recorded_step_are_slopes() -> None:
    step, direction, h = recorded(), values(5, LEVELS), 1e-6
    x = step.state["vn"]

    def energy(vn: Any) -> Any:
        return (step({"vn": vn})["new"] ** 2).sum()

    with jax.enable_x64(True):
        slope = jax.grad(energy)(jax.numpy.asarray(x))
    there, back = ((by_numpy(x + s * direction)["new"] ** 2).sum() for s in (h, -h))
    np.testing.assert_allclose((slope * direction).sum(), (there - back) / (2 * h), rtol=1e-6)


def test_ensembles_of_a_recorded_step_share_what_does_not_vary() -> None:
    step, ensemble = recorded(), values(4, 5, LEVELS)
    _, rest = step.split("vn", "new")
    with jax.enable_x64(True):
        found = jax.vmap(step, in_axes=(0, None))({"vn": ensemble}, rest)
    assert found.keys() == {"vn", "new"}  # `div` is among what is shared
    np.testing.assert_allclose(found["new"], [by_numpy(x)["new"] for x in ensemble], rtol=1e-13)


def test_a_recorded_step_is_the_step_of_a_time_loop() -> None:
    step = recorded()

    def forward(state: Any) -> Any:
        after = step(state)
        return {**after, "vn": after["new"]}

    found, x = ti.iterate(forward, step.state, 3), step.state["vn"]
    for _ in range(3):
        x = by_numpy(x)["new"]
    np.testing.assert_allclose(found["vn"], x, rtol=1e-13)


def test_a_recorded_step_runs_on_the_devices_of_a_mesh() -> None:
    vn, div, new = model()
    with ti.iterator.record() as step:
        divergence(vn, div, 1, 3, offset_provider=PROVIDER)
        accelerated(vn, div, 0.25, new, offset_provider=PROVIDER)
    mesh, owners = jax.make_mesh((1,), ("px",)), {Edge: np.zeros(5, int), "Vertex": np.zeros(4, int)}
    there = ti.distribute(step, mesh, {Edge: "px", Vertex: "px"}, partition=owners)
    state = step.state
    for name, a in step(state).items():
        np.testing.assert_array_equal(there(state)[name], a)
    assert (there.reads, there.writes) == (step.reads, step.writes)
    with jax.enable_x64(True):
        text = jax.jit(there).lower(state).as_text()
        slopes = [jax.grad(lambda vn, s=s: s({**state, "vn": vn})["new"].sum())(state["vn"]) for s in (step, there)]
    assert "sdy.mesh" in text
    np.testing.assert_allclose(*slopes, rtol=1e-14)
    assert said(lambda: ti.distribute(step, mesh, {"Cell": "px"})) == (
        "error[D02]: 'the step' has no dim Cell to distribute.\nhelp: known here: 'Edge', 'K', 'Vertex'."
    )


def test_domains_above_zero_are_kept_and_the_rest_of_a_field_stays() -> None:
    vn, div = field({Edge: 5, K: (0, 3)}), field({Vertex: (1, 4), K: (0, 3)})
    with ti.iterator.record() as step:
        divergence(vn, div, 2, 4, offset_provider=PROVIDER)
    assert str(step.domains["div"]) == "Vertex[1:4], K[0:3]"
    assert step.reads == ("vn", "div")
    found = step(step.state)["div"]
    np.testing.assert_allclose(found[1:], by_numpy(vn.asnumpy())["div"][2:], rtol=1e-14)
    np.testing.assert_array_equal(found[0], step.state["div"][0])
    np.testing.assert_array_equal(found, div.asnumpy())


def on(memory: np.ndarray) -> Any:
    """A field of vertices and levels in the memory of an array."""
    return gtx.common._field(memory, domain=gtx.domain({Vertex: memory.shape[0], K: memory.shape[1]}))


def test_a_field_that_is_a_part_of_another_is_that_part_of_its_entry() -> None:
    vn, _, new = model()
    memory = values(4, 2, 6)
    whole, part = on(memory[:, 1]), on(memory[:, 1, 1:4])
    before, levels = memory[:, 1].copy(), by_numpy(vn.asnumpy())["div"]
    with ti.iterator.record(names={"whole": whole}) as step:
        divergence(vn, part, 0, 4, offset_provider=PROVIDER)
        accelerated(vn, whole, 0.25, new, offset_provider=PROVIDER)
    assert (step.reads, step.writes) == (("vn", "whole"), ("whole", "new"))
    np.testing.assert_array_equal(step.state["whole"], before)
    found, div = step(step.state), np.concatenate([before[:, :1], levels, before[:, 4:]], 1)
    np.testing.assert_allclose(found["whole"], div, rtol=1e-14)
    by_hand = vn.asnumpy() * (1 + 0.25 * (div[E2V_TABLE[:, 1], :3] - div[E2V_TABLE[:, 0], :3]))
    np.testing.assert_allclose(found["new"], by_hand, rtol=1e-14)


def test_fields_whose_elements_take_turns_in_memory_are_two() -> None:
    vn, _, new = model()
    memory = values(4, 2, LEVELS)
    with ti.iterator.record() as step:
        run(vn, on(memory[:, 0]), new)
        divergence(new, on(memory[:, 1]), 0, 4, offset_provider=PROVIDER)
    found = step(step.state)
    np.testing.assert_array_equal([found["div"], found["divergence.div"]], memory.transpose(1, 0, 2))


def test_fields_that_overlap_in_part_are_refused() -> None:
    vn, _, new = model()
    memory = values(4, 5)

    def overlapping() -> None:
        with ti.iterator.record():
            divergence(vn, on(memory[:, :3]), 0, 4, offset_provider=PROVIDER)
            accelerated(vn, on(memory[:, 2:]), 0.25, new, offset_provider=PROVIDER)

    assert said(overlapping) == (
        "error[TI17]: 'div' of 'divergence' and 'div' of 'accelerated' share memory, and neither holds the other.\n"
        "help: allocate each field by itself."
    )


def test_names_are_given_or_those_of_parameters() -> None:
    vn, div, new = model()
    with ti.iterator.record(names={"wind": vn, "later": new}) as step:
        run(vn, div, new)
        accelerated(new, div, 0.25, field({Edge: 5, K: LEVELS}), offset_provider=PROVIDER)
        accelerated(new, div, 0.25, field({Edge: 5, K: LEVELS}), offset_provider=PROVIDER)
    assert list(step.domains) == ["wind", "div", "later", "new", "accelerated.new"]
    assert step.name_of(new) == "later"
    assert said(lambda: step.name_of(field({Edge: 5}))) == (
        "error[TI18]: no program of the step took this field.\nhelp: print(step) has those that they took."
    )


def test_what_the_host_writes_between_programs_is_told() -> None:
    vn, div, new = model()

    def written() -> None:
        with ti.iterator.record():
            divergence(vn, div, 0, 4, offset_provider=PROVIDER)
            div.ndarray[1] *= 2.0
            accelerated(vn, div, 0.25, new, offset_provider=PROVIDER)

    assert said(written, "accelerated") == (
        "error[TI14]: 'div' was written after call 1, of 'divergence', and before call 2, of 'accelerated', by what is "
        "no program of this backend.\n"
        'help: write it in a program, or keep it as a constant: record(host_writes="constant").'
    )


def test_what_the_host_writes_is_a_constant_where_asked_for() -> None:
    vn, div, new = model()
    with ti.iterator.record(host_writes="constant") as step:
        divergence(vn, div, 0, 4, offset_provider=PROVIDER)
        div.ndarray[...] = 1.0 + np.arange(4)[:, None]
        accelerated(vn, div, 0.25, new, offset_provider=PROVIDER)
        new.ndarray[0] = 7.0
    assert step.reads == ("vn", "div@2", "new@3")
    found = step(step.state)
    np.testing.assert_array_equal(found["new"], new.asnumpy())
    np.testing.assert_array_equal(found["div"], div.asnumpy())


def test_programs_of_another_grid_are_another_step() -> None:
    fields = model()
    other = {**PROVIDER, "V2E": gtx.as_connectivity([Vertex, V2EDim], Edge, V2E_TABLE[::-1].copy(), skip_value=-1)}

    def two_grids() -> None:
        with ti.iterator.record():
            run(*fields)
            divergence(*fields[:2], 0, 4, offset_provider=other)

    assert said(two_grids, "divergence") == (
        "error[TI15]: 'V2E' of call 3, of 'divergence', is another table than that of call 1, of 'divergence'.\n"
        "help: record the programs of each grid as a step of its own."
    )


def test_a_table_that_was_changed_after_the_record_is_told() -> None:
    fields = model()
    own = {**PROVIDER, "V2E": gtx.as_connectivity([Vertex, V2EDim], Edge, V2E_TABLE.copy(), skip_value=-1)}
    with ti.iterator.record() as step:
        divergence(*fields[:2], 0, 4, offset_provider=own)
    own["V2E"].ndarray[0] = 3
    assert said(lambda: step(step.state)) == (
        "error[TI15]: 'V2E' was changed after its program was compiled.\n"
        "help: make a connectivity of its own for another grid, and record again."
    )


def test_a_step_is_recorded_by_one_thread() -> None:
    fields = model()
    failed: list[BaseException] = []

    def other(context: Any) -> None:
        try:
            context.run(run, *fields)
        except ti.DiagnosticError as problem:
            failed.append(problem)

    with ti.iterator.record() as step:
        run(*fields)
        thread = threading.Thread(target=other, args=(contextvars.copy_context(),))
        thread.start()
        thread.join()
    assert len(step.reads) == 1
    assert without_place(str(failed[0]), "divergence") == (
        "error[TI16]: the step is recorded by one thread, and 'divergence' is called by another.\n"
        "help: record in each thread by itself, each on fields of its own."
    )


def test_fields_that_were_freed_are_needed_for_writing_to_them_alone() -> None:
    vn, div, new = model()
    with ti.iterator.record() as step:
        run(vn, div, new)
    found = step({"vn": values(5, LEVELS)})
    step.store(found)
    np.testing.assert_array_equal(step.current()["new"], found["new"])
    np.testing.assert_array_equal(vn.asnumpy(), found["vn"])
    del vn
    again = step(found)["new"]
    np.testing.assert_allclose(again, by_numpy(found["vn"])["new"], rtol=1e-14)
    assert said(lambda: step.store(found)) == (
        "error[TI18]: the field of 'vn' was freed since the step was recorded.\n"
        "help: keep it while its memory is asked for; the step itself needs no field."
    )


def test_a_state_that_does_not_fit_is_refused() -> None:
    step = recorded()
    assert said(lambda: step({})) == (
        "error[TI11]: the step reads 'vn', which is not given.\nhelp: step.state has all that it reads."
    )
    assert said(lambda: step({"vn": values(6, LEVELS)})) == (
        "error[TI11]: 'vn' was recorded as float64 on Edge[0:5], K[0:3], and float64 of the shape (6, 3) is passed.\n"
        "help: record the step on fields of that size and type."
    )
    for call in (lambda x: step(x), lambda x: step(step.state, x), step.store):
        assert said(lambda call=call: call(values(5))) == (
            "error[TI11]: a state has arrays by name, and this is of type ndarray.\n"
            "help: pass a dict: step(step.state)."
        )
    assert said(lambda: step({"vm": values(5, LEVELS)})) == (
        "error[TI18]: the step has no entry 'vm'.\nhelp: known here: 'vn', 'div', 'new'."
    )


def test_a_block_is_recorded_once_and_alone() -> None:
    step = recorded()

    def again() -> None:
        with step:
            pass

    def inside() -> None:
        with ti.iterator.record(), ti.iterator.record():
            pass

    assert said(again) == "error[TI16]: this step is recorded already.\nhelp: begin another: ti.iterator.record()."
    assert said(inside) == (
        "error[TI16]: a step is recorded already.\nhelp: end its block first; the whole is one step."
    )
    assert said(lambda: ti.iterator.record().state) == (
        "error[TI16]: the step is not recorded yet.\nhelp: use it after its block: with record()."
    )
    assert said(lambda: ti.iterator.record(host_writes="never")) == (
        'error[TI16]: host_writes is \'never\'.\nhelp: it is "refuse" or "constant".'
    )


def test_programs_of_a_step_are_not_fused_with_one_another() -> None:
    step = recorded()
    with jax.enable_x64(True):
        text = jax.jit(jax.grad(lambda vn: step({"vn": vn})["new"].sum())).lower(step.state["vn"]).as_text()
    assert text.count('inlineable = "false"') >= 4  # both programs, and both of their gradients


def test_what_a_step_computes_again_for_gradients_stays_computed_again() -> None:
    step = recorded()
    step(step.state)  # what JAX traced for this call it does not trace again
    asked = [
        ti.config.compiler_options(jax.grad(lambda vn: step({"vn": vn})["new"].sum()), step.state["vn"]) for _ in "ab"
    ]
    assert asked == [{"xla_disable_hlo_passes": "cse_barrier_expander,small-while-loop-hoisting"}] * 2


def test_fields_of_a_device_are_not_recorded() -> None:
    tape, field_there = Tape("refuse"), SimpleNamespace(ndarray=SimpleNamespace())
    form = Form(lambda **arrays: arrays, (), ())

    def met() -> None:
        tape.run("p", {0: ("x", Dims())}, [field_there], set(), {}, {}, form, lambda: None)

    assert said(met) == (
        "error[TI16]: 'x' of 'p' lies in the memory of a device, and steps are recorded on the host.\n"
        "help: record with fields of xla_cpu; the step itself runs anywhere."
    )
