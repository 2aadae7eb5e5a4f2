"""Kernels for CPUs as custom calls of XLA: compiled by LLVM in this process, kept on disk, run on XLA's own threads.

The caller and some tasks on XLA's pool of threads take the blocks of a kernel one after the other, until none is left.
The caller waits for blocks that are under way, and for no task: one that starts late finds nothing to do. So a pool
that is busy, or a process that was forked, makes a call slower, and cannot make it hang.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from string import Template
from threading import Lock
from typing import Any

import jax

from lowering.kernels import grids, native
from lowering.kernels.native import Kernel
from lowering.kernels.program import Program, Variable, element_of, shape_of
from lowering.kernels.regions import Swept
from lowering.kernels.stages import Staged
from lowering.tracing import axes_of, varying

VERSIONS = frozenset([(0, 3)])
"""Of XLA's interface for custom calls, those whose structures are the ones of `HANDLER`."""
PER_THREAD = 16
"""Parts of the work for each thread: enough that one which is held up holds nobody else up."""
WORTH_THREADS = 100_000
"""Instructions of vectors from which on several threads share the work."""


@cache
def is_available() -> bool:
    """True if kernels for CPUs can be compiled and called: llvmlite is installed, and XLA's interface has a known
    version.

    Cached; warns once if the platform could have them and they are not available.
    """
    if sys.platform not in ("linux", "darwin"):
        return False
    if find_spec("llvmlite") is None:
        slower = "scans and stencils run as XLA's loops, which take 2 to 7 times as long"
        warnings.warn(f"{slower}, since llvmlite is not installed: pip install llvmlite", stacklevel=2)
        return False
    text = (Path(jax.ffi.include_dir()) / "xla/ffi/api/c_api.h").read_text()
    numbers = [re.search(rf"#define XLA_FFI_API_{name} (\d+)", text) for name in ("MAJOR", "MINOR")]
    version = tuple(int(n[1]) for n in numbers if n is not None)
    if version not in VERSIONS:
        message = f"kernels for CPUs are not used: version {version} of XLA's custom calls is not known to tensorir."
        warnings.warn(message, stacklevel=2)
    return version in VERSIONS


def launched(
    program: Program, region: Swept | Staged, results: Sequence[Variable], env: Mapping[Any, Any]
) -> list[Any]:
    """The results of a kernel, as an XLA custom call; `env` has the arrays by variable."""
    if not results:
        return []  # nobody reads it
    constants = dict[Any, Any]()
    match region:
        case Swept():
            constants = {v: x for s in region.sweeps for v, x in s.body.constants.items()}
            kernel = native.kernel_of(program, region, results)
        case Staged():
            kernel = grids.kernel_of(program, region, results, threads())
    arguments = [constants[v] if v in constants else env[v] for v in kernel.arrays[: len(kernel.arrays) - len(results)]]
    arguments = list(map(jax.numpy.asarray, arguments))
    shapes = [jax.ShapeDtypeStruct(shape_of(v), element_of(v)) for v in results]
    # the types of arrays in `shard_map` say where they vary; the call does not know
    return varying(list(jax.ffi.ffi_call(_registered(kernel), shapes)(*arguments)), axes_of(arguments))


