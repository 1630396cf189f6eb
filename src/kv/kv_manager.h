// The bookkeeping of the paged KV cache: which blocks the block tables of each sequence hold, what they
// share, and what may be reused. Owned by the scheduler; engine thread only. Holds no tensor: operations on
// bytes are returned as data (BlockCopy, changed parts of tables) for the executor.
//
// A sequence has a block table per KV group; a TableId names all of them together. Positions [0,
// num_computed) are computed.
//
//   block        0         1         2         3
//   slots    |........||........||........||....    |      waste: the empty slots of the last block
//             <------ num_computed ------------>
//             <- in the prefix cache ---------->  (full blocks only, once computed)
//
// Groups: kFull holds every block. kSlidingWindow and kChunked free the blocks that no later token attends
// to; their entries become -1. kState holds one block, the live state, which every step overwrites. If a
// commit ends at a checkpoint, that block is inserted into the prefix cache as the state after this prefix,
// and the next step continues in a copy. A cached prefix of such a layout ends at a checkpoint.
//
// Tiers: blocks that the device pool evicts move to the host pool and to disk slots, where later requests and
// later processes find them. Copies are planned in the order in which they must be performed: each of them
// finds the bytes where the bookkeeping says.
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

// The block tables of one sequence, one per KV group. Reused after close().
using TableId = int32_t;

struct KvOptions {
  bool enable_prefix_caching = true;
  uint64_t hash_seed = 0;
  int32_t hash_bits = 128;         // see BlockHasher
  int32_t checkpoint_blocks = 16;  // kState: distance between checkpoints, in blocks
  int32_t max_disk_writes = 32;    // writes in flight; an executor must accept this many
};

// A block of a cached prefix, in the device or the host pool. -1: no block is needed (before the window).
struct CachedBlock {
  BlockId block = -1;
  KvTier tier = KvTier::kDevice;

  friend bool operator==(const CachedBlock&, const CachedBlock&) = default;
};

// The longest cached prefix of a sequence, and its blocks in each group.
struct PrefixMatch {
  int32_t num_tokens = 0;                        // usable now; a multiple of the block size
  int32_t num_disk_tokens = 0;                   // further tokens that load_from_disk() can load
  std::vector<std::vector<CachedBlock>> blocks;  // [num_groups][num_tokens / block_size], device or host
};

// A disk slot that an earlier process has filled.
struct StoredBlock {
  int32_t slot = -1;
  CachedBlockHash key;
};

struct KvTierStats {
  int32_t num_blocks = 0;
  int32_t num_used = 0;     // in block tables, or being read or written
  int32_t num_free = 0;     // available, cached ones included
  int32_t num_cached = 0;   // free, with content in the prefix cache
  int64_t num_evicted = 0;  // blocks evicted from the tier since the start
  int64_t num_hits = 0;     // blocks of cached prefixes taken from this tier; disk: loaded to the host
};

struct KvStats {
  int32_t num_blocks = 0;
  int32_t num_used = 0;      // in block tables
  int32_t num_free = 0;      // available, cached ones included
  int32_t num_cached = 0;    // free, with content in the prefix cache
  int64_t slots_used = 0;    // slots of used blocks
  int64_t slots_filled = 0;  // those that hold a computed token
  KvTierStats device;
  KvTierStats host;  // all 0 without this tier
  KvTierStats disk;
  int64_t num_swapped_out = 0;  // blocks, since the start
  int64_t num_swapped_in = 0;
  int64_t num_copied_on_write = 0;      // shared blocks that were copied before a write
  int64_t num_disk_writes = 0;          // blocks written
  int64_t num_disk_writes_dropped = 0;  // not written: the disk was too slow, full or broken
  int64_t num_disk_reads_failed = 0;    // no intact block in the slot

  double usage() const { return num_blocks == 0 ? 0.0 : static_cast<double>(num_used) / num_blocks; }
  // Internal fragmentation: the fraction of held slots without a token.
  double waste() const {
    return slots_used == 0 ? 0.0
                           : static_cast<double>(slots_used - slots_filled) / static_cast<double>(slots_used);
  }
};

class KvManager {
 public:
  // Throws Error for an invalid layout: no group, a window < 1, no block.
  KvManager(const KvLayout& layout, const KvOptions& options);

