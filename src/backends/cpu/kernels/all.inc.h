// All kernels, in order of their dependencies. The vector type is included before this file.

// clang-format off
#include "backends/cpu/kernels/storage.inc.h"
#include "backends/cpu/kernels/math.inc.h"
#include "backends/cpu/kernels/rows.inc.h"
#include "backends/cpu/kernels/states.inc.h"
#include "backends/cpu/kernels/low_rank.inc.h"
#include "backends/cpu/kernels/finish.inc.h"
#include "backends/cpu/kernels/linear.inc.h"
#include "backends/cpu/kernels/linear_sparse_24.inc.h"
#include "backends/cpu/kernels/kv.inc.h"
#include "backends/cpu/kernels/attention_reader.inc.h"
#include "backends/cpu/kernels/attention_tile.inc.h"
#include "backends/cpu/kernels/attention.inc.h"
#include "backends/cpu/kernels/select_keys.inc.h"
#include "backends/cpu/kernels/probe.inc.h"
// clang-format on

// Entries of the kernel table for one vector type.

template <class V, class S>
void fill_kv(CpuKernels& t, KvFormat format) {
  t.kv_write[format] = kv_write<V, S>;
  t.attend_split[format] = attend_split<V, S, Singles>;
  t.score_keys[format] = score_keys<V, S>;
  t.score_blocks[format] = score_blocks<V, S>;
}

template <class V>
void fill(CpuKernels& t) {
  fill_rows<V>(t);
  fill_states<V>(t);
  fill_low_rank<V>(t);
  t.linear[kStorageF32] = linear<V, StoredF32>;
  t.linear[kStorageBF16] = linear<V, StoredBF16>;
  t.linear[kStorageF16] = linear<V, StoredF16>;
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
