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
// become -1). kState holds one block, the live state, which every step rewrites; where num_computed stands at
// a checkpoint border when it is committed, the block is published as the state behind that prefix, and the
// next step goes on in a copy. A prefix of such a layout ends at a checkpoint.
//
// Tiers: what the device pool has no room for goes down instead of away. Host blocks take evicted prefixes
// and swapped sequences; slots of the disk keep prefixes beyond the process. Copies are planned in the order
// in which they must be performed, so that at each of them the bytes are where the bookkeeping says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "contract/ids.h"
#include "contract/kv_layout.h"
#include "contract/step_plan.h"
#include "contract/step_result.h"
#include "kv/block_hash.h"
#include "kv/block_tier.h"
#include "kv/disk_tier.h"
#include "kv/prefix_index.h"

namespace quire {

// Names a table set of KvManager; reused after close().
using TableId = int32_t;

struct KvOptions {
  bool enable_prefix_caching = true;
  uint64_t hash_seed = 0;
  int32_t hash_bits = 128;         // see BlockHasher
  int32_t checkpoint_blocks = 16;  // a checkpoint border every so many blocks, kState only
  int32_t max_disk_writes = 32;    // begun and not ended; an executor must be able to take so many
};

// A block of a cached prefix: in the device pool or in the host pool. -1: none is needed (before a window).
struct CachedBlock {
  BlockId block = -1;
  KvTier tier = KvTier::kDevice;

  friend bool operator==(const CachedBlock&, const CachedBlock&) = default;
};

// The longest cached prefix of a sequence: the blocks of each group that would be taken from the cache.
struct PrefixMatch {
  int32_t num_tokens = 0;                        // usable at once; a multiple of the block size
  int32_t num_disk_tokens = 0;                   // further ones, once load_from_disk() has brought them up
  std::vector<std::vector<CachedBlock>> blocks;  // [num_groups][num_tokens / block_size], device or host
};

// What a disk slot was found to hold when the process started.
struct StoredBlock {
  int32_t slot = -1;
  CachedBlockName name;
};

struct KvTierStats {
  int32_t num_blocks = 0;
  int32_t num_used = 0;     // by tables, or while bytes move from or to the disk
  int32_t num_free = 0;     // may be taken, cached ones included
  int32_t num_cached = 0;   // free with content that can be found
  int64_t num_evicted = 0;  // blocks whose content had to leave the tier, since the start
  int64_t num_hits = 0;     // blocks of cached prefixes taken from here; of the disk: brought up to the host
};

struct KvStats {
  int32_t num_blocks = 0;
  int32_t num_used = 0;      // in some table
  int32_t num_free = 0;      // may be taken, cached ones included
  int32_t num_cached = 0;    // free with content that can be found
  int64_t slots_used = 0;    // slots of used blocks
  int64_t slots_filled = 0;  // those of them that hold a computed token
  KvTierStats device;
  KvTierStats host;  // all 0 where there is none
  KvTierStats disk;
  int64_t num_swapped_out = 0;  // blocks, since the start
  int64_t num_swapped_in = 0;
  int64_t num_disk_writes = 0;          // blocks written
  int64_t num_disk_writes_dropped = 0;  // not written: the disk was too slow, full or broken
  int64_t num_disk_reads_failed = 0;    // no intact block in the slot

  double usage() const { return num_blocks == 0 ? 0.0 : static_cast<double>(num_used) / num_blocks; }
  // Slots held without a token in them, as a part of all slots held.
  double waste() const {
    return slots_used == 0 ? 0.0
                           : static_cast<double>(slots_used - slots_filled) / static_cast<double>(slots_used);
  }
};

class KvManager {
 public:
  // Throws Error for a layout that cannot be kept: no group, a window < 1, no block.
  KvManager(const KvLayout& layout, const KvOptions& options);

  // A new, empty table set. Sequences with another adapter or cache_salt never share blocks with it.
  TableId open(int32_t adapter, std::string_view cache_salt);
  // Prepares it for num_tokens tokens, so that it grows without allocating memory.
  void reserve(TableId table, int64_t num_tokens);
  // Gives its blocks back, on whatever tier, and ends it.
  void close(TableId table);
  // Gives its blocks back (cached ones stay findable) and keeps it, empty.
  void clear(TableId table);
  // A new table set that shares every block of `table`.
  TableId fork(TableId table);

