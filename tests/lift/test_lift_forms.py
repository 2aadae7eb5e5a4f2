"""One lifted program of each form as text: `python -m tests.lift.ratchet --write kernel` writes them anew."""

from __future__ import annotations

import pytest

from tests.lift.costs import assert_kept
from tests.lift.kernels import kernels, lifted
from tests.lift.ratchet import FORMS

TEXTS = dict(case.split("\n", 1) for case in FORMS.read_text(encoding="utf-8").split("#---- ")[1:])


@pytest.mark.parametrize("name", kernels())
def test_a_kernel_has_its_text_and_its_figures(name: str):
    program, arrays = lifted(kernels()[name])
    assert f"{program}\n" == TEXTS[name]
    assert_kept(f"kernel: {name}", program, arrays)