  // New, empty block tables. Sequences with another adapter (AdapterRef::digest) or cache_salt never share
  // blocks with them.
  TableId open(std::string_view adapter, std::string_view cache_salt);
  // Reserves memory for the tables of num_tokens tokens, so that they grow without allocating.
  void reserve(TableId table, int64_t num_tokens);
  // Frees the blocks, on any tier, and ends the tables.
  void close(TableId table);
  // Frees the blocks, which stay in the prefix cache, and keeps the tables, empty.
  void clear(TableId table);
  // New tables that share every block of `table`.
  TableId fork(TableId table);

  // The longest cached prefix of a sequence of these tokens, at most token_ids.size() - 1 tokens. Changes no
  // block.
  void find_prefix(TableId table, std::span<const TokenId> token_ids, PrefixMatch& match);

  // How many free device blocks start() and then allocate_slots() use until num_tokens tokens are computed,
  // at most max_chunk of them per step.
  int64_t blocks_to_start(const PrefixMatch& match, int32_t num_tokens, int32_t max_chunk) const;

  // Fills empty tables with the matched blocks and new blocks for [match.num_tokens, num_tokens). Nothing may
  // have been allocated since find_prefix(). Appends copies from the host pool, and of evicted blocks to it.
  // Returns false, and changes nothing, if too few device blocks are free.
  bool start(TableId table, const PrefixMatch& match, int32_t num_tokens, std::vector<BlockCopy>& copies);

  // Makes slots [num_computed, num_tokens) writable: appends blocks, and replaces a shared block that would
  // be written by a copy (copy on write). Appends to `copies`, also for evicted blocks. Returns false, and
  // changes nothing, if too few blocks are free.
  bool allocate_slots(TableId table, int32_t num_tokens, std::vector<BlockCopy>& copies);

  // Moves all blocks of the tables (the samples of one request) to host blocks; shared blocks are copied once
  // and stay shared. The tables keep num_computed and hold nothing on the device: only swap_in(), fork(),
  // clear() and close() may follow. They must not be part of the current plan. Returns false, and changes
  // nothing, if the host pool is too small even without its cached blocks, or does not exist.
  bool swap_out(std::span<const TableId> tables, std::vector<BlockCopy>& copies);
  // The most free device blocks that swap_in() uses. A full block that is still in the device's prefix cache
  // is taken from there.
  int64_t blocks_to_swap_in(std::span<const TableId> tables) const;
  // Returns false, and changes nothing, if too few device blocks are free.
  bool swap_in(std::span<const TableId> tables, std::vector<BlockCopy>& copies);
  bool swapped_out(TableId table) const { return at(table).swapped; }

  // The disk tier, if the layout has disk slots. Blocks are written when their last reference on the device
  // is removed, and are loaded back through host blocks.
  bool has_disk() const { return disk_.has_value(); }
  // Begins to load the match.num_disk_tokens tokens of a sequence with empty tables; the reads belong to the
  // current plan. Returns true if reads began: the sequence waits while loading(), then looks up its prefix
  // again and finds it on the host, where it is held for these tables until start(), clear() or close().
  // Returns false if there is nothing to wait for: no host block is free, or the tables have loaded already.
  bool load_from_disk(TableId table, std::span<const TokenId> token_ids, const PrefixMatch& match,
                      std::vector<DiskRead>& reads);
  bool loading(TableId table) const;
  // Call for every DiskOutcome of a StepResult, in any order.
  void finish_disk_io(const DiskOutcome& outcome);
  // Appends the plan's disk writes. The last call for every plan: later operations belong to the next plan.
  void take_disk_writes(std::vector<DiskWrite>& writes);
  // True while take_disk_writes() has writes, now or after outcomes of others, so that a plan is needed.
  bool has_disk_writes() const { return disk_ && disk_->has_writes(); }
  // Slots that an earlier process has filled, least recently used first. Call before anything else.
  void restore_disk(std::span<const StoredBlock> stored);

  // Tokens [0, num_computed) of token_ids are now computed: inserts full blocks into the prefix cache and
  // frees blocks that have left the window of their group.
  void commit(TableId table, std::span<const TokenId> token_ids, int32_t num_computed);

  int32_t num_groups() const { return static_cast<int32_t>(groups_.size()); }
  int64_t num_full_groups() const;
  int32_t num_computed(TableId table) const;
  // Tokens to the next checkpoint: the states after a chunk that ends there are cached. 0 without state
  // groups.
  int32_t tokens_to_checkpoint(TableId table) const;
  // Device blocks that its tables reference, over all groups; 0 while it is swapped out.
  int64_t num_held(TableId table) const;
  // The device blocks of one group, -1 before the window; empty while the tables are swapped out.
  std::span<const BlockId> block_table(TableId table, int32_t group) const;
  // The host blocks of one group while the tables are swapped out, -1 before the window; otherwise empty.
  std::span<const BlockId> swapped_blocks(TableId table, int32_t group) const;

