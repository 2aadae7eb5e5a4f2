"""Programs of the kinds that a weather model has, on fields of both allocators, against GT4Py's own execution."""

from __future__ import annotations

import numpy as np
import pytest

from tests.peers.gt4py.sides import gtx, xla_cpu

from tests.peers.gt4py.model.model_programs import CASES, Mesh  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

MESH = Mesh(cells=12, levels=7)


@pytest.mark.parametrize("allocator", [xla_cpu, gtx.gtfn_cpu], ids=["of this backend", "of GT4Py"])
@pytest.mark.parametrize("name", CASES)
def test_programs_of_a_model_give_what_embedded_execution_gives(name, allocator):
    case, provider = CASES[name], MESH.provider()
    wanted = case.arguments(MESH)
    case.program.with_backend(None)(**wanted, offset_provider=provider)
    found = case.arguments(MESH, allocator.allocator)
    case.program.with_backend(xla_cpu)(**found, offset_provider=provider)
    for result in case.results:
        a, b = found[result].asnumpy(), wanted[result].asnumpy()
        assert np.isfinite(b).all() and np.abs(b).max() > 0
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11 * np.abs(b).max())
