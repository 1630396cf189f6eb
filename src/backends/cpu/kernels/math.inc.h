// Elementary functions on 16 lanes. Each lane depends only on its input; all instruction sets give the same
// bits.

// e^x = e^r 2^n: Cody-Waite reduction x = n ln 2 + r, then e^r = 1 + r + r^2 q(r), q a minimax polynomial on
// |r| <= ln 2 / 2.
template <class V>
struct Power {
  typename V::F mantissa;  // e^r
  typename V::F exponent;  // n
};
template <class V>
Power<V> exp_parts(typename V::F x) {
  using F = typename V::F;
  const F n = V::round(V::mul(x, V::set1(1.44269502F)));
  F r = V::fnma(n, V::set1(0.693359375F), x);
  r = V::fnma(n, V::set1(-2.12194442e-4F), r);
  F q = V::set1(1.39505998e-3F);
  q = V::fma(q, r, V::set1(8.36895406e-3F));
  q = V::fma(q, r, V::set1(4.16662060e-2F));
  q = V::fma(q, r, V::set1(1.66665182e-1F));
  q = V::fma(q, r, V::set1(0.5F));
  return {V::add(V::fma(V::mul(r, r), q, r), V::set1(1.0F)), n};
}

// e^x within 1.1 ulp. Below -86.6 the result is 0; on overflow it is infinite; NaN stays NaN.
template <class V>
typename V::F exp(typename V::F x) {
  using F = typename V::F;
  const auto [p, n] = exp_parts<V>(V::min(V::set1(89.0F), V::max(V::set1(-90.0F), x)));
  // Two factors, because 2^128 alone would overflow even if the result does not.
  const F scaled = V::mul(V::add(p, p), V::pow2(V::max(V::set1(-126.0F), V::sub(n, V::set1(1.0F)))));
  return V::select(V::less(x, V::set1(-86.6F)), V::zero(), scaled);
}

// Within 2 ulp. An odd minimax polynomial below 0.625, 1 - 2 / (e^2|x| + 1) above.
template <class V>
typename V::F tanh(typename V::F x) {
  using F = typename V::F;
  const F u = V::mul(x, x);
  F q = V::set1(-5.71703678e-3F);
  q = V::fma(q, u, V::set1(2.06505787e-2F));
  q = V::fma(q, u, V::set1(-5.37434965e-2F));
  q = V::fma(q, u, V::set1(1.33314908e-1F));
  q = V::fma(q, u, V::set1(-3.33332837e-1F));
  const F small = V::fma(V::mul(x, u), q, x);
  const F size = V::abs(x);
  const F e = exp<V>(V::add(size, size));
  const F large = V::sub(V::set1(1.0F), V::div(V::set1(2.0F), V::add(e, V::set1(1.0F))));
  return V::select(V::less(size, V::set1(0.625F)), small, V::copy_sign(large, x));
}

// 1 / (1 + e^-x).
template <class V>
typename V::F sigmoid(typename V::F x) {
  return V::div(V::set1(1.0F), V::add(V::set1(1.0F), exp<V>(V::sub(V::zero(), x))));
}

// ln(1 + e^x) = max(x, 0) + 2 artanh(t / (t + 2)) with t = e^-|x|, as a power series of artanh, whose
// argument is at most 1/3.
template <class V>
typename V::F softplus(typename V::F x) {
  using F = typename V::F;
  const F t = exp<V>(V::sub(V::zero(), V::abs(x)));
  const F s = V::div(t, V::add(t, V::set1(2.0F)));
  const F u = V::mul(s, s);
  F q = V::set1(1.0F / 15.0F);
  q = V::fma(q, u, V::set1(1.0F / 13.0F));
  q = V::fma(q, u, V::set1(1.0F / 11.0F));
  q = V::fma(q, u, V::set1(1.0F / 9.0F));
  q = V::fma(q, u, V::set1(1.0F / 7.0F));
  q = V::fma(q, u, V::set1(1.0F / 5.0F));
  q = V::fma(q, u, V::set1(1.0F / 3.0F));
  const F half = V::fma(V::mul(s, u), q, s);
  return V::add(V::max(x, V::zero()), V::add(half, half));
}

// Phi(x), the normal distribution function. erfc(z) / 2 = e^(-z^2) t q(t) / 2 with z = |x| / sqrt 2, t = 1 /
// (1 + 0.35 z) and q a minimax polynomial on [0, 10]; 1 minus that for x >= 0. Absolute error below 1e-7.
template <class V>
typename V::F normal_cdf(typename V::F x) {
  using F = typename V::F;
  const F z = V::mul(V::abs(x), V::set1(0.707106769F));
  const F t = V::div(V::set1(1.0F), V::fma(z, V::set1(0.35F), V::set1(1.0F)));
  F q = V::set1(3.84013541e-2F);
  q = V::fma(q, t, V::set1(-1.58929914e-1F));
  q = V::fma(q, t, V::set1(1.81465045e-1F));
  q = V::fma(q, t, V::set1(-2.77107414e-2F));
  q = V::fma(q, t, V::set1(8.70229825e-2F));
  q = V::fma(q, t, V::set1(1.46039918e-1F));
  q = V::fma(q, t, V::set1(1.51186973e-1F));
  q = V::fma(q, t, V::set1(1.87902242e-1F));
  q = V::fma(q, t, V::set1(1.97138369e-1F));
  q = V::fma(q, t, V::set1(1.97483778e-1F));
  const F decay = exp<V>(V::sub(V::zero(), V::mul(z, z)));
  const F tail = V::mul(V::mul(V::set1(0.5F), decay), V::mul(t, q));
  return V::select(V::less(x, V::zero()), tail, V::sub(V::set1(1.0F), tail));
}
