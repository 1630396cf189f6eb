// The blocks of the device pool and of the host pool. Which block holds what is decided by the bookkeeping in
// kv/. Owned by an executor, which also decides the thread.
#pragma once

#include <span>
#include <vector>

#include "contract/kv_layout.h"
#include "contract/step_plan.h"
#include "device/device.h"
#include "models/model.h"
#include "models/state_layout.h"
#include "ops/op_table.h"
#include "tensor/tensor.h"

namespace quire {

class KvStore {
 public:
  // layout: make_kv_layout() of this model. The device outlives the store.
  KvStore(Device& device, const ModelSpec& spec, DType dtype, const KvLayout& layout);

  // [num_layers]; empty views for layers that store no keys and values. Block ids of a layer's view are those
  // of the layer's group.
  std::span<const KvCacheView> layers() const { return layers_; }
  // [num_layers] recurrent states, or empty if no layer has any.
  std::span<const LayerState> states() const { return states_; }
  // Submits the copies in order.
  void copy(std::span<const BlockCopy> copies, DeviceStream& stream);
  int64_t bytes() const { return static_cast<int64_t>(pool_.size()); }
  // The bytes of a device or host block, [bytes_per_block].
  std::span<std::byte> block(KvTier tier, BlockId block);

 private:
  void add_states(Device& device, const StateLayout& layout);

  int64_t bytes_per_block_;
  // [num_blocks, bytes_per_block]. A block of an attention group holds, for each layer of the group in order,
  // keys and then values. A block of a state group: models/state_layout.h.
  Buffer pool_;
  Buffer host_;  // pinned: [num_host_blocks, as in pool_]
  std::vector<KvCacheView> layers_;
  Buffer state_places_;  // [parts] StatePlace of all layers' states, in memory of the device
  std::vector<LayerState> states_;
};

}  // namespace quire
