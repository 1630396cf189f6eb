// Folds second-level scales into int4 weights, which gives int8 weights (quant/int_layout.h), for products
// with many rows. Included after linear_int.inc.h.

// The weights that share one second-level scale, for one register of columns: eight elements along K per
// line.
template <class D>
__attribute__((always_inline)) inline void fold_lines(const uint8_t* from, int64_t lines,
                                                      const uint8_t* second_level_scales, int64_t lane,
                                                      uint8_t* to) {
  using I = typename D::I;
  // code * factor + (128 - 8 * factor), in 16 bits: 8 .. 248.
  const I factor = D::both_halves(D::load_i8(second_level_scales + lane));
  const I bias = D::sub16(D::set1(128 * 0x10001), D::template left16<3>(factor));
  for (int64_t i = 0; i < lines; ++i, from += 128, to += 256) {
    typename D::W4 low;
    typename D::W4 high;
    D::weights4(from + 4 * lane, &low, &high);
    D::store(to + 4 * lane, D::scale_bytes(low.v, factor, bias));
    D::store(to + 128 + 4 * lane, D::scale_bytes(high.v, factor, bias));
  }
}

template <class D>
void fold_group_scales(const IntFoldArgs& a) {
  const std::byte* from = a.from;
  std::byte* to = a.to;
  for (int64_t left = a.k; left > 0; left -= a.group, from += a.group_bytes, to += a.to_group_bytes) {
    __builtin_memcpy(to, from, kPanel * sizeof(uint16_t));
    const auto* second_level_scales = reinterpret_cast<const uint8_t*>(from + a.second_level_at);
    const auto* codes = reinterpret_cast<const uint8_t*>(from + a.header_bytes);
    auto* out = reinterpret_cast<uint8_t*>(to + a.to_header_bytes);
    for (int64_t in_group = left < a.group ? left : a.group; in_group > 0; in_group -= a.second_level_group) {
      const int64_t lines = ((in_group < a.second_level_group ? in_group : a.second_level_group) + 7) / 8;
      for (int64_t lane = 0; lane < kPanel; lane += D::kLanes)
        fold_lines<D>(codes, lines, second_level_scales, lane, out);
      second_level_scales += kPanel;
      codes += lines * 128;
      out += lines * 256;
    }
  }
}
