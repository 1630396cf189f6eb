// How the KV cache is divided into blocks and groups, as integers: the contract between the bookkeeping (kv,
// sched), the memory planning (engine) and the store of bytes (exec). Fixed when the engine starts; any
// thread may read it.
#pragma once

#include <cstdint>
#include <vector>

namespace quire {

// The part of a sequence's history that the layers of a group keep.
enum class KvGroupKind {
  kFull,           // the keys and values of every token
  kSlidingWindow,  // those of the last `window` tokens
  kChunked,        // those of the current chunk of `window` tokens (chunked attention, Llama 4)
  kState,          // recurrent state (linear attention, SSM): one block per sequence and one per checkpoint
};

// Layers that share one block table. Every sequence has one block table per group.
struct KvGroupSpec {
  KvGroupKind kind = KvGroupKind::kFull;
  int32_t window = 0;           // tokens; kSlidingWindow: the window, kChunked: the chunk
  std::vector<int32_t> layers;  // decoder layers of the group
};

// All groups allocate from one pool of blocks of equal size in bytes. A block of a group holds block_size
// tokens of the group's layers; the rest is padding.
struct KvLayout {
  int32_t block_size = 16;         // tokens per block
  int32_t num_blocks = 0;          // in the device pool
  int64_t bytes_per_block = 0;     // the same for every group
  int32_t num_host_blocks = 0;     // swap space; 0 = none
  int32_t num_disk_blocks = 0;     // maximum number of slots in the disk cache; 0 = none
  int32_t checkpoint_blocks = 16;  // kState: distance between checkpoints, in blocks of tokens
  std::vector<KvGroupSpec> groups = {KvGroupSpec{}};
};

inline bool is_attention_group(const KvGroupSpec& group) {
  return group.kind != KvGroupKind::kState;
}

// The first position that a token at `position` or a later one attends to in this group; 0 for kState.
int64_t first_visible_position(const KvGroupSpec& group, int64_t position);

// The most blocks of one group that a sequence holds until its first num_tokens tokens are computed, if a
// step computes at most max_chunk of them. A state counts twice: the step after a checkpoint writes a copy.
int64_t max_group_blocks(const KvGroupSpec& group, int32_t block_size, int64_t num_tokens, int64_t max_chunk);

// Same, summed over the groups of a layout.
int64_t max_sequence_blocks(const KvLayout& layout, int64_t num_tokens, int64_t max_chunk);

// The longest sequence, in tokens, for which max_sequence_blocks() is at most num_blocks. 0 if the recurrent
// states alone do not fit; INT32_MAX if the number of blocks does not depend on the length.
int64_t max_sequence_tokens(const KvLayout& layout, int64_t num_blocks, int64_t max_chunk);

// Maximum number of concurrent sequences of num_tokens tokens in num_blocks blocks, if together they compute
// at most max_chunk tokens per step.
int64_t max_sequences(const KvLayout& layout, int64_t num_blocks, int64_t num_tokens, int64_t max_chunk);

// Bytes of the pool per token while it is inside every window, padding included; 0 without attention layers.
int64_t kv_bytes_per_token(const KvLayout& layout);

// Bytes of the pool per token that has left every window: full-attention groups only.
int64_t kv_bytes_per_old_token(const KvLayout& layout);

// Blocks of recurrent state per sequence: the live states and their copies after a checkpoint.
int64_t state_blocks(const KvLayout& layout);

}  // namespace quire
