"""Kernels of tiles that use the number of a thread: every thread does its part, or what differs is refused."""

import numpy as np
import pytest

import tensorir as ti

HEAD = """@T.prim_func
def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        tx: T.int32 = T.launch_thread_idx(0)
        ty: T.int32 = T.launch_thread_idx(1)
        with T.sblock("tilelang_root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tl.launch_threads": [8, 1, 1]})
            s = T.sblock_alloc_buffer((8,), scope="shared.dyn")
            l = T.sblock_alloc_buffer((1,), scope="local")
            k = T.sblock_alloc_buffer((1,), "int32", scope="local.var")
            T.copy(T.region(A[bx * 8], 1, 8), T.region(s[0], 2, 8))
"""
A = np.random.default_rng(1).normal(size=32).astype(np.float32)
ROWS = A.reshape(4, 8)
EVEN = np.arange(8) % 2 == 0
LOOPED = """@T.prim_func
def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            with T.sblock("tilelang_root"):
                s = T.sblock_alloc_buffer((8,), scope="shared.dyn")
                T.copy(T.region(A[bx * 8], 1, 8), T.region(s[0], 2, 8))
"""


def kernel(lines, head=HEAD):
    indent = 16 if head is LOOPED else 12
    return ti.tir.parse(head + "".join(f"{' ' * indent}{line}\n" for line in lines), "k.py")["main"]


def ran(func):
    """What B holds after the interpreter, its checked mode, and the lift, which agree."""
    plain = ti.tir.interpret(func, A, np.zeros_like(A))[1]
    for other in (ti.tir.interpret(func, A, np.zeros_like(A), checked=True)[1], ti.lift(func)(A, np.zeros_like(A))[0]):
        np.testing.assert_allclose(other, plain, rtol=1e-6)
    return plain.reshape(4, 8)


