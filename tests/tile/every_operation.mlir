cuda_tile.module @kernels {
  global private constant @lut alignment = 64 <i16: [3, -1, 0x7FFF, 9]> : tile<4xi16>
  entry @all(%p: tile<ptr<f32>>, %i: tile<i32>, %l: tile<i64>, %c: tile<i1>) optimization_hints=<default = {occupancy = 2}> {
    %t0 = make_token : token
    %a = constant <f32: [1.0, 2.0, 0x7F800000, -0.5]> : tile<4xf32>
    %n = constant <i32: [1, -2, 0x80000000, 4294967295]> : tile<4xi32>
    %b = constant <i1: [true, false, 1, -1]> : tile<4xi1>
    %m = constant <f16: 1.5> : tile<8x8xf16>
    %g = constant <f32: 0.0> : tile<8x8xf32>
    %q = constant <i8: 3> : tile<8x8xi8>
    %z = constant <i32: 0> : tile<8x8xi32>
    %e4 = constant <f8E4M3FN: 1.0> : tile<32x32xf8E4M3FN>
    %e8 = constant <f8E8M0FNU: 1.0> : tile<32x1xf8E8M0FNU>
    %e9 = constant <f8E8M0FNU: 1.0> : tile<1x32xf8E8M0FNU>
    %ac = constant <f32: 0.0> : tile<32x32xf32>
    %f0 = addf %a, %a rounding<zero> flush_to_zero : tile<4xf32>
    %f1 = subf %a, %a : tile<4xf32>
    %f2 = mulf %a, %a rounding<positive_inf> : tile<4xf32>
    %f3 = divf %a, %a rounding<approx> flush_to_zero : tile<4xf32>
    %f4 = fma %a, %a, %a rounding<negative_inf> : tile<4xf32>
    %f5 = sqrt %a rounding<approx> : tile<4xf32>
    %f6 = rsqrt %a flush_to_zero : tile<4xf32>
    %f7 = exp %a rounding<approx> : tile<4xf32>
    %f8 = exp2 %a flush_to_zero : tile<4xf32>
    %f9 = tanh %a rounding<approx> : tile<4xf32>
    %f10 = maxf %a, %a propagate_nan flush_to_zero : tile<4xf32>
    %f11 = minf %a, %a flush_to_zero propagate_nan : tile<4xf32>
    %f12 = absf %a : tile<4xf32>
    %f13 = negf %a : tile<4xf32>
    %f14 = ceil %a : tile<4xf32>
    %f15 = floor %a : tile<4xf32>
    %f16 = cos %a : tile<4xf32>
    %f17 = cosh %a : tile<4xf32>
    %f18 = sin %a : tile<4xf32>
    %f19 = sinh %a : tile<4xf32>
    %f20 = tan %a : tile<4xf32>
    %f21 = log %a : tile<4xf32>
    %f22 = log2 %a : tile<4xf32>
    %f23 = pow %a, %a : tile<4xf32>
    %f24 = fpowf %a, %a : tile<4xf32>
    %f25 = remf %a, %a : tile<4xf32>
    %f26 = atan2 %a, %a : tile<4xf32>
    %i0 = addi %n, %n overflow<no_signed_wrap> : tile<4xi32>
    %i1 = subi %n, %n overflow<no_wrap> : tile<4xi32>
    %i2 = muli %n, %n : tile<4xi32>
    %i3 = negi %n overflow<no_signed_wrap> : tile<4xi32>
    %i4 = absi %n : tile<4xi32>
    %i5 = divi %n, %n signed rounding<negative_inf> : tile<4xi32>
    %i6 = remi %n, %n unsigned : tile<4xi32>
    %i7 = maxi %n, %n signed : tile<4xi32>
    %i8 = mini %n, %n unsigned : tile<4xi32>
    %i9 = mulhii %n, %n : tile<4xi32>
    %i10 = shli %n, %n overflow<no_unsigned_wrap> : tile<4xi32>
    %i11 = shri %n, %n signed : tile<4xi32>
    %i12 = andi %n, %n : tile<4xi32>
    %i13 = ori %n, %n : tile<4xi32>
    %i14 = xori %n, %n : tile<4xi32>
    %c0 = cmpf less_than unordered %a, %a : tile<4xf32> -> tile<4xi1>
    %c1 = cmpi not_equal %n, %n, unsigned : tile<4xi32> -> tile<4xi1>
    %c2 = select %c1, %a, %f0 : tile<4xi1>, tile<4xf32>
    %v0 = bitcast %a : tile<4xf32> -> tile<4xi32>
    %v1 = exti %n signed : tile<4xi32> -> tile<4xi64>
    %v2 = trunci %v1 overflow<no_signed_wrap> : tile<4xi64> -> tile<4xi32>
    %v3 = ftof %a : tile<4xf32> -> tile<4xbf16>
    %v4 = ftof %a rounding<positive_inf> : tile<4xf32> -> tile<4xf8E8M0FNU>
    %v5 = ftoi %a signed : tile<4xf32> -> tile<4xi32>
    %v6 = itof %n unsigned : tile<4xi32> -> tile<4xf64>
    %v7 = ptr_to_int %p : tile<ptr<f32>> -> tile<i64>
    %v8 = int_to_ptr %v7 : tile<i64> -> tile<ptr<i8>>
    %v9 = ptr_to_ptr %v8 : tile<ptr<i8>> -> tile<ptr<f32>>
    %s0 = assume div_by<16>, %p : tile<ptr<f32>>
    %s1 = assume div_by<1, every 2 along 0>, %n : tile<4xi32>
    %s2 = assume same_elements<[1]>, %n : tile<4xi32>
    %s3 = assume bounded<?, 7>, %i : tile<i32>
    %s4 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %s5 = broadcast %s4 : tile<1xptr<f32>> -> tile<4xptr<f32>>
    %s6 = cat %a, %a dim = 0 : tile<4xf32>, tile<4xf32> -> tile<8xf32>
    %s7 = extract %g[%i, %i] : tile<8x8xf32> -> tile<2x4xf32>
    %s8 = permute %s7 [1, 0] : tile<2x4xf32> -> tile<4x2xf32>
    %s9 = iota : tile<4xi32>
    %s10 = offset %s5, %s9 : tile<4xptr<f32>>, tile<4xi32> -> tile<4xptr<f32>>
    %s11 = pack %a : tile<4xf32> -> tile<16xi8>
    %s12 = unpack %s11 : tile<16xi8> -> tile<32xf4E2M1FN>
    %k0 = mmaf %m, %m, %g fast_acc : tile<8x8xf16>, tile<8x8xf16>, tile<8x8xf32>
    %k1 = mmai %q, %q, %z signed unsigned : tile<8x8xi8>, tile<8x8xi8>, tile<8x8xi32>
    %k2 = mmaf_scaled %e4, %e4, %ac, %e8, %e9 : tile<32x32xf8E4M3FN>, tile<32x32xf8E4M3FN>, tile<32x32xf32>,
      tile<32x1xf8E8M0FNU>, tile<1x32xf8E8M0FNU>
    %r:2 = reduce %g, %z dim=1 identities=[0xFF800000 : f32, 0 : i32] : tile<8x8xf32>, tile<8x8xi32> -> tile<8xf32>, tile<8xi32>
    (%a0: tile<f32>, %e0: tile<f32>, %a1: tile<i32>, %e1: tile<i32>) {
      %x = maxf %a0, %e0 : tile<f32>
      %y = maxi %a1, %e1 signed : tile<i32>
      yield %x, %y : tile<f32>, tile<i32>
    }
    %sc = scan %g dim=0 reverse=true identities=[0.0 : f32] : tile<8x8xf32> -> tile<8x8xf32> (%u: tile<f32>, %w: tile<f32>) {
      %x = addf %u, %w : tile<f32>
      yield %x : tile<f32>
    }
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %gx, %gy, %gz = get_num_tile_blocks : tile<i32>
    %tv = make_tensor_view %p, shape = [%i, 16], strides = [%i, 1] : tile<i32> -> tensor_view<?x16xf32, strides=[?,1]>
    %t2 = make_tensor_view %p, shape = [], strides = [] : tensor_view<f32>
    %pv = make_partition_view %tv : partition_view<tile=(2x4), padding_value = neg_zero, tensor_view<?x16xf32, strides=[?,1]>, dim_map=[1, 0]>
    %sv = make_strided_view %tv : strided_view<tile=(2x4), traversal_strides=[3,5], tensor_view<?x16xf32, strides=[?,1]>>
    %gv = make_gather_scatter_view %tv : gather_scatter_view<tile=(4x2), tensor_view<?x16xf32, strides=[?,1]>, sparse_dim=0>
    %h, %w2 = get_tensor_shape %tv : tensor_view<?x16xf32, strides=[?,1]> -> tile<i64>
    %ix:2 = get_index_space_shape %sv : strided_view<tile=(2x4), traversal_strides=[3,5], tensor_view<?x16xf32, strides=[?,1]>> -> tile<i32>
    %ld, %t3 = load_view_tko acquire sys %pv[%i, %i] token = %t0 : partition_view<tile=(2x4), padding_value = neg_zero, tensor_view<?x16xf32, strides=[?,1]>, dim_map=[1, 0]>, tile<i32> -> tile<2x4xf32>, token
    %t4 = store_view_tko weak %ld, %sv[%i, %i] token = %t3 optimization_hints = <sm_100 = {latency = 3}> : tile<2x4xf32>, strided_view<tile=(2x4), traversal_strides=[3,5], tensor_view<?x16xf32, strides=[?,1]>>, tile<i32> -> token
    %g0, %t5 = load_view_tko weak %gv[%s9, %l] : gather_scatter_view<tile=(4x2), tensor_view<?x16xf32, strides=[?,1]>, sparse_dim=0>, tile<4xi32>, tile<i64> -> tile<4x2xf32>, token
    %t6 = atomic_red_view_tko relaxed device %sv[%i, %l], addf, %ld token = %t4 : tile<2x4xf32>, strided_view<tile=(2x4), traversal_strides=[3,5], tensor_view<?x16xf32, strides=[?,1]>>, tile<i32>, tile<i64> -> token
    %lp, %t7 = load_ptr_tko relaxed tl_blk %s10, %b, %a token=%t6 : tile<4xptr<f32>>, tile<4xi1>, tile<4xf32> -> tile<4xf32>, token
    %t8 = store_ptr_tko weak %s10, %lp, %b token = %t7 : tile<4xptr<f32>>, tile<4xf32>, tile<4xi1> -> token
    %ar, %t9 = atomic_rmw_tko acq_rel device %s10, addf, %a, %b token=%t8 : tile<4xptr<f32>>, tile<4xf32>, tile<4xi1> -> tile<4xf32>, token
    %as, %t10 = atomic_cas_tko relaxed sys %s10, %a, %a : tile<4xptr<f32>>, tile<4xf32> -> tile<4xf32>, token
    %al = alloca num_elem = 16, alignment = 8 global : tile<ptr<f32>>
    %gg = get_global @lut : tile<ptr<i16>>
    %tj = join_tokens %t9, %t10 : token
    assert %b, "a \"quoted\" message" : tile<4xi1>
    %tp = print_tko "%d and %f\0A", %n, %a token = %tj : tile<4xi32>, tile<4xf32> -> token
    %fo:2 = for unsigned %j in (%i to %i, step %i) : tile<i32> iter_values(%x = %a, %y = %n) -> (tile<4xf32>, tile<4xi32>) {
      if %c { continue %x, %n : tile<4xf32>, tile<4xi32> }
      continue %x, %y : tile<4xf32>, tile<4xi32>
    }
    %lo = loop iter_values(%x = %i) : tile<i32> -> tile<f64> {
      %d = constant <f64: 0.25> : tile<f64>
      if %c { break %d : tile<f64> } else { continue %x : tile<i32> }
      break %d : tile<f64>
    }
    loop { break }
    %if = if %c -> (tile<i32>) { yield %i : tile<i32> } else { yield %bx : tile<i32> }
    if %c { return }
    return
  }
}
