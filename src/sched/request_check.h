// The admission check: whether a request can ever run with this configuration and KV cache. Pure function.
#pragma once

#include "base/error.h"
#include "contract/request.h"
#include "kv/kv_manager.h"
#include "sched/scheduler_types.h"

namespace quire {

// The sampling parameters are valid (sample/validate.h). A failure names the parameter and the limit that it
// exceeds.
Status check_request(const Request& request, const SchedulerConfig& config, const KvManager& kv);

}  // namespace quire
