"""Operators of TVM's library, as what `te.create_prim_func` takes: small, of odd sizes, each dim of its own length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Make = Callable[[], list[Any]]

UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "fast_exp",
    "fast_tanh", "floor", "identity", "isfinite", "isinf", "isnan", "log", "log10", "log2", "negative", "round",
    "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "fast_erf",
]  # fmt: skip
BINARY = [
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "equal", "greater", "greater_equal",
    "less", "less_equal", "not_equal", "atan2", "log_add_exp", "mod", "floor_mod", "floor_divide",
]  # fmt: skip


def _given(*shapes: tuple[int, ...], types: str | tuple[str, ...] = "float32") -> list[Any]:
    from tvm import te

    every = types if isinstance(types, tuple) else (types,) * len(shapes)
    pairs = zip(shapes, every, strict=True)
    return [te.placeholder(shape, kind, f"X{k}") for k, (shape, kind) in enumerate(pairs)]


def _of(compute: Callable[..., Any], *shapes: tuple[int, ...], types: str | tuple[str, ...] = "float32") -> Make:
    def make() -> list[Any]:
        from tvm import te

        given = _given(*shapes, types=types)
        found = compute(*given)
        return [*given, *([found] if isinstance(found, te.Tensor) else found)]

    return make


def _int32(value: int) -> Any:
    import tvm

    return tvm.tirx.const(value, "int32")


def operators() -> dict[str, Make]:
    """Every operator by name; `python -m tests.peers.sweep` runs them under schedules."""
    return dict(
        [*_elementwise(), *_reductions(), *_shapes(), *_layers(), *_convolutions(), *_pools(), *_images(), *_data()]
    )


def _elementwise() -> Iterator[tuple[str, Make]]:
    from tvm import topi

    for name in UNARY:
        yield name, _of(getattr(topi, name), (3, 5))
    for name in BINARY:
        yield name, _of(getattr(topi, name), (3, 1, 5), (4, 1))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "floor_divide", "floor_mod"):
        yield f"{name}_i32", _of(getattr(topi, name), (3, 5), (5,), types="int32")
    for name in ("logical_and", "logical_or", "logical_xor"):
        yield name, _of(getattr(topi, name), (3, 5), (5,), types="bool")
    yield "logical_not", _of(topi.logical_not, (3, 5), types="bool")
    yield "bitwise_not", _of(topi.bitwise_not, (3, 5), types="int32")
    yield "clip", _of(lambda x: topi.clip(x, -0.5, 0.75), (3, 5))
    yield "cast", _of(lambda x: topi.cast(x, "int8"), (3, 5))
    yield "reinterpret", _of(lambda x: topi.reinterpret(x, "int32"), (3, 5))
    yield "where", _of(topi.where, (3, 1), (3, 5), (5,), types=("bool", "float32", "float32"))
    yield "elemwise_sum", _of(lambda *xs: topi.elemwise_sum(list(xs)), (3, 5), (3, 5), (3, 5))
    yield "fixed_point", _of(lambda x: topi.fixed_point_multiply(x, 1395864320, -1), (3, 5), types="int32")
    yield "full_like", _of(lambda x: topi.full_like(x, 2.5), (3, 5))


def _reductions() -> Iterator[tuple[str, Make]]:
    from tvm import topi

    for name in ("sum", "max", "min", "prod", "argmax", "argmin"):
        for title, axis, keep in (
            ("rows", 1, False),
            ("columns", 0, True),
            ("two", (0, 2), False),
            ("all", None, False),
        ):
            if name.startswith("arg") and isinstance(axis, tuple):
                continue
            yield f"{name}_{title}", _of(lambda x, n=name, a=axis, k=keep: getattr(topi, n)(x, a, k), (3, 6, 5))
    for name in ("all", "any"):
        yield name, _of(lambda x, n=name: getattr(topi, n)(x, 1), (3, 6, 5), types="bool")
    yield "collapse_sum", _of(lambda x: topi.collapse_sum(x, (1, 5)), (3, 4, 5))
    yield "argmax_last", _of(lambda x: topi.argmax(x, 1, False, True), (3, 7))
    for exclusive in (False, True):
        yield f"cumsum_{exclusive}", _of(lambda x, e=exclusive: topi.cumsum(x, 1, exclusive=e), (3, 7))
        yield f"cumprod_{exclusive}", _of(lambda x, e=exclusive: topi.cumprod(x, 0, exclusive=e), (4, 3))
    yield "cumsum_flat", _of(lambda x: topi.cumsum(x), (3, 4))
    yield "matmul", _of(topi.matmul, (5, 7), (7, 6))
    yield "matmul_tt", _of(lambda a, b: topi.matmul(a, b, True, True), (7, 5), (6, 7))
    yield "tensordot", _of(lambda a, b: topi.tensordot(a, b, ((2, 1), (0, 1))), (3, 4, 5), (5, 4, 6))
    yield "einsum", _of(lambda a, b: topi.einsum("bij,bkj->bik", a, b), (2, 3, 5), (2, 4, 5))
    yield "einsum_trace", _of(lambda a: topi.einsum("iij->j", a), (3, 3, 4))
    yield "einsum_outer", _of(lambda a, b, c: topi.einsum("i,j,k->kij", a, b, c), (3,), (4,), (5,))
    yield "dense", _of(lambda a, b, c: topi.nn.dense(a, b, c), (5, 7), (6, 7), (6,))
    yield "dense_int8", _of(lambda a, b: topi.nn.dense(a, b, out_dtype="int32"), (5, 7), (6, 7), types="int8")
    yield "batch_matmul", _of(topi.nn.batch_matmul, (3, 4, 6), (3, 5, 6))
    yield "batch_matmul_plain", _of(lambda a, b: topi.nn.batch_matmul(a, b, transpose_b=False), (3, 4, 6), (3, 6, 5))


def _shapes() -> Iterator[tuple[str, Make]]:
    from tvm import topi

    yield "transpose", _of(lambda x: topi.transpose(x, (2, 0, 1)), (3, 4, 5))
    yield "reshape", _of(lambda x: topi.reshape(x, (4, 15)), (3, 4, 5))
    yield "reshape_split", _of(lambda x: topi.reshape(x, (2, 3, 10)), (6, 10))
    yield "flatten", _of(topi.nn.flatten, (2, 3, 4, 5))
    yield "squeeze", _of(lambda x: topi.squeeze(x, [1]), (3, 1, 5))
    yield "expand_dims", _of(lambda x: topi.expand_dims(x, 1, 2), (3, 5))
    yield "broadcast_to", _of(lambda x: topi.broadcast_to(x, (4, 3, 5)), (3, 1))
    yield "concatenate_0", _of(lambda *xs: topi.concatenate(xs, 0), (2, 5), (3, 5), (1, 5))
    yield "concatenate_last", _of(lambda *xs: topi.concatenate(xs, -1), (4, 2), (4, 3))
    yield "stack", _of(lambda *xs: topi.stack(xs, 1), (3, 5), (3, 5), (3, 5))
    yield "split", _of(lambda x: topi.split(x, [2, 5], 1), (3, 7))
    yield "split_even", _of(lambda x: topi.split(x, 3, 0), (6, 4))
    yield "tile", _of(lambda x: topi.tile(x, (2, 3)), (3, 5))
    yield "repeat", _of(lambda x: topi.repeat(x, 3, 1), (4, 5))
    yield "flip", _of(lambda x: topi.flip(x, 1), (3, 5))
    yield "strided_slice", _of(lambda x: topi.strided_slice(x, [1, 0], [9, 5], [2, 1]), (9, 6))
    yield "strided_slice_back", _of(lambda x: topi.strided_slice(x, [8, 4], [0, 0], [-3, -1]), (9, 6))
    yield "layout_pack", _of(lambda x: topi.layout_transform(x, "NCHW", "NCHW4c"), (1, 8, 3, 5))
    yield "layout_pack_uneven", _of(lambda x: topi.layout_transform(x, "NCHW", "NCHW4c"), (1, 6, 3, 5))
    yield "layout_unpack", _of(lambda x: topi.layout_transform(x, "NCHW4c", "NHWC"), (1, 2, 3, 5, 4))
    yield "trilu_up", _of(lambda x: topi.trilu(x, _int32(1), True), (4, 5))
    yield "trilu_low", _of(lambda x: topi.trilu(x, _int32(-1), False), (2, 4, 5))
    yield "matrix_set_diag", _of(lambda x, d: topi.matrix_set_diag(x, d), (2, 4, 5), (2, 4))
    yield "matrix_set_diag_k", _of(lambda x, d: topi.matrix_set_diag(x, d, (-1, 1), "LEFT_RIGHT"), (4, 5), (3, 4))
    yield "meshgrid", _of(lambda a, b: topi.meshgrid([a, b], "ij"), (3,), (4,))
    yield "arange", _of(lambda x: [topi.add(x, topi.arange(1, 9, 2, "float32"))], (3, 4))
    yield "eye", _of(lambda x: topi.add(x, topi.eye(4, 5, 1, "float32")), (4, 5))
    yield "sliding_window", _of(lambda x: topi.sliding_window(x, 1, [3, 2], [2, 1]), (2, 9, 6))
    yield "depth_to_space", _of(lambda x: topi.nn.depth_to_space(x, 2), (1, 8, 3, 5))
    yield "depth_to_space_crd", _of(lambda x: topi.nn.depth_to_space(x, 2, "NCHW", "CRD"), (1, 8, 3, 5))
    yield "space_to_depth", _of(lambda x: topi.nn.space_to_depth(x, 2), (1, 3, 4, 6))
    yield "space_to_batch", _of(lambda x: topi.nn.space_to_batch_nd(x, [2, 2], [0, 1], [1, 0]), (1, 3, 5, 2))
    yield "dilate", _of(lambda x: topi.nn.dilate(x, (2, 3)), (3, 4))
    yield "pad", _of(lambda x: topi.nn.pad(x, (1, 0), (2, 3), 0.5), (3, 4))
    yield "mirror_reflect", _of(lambda x: topi.nn.mirror_pad(x, (1, 2), (2, 1), "REFLECT"), (5, 6))
    yield "mirror_symmetric", _of(lambda x: topi.nn.mirror_pad(x, (1, 2), (2, 1), "SYMMETRIC"), (5, 6))
    yield "circular_pad", _of(lambda x: topi.nn.circular_pad(x, (0, 0, 1, 2), (0, 0, 2, 1)), (1, 2, 4, 5))
    yield "replicate_pad", _of(lambda x: topi.nn.replicate_pad(x, (0, 0, 1, 2), (0, 0, 2, 1)), (1, 2, 4, 5))
    yield "reflect_pad", _of(lambda x: topi.nn.reflect_pad(x, (0, 0, 1, 2), (0, 0, 2, 1)), (1, 2, 4, 5))
    yield (
        "strided_set",
        _of(
            topi.strided_set, (5, 6), (3, 3), (2,), (2,), (2,), types=("float32", "float32", "int32", "int32", "int32")
        ),
    )


def _layers() -> Iterator[tuple[str, Make]]:
    from tvm import topi

    nn = topi.nn
    yield "softmax", _of(lambda x: nn.softmax(x), (4, 7))
    yield "softmax_0", _of(lambda x: nn.softmax(x, 0), (4, 7))
    yield "fast_softmax", _of(lambda x: nn.fast_softmax(x), (4, 7))
    yield "log_softmax", _of(lambda x: nn.log_softmax(x), (4, 7))
    yield "layer_norm", _of(lambda x, g, b: nn.layer_norm(x, g, b, [1, 2]), (3, 4, 5), (4, 5), (4, 5))
    yield "rms_norm", _of(lambda x, g: nn.rms_norm(x, g, [1]), (3, 7), (7,))
    yield "group_norm", _of(lambda x, g, b: nn.group_norm(x, g, b, 2, 1, [2, 3]), (2, 6, 3, 4), (6,), (6,))
    yield "instance_norm", _of(lambda x, g, b: nn.instance_norm(x, g, b, 1, [2, 3]), (2, 3, 4, 5), (3,), (3,))
    yield (
        "batch_norm",
        _of(lambda x, g, b, m, v: nn.batch_norm(x, g, b, m, v, 1, training=False), (2, 3, 4), (3,), (3,), (3,), (3,)),
    )
    yield (
        "batch_norm_training",
        _of(lambda x, g, b, m, v: nn.batch_norm(x, g, b, m, v, 1, training=True), (2, 3, 4), (3,), (3,), (3,), (3,)),
    )
    yield "lrn", _of(lambda x: nn.lrn(x, 3, 1, 1e-4, 0.75, 2), (2, 5, 3, 4))
    yield "relu", _of(lambda x: nn.relu(x), (3, 5))
    yield "leaky_relu", _of(lambda x: nn.leaky_relu(x, 0.1), (3, 5))
    yield "prelu", _of(lambda x, s: nn.prelu(x, s), (2, 3, 4), (3,))
    yield "softplus", _of(lambda x: nn.softplus(x), (3, 5))
    yield "scale_shift", _of(lambda x, s, t: nn.scale_shift_nchw(x, s, t), (2, 3, 4, 5), (3,), (3,))
    yield (
        "nll_loss",
        _of(
            lambda p, t, w: nn.nll_loss(p, t, w, "mean", -1), (4, 5), (4,), (5,), types=("float32", "int32", "float32")
        ),
    )
    yield "binarize_pack", _of(lambda x: nn.binarize_pack(x, 1), (3, 64))
    yield "binary_dense", _of(lambda x, w: nn.binary_dense(x, w), (3, 2), (5, 2), types="uint32")
    yield "bitpack", _of(lambda x: nn.bitpack(x, 2, 1, 1, "uint8"), (2, 8), types="uint8")
    yield (
        "bitserial_dense",
        _of(lambda x, w: nn.bitserial_dense(x, w, 2, 1, pack_dtype="uint8"), (2, 16), (3, 16), types="uint8"),
    )
    yield "fifo_buffer", _of(lambda x, b: nn.fifo_buffer(x, b, 1), (3, 2), (3, 7))
    yield "quantize", _of(
        lambda x, s, z: topi.cast(topi.clip(topi.add(topi.round(topi.divide(x, s)), z), -128, 127), "int8"),
        (3, 5), (1,), (1,),
    )  # fmt: skip


def _convolutions() -> Iterator[tuple[str, Make]]:
    from tvm import topi

    nn = topi.nn
    yield "conv1d_ncw", _of(lambda x, w: nn.conv1d_ncw(x, w, 1, 1, 1), (2, 3, 9), (4, 3, 3))
    yield "conv1d_nwc", _of(lambda x, w: nn.conv1d_nwc(x, w, 2, 1, 2), (2, 9, 3), (3, 3, 4))
    for stride, pad, dilation in (
        (1, 1, 1),
        (2, 1, 1),
        (1, 2, 2),
        (2, (1, 0, 2, 1), 1),
        (2, 0, 2),
        (3, 0, 1),
        (4, 3, 1),
    ):
        title = f"{stride}_{pad}_{dilation}".replace(" ", "")
        for name, data, weight in (
            ("nchw", (1, 3, 8, 9), (4, 3, 3, 2)),
            ("nhwc", (1, 8, 9, 3), (3, 2, 3, 4)),
            ("hwcn", (8, 9, 3, 2), (3, 2, 3, 4)),
        ):
            yield (
                f"conv2d_{name}_{title}",
                _of(lambda x, w, n=name, a=(stride, pad, dilation): getattr(nn, f"conv2d_{n}")(x, w, *a), data, weight),
            )
    yield "conv2d_1x1", _of(lambda x, w: nn.conv2d_nchw(x, w, 1, 0, 1), (1, 3, 4, 5), (6, 3, 1, 1))
    yield "conv2d_same", _of(lambda x, w: nn.conv2d_nhwc(x, w, 2, "SAME", 1), (1, 8, 9, 3), (3, 2, 3, 4))
    yield (
        "conv2d_int8",
        _of(lambda x, w: nn.conv2d_nchw(x, w, 1, 1, 1, "int32"), (1, 3, 6, 5), (4, 3, 3, 3), types="int8"),
    )
    yield "conv3d_ncdhw", _of(lambda x, w: nn.conv3d_ncdhw(x, w, 1, 1, 1, 1), (1, 2, 4, 5, 6), (3, 2, 3, 3, 3))
    yield "conv3d_ndhwc", _of(lambda x, w: nn.conv3d_ndhwc(x, w, (1, 2, 1), 1, 1, 1), (1, 4, 5, 6, 2), (3, 3, 2, 2, 3))
    for stride in (1, 2):
        yield (
            f"depthwise_nchw_{stride}",
            _of(lambda x, w, s=stride: nn.depthwise_conv2d_nchw(x, w, s, 1, 1), (1, 3, 7, 6), (3, 1, 3, 3)),
        )
        yield (
            f"depthwise_nhwc_{stride}",
            _of(lambda x, w, s=stride: nn.depthwise_conv2d_nhwc(x, w, s, 1, 1), (1, 7, 6, 3), (3, 3, 3, 1)),
        )
    yield "depthwise_multiple", _of(lambda x, w: nn.depthwise_conv2d_nchw(x, w, 1, 1, 1), (1, 3, 5, 6), (3, 2, 3, 3))
    yield "group_nchw", _of(lambda x, w: nn.group_conv2d_nchw(x, w, 1, 1, 1, 2), (1, 4, 6, 5), (6, 2, 3, 3))
    yield "group_nhwc", _of(lambda x, w: nn.group_conv2d_nhwc(x, w, 2, 1, 1, 2), (1, 7, 6, 4), (3, 3, 2, 6))
    yield "group1d", _of(lambda x, w: nn.group_conv1d_ncw(x, w, 1, 1, 1, 2), (1, 4, 7), (6, 2, 3))
    for stride, outer in ((1, 0), (2, 0), (2, 1), (3, 1)):
        yield (
            f"transpose1d_{stride}_{outer}",
            _of(
                lambda x, w, s=stride, o=outer: nn.conv1d_transpose_ncw(x, w, s, 1, "float32", o), (1, 3, 5), (3, 4, 3)
            ),
        )
        yield f"transpose2d_{stride}_{outer}", _of(
            lambda x, w, s=stride, o=outer: nn.conv2d_transpose_nchw(x, w, (s, s), (1, 1), "float32", (o, o)),
            (1, 2, 3, 4), (2, 3, 3, 3),
        )  # fmt: skip
    yield (
        "transpose2d_groups",
        _of(
            lambda x, w: nn.group_conv2d_transpose_nchw(x, w, (2, 2), (1, 1), "float32", (0, 0), 2),
            (1, 4, 3, 4),
            (4, 2, 3, 3),
        ),
    )
    yield (
        "transpose3d",
        _of(
            lambda x, w: nn.conv3d_transpose_ncdhw(x, w, (2, 1, 1), (1, 1, 1), "float32", (0, 0, 0)),
            (1, 2, 3, 3, 2),
            (2, 2, 3, 3, 3),
        ),
    )
    yield "winograd", _of(lambda x, w: nn.conv2d_winograd_nchw(x, w, 1, 1, 1, "float32"), (1, 2, 8, 8), (3, 2, 3, 3))
    yield "correlation", _of(lambda a, b: nn.correlation_nchw(a, b, 1, 2, 1, 1, 2, True), (1, 2, 5, 6), (1, 2, 5, 6))
    yield "depthwise_back_input", _of(
        lambda w, g: nn.depthwise_conv2d_backward_input_nhwc(w, g, (1, 7, 6, 3), (1, 7, 6, 3), (1, 1), (1, 1)),
        (3, 3, 3, 1), (1, 7, 6, 3),
    )  # fmt: skip
    yield "depthwise_back_weight", _of(
        lambda x, g: nn.depthwise_conv2d_backward_weight_nhwc(x, g, (1, 7, 6, 3), (3, 3, 3, 1), (1, 1), (1, 1)),
        (1, 7, 6, 3), (1, 7, 6, 3),
    )  # fmt: skip


def _pools() -> Iterator[tuple[str, Make]]:
    from tvm import topi

    nn = topi.nn
    for kind in ("max", "avg"):
        for k, s, d, p in ((2, 2, 1, 0), (3, 2, 1, 1), (3, 1, 2, 2), (2, 2, 2, 0), (2, 3, 1, 0)):
            yield (
                f"pool2d_{kind}_{k}{s}{d}{p}",
                _of(
                    lambda x, a=(k, s, d, p), n=kind: nn.pool2d(
                        x, (a[0],) * 2, (a[1],) * 2, (a[2],) * 2, (a[3],) * 4, n, count_include_pad=False
                    ),
                    (1, 2, 7, 8),
                ),
            )
        yield (
            f"pool2d_{kind}_ceil",
            _of(lambda x, n=kind: nn.pool2d(x, (3, 3), (2, 2), (1, 1), (0, 1, 1, 0), n, True), (1, 2, 8, 7)),
        )
        yield f"pool1d_{kind}", _of(lambda x, n=kind: nn.pool1d(x, [3], [2], [1], [1, 1], n), (2, 3, 8))
        yield (
            f"pool3d_{kind}",
            _of(lambda x, n=kind: nn.pool3d(x, [2] * 3, [2] * 3, [1] * 3, [0] * 6, n), (1, 2, 4, 5, 6)),
        )
        yield f"global_{kind}", _of(lambda x, n=kind: nn.global_pool(x, n), (1, 3, 4, 5))
        yield f"adaptive_{kind}", _of(lambda x, n=kind: nn.adaptive_pool(x, (3, 2), n), (1, 3, 7, 5))
        for k, s, p, ceil in ((2, 2, 0, False), (3, 2, 1, False), (3, 2, 0, True)):
            size = tuple(-((k - n - 2 * p) // s) + 1 if ceil else (n + 2 * p - k) // s + 1 for n in (7, 9))
            yield f"pool_grad_{kind}_{k}{s}{p}{ceil}", _of(
                lambda g, x, n=kind, a=(k, s, p, ceil): nn.pool_grad(
                    g, x, (a[0],) * 2, (a[1],) * 2, (a[2],) * 4, n, a[3]
                ),
                (1, 2, *size), (1, 2, 7, 9),
            )  # fmt: skip


def _images() -> Iterator[tuple[str, Make]]:
    from tvm import topi

    image = topi.image
    for method in ("nearest_neighbor", "linear", "cubic"):
        for mode in ("half_pixel", "align_corners", "asymmetric"):
            rounding = "floor" if method == "nearest_neighbor" else ""
            yield (
                f"resize2d_{method}_{mode}",
                _of(
                    lambda x, m=method, c=mode, r=rounding: image.resize2d(
                        x, [0.0] * 4, (7, 5), "NCHW", m, c, rounding_method=r
                    ),
                    (1, 2, 4, 6),
                ),
            )
    yield "resize1d", _of(lambda x: image.resize1d(x, [0.0] * 2, [7], "NCW", "linear"), (1, 2, 4))
    yield "resize3d", _of(lambda x: image.resize3d(x, [0.0] * 6, [3, 5, 4], "NCDHW", "linear"), (1, 1, 2, 3, 4))
    yield "upsampling", _of(lambda x: topi.nn.upsampling(x, 2, 2, method="bilinear"), (1, 2, 3, 4))
    yield "affine_grid", _of(lambda x: image.affine_grid(x, (4, 5)), (2, 2, 3))
    for method in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            yield (
                f"grid_sample_{method}_{padding}",
                _of(
                    lambda x, g, m=method, p=padding: image.grid_sample(x, g, m, "NCHW", p), (1, 2, 4, 5), (1, 2, 3, 4)
                ),
            )
    yield "dilation2d", _of(lambda x, w: image.dilation2d_nchw(x, w, 1, 1, 1), (1, 2, 6, 5), (2, 3, 3))
    yield "crop_and_resize", _of(
        lambda x, b, i: image.crop_and_resize(x, b, i, (3, 4), "NCHW", extrapolation_value=0.0),
        (4, 2, 5, 6), (3, 4), (3,), types=("float32", "float32", "int32"),
    )  # fmt: skip
    for mode in ("avg", "max"):
        yield (
            f"roi_align_{mode}",
            _of(lambda x, r, m=mode: topi.vision.roi_align_nchw(x, r, (2, 3), 1.0, m, 2), (1, 2, 6, 7), (3, 5)),
        )
    yield (
        "roi_align_any",
        _of(lambda x, r: topi.vision.roi_align_nchw(x, r, (2, 2), 1.0, "avg", -1), (1, 2, 6, 7), (3, 5)),
    )
    yield "roi_pool", _of(lambda x, r: topi.vision.roi_pool_nchw(x, r, (2, 2), 1.0), (1, 2, 6, 7), (3, 5))
    yield "deformable", _of(
        lambda x, o, w: topi.nn.deformable_conv2d_nchw(x, o, w, 1, 1, 1, 1, 1, "float32"),
        (1, 2, 4, 5), (1, 18, 4, 5), (3, 2, 3, 3),
    )  # fmt: skip


def _data() -> Iterator[tuple[str, Make]]:
    from tvm import topi

    at = ("float32", "int32")
    for mode in ("clip", "wrap", "fast"):
        yield f"take_{mode}", _of(lambda x, i, m=mode: topi.take(x, i, 0, 0, m), (6, 3), (2, 4), types=at)
    yield "take_flat", _of(lambda x, i: topi.take(x, i, mode="clip"), (4, 6), (5,), types=at)
    yield "gather", _of(lambda x, i: topi.gather(x, 1, i), (3, 6), (3, 4), types=at)
    yield "gather_nd", _of(topi.gather_nd, (4, 5, 3), (2, 6), types=at)
    yield "one_hot", _of(lambda i: topi.one_hot(i, 1.0, 0.0, 5, -1, "float32"), (3, 4), types="int32")
    yield "one_hot_0", _of(lambda i: topi.one_hot(i, 2.0, 0.5, 5, 0, "float32"), (3, 4), types="int32")
    yield "sequence_mask", _of(lambda x, n: topi.sequence_mask(x, n, -1.0), (5, 3, 2), (3,), types=at)
    yield "reverse_sequence", _of(lambda x, n: topi.reverse_sequence(x, n, 0, 1), (5, 3), (3,), types=at)
    three = ("float32", "int32", "float32")
    for how in ("update", "add", "mul", "min", "max", "mean"):
        for axis in (0, 1):
            yield (
                f"scatter_elements_{how}_{axis}",
                _of(
                    lambda x, i, u, h=how, a=axis: topi.scatter_elements(x, i, u, a, h),
                    (5, 4),
                    (3, 4),
                    (3, 4),
                    types=three,
                ),
            )
    yield (
        "scatter_elements_flat",
        _of(lambda x, i, u: topi.scatter_elements(x, i, u, 0, "add"), (7,), (4,), (4,), types=three),
    )
    for how in ("update", "add"):
        yield (
            f"scatter_nd_{how}",
            _of(lambda x, i, u, h=how: topi.scatter_nd(x, i, u, h), (5, 4), (1, 3), (3, 4), types=three),
        )
    yield "index_put", _of(
        lambda x, i, j, v: topi.index_put(x, [i, j], v, True), (5, 4), (3,), (3,), (3,),
        types=("float32", "int32", "int32", "float32"),
    )  # fmt: skip
    yield (
        "adv_index",
        _of(lambda x, i, j: topi.adv_index(x, [i, j]), (5, 4, 3), (2, 3), (3,), types=("float32", "int32", "int32")),
    )
    yield "index_tensor", _of(lambda x, i: topi.index_tensor(x, [i]), (5, 4), (3,), types=at)
    yield "searchsorted", _of(lambda s, v: topi.searchsorted(s, v), (7,), (3, 2))
    yield "unravel", _of(lambda i, s: topi.unravel_index(i, s), (5,), (2,), types="int32")
    yield (
        "sparse_to_dense",
        _of(lambda i, v, d: topi.sparse_to_dense(i, [5], v, d), (3,), (3,), (), types=("int32", "float32", "float32")),
    )
    yield "slice_scatter", _of(lambda x, s: topi.slice_scatter(x, s, 1, 5, 2, 0), (6, 3), (2, 3))
    yield "sort", _of(lambda x: topi.sort(x, 1), (3, 7))
    yield "argsort", _of(lambda x: topi.argsort(x, axis=0, is_ascend=False), (5, 3))
    yield "topk", _of(lambda x: topi.topk(x, 3, 1, "both"), (3, 7))
    yield "dft", _of(lambda a, b: topi.dft(a, b, False), (2, 5), (2, 5))
    yield "stft", _of(lambda x, w: topi.stft(x, 4, 2, 4, w, False, True, (2, 3, 4, 2)), (2, 10), (4,))
