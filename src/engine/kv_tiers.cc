#include "engine/kv_tiers.h"

#include <algorithm>
#include <memory>
#include <span>

#include "base/counted.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "base/log.h"
#include "base/strings.h"
#include "engine/build_info.h"
#include "exec/disk_cache.h"

namespace quire {
namespace {

// The executor accepts as many writes at once as the scheduler starts.
static_assert(KvOptions{}.max_disk_writes <= DiskCache::kMaxWrites);

constexpr int64_t kMaxHostBlocks = int64_t{1} << 24;
// Without --swap-space, host blocks are only needed to load prefixes from disk. An eighth of the KV pool is
// enough for one long prefix and small compared with the pool; more than the longest sequence is never used.
constexpr int32_t kStagingPart = 8;
constexpr int32_t kMinStagingBlocks = 64;

// Adds the first, the last and some bytes in between.
void add_samples(Fingerprint& fingerprint, std::span<const std::byte> bytes) {
  constexpr size_t kSample = 1024;
  constexpr size_t kNumSamples = 4;
  if (bytes.size() <= kSample * kNumSamples) return fingerprint.add(bytes);
  for (size_t i = 0; i < kNumSamples; ++i)
    fingerprint.add(bytes.subspan((bytes.size() - kSample) * i / (kNumSamples - 1), kSample));
}

void add_weights(Fingerprint& fingerprint, const Checkpoint& checkpoint) {
  fingerprint.add(checkpoint.config().dump());
  for (const std::string& name : checkpoint.names()) {
    const TensorInfo& info = *checkpoint.find(name);
    fingerprint.add(name);
    fingerprint.add(static_cast<int64_t>(info.dtype));
    fingerprint.add(info.shape_text());
    add_samples(fingerprint, checkpoint.bytes(name));
  }
  // Weights may differ only between the samples; then name, size or time of a file differ.
  for (const FileIdentity& file : checkpoint.weight_files()) {
    fingerprint.add(file.name);
    fingerprint.add(file.bytes);
    fingerprint.add(file.modified_ns);
  }
}

int64_t staging_blocks(const LocalExecutorOptions& options) {
  const int64_t longest =
      max_sequence_blocks(options.layout, options.max_model_len, options.max_num_batched_tokens);
  return std::min<int64_t>(longest, std::max(kMinStagingBlocks, options.layout.num_blocks / kStagingPart));
}

}  // namespace

std::string kv_fingerprint(const LocalRuntime& runtime, const KvLayout& layout) {
  Fingerprint fingerprint;
  fingerprint.add(int64_t{kSlotVersion});
  fingerprint.add(build_info().version);
  fingerprint.add(runtime.device().name());
  fingerprint.add(dtype_name(runtime.model().weight_dtype()));
  fingerprint.add(runtime.model().quantization());
  fingerprint.add(dtype_name(runtime.kv_dtype()));
  fingerprint.add(runtime.model().max_model_len());  // rotations may be scaled by it
  fingerprint.add(int64_t{layout.block_size});
  fingerprint.add(int64_t{layout.checkpoint_blocks});
  fingerprint.add(layout.bytes_per_block);
  for (const KvGroupSpec& group : layout.groups) {
    fingerprint.add(static_cast<int64_t>(group.kind));
    fingerprint.add(int64_t{group.window});
    fingerprint.add(std::as_bytes(std::span(group.layers)));
  }
  add_weights(fingerprint, runtime.checkpoint());
  return fingerprint.text();
}

void check_swap_space(const EngineConfig& config, int64_t free_bytes) {
  if (config.swap_space <= free_bytes) return;
  throw Error(cat("--swap-space ", format_bytes(config.swap_space), " does not fit into the ",
                  format_bytes(std::max<int64_t>(0, free_bytes)),
                  " of memory that weights, KV pool and working memory leave"));
}

void open_kv_tiers(const EngineConfig& config, const LocalRuntime& runtime, int64_t free_bytes,
                   LocalExecutorOptions& options) {
  KvLayout& layout = options.layout;
  const int64_t per_block = layout.bytes_per_block;
  int64_t num_host_blocks = std::min(config.swap_space / per_block, kMaxHostBlocks);
  if (config.swap_space > 0 && num_host_blocks == 0) {
    throw Error(cat("--swap-space ", format_bytes(config.swap_space), " is less than one block of ",
                    format_bytes(per_block)));
  }
  check_swap_space(config, free_bytes);
  if (!config.kv_disk_cache.empty() && !config.enable_prefix_caching) {
    log_warning("--kv-disk-cache keeps cached prefixes, and prefix caching is off; running without it");
  } else if (!config.kv_disk_cache.empty()) {
    num_host_blocks = std::max(num_host_blocks, staging_blocks(options));
    const int64_t bytes = num_host_blocks * per_block + DiskCache::staging_bytes(per_block);
    if (bytes > free_bytes) {
      throw Error(cat("--kv-disk-cache needs ", format_bytes(bytes),
                      " of memory for staging blocks, but only ", format_bytes(free_bytes),
                      " are left; reduce --kv-cache-memory"));
    }
    options.disk = DiskCache::open({.directory = config.kv_disk_cache,
                                    .max_bytes = config.kv_disk_cache_size,
                                    .fingerprint = kv_fingerprint(runtime, layout),
                                    .block_size = layout.block_size,
                                    .bytes_per_block = per_block});
  }
  if (options.disk != nullptr) {
    layout.num_disk_blocks = options.disk->num_slots();
    log_info("KV disk cache: room for ", counted(layout.num_disk_blocks, "block"), " of ",
             format_bytes(per_block), ", ", options.disk->num_entries(), " found from before; ",
             counted(num_host_blocks, "host block"));
  } else if (config.swap_space == 0) {
    num_host_blocks = 0;
  }
  layout.num_host_blocks = static_cast<int32_t>(num_host_blocks);
}

std::vector<StoredBlock> stored_blocks(DiskCache& disk) {
  std::vector<StoredBlock> blocks;
  for (DiskCache::Entry& entry : disk.take_entries()) blocks.push_back({entry.slot, std::move(entry.key)});
  return blocks;
}

}  // namespace quire
