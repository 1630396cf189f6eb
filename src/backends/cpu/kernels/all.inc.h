// All kernels, each file after those it uses. The vector type was included before.

// clang-format off
#include "backends/cpu/kernels/storage.inc.h"
#include "backends/cpu/kernels/math.inc.h"
#include "backends/cpu/kernels/rows.inc.h"
#include "backends/cpu/kernels/states.inc.h"
#include "backends/cpu/kernels/finish.inc.h"
#include "backends/cpu/kernels/linear.inc.h"
#include "backends/cpu/kernels/linear_two_of_four.inc.h"
#include "backends/cpu/kernels/kv.inc.h"
#include "backends/cpu/kernels/attention_reader.inc.h"
#include "backends/cpu/kernels/attention_tile.inc.h"
#include "backends/cpu/kernels/attention.inc.h"
#include "backends/cpu/kernels/choose_keys.inc.h"
#include "backends/cpu/kernels/probe.inc.h"
// clang-format on

// The entries of the table for one vector type.

template <class V, class S>
void fill_kv(CpuKernels& t, KvFormat format) {
  t.kv_write[format] = kv_write<V, S>;
  t.attend_segment[format] = attend_segment<V, S, Singles>;
  t.score_keys[format] = score_keys<V, S>;
  t.score_blocks[format] = score_blocks<V, S>;
}

template <class V>
void fill(CpuKernels& t) {
  t.pack_panel = pack_panel<V>;
  t.linear[kStorageF32] = linear<V, StoredF32>;
  t.linear[kStorageBF16] = linear<V, StoredBF16>;
  t.linear[kStorageF16] = linear<V, StoredF16>;
  t.decode = decode<V>;
  t.rms_norm = rms_norm<V>;
  t.layer_norm = layer_norm<V>;
  t.rope_halves = rope_halves<V>;
  t.rope_interleaved = rope_interleaved<V>;
  t.activate = activate<V>;
  t.add = add<V>;
  t.scale_softcap = scale_softcap<V>;
  t.combine = combine<V>;
  t.decay_gates = decay_gates<V>;
  t.causal_conv = causal_conv<V>;
  t.ssm_scan = ssm_scan<V>;
  t.delta_rule = delta_rule<V>;
  fill_kv<V, KvF32>(t, kKvF32);
  fill_kv<V, KvBF16>(t, kKvBF16);
  fill_kv<V, KvF16>(t, kKvF16);
  fill_kv<V, KvE4M3>(t, kKvE4M3);
  fill_kv<V, KvE5M2>(t, kKvE5M2);
  fill_kv<V, KvI8>(t, kKvI8);
  t.attention_merge = attention_merge<V>;
  t.attention_finish = attention_finish<V>;
  t.probe_fma = probe_fma<V>;
  t.probe_read = probe_read<V>;
}