FORMS = {
    "an index": (["B[bx * 8 + tx] = s[7 - tx]"], ROWS[:, ::-1]),
    "an index by a let": (["p = T.bind(tx * 2 % 8 + tx // 4)", "B[bx * 8 + p] = s[p] + s[tx]"],
                          ROWS + ROWS[:, [0, 4, 1, 5, 2, 6, 3, 7]]),
    "a let that is read from memory": (["x = T.bind(s[tx])", "s[tx] = T.float32(0)", "B[bx * 8 + tx] = x"], ROWS),
    "a value": (['B[bx * 8 + tx] = T.Cast("float32", tx)'], np.tile(np.arange(8.0), (4, 1))),
    "a condition": (["if tx % 2 == 0:", "    B[bx * 8 + tx] = s[tx]", "else:", "    B[bx * 8 + tx] = -s[tx]"],
                    np.where(EVEN, ROWS, -ROWS)),
    "tiles of groups of threads": (["if tx < 3:", "    for i in T.parallel(4):", "        B[bx * 8 + i] = s[i]",
                                    "else:", "    for i in T.parallel(4):", "        B[bx * 8 + 4 + i] = -s[4 + i]"],
                                   np.where(np.arange(8) < 4, ROWS, -ROWS)),
    "a condition of a local number": (["k[0] = 5", "if tx % 2 == 0:", "    k[0] = 3", "B[bx * 8 + tx] = s[k[0]]"],
                                      np.where(EVEN, ROWS[:, 3:4], ROWS[:, 5:6])),
    "a trip count": (["l[0] = T.float32(0)", "for i in range(tx + 1):", "    l[0] = l[0] + s[i]",
                      "B[bx * 8 + tx] = l[0]"], np.cumsum(ROWS, 1)),
    "a local number in a loop": (["k[0] = 0", "for i in range(3):", "    k[0] = k[0] + tx",
                                  "B[bx * 8 + tx] = s[k[0] % 8]"], ROWS[:, np.arange(8) * 3 % 8]),
    "an exchange in shared memory": (["for i in range(2):", "    l[0] = s[(tx + 1) % 8]", "    s[tx] = l[0]",
                                      "B[bx * 8 + tx] = s[tx]"], np.roll(ROWS, -2, 1)),
    "an update by every thread": (["T.atomic_add_elem_op(T.access_ptr(B[bx * 8], 1, 3), s[0])"],
                                  ROWS[:, :1] * ([8.0] + [0.0] * 7)),
    "a return": (["if tx > 5:", "    T.thread_return()", "B[bx * 8 + tx] = A[bx * 8 + tx]"],
                 np.where(np.arange(8) < 6, ROWS, 0)),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_thread_does_its_part(form):
    lines, expected = FORMS[form]
    head = HEAD[: HEAD.index("            T.copy")] if form == "a return" else HEAD
    np.testing.assert_allclose(ran(kernel(lines, head)), expected, rtol=1e-6)


def test_threads_that_a_loop_binds_share_the_operations_on_tiles():
    lines = ["T.atomicadd(T.region(s[0], 1, 8), T.region(B[bx * 8], 2, 8))", "B[bx * 8 + tx] = B[bx * 8 + tx] + s[0]"]
    np.testing.assert_allclose(ran(kernel(lines, LOOPED)), ROWS + ROWS[:, :1], rtol=1e-6)


WHOLE = "T.copy(T.region(s[0], 1, 8), T.region(B[bx * 8], 2, 8))"
REFUSED = {
    "an operation on a tile": (
        ["if tx % 2 == 0:", f"    {WHOLE}"],
        "k.py:15:17: error[TT04]: T.copy belongs to all threads of a block, and here threads differ.",
        "help: for one thread's own elements, copy into a local buffer.",
    ),
    "a parallel loop": (
        ["if tx % 2 == 0:", "    for i in T.parallel(8):", "        B[bx * 8 + i] = s[i]"],
        "k.py:15:17: error[TT04]: T.parallel belongs to all threads of a block, and here threads differ.",
        "help: take it out of the condition.",
    ),
    "an iteration": (
        ["k[0] = tx", "for i in T.parallel(8):", "    B[bx * 8 + i] = s[k[0]]"],
        "k.py:16:17: error[TT04]: an iteration of T.parallel belongs to all threads of a block, and here threads "
        "differ.",
        "help: use its variable, not the number of a thread.",
    ),
    "a barrier": (
        ["for i in range(tx):", '    T.tvm_storage_sync("shared")'],
        "k.py:15:17: error[TT04]: a barrier belongs to all threads of a block, and here threads differ.",
        "help: move it out of the condition.",
    ),
    "another view": (
        ["v = T.decl_buffer((1, 1), data=l.data, scope=\"local\")", "l[0] = s[tx]", "B[bx * 8 + tx] = v[0, 0]"],
        "k.py:14:17: error[TT04]: 'v' differs from thread to thread, and is more than an allocation and its elements "
        "here.",
        "help: read and write elements of the buffer that was allocated.",
    ),
    "a return beside tiles": (
        ["if tx > 5:", "    T.thread_return()", "B[bx * 8 + tx] = s[tx]"],
        "k.py:15:17: error[TT04]: threads part here, or speak to each other, and the kernel has T.copy, which all of "
        "them run.",
        "help: write the kernel for tiles alone, or for threads alone.",
    ),
    "threads without a count": (
        ["B[bx * 8 + tx] = s[tx]"],
        "k.py:13:13: error[TT05]: the number of a thread is used here, and nothing says how many threads a block has.",
        'help: write T.sblock_attr({"tl.launch_threads": [128, 1, 1]}).',
    ),
    "loops of two extents": (
        ["B[bx * 8 + tx] = s[tx]", 'for t in T.thread_binding(4, thread="threadIdx.x"):', "    s[t] = A[t]"],
        "k.py:9:26: error[TT04]: threads are bound to loops of different extents, in a kernel with operations on whole "
        "tiles.",
        "help: give these loops one extent.",
    ),
}  # fmt: skip
HEADS = {
    "threads without a count": HEAD.replace('            T.sblock_attr({"tl.launch_threads": [8, 1, 1]})\n', ""),
    "loops of two extents": LOOPED,
}


@pytest.mark.parametrize("way", ["interpret", "lift"])
@pytest.mark.parametrize("form", REFUSED)
def test_what_belongs_to_all_threads_is_refused_where_threads_differ(form, way):
    lines, message, help = REFUSED[form]
    func = kernel(lines, HEADS.get(form, HEAD))
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.lift(func) if way == "lift" else ti.tir.interpret(func, A, np.zeros_like(A))
    told = str(caught.value).splitlines()
    assert (told[0], told[-1]) == (message, help)


def test_two_threads_that_store_one_element_race():
    func = kernel(["B[bx] = s[tx]"])
    with pytest.raises(ti.DiagnosticError, match=r"k.py:14:13: error\[TL12\]"):
        ti.lift(func)
    with pytest.raises(ti.DiagnosticError, match=r"k.py:14:13: error\[TR03\]"):
        ti.tir.interpret(func, A, np.zeros_like(A), checked=True)
