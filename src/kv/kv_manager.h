// The paged KV cache as bookkeeping: which blocks each sequence's tables hold, what they share, what may be
// reused. Owned by the Scheduler; engine thread only. Holds no tensor: what must happen to bytes comes out as
// data (BlockCopy, the changed part of a table) that the executor performs.
//
// A sequence has one table set: a list of blocks for each KV group. Positions [0, num_computed) hold keys and
// values.
//
//   block        0         1         2         3
//   slots    |........||........||........||....    |      waste: the empty slots of the last block, nothing
//   else
//             <------ num_computed ------------>
//             <- published in the prefix index -> (full blocks only, once computed)
//
// Groups: kFull holds every block. kSlidingWindow gives back blocks that no later token sees (their entries
// become -1). kState is refused at construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "contract/ids.h"
#include "contract/kv_layout.h"
#include "contract/step_plan.h"
#include "kv/block_hash.h"
#include "kv/block_pool.h"
#include "kv/prefix_index.h"

namespace quire {

// Names a table set of KvManager; reused after close().
using TableId = int32_t;

struct KvOptions {
  bool enable_prefix_caching = true;
  uint64_t hash_seed = 0;
  int32_t hash_bits = 128;  // see BlockHasher
};

// The longest cached prefix of a sequence: the blocks of each group that would be taken from the cache.
struct PrefixMatch {
  int32_t num_tokens = 0;  // a multiple of the block size
  std::vector<std::vector<BlockId>>
      blocks;  // [num_groups][num_tokens / block_size], -1 where a window needs none
};

struct KvStats {
  int32_t num_blocks = 0;
  int32_t num_used = 0;      // in some table
  int32_t num_free = 0;      // may be taken, cached ones included
  int32_t num_cached = 0;    // free with content that can be found
  int64_t slots_used = 0;    // slots of used blocks
  int64_t slots_filled = 0;  // those of them that hold a computed token

  double usage() const { return num_blocks == 0 ? 0.0 : static_cast<double>(num_used) / num_blocks; }
  // Slots held without a token in them, as a part of all slots held.
  double waste() const {
    return slots_used == 0 ? 0.0
                           : static_cast<double>(slots_used - slots_filled) / static_cast<double>(slots_used);
  }
};

class KvManager {
 public:
  // Throws Error for a layout that cannot be kept: no group, a kState group, a window < 1, no block.
  KvManager(const KvLayout& layout, const KvOptions& options);

  // A new, empty table set. Sequences with another adapter or cache_salt never share blocks with it.
  TableId open(int32_t adapter, std::string_view cache_salt);
  // Prepares it for num_tokens tokens, so that it grows without allocating memory.
  void reserve(TableId table, int64_t num_tokens);
  // Gives its blocks back and ends it.
  void close(TableId table);
  // Gives its blocks back (cached ones stay findable) and keeps it, empty.
  void clear(TableId table);
  // A new table set that shares every block of `table`.
  TableId fork(TableId table);

  // The longest cached prefix of a sequence of these tokens, at most token_ids.size() - 1 tokens. Changes no
  // block.
  void find_prefix(TableId table, std::span<const TokenId> token_ids, PrefixMatch& match);

  // How many free blocks start() and then allocate_slots() use up until num_tokens tokens are computed, when
  // at most max_chunk are computed in one step.
  int64_t blocks_to_start(const PrefixMatch& match, int32_t num_tokens, int32_t max_chunk) const;

  // Fills an empty table set: the matched blocks, and blocks for [match.num_tokens, num_tokens). The match is
  // of this moment (nothing was allocated since). False, and nothing changes, when too few blocks are free.
  bool start(TableId table, const PrefixMatch& match, int32_t num_tokens);

  // Makes slots [num_computed, num_tokens) writable: appends blocks, and replaces a shared block that would
  // be written by a copy (appended to `copies`). False, and nothing changes, when too few blocks are free.
  bool allocate_slots(TableId table, int32_t num_tokens, std::vector<BlockCopy>& copies);

  // Tokens [0, num_computed) of token_ids are now really in the cache: full blocks are published, blocks that
  // fell out of every window are given back.
  void commit(TableId table, std::span<const TokenId> token_ids, int32_t num_computed);

  int32_t num_groups() const { return static_cast<int32_t>(groups_.size()); }
  int32_t num_computed(TableId table) const;
  std::span<const BlockId> block_table(TableId table, int32_t group) const;

  // Appends what changed in the tables since the last call, as updates of sequence `seq`.
  void append_updates(TableId table, SeqId seq, StepPlan& plan);

  // Blocks that a sequence of num_tokens tokens holds at the most when at most max_chunk are computed in one
  // step.
  int64_t max_blocks(int64_t num_tokens, int64_t max_chunk) const;

  // Forgets all cached content. Blocks in use keep their content but are no longer found.
  void reset_prefix_cache();

  KvStats stats() const;
  int32_t num_free() const { return pool_.num_free(); }
  int32_t num_blocks() const { return pool_.num_blocks(); }
  int32_t block_size() const { return pool_.block_size(); }

  // Throws Error at the first disagreement: a reference count that is not the number of tables that hold the
  // block, free + used != total, a published block that is not where the index says. O(everything); for tests
  // and idle checks.
  void check_integrity() const;

 private:
  struct GroupTable {
    std::vector<BlockId> blocks;  // -1: fell out of the window
    int32_t first_held = 0;       // entries before it are -1
    int32_t num_sent = 0;         // entries the executor has as they are
  };
  struct Table {
    std::vector<GroupTable> groups;
    std::vector<BlockHash> hashes;  // names of the first full blocks, as far as needed so far
    BlockHash root;
    int32_t num_computed = 0;
    int32_t num_published = 0;  // blocks, from the front
    bool publishes = true;      // false after a name collision: what follows would have no published parent
    bool open = false;
  };

  Table& at(TableId table) { return tables_[static_cast<size_t>(table)]; }
  const Table& at(TableId table) const { return tables_[static_cast<size_t>(table)]; }
  TableId take_slot();
  int32_t blocks_for(int32_t num_tokens) const;
  // The first block that a token at position num_computed or later of this group sees.
  int32_t first_visible_block(const KvGroupSpec& group, int32_t num_computed) const;
  void extend_hashes(Table& table, std::span<const TokenId> token_ids, int32_t num_blocks);
  PrefixIndex::Key key_of(const Table& table, std::span<const TokenId> token_ids, int32_t group,
                          int32_t block) const;
  int32_t match_full(const Table& table, std::span<const TokenId> token_ids, int32_t group, int32_t limit,
                     std::vector<BlockId>& blocks) const;
  int32_t match_window(const Table& table, std::span<const TokenId> token_ids, int32_t group, int32_t limit,
                       std::vector<BlockId>& blocks) const;
  BlockId take_block();
  void hold_cached_block(BlockId block);
  void replace_shared(GroupTable& group, int32_t num_computed, std::vector<BlockCopy>& copies);
  void release_block(BlockId block);
  void publish(Table& table, std::span<const TokenId> token_ids);
  void drop_invisible(Table& table);

  BlockPool pool_;
  PrefixIndex index_;
  BlockHasher hasher_;
  std::vector<KvGroupSpec> groups_;
  bool caching_;
  int32_t num_cached_free_ = 0;
  std::vector<Table> tables_;
  std::vector<TableId> closed_;  // slots of tables_ to reuse
};

}  // namespace quire
