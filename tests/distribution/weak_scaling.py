"""Programs with blocks of one size on pretended devices, as XLA compiles them: `weak_scaling.py ROWSxCOLUMNS ...`.

Printed for each program: collectives by kind, the bytes that the device sends which sends most, bytes of temporaries
and arguments of a device, instructions of the compiled text. Nothing runs, so 512 devices take seconds.
"""

import json
import os
import re
import sys
from collections import Counter
from math import prod

BLOCK = (16, 8)
KINDS = ("collective-permute", "all-reduce", "all-gather", "all-to-all", "reduce-scatter")


def figures(name, extents):
    import jax

    import tensorir as ti
    from stencils import library

    mesh = jax.make_mesh(extents, ("px", "py"), devices=jax.devices()[: prod(extents)])
    d = ti.distribute(library.load(name), mesh, dict(zip("IJ", mesh.axis_names, strict=False)), numerics="exact")
    whole = [n * size for n, size in zip(extents, BLOCK, strict=False)]
    sizes = dict(zip(("n", "m"), (*whole, *BLOCK[len(whole) :]), strict=True))
    sizes |= {n: 4 for n in d.program.size_names if n not in sizes}
    step = d.step_of(**sizes)
    with jax.enable_x64(True):
        compiled = step.run.lower(step.shapes()).compile()
    text, memory, sent = compiled.as_text(), compiled.memory_analysis(), Counter()
    for message in d.plan(**sizes).exchange.messages:
        sent[message.axis, message.source] += message.bytes
    by_axis = [max((b for (a, _), b in sent.items() if a == axis), default=0) for axis in mesh.axis_names]
    return {
        "collectives": {kind: len(re.findall(rf"= \S.* {kind}(?:-start)?\(", text)) for kind in KINDS},
        "sent": sum(by_axis), "temporaries": memory.temp_size_in_bytes, "arguments": memory.argument_size_in_bytes,
        "instructions": len(re.findall(r"^ +(?:ROOT )?%?[\w.-]+ = ", text, re.MULTILINE)),
    }  # fmt: skip


if __name__ == "__main__":
    meshes = [tuple(map(int, extents.split("x"))) for extents in sys.argv[1:]]
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={max(map(prod, meshes))}"
    programs = ("hdiff", "advection_upwind", "vertical_advection", "heat")
    print(json.dumps([{name: figures(name, extents) for name in programs} for extents in meshes]))
