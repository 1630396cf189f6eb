// Codes of 4 bits times their factors as codes of 8 bits (quant/int_layout.h): what many rows are multiplied
// with. Behind linear_int.inc.h.

// Codes of the k's that share a factor, of one register of columns: eight k's from each line.
template <class D>
__attribute__((always_inline)) inline void spread_lines(const uint8_t* from, int64_t lines,
                                                        const uint8_t* factors, int64_t lane, uint8_t* to) {
  using I = typename D::I;
  // code * factor + (128 - 8 * factor), in 16 bits: 8 .. 248.
  const I factor = D::both_halves(D::load_i8(factors + lane));
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
void spread_factors(const IntSpreadArgs& a) {
  const std::byte* from = a.from;
  std::byte* to = a.to;
  for (int64_t left = a.k; left > 0; left -= a.group, from += a.group_bytes, to += a.to_group_bytes) {
    __builtin_memcpy(to, from, kPanel * sizeof(uint16_t));
    const auto* factors = reinterpret_cast<const uint8_t*>(from + a.factors_at);
    const auto* codes = reinterpret_cast<const uint8_t*>(from + a.header_bytes);
    auto* out = reinterpret_cast<uint8_t*>(to + a.to_header_bytes);
    for (int64_t in_group = left < a.group ? left : a.group; in_group > 0; in_group -= a.factor_group) {
      const int64_t lines = ((in_group < a.factor_group ? in_group : a.factor_group) + 7) / 8;
      for (int64_t lane = 0; lane < kPanel; lane += D::kLanes)
        spread_lines<D>(codes, lines, factors, lane, out);
      factors += kPanel;
      codes += lines * 128;
      out += lines * 256;
    }
  }
}
