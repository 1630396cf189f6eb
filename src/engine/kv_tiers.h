// The tiers below the KV pool: the host pool and the disk cache, sized and opened when a model is loaded.
#pragma once

#include <string>
#include <vector>

#include "contract/engine_config.h"
#include "exec/local_runtime.h"
#include "kv/kv_manager.h"

namespace quire {

// A hexadecimal hash of everything that the bytes of a cached block depend on: the model's configuration
// and weights (names, shapes and samples of all tensors, sizes and times of the files), number formats,
// layout, version and instruction set. Reads a few pages of each tensor.
std::string kv_fingerprint(const LocalRuntime& runtime, const KvLayout& layout);

// Throws Error if the host pool does not fit into `free_bytes`, the memory that weights and working memory
// leave.
void check_swap_space(const EngineConfig& config, int64_t free_bytes);

// Sets num_host_blocks and num_disk_blocks of options.layout, whose num_blocks is set already, and opens the
// disk cache. Throws Error if the host pool does not fit into the free bytes; an unusable disk is only a
// warning.
void open_kv_tiers(const EngineConfig& config, const LocalRuntime& runtime, int64_t free_bytes,
                   LocalExecutorOptions& options);

// The blocks that an earlier process left in the disk cache, for KvManager::restore_disk.
std::vector<StoredBlock> stored_blocks(DiskCache& disk);

}  // namespace quire
