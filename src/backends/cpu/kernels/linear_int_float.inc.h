// out = x w^T over packed panels of integer weights with float activations. Weights are converted to float32
// in registers. The products of an exact-accumulation block are summed with one fused multiply-add each,
// first to last; then the sum times the scale is added to the result.

// Byte kByte of the lanes of a line, as float32, minus the zero point.
template <class D, int kKind, int kByte>
typename D::V::Narrow code_lanes(typename D::I line, typename D::V::Narrow zero) {
  return D::sub(D::to_float(D::template byte_of<kByte>(line)), zero);
}

// Adds the products of up to four elements along K of a line: x[r][0, count).
template <class D, int kKind, int kRows>
void multiply_line(const typename D::I (&line)[2], const typename D::V::Narrow (&zero_points)[2],
                   const float* const* x, int64_t count, typename D::V::Narrow (&part)[kRows][2]) {
  using V = typename D::V;
  using N = typename V::Narrow;
  const auto add = [&](N w0, N w1, int64_t i) __attribute__((always_inline)) {
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const N v = V::narrow_set1(x[r][i]);
      part[r][0] = V::narrow_fma(v, w0, part[r][0]);
      part[r][1] = V::narrow_fma(v, w1, part[r][1]);
    }
  };
  add(code_lanes<D, kKind, 0>(line[0], zero_points[0]), code_lanes<D, kKind, 0>(line[1], zero_points[1]), 0);
  if (count > 1)
    add(code_lanes<D, kKind, 1>(line[0], zero_points[0]), code_lanes<D, kKind, 1>(line[1], zero_points[1]),
        1);
  if (count > 2)
    add(code_lanes<D, kKind, 2>(line[0], zero_points[0]), code_lanes<D, kKind, 2>(line[1], zero_points[1]),
        2);
  if (count > 3)
    add(code_lanes<D, kKind, 3>(line[0], zero_points[0]), code_lanes<D, kKind, 3>(line[1], zero_points[1]),
        3);
}

template <class D, int kKind, int kRows>
void multiply_int_float(const IntLinearArgs& a, int64_t row, int64_t panel, int64_t lane) {
  using V = typename D::V;
  using I = typename D::I;
  using N = typename V::Narrow;
  constexpr int kStep = kIntStep<kKind>;
  constexpr int kNext = D::kLanes * 4;
  N acc[kRows][2];
  const float* x[kRows];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    acc[r][0] = acc[r][1] = V::narrow_zero();
    x[r] = a.in.x + (row + r) * a.in.x_stride;
  }
  const std::byte* group = a.weights + panel * a.panel_bytes;
  N scales[2];
  for (int64_t left = a.in.k; left > 0;) {
    load_scales<D, kKind>(group, lane, scales);
    N zero_points[2];
    if constexpr (kKind == kInt4ZeroPoints) {
      const auto* at = reinterpret_cast<const uint8_t*>(group) + 64 + lane;
      zero_points[0] = D::to_float(D::load_u8(at));
      zero_points[1] = D::to_float(D::load_u8(at + D::kLanes));
    } else {
      zero_points[0] = zero_points[1] = V::narrow_set1(kIsInt8<kKind> ? 128.0F : 8.0F);
    }
    const auto* codes = reinterpret_cast<const uint8_t*>(group + a.header_bytes) + 4 * lane;
    for (int64_t in_group = left < a.group ? left : a.group; in_group > 0;) {
      const int64_t depth = in_group < a.in.unit ? in_group : a.in.unit;
      N part[kRows][2];
      QUIRE_UNROLL
      for (int r = 0; r < kRows; ++r) part[r][0] = part[r][1] = V::narrow_zero();
      for (int64_t i = 0; i < depth; i += kStep) {
        prefetch_own(codes, 128, a.prefetch);
        if constexpr (kIsInt8<kKind>) {
          const I line[2] = {D::load(codes), D::load(codes + kNext)};
          multiply_line<D, kKind, kRows>(line, zero_points, x, depth - i, part);
        } else {
          typename D::W4 halves[4];
          D::weights4(codes, &halves[0], &halves[1]);
          D::weights4(codes + kNext, &halves[2], &halves[3]);
          const I low[2] = {halves[0].v, halves[2].v};
          const I high[2] = {halves[1].v, halves[3].v};
          multiply_line<D, kKind, kRows>(low, zero_points, x, depth - i, part);
          if (depth - i > 4) {
            const float* next[kRows];
            QUIRE_UNROLL
            for (int r = 0; r < kRows; ++r) next[r] = x[r] + 4;
            multiply_line<D, kKind, kRows>(high, zero_points, next, depth - i - 4, part);
          }
        }
        codes += 128;
        const int64_t taken = depth - i < kStep ? depth - i : kStep;
        QUIRE_UNROLL
        for (int r = 0; r < kRows; ++r) x[r] += taken;
      }
      QUIRE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        QUIRE_UNROLL
        for (int h = 0; h < 2; ++h) {
          acc[r][h] = kKind == kInt8Rows ? V::narrow_add(acc[r][h], part[r][h])
                                         : V::narrow_fma(part[r][h], scales[h], acc[r][h]);
        }
      }
      in_group -= depth;
      left -= depth;
    }
    group += a.group_bytes;
  }
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int h = 0; h < 2; ++h) {
      if constexpr (kKind == kInt8Rows) acc[r][h] = D::mul(acc[r][h], scales[h]);
    }
    finish_pair<V>(a, row + r, panel * kPanel + lane, acc[r][0], acc[r][1]);
  }
}

// Blocks of at most four rows, regardless of the size of a block of integer products.
template <class D, int kKind>
void linear_int_float(const IntLinearArgs& a, const IntBlock& at, int64_t panel) {
  const int64_t end = at.row + at.rows;
  for (int64_t lane = 0; lane < kPanel; lane += 2 * D::kLanes) {
    int64_t r = at.row;
    for (; r + 4 <= end; r += 4) multiply_int_float<D, kKind, 4>(a, r, panel, lane);
    for (; r < end; ++r) multiply_int_float<D, kKind, 1>(a, r, panel, lane);
  }
}