  // The longest cached prefix of a sequence of these tokens, at most token_ids.size() - 1 tokens. Changes no
  // block.
  void find_prefix(TableId table, std::span<const TokenId> token_ids, PrefixMatch& match);

  // How many free device blocks start() and then allocate_slots() use up until num_tokens tokens are
  // computed, when at most max_chunk are computed in one step.
  int64_t blocks_to_start(const PrefixMatch& match, int32_t num_tokens, int32_t max_chunk) const;

  // Fills an empty table set: the matched blocks, and blocks for [match.num_tokens, num_tokens). The match is
  // of this moment (nothing was allocated since). Appends to `copies` what comes up from the host pool and
  // what goes down to it. False, and nothing changes, when too few device blocks are free.
  bool start(TableId table, const PrefixMatch& match, int32_t num_tokens, std::vector<BlockCopy>& copies);

  // Makes slots [num_computed, num_tokens) writable: appends blocks, and replaces a shared block that would
  // be written by a copy (appended to `copies`, with what goes down to the host pool). False, and nothing
  // changes, when too few blocks are free.
  bool allocate_slots(TableId table, int32_t num_tokens, std::vector<BlockCopy>& copies);

  // Moves all blocks of the tables (the samples of one request) to host blocks, planned as copies; what they
  // share stays shared and is stored once. The tables keep num_computed and hold nothing on the device: only
  // swap_in(), fork(), clear() and close() may follow. They must not be part of the plan being made. False,
  // and nothing changes, when the host pool lacks room even without its cached blocks, or there is none.
  bool swap_out(std::span<const TableId> tables, std::vector<BlockCopy>& copies);
  // Free device blocks that swap_in takes at the most. A full published block that the device's prefix cache
  // still has is taken from there.
  int64_t blocks_to_swap_in(std::span<const TableId> tables) const;
  // False, and nothing changes, when too few device blocks are free.
  bool swap_in(std::span<const TableId> tables, std::vector<BlockCopy>& copies);
  bool swapped_out(TableId table) const { return at(table).swapped; }

  // The disk tier, where the layout has slots of it. Blocks are written when their last reference on the
  // device goes, and come back through host blocks.
  //
  bool has_disk() const { return disk_.has_value(); }
  // Before an empty table starts: begins to bring up the match.num_disk_tokens tokens, with reads for the
  // plan being made. True when it began: the sequence waits while loading(), then looks up its prefix again
  // and finds it on the host, where it is kept for this table until start(), clear() or close(). False when
  // there is nothing to wait for: no host block is free, or the table has loaded already.
  bool load_from_disk(TableId table, std::span<const TokenId> token_ids, const PrefixMatch& match,
                      std::vector<DiskRead>& reads);
  bool loading(TableId table) const;
  // Call for every DiskOutcome of a StepResult, in any order.
  void finish_disk_io(const DiskOutcome& outcome);
  // Appends the plan's disk writes. The last call in the making of every plan: what is planned after it
  // belongs to the next one.
  void take_disk_writes(std::vector<DiskWrite>& writes);
  // True while take_disk_writes() has something to give, at once or after outcomes: reason enough for a plan.
  bool has_disk_writes() const { return disk_ && disk_->has_writes(); }
  // What the slots hold from an earlier process, least recently used first. Before anything else.
  void restore_disk(std::span<const StoredBlock> stored);

  // Tokens [0, num_computed) of token_ids are now really in the cache: full blocks are published, blocks that
  // fell out of every window are given back.
  void commit(TableId table, std::span<const TokenId> token_ids, int32_t num_computed);

  int32_t num_groups() const { return static_cast<int32_t>(groups_.size()); }
  int32_t num_computed(TableId table) const;
  // Tokens up to the next checkpoint border: a chunk that ends there leaves its states to be found. 0 where
  // no group keeps states.
  int32_t tokens_to_checkpoint(TableId table) const;
  // On the device; empty while it is swapped out.
  std::span<const BlockId> block_table(TableId table, int32_t group) const;

  // The next append_updates() describes the tables anew: the executor does not know them.
  void resend(TableId table);
  // Appends what changed in the tables since the last call, as updates of sequence `seq`.
  void append_updates(TableId table, SeqId seq, StepPlan& plan);

  // Blocks that a sequence of num_tokens tokens holds at the most when at most max_chunk are computed in one
  // step.
  int64_t max_blocks(int64_t num_tokens, int64_t max_chunk) const;

  // Forgets all cached content of every tier. Blocks in use keep their content but are no longer found.
  void reset_prefix_cache();

