"""The table of Relax's operators: parameters in TVM's order, subscripts of sums, layouts of axes, padding.

Subscripts of sums of products: which dimension of which operand each letter names, as NumPy reads them.

>>> named("...ij,jk", (4, 2))
(('ABij', 'jk'), 'ABik')
>>> named("ij,jk->k", (2, 2))
(('ij', 'jk'), 'k')

Orders of axes, as TVM names them: a letter for each, and `NCHW4c` for channels in packs of four.

>>> import numpy as np
>>> x = np.arange(8).reshape(1, 2, 2, 1, 2)
>>> reordered(x, "NCHW2c", "NHWC", np.transpose, np.reshape)[0, 1, 0]
array([2, 3, 6, 7])

The table of Relax's operators: parameters in TVM's order, and the rule of their results.

Parameters before `*` are values, those behind it are attributes. Reader, printer and inference read these rows; the
interpreter must have a meaning for each.

>>> OPERATORS["nn.softmax"].values, OPERATORS["nn.softmax"].attributes
(('data',), {'axis': -1})
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from string import ascii_letters, ascii_uppercase
from typing import Any, TypeAlias, TypeVar

from tensorir.relax.nodes import Tuple


def named(subscripts: str, ranks: Sequence[int]) -> tuple[tuple[str, ...], str]:
    """A letter for every dimension of every operand, and those of the result; an ellipsis has letters of its own.

    The dimensions of ellipses are counted from the last. Raises ValueError, with a sentence, for what names no sum.
    """
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        raise ValueError(f"subscripts of {len(parts)} operands, and there are {len(ranks)}")
    free = [c for c in ascii_uppercase + ascii_letters if c not in left]
    letters = {part: _letters(part) for part in (*parts, right)}
    further = [rank - len(letters[part]) for part, rank in zip(parts, ranks, strict=True)]
    for part, rank, more in zip(parts, ranks, further, strict=True):
        if more < 0 or (more and "..." not in part):
            raise ValueError(f"'{part}' names {len(letters[part])} dimensions of a tensor of {rank}")
    most = max((more for part, more in zip(parts, further, strict=True) if "..." in part), default=0)
    own = "".join(free[:most])
    if len(own) < most:
        raise ValueError("more dimensions than there are letters")
    inputs = tuple([part.replace("...", own[most - more :]) for part, more in zip(parts, further, strict=True)])
    if not arrow:
        once = sorted(c for c in set("".join(letters[p] for p in parts)) if left.count(c) == 1)
        return inputs, own + "".join(once)
    if own and "..." not in right:
        raise ValueError(f"the result '{right}' has no place for the dimensions of '...'")
    if wrong := next((c for c in letters[right] if c not in left or right.count(c) > 1), None):
        raise ValueError(f"the result names {wrong!r} twice, or no operand has it")
    return inputs, right.replace("...", own)


def _letters(part: str) -> str:
    """The letters of one operand, or of the result."""
    found = part.replace("...", "", 1)
    if not all(c in ascii_letters for c in found):
        raise ValueError(f"'{part}' is not letters with one '...'")
    return found


T = TypeVar("T", bound=Any)


def reordered(
    x: T, layout: str, wanted: str, permute: Callable[[T, list[int]], T], reshape: Callable[[T, list[int]], T]
) -> T:
    """A shape in another layout; a small letter is the place within a pack.

    ValueError where they have other letters.
    """
    given, packs = letters_of(layout)
    target, sizes = letters_of(wanted)
    if sorted(c for c in given if c.isupper()) != sorted(c for c in target if c.isupper()):
        raise ValueError(f"the layout {layout} has other axes than {wanted}")
    plain = [c for c in target if c.isupper()]
    if packs:
        extent = dict(zip(given, x.shape, strict=True))
        x = permute(x, [given.index(c) for d in plain for c in (d, d.lower()) if c in given])
        x = reshape(x, [extent[d] * extent.get(d.lower(), 1) for d in plain])
        given = plain
    x = permute(x, [given.index(c) for c in plain])
    if sizes:
        apart = [c for d in plain for c in (d, d.lower()) if c in target]
        extent = dict(zip(plain, x.shape, strict=True))
        x = reshape(x, [sizes.get(c) or extent[c] // sizes.get(c.lower(), 1) for c in apart])
        x = permute(x, [apart.index(c) for c in target])
    return x


def letters_of(layout: str) -> tuple[list[str], dict[str, int]]:
    """The axes in order, and the sizes of packs."""
    parts: list[tuple[str, str]] = re.findall(r"(\d*)([A-Za-z])", layout)
    return [c for _, c in parts], {c: int(size) for size, c in parts if size}


# How much is put around the spatial dimensions of an operator.


def sides_of(numbers: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Padding before and behind each of `count` dimensions: one number for each, or all in front and then all behind.

    >>> sides_of([1, 2], 2), sides_of([1, 2, 3, 4], 2)
    ([(1, 1), (2, 2)], [(1, 3), (2, 4)])
    """
    if len(numbers) == 2 * count:
        return list(zip(numbers[:count], numbers[count:], strict=True))
    return [(p, p) for p in numbers]


