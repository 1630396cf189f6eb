// All kernels, each file after those it uses. The vector type was included before.

// clang-format off
#include "backends/cpu/kernels/storage.inc.h"
#include "backends/cpu/kernels/math.inc.h"
#include "backends/cpu/kernels/rows.inc.h"
#include "backends/cpu/kernels/linear.inc.h"
#include "backends/cpu/kernels/attention.inc.h"
// clang-format on

// The entries of the table for one vector type.

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
  t.kv_write = kv_write<V>;
  t.attend_segment[kStorageF32] = attend_segment<V, StoredF32>;
  t.attend_segment[kStorageBF16] = attend_segment<V, StoredBF16>;
  t.attend_segment[kStorageF16] = attend_segment<V, StoredF16>;
  t.attention_merge = attention_merge<V>;
  t.attention_finish = attention_finish<V>;
}
