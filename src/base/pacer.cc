#include "base/pacer.h"

#include <thread>

namespace quire {

const Pacer::Time Pacer::kSystemTime = {
    Clock::now, [](Clock::duration duration) { std::this_thread::sleep_for(duration); }};

void Pacer::pace() {
  if (time_.now() < slice_end_) return;
  if (busy_()) time_.sleep(kPause);
  slice_end_ = time_.now() + kSlice;
}

}  // namespace quire