def threads() -> int:
    """The most threads that a kernel uses: the processors of this process, or fewer by `OMP_NUM_THREADS` or a CPU
    quota.

    XLA's pool has as many threads as processors that the process may run on, and regards neither of the other two
    limits.
    """
    limits = [len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1]
    omp_threads = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if omp_threads.isdigit():
        limits.append(int(omp_threads))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        limits.append(-(-int(quota) // int(period)))
    except (OSError, ValueError):
        pass  # no groups, or no limit
    return max(1, min(limits))


# Compiled kernels, by name: XLA knows no way to take a custom call back, so they live as long as the process.

REGISTERED: dict[str, Any] = {}
LOCK = Lock()


def _registered(kernel: Kernel) -> str:
    """The name of the custom call of a kernel; compiles and registers it once in the process (`REGISTERED`).

    The name is a hash of the code, the processor and the LLVM version. Work is parted for several threads if it exceeds
    `WORTH_THREADS`.
    """
    llvm: Any = import_module("llvmlite.binding")
    most = threads()
    size = -(-kernel.blocks // (most * PER_THREAD)) if kernel.work >= WORTH_THREADS else kernel.blocks
    parts = -(-kernel.blocks // size)
    count, inputs = len(kernel.arrays), len(kernel.arrays) - len(kernel.results)
    # a buffer begins where a line of the cache does
    buffer, header = -(-kernel.buffer // 64) * 64, -(-(32 + 8 * count) // 64) * 64 + 64
    pointers = [
        f"  %p{k} = getelementptr ptr, ptr %arrays, i64 {k}\n  %a{k} = load ptr, ptr %p{k}" for k in range(count)
    ]
    frame = [f"%args, i64 {k}" for k in range(inputs)] + [f"%rets, i64 {k}" for k in range(len(kernel.results))]
    operands = [
        f"  %g{k} = getelementptr ptr, ptr {place}\n  %h{k} = load ptr, ptr %g{k}\n"
        f"  %d{k} = getelementptr i8, ptr %h{k}, i64 24\n  %x{k} = load ptr, ptr %d{k}\n"
        f"  %s{k} = getelementptr ptr, ptr %arrays, i64 {k}\n  store ptr %x{k}, ptr %s{k}"
        for k, place in enumerate(frame)
    ]
    most = min(most, parts)
    text = kernel.text + HANDLER.substitute(
        pointers="\n".join(pointers), operands="\n".join(operands), call=", ".join(f"ptr %a{k}" for k in range(count)),
        parts=parts, size=size, blocks=kernel.blocks, helpers=most - 1, shared=str(most > 1).lower(), buffer=buffer,
        header=header, bytes=header + buffer * most,
    )  # fmt: skip
    with LOCK:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        hashed_text = "\n".join([str(llvm.llvm_version_info), cpu, features, text])
        name = f"tensorir_{hashlib.sha256(hashed_text.encode()).hexdigest()[:32]}"
        if name not in REGISTERED:
            machine = llvm.Target.from_default_triple().create_target_machine(
                cpu=cpu, features=features, opt=2, codemodel="jitdefault", jit=True
            )
            engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
            engine.add_object_file(llvm.ObjectFileRef.from_data(_object(name, text, machine)))
            engine.finalize_object()
            REGISTERED[name] = engine
            capsule = ctypes.pythonapi.PyCapsule_New
            capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
            target = capsule(engine.get_function_address("handler"), None, None)
            jax.ffi.register_ffi_target(name, target, platform="cpu", api_version=1)
    return name


def _object(name: str, text: str, machine: Any) -> bytes:
    """The machine code of a kernel: from JAX's compilation cache folder if it is there, else compiled, and stored
    there.

    A file is a SHA-256 digest and the code; one that does not match is compiled again.
    """
    llvm: Any = import_module("llvmlite.binding")
    switches: Any = jax.config
    folder = switches.jax_compilation_cache_dir
    file = None if folder is None else Path(folder) / f"{name}.o"
    if file is not None and file.exists():
        digest, code = (data := file.read_bytes())[:32], data[32:]
        if hashlib.sha256(code).digest() == digest:
            return code
    module = llvm.parse_assembly(text)
    # the text is in single assignments, has vectors already, and computes nothing twice: instructions are to be chosen
    builder = llvm.create_pass_builder(machine, llvm.PipelineTuningOptions(speed_level=1))
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.run(module, builder)
    code = machine.emit_object(module)
    if file is not None:
        # whoever reads it at the same time sees all of it, or nothing
        written = file.with_suffix(f".{os.getpid()}")
        try:
            written.write_bytes(hashlib.sha256(code).digest() + code)
            written.replace(file)
        except OSError as problem:
            warnings.warn(f"'{folder}' cannot hold a kernel: {problem.strerror}.", stacklevel=2)
    return code


HANDLER = Template(r"""
; The job of a call: the next part, how many parts are done, how many hold the job, the next buffer; arrays; buffers.
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @sched_yield()

define internal void @work(ptr %job) {
entry:
  %done = getelementptr i64, ptr %job, i64 1
  %slots = getelementptr i64, ptr %job, i64 3
  %arrays = getelementptr i64, ptr %job, i64 4
$pointers
  br label %claim
claim:
  %first.part = atomicrmw add ptr %job, i64 1 monotonic
  %any = icmp ult i64 %first.part, $parts
  br i1 %any, label %begin, label %end
begin:
  %slot = atomicrmw add ptr %slots, i64 1 monotonic
  %mine = mul i64 %slot, $buffer
  %offset = add i64 %mine, $header
  %unaligned = ptrtoint ptr %job to i64
  %sum = add i64 %unaligned, %offset
  %aligned = and i64 %sum, -64
  %buffer = inttoptr i64 %aligned to ptr
  br label %part
part:
  %now = phi i64 [%first.part, %begin], [%next, %behind]
  %first = mul i64 %now, $size
  %after = add i64 %first, $size
  %last = call i64 @llvm.smin.i64(i64 %after, i64 $blocks)
  br label %block
block:
  %b = phi i64 [%first, %part], [%b.next, %block]
  call void @block($call, ptr %buffer, i64 %b)
  %b.next = add i64 %b, 1
  %more = icmp slt i64 %b.next, %last
  br i1 %more, label %block, label %behind
behind:
  %was = atomicrmw add ptr %done, i64 1 release
  %next = atomicrmw add ptr %job, i64 1 monotonic
  %again = icmp ult i64 %next, $parts
  br i1 %again, label %part, label %end
end:
  ret void
}

define internal void @leave(ptr %job) {
entry:
  %holders = getelementptr i64, ptr %job, i64 2
  %before = atomicrmw sub ptr %holders, i64 1 acq_rel
  %last = icmp eq i64 %before, 1
  br i1 %last, label %free, label %end
free:
  call void @free(ptr %job)
  br label %end
end:
  ret void
}

define internal void @task(ptr %job) {
  call void @work(ptr %job)
  call void @leave(ptr %job)
  ret void
}

define internal void @destroy(ptr %api, ptr %error) {
entry:
  %some = icmp ne ptr %error, null
  br i1 %some, label %destroy, label %end
destroy:
  %arguments = alloca [3 x i64]
  store [3 x i64] [i64 24, i64 0, i64 0], ptr %arguments
  %which = getelementptr i64, ptr %arguments, i64 2
  store ptr %error, ptr %which
  %at = getelementptr i8, ptr %api, i64 64
  %function = load ptr, ptr %at
  call void %function(ptr %arguments)
  br label %end
end:
  ret void
}

define ptr @handler(ptr %frame) {
entry:
  %arguments = alloca [5 x i64]
  %count = alloca i64
  %extension.at = getelementptr i8, ptr %frame, i64 8
  %extension = load ptr, ptr %extension.at
  %is.metadata = icmp ne ptr %extension, null
  br i1 %is.metadata, label %metadata, label %staged
metadata:
  %metadata.at = getelementptr i8, ptr %extension, i64 24
  %metadata.of = load ptr, ptr %metadata.at
  %major = getelementptr i8, ptr %metadata.of, i64 24
  store i32 0, ptr %major
  %minor = getelementptr i8, ptr %metadata.of, i64 28
  store i32 3, ptr %minor
  %traits = getelementptr i8, ptr %metadata.of, i64 32
  store i32 0, ptr %traits
  ret ptr null
staged:
  %stage.at = getelementptr i8, ptr %frame, i64 32
  %stage = load i32, ptr %stage.at
  %is.execution = icmp eq i32 %stage, 3
  br i1 %is.execution, label %execute, label %nothing
nothing:
  ret ptr null
execute:
  %api.at = getelementptr i8, ptr %frame, i64 16
  %api = load ptr, ptr %api.at
  %context.at = getelementptr i8, ptr %frame, i64 24
  %context = load ptr, ptr %context.at
  %args.at = getelementptr i8, ptr %frame, i64 72
  %args = load ptr, ptr %args.at
  %rets.at = getelementptr i8, ptr %frame, i64 112
  %rets = load ptr, ptr %rets.at
  %job = call ptr @malloc(i64 $bytes)
  %there = icmp ne ptr %job, null
  br i1 %there, label %begin, label %full
full:
  %full.arguments = alloca [4 x i64]
  store [4 x i64] [i64 28, i64 0, i64 0, i64 8], ptr %full.arguments
  %message = getelementptr i64, ptr %full.arguments, i64 2
  store ptr @no.memory, ptr %message
  %create.at = getelementptr i8, ptr %api, i64 48
  %create = load ptr, ptr %create.at
  %error = call ptr %create(ptr %full.arguments)
  ret ptr %error
begin:
  store [4 x i64] [i64 0, i64 0, i64 1, i64 0], ptr %job
  %arrays = getelementptr i64, ptr %job, i64 4
$operands
  store i64 0, ptr %count
  br i1 $shared, label %ask, label %work
ask:
  store [4 x i64] [i64 32, i64 0, i64 0, i64 0], ptr %arguments
  %context.of = getelementptr i64, ptr %arguments, i64 2
  store ptr %context, ptr %context.of
  %count.of = getelementptr i64, ptr %arguments, i64 3
  store ptr %count, ptr %count.of
  %ask.at = getelementptr i8, ptr %api, i64 144
  %ask.function = load ptr, ptr %ask.at
  %none = call ptr %ask.function(ptr %arguments)
  call void @destroy(ptr %api, ptr %none)
  %pool = load i64, ptr %count
  %others = sub i64 %pool, 1
  %helpers = call i64 @llvm.smin.i64(i64 %others, i64 $helpers)
  %any = icmp sgt i64 %helpers, 0
  br i1 %any, label %schedule, label %work
schedule:
  %k = phi i64 [0, %ask], [%k.next, %scheduled]
  %holders = getelementptr i64, ptr %job, i64 2
  %held = atomicrmw add ptr %holders, i64 1 monotonic
  store [5 x i64] [i64 40, i64 0, i64 0, i64 0, i64 0], ptr %arguments
  %context.too = getelementptr i64, ptr %arguments, i64 2
  store ptr %context, ptr %context.too
  %task.of = getelementptr i64, ptr %arguments, i64 3
  store ptr @task, ptr %task.of
  %job.of = getelementptr i64, ptr %arguments, i64 4
  store ptr %job, ptr %job.of
  %schedule.at = getelementptr i8, ptr %api, i64 136
  %schedule.function = load ptr, ptr %schedule.at
  %refused = call ptr %schedule.function(ptr %arguments)
  %is.refused = icmp ne ptr %refused, null
  br i1 %is.refused, label %alone, label %scheduled
alone:
  call void @destroy(ptr %api, ptr %refused)
  call void @leave(ptr %job)
  br label %scheduled
scheduled:
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %helpers
  br i1 %more, label %schedule, label %work
work:
  call void @work(ptr %job)
  %done = getelementptr i64, ptr %job, i64 1
  br label %wait
wait:
  %finished = load atomic i64, ptr %done acquire, align 8
  %all = icmp eq i64 %finished, $parts
  br i1 %all, label %end, label %yield
yield:
  %yielded = call i32 @sched_yield()
  br label %wait
end:
  call void @leave(ptr %job)
  ret ptr null
}

@no.memory = internal constant [24 x i8] c"no memory for a kernel.\00"
""")
"""The function that XLA calls (`XLA_FFI_CallFrame` of `VERSIONS`), and what its threads do."""
