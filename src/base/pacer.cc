#include "base/pacer.h"

#include <thread>

namespace quire {

void Pacer::pace() {
  if (std::chrono::steady_clock::now() < slice_end_) return;
  if (busy_()) std::this_thread::sleep_for(kPause);
  slice_end_ = std::chrono::steady_clock::now() + kSlice;
}

}  // namespace quire