  KvStats stats() const;
  int32_t num_free() const { return device_.num_free(); }
  int32_t num_blocks() const { return device_.num_blocks(); }
  int32_t block_size() const { return device_.block_size(); }

  // Throws Error at the first disagreement: a reference count that is not the number of tables that hold the
  // block, free + used != total, a published block that is not where the index says. O(everything); for tests
  // and idle checks.
  void check_integrity() const;

 private:
  struct GroupTable {
    // kState: the live state's block, or none yet.
    std::vector<BlockId> blocks;  // on the device, or all on the host; -1: fell out of the window
    int32_t first_held = 0;       // entries before it are -1
    int32_t num_sent = 0;         // entries the executor has as they are
  };
  struct Table {
    std::vector<GroupTable> groups;
    std::vector<BlockHash> hashes;  // names of the first full blocks, as far as needed so far
    BlockHash root;
    std::vector<BlockId> loads;  // host blocks kept for it until it starts
    int32_t num_computed = 0;
    int32_t num_published = 0;  // blocks, from the front
    bool publishes = true;      // false after a name collision: what follows would have no published parent
    bool swapped = false;       // its blocks are host blocks
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
  // The longest prefix of at most `limit` blocks in the tiers down to `lowest`.
  int32_t search(const Table& table, std::span<const TokenId> token_ids, int32_t limit, KvTier lowest,
                 std::vector<std::vector<CachedBlock>>& blocks) const;
  CachedBlock lookup(const PrefixIndex::Key& key, KvTier lowest) const;
  int32_t match_full(const Table& table, std::span<const TokenId> token_ids, int32_t group, int32_t limit,
                     KvTier lowest, std::vector<CachedBlock>& blocks) const;
  int32_t match_window(const Table& table, std::span<const TokenId> token_ids, int32_t group, int32_t limit,
                       KvTier lowest, std::vector<CachedBlock>& blocks) const;
  int32_t match_state(const Table& table, std::span<const TokenId> token_ids, int32_t group, int32_t limit,
                      KvTier lowest, std::vector<CachedBlock>& blocks) const;
  // Device blocks that taking these would use up.
  int64_t blocks_to_hold(std::span<const CachedBlock> blocks) const;
  BlockId take_block(std::vector<BlockCopy>& copies);
  void move_down(BlockId block, std::vector<BlockCopy>& copies);
  BlockId bring_up(BlockId host_block, std::vector<BlockCopy>& copies);
  void release(BlockTier& tier, BlockId block);
  void drop_loads(Table& table);
  void replace_shared(GroupTable& group, int32_t num_computed, std::vector<BlockCopy>& copies);
  bool needs_new_state(const GroupTable& group) const;
  void renew_state(GroupTable& group, int32_t num_computed, std::vector<BlockCopy>& copies);
  void publish(Table& table, std::span<const TokenId> token_ids);
  void drop_invisible(Table& table);

  BlockTier& tier_of(const Table& table) { return table.swapped ? *host_ : device_; }
  // The blocks of the tables, each once, into visited_, and for each the block of `to` that has its content
  // already (or -1) into moved_. Returns how many free blocks of `to` moving takes.
  int64_t plan_move(std::span<const TableId> tables, const BlockTier& from, const BlockTier& to) const;
  void move(std::span<const TableId> tables, BlockTier& from, BlockTier& to, std::vector<BlockCopy>& copies);

  BlockTier device_;
  std::optional<BlockTier> host_;
  std::optional<DiskTier> disk_;
  // The plan in which a block's content was copied to the device: until it is performed, the block cannot be
  // written to the disk.
  std::vector<int64_t> copied_in_;  // [num_blocks], with a disk only
  int64_t plan_ = 1;
  BlockHasher hasher_;
  std::vector<KvGroupSpec> groups_;
  bool caching_;
  bool has_states_ = false;
  int32_t checkpoint_blocks_;
  std::vector<Table> tables_;
  std::vector<TableId> closed_;  // slots of tables_ to reuse
  int64_t num_device_hits_ = 0;
  int64_t num_host_hits_ = 0;
  int64_t num_swapped_out_ = 0;
  int64_t num_swapped_in_ = 0;
  // Scratch of plan_move() and move(), of fixed capacity.
  mutable std::vector<BlockId> visited_;
  mutable std::vector<BlockId> moved_;
  std::vector<std::vector<CachedBlock>> deep_match_;  // scratch: a match with the disk
};

}  // namespace quire
