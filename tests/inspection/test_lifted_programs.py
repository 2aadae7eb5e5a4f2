"""What is shown of lifted programs is what is shown of the tensor programs that they are."""

import pytest

import tensorir as ti

PRODUCT = """
@T.prim_func
def main(A: T.Buffer((6, 5), "float32"), B: T.Buffer((5, 4), "float32"), C: T.Buffer((6, 4), "float32")):
    for i, j, k in T.grid(6, 4, 5):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
SIZED = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    for i in range(n):
        C[i] = A[i] * T.float32(2)
"""
LIFTED = ti.lift(ti.tir.parse(PRODUCT)["main"])
LOOKS = {
    "dataflow": ti.inspect.dataflow,
    "domains": ti.inspect.domains,
    "explain": ti.explain,
    "footprint": lambda program: ti.inspect.footprint(program, at={"i": 2, "j": 1}),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_lifted_program_is_shown_as_its_fencil(look):
    assert str(LOOKS[look](LIFTED)) == str(LOOKS[look](LIFTED.fencil))


def test_one_point_of_a_product_reads_a_row_and_a_column():
    said = str(LOOKS["footprint"](LIFTED))
    assert "A: 5 points of i[2:3], k[0:5]" in said and "B: 5 points of k[0:5], j[1:2]" in said


@pytest.mark.parametrize("look", LOOKS)
def test_sizes_that_only_a_call_tells_are_asked_for(look):
    with pytest.raises(ti.DiagnosticError) as refused:
        LOOKS[look](ti.lift(ti.tir.parse(SIZED)["main"]))
    assert "'main' has sizes that only a call tells." in str(refused.value)