def with_last_windows(
    sides: Sequence[tuple[int, int]], extents: Sequence[int], size: Sequence[int], steps: Sequence[int],
    gaps: Sequence[int],
) -> list[tuple[int, int]]:  # fmt: skip
    """Padding with which the last windows of a pool fit whole, where they start inside: what `ceil_mode` asks for.

    >>> with_last_windows([(0, 0), (1, 1)], [6, 6], [3, 3], [2, 2], [1, 1])
    [(0, 1), (1, 2)]
    """
    found: list[tuple[int, int]] = []
    for (a, b), extent, window, step, gap in zip(sides, extents, size, steps, gaps, strict=True):
        room = extent + a + b - gap * (window - 1) - 1
        behind = -(-room // step) * step >= extent + a  # where the last window would start
        found.append((a, b + (-room) % step - (step if behind else 0)))
    return found


Default: TypeAlias = "bool | str | tuple[()]"
REQUIRED = object()
"""What stands for the default of an attribute that has none."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One row: `optional` counts the values at the end that may be left out.

    `defaults` says what stands for one that is left out before another that is given: a truth value, the name of one
    before it, or an empty tuple, which TVM writes in its place at the end, too.
    """

    name: str
    values: tuple[str, ...]
    attributes: dict[str, object] = field(hash=False)
    rule: str
    optional: int = 0
    variadic: bool = False
    defaults: dict[str, Default] = field(default_factory=dict[str, "Default"], hash=False)


_TABLE = """
unary: abs(x) acos(x) acosh(x) asin(x) asinh(x) atan(x) atanh(x) bitwise_not(x) ceil(x) cos(x) cosh(x) erf(x) exp(x)
unary: floor(x) log(x) logical_not(x) negative(x) round(x) rsqrt(x) sigmoid(x) sign(x) sin(x) sinh(x) sqrt(x) square(x)
unary: tan(x) tanh(x) trunc(x) clip(x,min,max) nn.relu(data) nn.relu6(data) nn.silu(data) nn.gelu(data) nn.selu(data)
unary: nn.gelu_tanh(data) nn.leakyrelu(data,*,alpha=0.01) nn.softplus(data,*,beta=1.0,threshold=20.0)
unary: nn.softmax(data,*,axis=-1) nn.log_softmax(data,*,axis=-1) nn.prelu(data,alpha,*,axis=1) tril(x,k?) triu(x,k?)
unary: stop_lift_params(x) flip(data,*,axis) cumsum_like(x) memory.ensure_zero_offset(data) sort(x,*,axis=-1,descending=False)
unary: reverse_sequence(data,seq_lengths,*,seq_axis=1,batch_axis=0) slice_scatter(input_tensor,src,start,end,step,*,axis=0)
unary: nn.rms_norm(data,weight,*,axes=-1,epsilon=1e-05)
unary: nn.layer_norm(data,gamma,beta,*,axes,epsilon=1e-05,center=True,scale=True)
unary: nn.group_norm(data,gamma,beta,*,num_groups,channel_axis,axes,epsilon=1e-05,center=True,scale=True)
unary: nn.instance_norm(data,gamma,beta,*,channel_axis,axes,epsilon=1e-05,center=True,scale=True)
unary: scatter_elements(data,indices,updates,*,axis=0,reduction="update") scatter_nd(data,indices,updates,*,reduction="update")
unary: grad.no_grad(input) grad.start_checkpoint(input) grad.end_checkpoint(input)
unary: to_vdevice(data,*,dst_vdevice) hint_on_device(data,*,dst_vdevice,memory_scope="global")
predicate: isfinite(x) isinf(x) isnan(x)
binary: add(x1,x2) subtract(x1,x2) multiply(x1,x2) divide(x1,x2) floor_divide(x1,x2) floor_mod(x1,x2) mod(x1,x2)
binary: power(x1,x2) maximum(x1,x2) minimum(x1,x2) atan2(x1,x2) bitwise_and(x1,x2) bitwise_or(x1,x2) bitwise_xor(x1,x2)
binary: left_shift(x1,x2) right_shift(x1,x2) logical_and(x1,x2) logical_or(x1,x2) logical_xor(x1,x2) log_add_exp(x1,x2)
compare: equal(x1,x2) not_equal(x1,x2) less(x1,x2) less_equal(x1,x2) greater(x1,x2) greater_equal(x1,x2)
ternary: ewise_fma(x1,x2,x3)
where: where(condition,x1,x2)
astype: astype(x,*,dtype)
wrap: wrap_param(data,*,dtype="float32")
matmul: matmul(x1,x2,*,out_dtype=None)
linear: linear(data,weight,bias?,*,out_dtype=None)
outer: outer(x1,x2)
einsum: einsum(operands,*,subscripts)
reduce: sum(x,*,axis=None,keepdims=False) prod(x,*,axis=None,keepdims=False) max(x,*,axis=None,keepdims=False)
reduce: min(x,*,axis=None,keepdims=False) mean(x,*,axis=None,keepdims=False) std(x,*,axis=None,keepdims=False)
reduce: variance(x,*,axis=None,keepdims=False)
median: median(x,*,axis=None,keepdims=False)
argreduce: argmax(x,*,axis=None,keepdims=False) argmin(x,*,axis=None,keepdims=False)
scan: cumsum(data,*,axis=None,dtype=None,exclusive=False) cumprod(data,*,axis=None,dtype=None,exclusive=False)
argsort: argsort(data,*,axis=-1,descending=False,dtype="int32")
topk: topk(data,*,k=1,axis=-1,ret_type="both",largest=True,dtype="int32")
reshape: reshape(x,shape)
broadcast_to: broadcast_to(x,shape)
collapse_to: collapse_sum_to(data,shape)
like_second: collapse_sum_like(data,collapse_target)
permute_dims: permute_dims(x,*,axes=None)
expand_dims: expand_dims(x,*,axis)
squeeze: squeeze(x,*,axis=None)
flatten: flatten(x)
batch_flatten: nn.batch_flatten(data)
concat: concat(tensors,*,axis=0)
stack: stack(tensors,*,axis=0)
split: split(x,*,indices_or_sections,axis=0)
tile: tile(data,*,repeats)
repeat: repeat(data,*,repeats,axis=None)
take: take(x,indices,*,axis=None,mode="fast")
second: gather_elements(data,indices,*,axis=0)
gather_nd: gather_nd(data,indices,*,batch_dims=0)
first: index_put(data,indices,values,*,accumulate=False)
index_tensor: index_tensor(data,indices)
strided_slice: strided_slice(x,axes,begin,end,strides?,*,assume_inbound=False)
dynamic_slice: dynamic_strided_slice(x,begin,end,strides)
one_hot: one_hot(indices,on_value,off_value,*,depth,axis=-1)
meshgrid: meshgrid(tensors,*,indexing="ij")
layout: layout_transform(x,*,index_map,pad_value=None,axis_separators=(),input_axis_separators=())
full: full(shape,fill_value,*,dtype=None)
like: full_like(x,fill_value,*,dtype=None) ones_like(x,*,dtype=None) zeros_like(x,*,dtype=None)
filled: ones(shape,*,dtype) zeros(shape,*,dtype)
arange: arange(start,end?,step?,*,dtype=None)
eye: eye(n,m?n,k?,*,dtype="float32")
eye_like: eye_like(x,k?,*,dtype=None)
hamming: hamming_window(window_size,periodic,alpha,beta,*,dtype="float32")
unique: unique(x,sorted?True,return_index?False,return_inverse?False,return_counts?False,axis?)
nonzero: nonzero(x)
multinomial: multinomial_from_uniform(prob,uniform_sample,sample_indices,*,dtype="int64")
bucketize: bucketize(input_tensor,boundaries,*,out_int32=False,right=False)
quantize: quantize(data,scale,zero_point,*,axis=-1,out_dtype="int8")
quantize: dequantize(data,scale,zero_point,*,axis=-1,out_dtype="float32")
shape_of: shape_of(expr)
shape_to_tensor: shape_to_tensor(expr)
tensor_to_shape: tensor_to_shape(expr)
size: size(expr)
view: memory.view(data,shape?(),dtype?(),relative_byte_offset?())
void: print(*values,*,format="") assert_op(condition,*format_args,*,format="")
object: null_value()
conv: nn.conv1d(data,weight,*,strides=1,padding=0,dilation=1,groups=1,data_layout="NCW",kernel_layout="OIW",out_layout=None,out_dtype=None)
conv: nn.conv2d(data,weight,*,strides=(1,1),padding=(0,0),dilation=(1,1),groups=1,data_layout="NCHW",kernel_layout="OIHW",out_layout=None,out_dtype=None)
conv: nn.conv3d(data,weight,*,strides=(1,1,1),padding=(0,0,0),dilation=(1,1,1),groups=1,data_layout="NCDHW",kernel_layout="OIDHW",out_layout=None,out_dtype=None)
conv_transpose: nn.conv1d_transpose(data,weight,*,strides=1,padding=0,output_padding=0,dilation=1,groups=1,data_layout="NCW",kernel_layout="IOW",out_layout=None,out_dtype=None)
conv_transpose: nn.conv2d_transpose(data,weight,*,strides=(1,1),padding=(0,0),output_padding=(0,0),dilation=(1,1),groups=1,data_layout="NCHW",kernel_layout="IOHW",out_layout=None,out_dtype=None)
conv_transpose: nn.conv3d_transpose(data,weight,*,strides=(1,1,1),padding=(0,0,0),output_padding=(0,0,0),dilation=(1,1,1),groups=1,data_layout="NCDHW",kernel_layout="IODHW",out_layout=None,out_dtype=None)
pool: nn.max_pool1d(data,*,pool_size=(1,),strides=(1,),padding=(0,0),dilation=(1,),ceil_mode=False,count_include_pad=False,layout="NCW",out_layout=None)
pool: nn.max_pool2d(data,*,pool_size=(1,1),strides=(1,1),padding=(0,0),dilation=(1,1),ceil_mode=False,count_include_pad=False,layout="NCHW",out_layout=None)
pool: nn.max_pool3d(data,*,pool_size=(1,1,1),strides=(1,1,1),padding=(0,0,0),dilation=(1,1,1),ceil_mode=False,count_include_pad=False,layout="NCDHW",out_layout=None)
pool: nn.avg_pool1d(data,*,pool_size=(1,),strides=(1,),padding=(0,0),dilation=(1,),ceil_mode=False,count_include_pad=True,layout="NCW",out_layout=None)
pool: nn.avg_pool2d(data,*,pool_size=(1,1),strides=(1,1),padding=(0,0),dilation=(1,1),ceil_mode=False,count_include_pad=False,layout="NCHW",out_layout=None)
pool: nn.avg_pool3d(data,*,pool_size=(1,1,1),strides=(1,1,1),padding=(0,0,0),dilation=(1,1,1),ceil_mode=False,count_include_pad=True,layout="NCDHW",out_layout=None)
adaptive: nn.adaptive_avg_pool1d(data,*,output_size=None,layout="NCW",out_layout=None)
adaptive: nn.adaptive_avg_pool2d(data,*,output_size=None,layout="NCHW",out_layout=None)
adaptive: nn.adaptive_avg_pool3d(data,*,output_size=None,layout="NCDHW",out_layout=None)
batch_norm: nn.batch_norm(data,gamma,beta,moving_mean,moving_var,*,axis,epsilon=1e-05,center=True,scale=True,momentum=0.1,training=True)
dropout: nn.dropout(data,*,rate=0.5)
cross_entropy: nn.cross_entropy_with_logits(predictions,labels)
nll: nn.nll_loss(predictions,targets,weights?,*,reduction="mean",ignore_index=-100)
attention: nn.attention(query,key,value,bias?,*,scale=None,causal_mask=None,window_size=None)
attention: nn.attention_bias(query,key,value,bias?,*,scale=None,causal_mask=None,window_size=None)
attention: nn.attention_var_len(query,key,value,seqstart_q,max_seqlen_q,seqstart_k?,max_seqlen_k?,*,scale=None,causal_mask=None,window_size=None)
pad: nn.pad(data,*,pad_width,pad_mode="constant",pad_value=0.0)
pixel_shuffle: nn.pixel_shuffle(data,*,upscale_factor)
resize: image.resize2d(data,size,*,roi=None,layout="NCHW",method="linear",coordinate_transformation_mode="half_pixel",rounding_method="round",cubic_alpha=-0.75,cubic_exclude=0,extrapolation_value=0.0,out_dtype=None)
resize: image.resize3d(data,size,*,roi=None,layout="NCDHW",method="linear",coordinate_transformation_mode="half_pixel",rounding_method="",cubic_alpha=-0.75,cubic_exclude=0,extrapolation_value=0.0,out_dtype=None)
grid_sample: image.grid_sample(data,grid,*,method="bilinear",layout="NCHW",padding_mode="zeros",align_corners=False)
affine_grid: image.affine_grid(data,size,*,align_corners=True)
"""  # noqa: E501


def _rows() -> dict[str, Operator]:
    rows: dict[str, Operator] = {}
    for line in _TABLE.strip().splitlines():
        rule, _, entries = line.partition(": ")
        for entry in entries.replace(") ", ")\n").splitlines():
            name, _, inside = entry.strip().removesuffix(")").partition("(")
            rows[name] = _row(name, inside, rule)
    return rows


def _row(name: str, inside: str, rule: str) -> Operator:
    before, star, behind = inside.rpartition("*,") if "*," in inside else (inside, "", "")
    parts = [part.partition("?") for part in before.split(",") if part]
    values = [value for value, _, _ in parts]
    variadic = any(value.startswith("*") for value in values)
    optional = sum(mark == "?" for _, mark, _ in parts)
    words: dict[str, Default] = {"True": True, "False": False, "()": ()}
    defaults = {value: words.get(default, default) for value, _, default in parts if default}
    attributes: dict[str, object] = {}
    if star:
        call = ast.parse(f"f({_with_defaults(behind)})", mode="eval").body
        assert isinstance(call, ast.Call)
        for keyword in call.keywords:
            assert keyword.arg is not None
            default = ast.literal_eval(keyword.value)
            attributes[keyword.arg] = REQUIRED if default == "<required>" else default
    return Operator(name, tuple(v.strip("*") for v in values), attributes, rule, optional, variadic, defaults)


def _with_defaults(text: str) -> str:
    """Attributes without a default get a mark, so that all of them read as keywords."""
    parts: list[str] = []
    depth = 0
    current = ""
    for character in text + ",":
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(current if "=" in current else f"{current}='<required>'")
            current = ""
        else:
            current += character
    return ",".join(parts)


OPERATORS: dict[str, Operator] = _rows()
"""The rows by name, as in `R.<name>`."""


def is_left_out(op: str, place: int, argument: object) -> bool:
    """True if an operand is the empty tuple that stands where nothing is given."""
    row = OPERATORS.get(op)
    if row is None or place >= len(row.values) or row.defaults.get(row.values[place]) != ():
        return False
    return isinstance(argument, Tuple) and not argument.fields
