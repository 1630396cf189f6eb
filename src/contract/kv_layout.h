// How the KV cache is cut into blocks, as integers: what the bookkeeping (kv, sched) and the store (exec)
// agree on. Fixed when the engine starts.
#pragma once

#include <cstdint>
#include <vector>

namespace quire {

// What the layers of one group keep for a sequence.
enum class KvGroupKind {
  kFull,           // every token's keys and values
  kSlidingWindow,  // the last `window` tokens' keys and values
  kState,          // a part of the states of fixed size (linear attention, SSM): one block a sequence and
                   // checkpoint, however long it is
};

// Layers that share one block table. Every sequence has one block table for each group.
struct KvGroupSpec {
  KvGroupKind kind = KvGroupKind::kFull;
  int32_t window = 0;           // tokens, kSlidingWindow only
  std::vector<int32_t> layers;  // the decoder layers of the group
};

struct KvLayout {
  int32_t block_size = 16;         // tokens in a block
  int32_t num_blocks = 0;          // in the one pool that all groups draw from
  int64_t bytes_per_block = 0;     // over all layers of a group; the same for each group
  int32_t num_host_blocks = 0;     // of swap space; 0: none
  int32_t num_disk_blocks = 0;     // slots of the disk cache, at the most; 0: none
  int32_t checkpoint_blocks = 16;  // kState: a state is kept every so many blocks of tokens
  std::vector<KvGroupSpec> groups = {KvGroupSpec{}};
};

}  // namespace quire