  // The next append_updates() sends complete tables, which the executor does not have.
  void resend(TableId table);
  // Appends the changes of the tables since the last call, as updates of sequence `seq`.
  void append_updates(TableId table, SeqId seq, StepPlan& plan);

  // The most blocks that a sequence of num_tokens tokens holds, if a step computes at most max_chunk of them.
  int64_t max_blocks(int64_t num_tokens, int64_t max_chunk) const;

  // Empties the prefix cache on every tier. Blocks in use keep their content, but are not found any more.
  void reset_prefix_cache();

  KvStats stats() const;
  // The blocks of the tiers, for displays. The host tier may be null.
  const BlockTier& device() const { return device_; }
  const BlockTier* host() const { return host_ ? &*host_ : nullptr; }
  int32_t num_free() const { return device_.num_free(); }
  int32_t num_blocks() const { return device_.num_blocks(); }
  int32_t block_size() const { return device_.block_size(); }

  // Throws Error at the first inconsistency: a wrong reference count, free + used != total, a cached block
  // that the index does not find. O(everything); for tests and idle checks.
  void check_integrity() const;

 private:
  struct GroupTable {
    // Device blocks, or host blocks while swapped out; -1 = has left the window. kState: the live state, or
    // empty.
    std::vector<BlockId> blocks;
    int32_t first_held = 0;  // entries before it are -1
    int32_t num_sent = 0;    // entries that the executor has
  };
  struct Table {
    std::vector<GroupTable> groups;
    std::vector<BlockHash> hashes;  // hashes of the first full blocks, computed as needed
    BlockHash root;
    std::vector<BlockId> loads;  // host blocks held for it until it starts
    int32_t num_computed = 0;
    int32_t num_cached_blocks = 0;  // leading blocks that are in the prefix cache
    bool cacheable = true;          // false after a hash collision: later blocks would have no cached parent
    bool swapped = false;           // its blocks are host blocks
    bool open = false;
  };

  Table& at(TableId table) { return tables_[static_cast<size_t>(table)]; }
  const Table& at(TableId table) const { return tables_[static_cast<size_t>(table)]; }
  TableId new_table();
  int32_t blocks_for(int32_t num_tokens) const;
  // The first block that the token at position num_computed, or a later one, attends to in this group.
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
  // Free device blocks that holding these would use.
  int64_t blocks_to_hold(std::span<const CachedBlock> blocks) const;
  BlockId allocate_block(std::vector<BlockCopy>& copies);
  void offload(BlockId block, std::vector<BlockCopy>& copies);
  BlockId load_back(BlockId host_block, std::vector<BlockCopy>& copies);
  void free_block(BlockTier& tier, BlockId block);
  void drop_loads(Table& table);
  void replace_shared(GroupTable& group, int32_t num_computed, std::vector<BlockCopy>& copies);
  bool needs_new_state(const GroupTable& group) const;
  void renew_state(GroupTable& group, int32_t num_computed, std::vector<BlockCopy>& copies);
  void cache_full_blocks(Table& table, std::span<const TokenId> token_ids);
  void drop_invisible(Table& table);

  BlockTier& tier_of(const Table& table) { return table.swapped ? *host_ : device_; }
  // Collects the blocks of the tables, each once, in visited_, and for each in moved_ the block of `to` that
  // has the same content, or -1. Returns how many free blocks of `to` the move uses.
  int64_t plan_move(std::span<const TableId> tables, const BlockTier& from, const BlockTier& to) const;
  void move(std::span<const TableId> tables, BlockTier& from, BlockTier& to, std::vector<BlockCopy>& copies);

  BlockTier device_;
  std::optional<BlockTier> host_;
  std::optional<DiskTier> disk_;
  // The plan in which a block's content was copied to the device: it cannot be written to the disk before
  // that plan is performed.
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
  int64_t num_copied_on_write_ = 0;
  int64_t num_swapped_in_ = 0;
  // Scratch of plan_move() and move(), of fixed capacity.
  mutable std::vector<BlockId> visited_;
  mutable std::vector<BlockId> moved_;
  std::vector<std::vector<CachedBlock>> deep_match_;  // scratch: a match with the disk
};

}  // namespace quire
