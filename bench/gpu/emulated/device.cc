#include "device.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>

#include "fiber.h"

namespace emulated {
namespace {

constexpr int kWarpSize = 32;

enum class State : uint8_t { kReady, kAtBarrier, kInWarpOp, kDone };

struct AsyncCopy {
  void* dst;
  const void* src;
  int size;
  int src_bytes;
};

struct Thread {
  Fiber fiber;
  uint3 index{};
  int linear = 0;  // index in the block
  State state = State::kReady;
  std::vector<std::vector<AsyncCopy>> groups;  // committed cp.async groups that have not completed
  std::vector<AsyncCopy> open_group;
};

struct Warp {
  uint32_t mask = 0;
  uint32_t arrived = 0;
  uint32_t generation = 0;  // number of completed warp-wide instructions
  LaneWords words[2][kWarpSize];
  char sync[2];
};

struct SiteOrder {
  bool operator()(const Where& a, const Where& b) const {
    if (a.line() != b.line()) return a.line() < b.line();
    return std::string_view(a.file_name()) < b.file_name();
  }
};

// The device and the block that runs on it. It is a global because kernels reach the built-in variables
// without an argument.
struct Machine {
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  Thread* current = nullptr;
  Call body{};
  void* shared = nullptr;
  dim3 block, grid;
  uint3 block_idx{};
  int live = 0;          // threads that have not returned
  int at_barrier = 0;    // threads that wait in __syncthreads
  uint32_t barrier = 0;  // number of completed barriers
  std::exception_ptr error;

  uint64_t seed = 0;
  MmaArithmetic arithmetic = MmaArithmetic::kHopper;
  std::mt19937_64 copy_random;
  std::set<Where, SiteOrder> sites;
  std::string removed;

  // Synchronization objects for ThreadSanitizer. Barriers alternate between two of them: with one, a thread
  // that leaves a barrier late would acquire what others released at the next barrier.
  char barrier_sync[2];
  // Two of them here too: a thread that starts late must not acquire what others released when they returned.
  char launch_begin, launch_end;
} m;

std::string name_of(const Where& where) {
  const std::string_view path = where.file_name();
  return std::string(path.substr(path.rfind('/') + 1)) + ":" + std::to_string(where.line());
}

// Notes the site. True if its calls do nothing.
bool removed(const Where& where) {
  m.sites.insert(where);
  return !m.removed.empty() && m.removed == name_of(where);
}

void suspend() {
  m.current->fiber.suspend();
}

void thread_main() {
  m.current->fiber.entered();
  tsan::acquire(&m.launch_begin);
  try {
    m.body.run(m.body.self);
  } catch (...) {
    m.error = std::current_exception();
  }
  tsan::release(&m.launch_end);
  m.current->state = State::kDone;
  --m.live;
  m.current->fiber.finish();
}

void release_barrier() {
  for (Thread& thread : m.threads) {
    if (thread.state == State::kAtBarrier) thread.state = State::kReady;
  }
  m.at_barrier = 0;
  ++m.barrier;
}

// The order in which the threads of a block run. With seed 0 every warp runs each of its threads once per
// round. With any other seed one warp runs until it waits at a barrier of the block; warps and lanes are
// drawn again after each barrier.
class BlockOrder {
 public:
  BlockOrder(int num_threads, uint64_t seed)
      : num_threads_(num_threads), shuffled_(m.seed != 0), random_(seed) {
    for (int i = 0; i < num_threads; ++i) threads_.push_back(i);
    for (int w = 0; w < (num_threads + kWarpSize - 1) / kWarpSize; ++w) warps_.push_back(w);
  }

  // Runs ready threads. Returns false if there are none.
  bool run_some() {
    if (shuffled_ && seen_barrier_ != m.barrier) shuffle();
    bool any = false;
    for (const int warp : warps_) {
      while (run_warp(warp)) {
        any = true;
        if (!shuffled_) break;
      }
      if (shuffled_ && any) break;
    }
    return any;
  }

 private:
  void shuffle() {
    seen_barrier_ = m.barrier;
    std::shuffle(warps_.begin(), warps_.end(), random_);
    for (int begin = 0; begin < num_threads_; begin += kWarpSize)
      std::shuffle(threads_.begin() + begin, threads_.begin() + std::min(num_threads_, begin + kWarpSize),
                   random_);
  }

  bool run_warp(int warp) {
    bool any = false;
    const int begin = warp * kWarpSize;
    for (int i = begin; i < std::min(num_threads_, begin + kWarpSize); ++i) {
      Thread& thread = m.threads[static_cast<size_t>(threads_[static_cast<size_t>(i)])];
      if (thread.state != State::kReady) continue;
      m.current = &thread;
      thread.fiber.resume();
      any = true;
    }
    return any;
  }

  int num_threads_;
  bool shuffled_;
  std::mt19937_64 random_;
  std::vector<int> threads_, warps_;
  uint32_t seen_barrier_ = m.barrier - 1;
};

void start_threads(int num_threads) {
  while (m.threads.size() < static_cast<size_t>(num_threads)) m.threads.emplace_back();
  m.warps.resize(static_cast<size_t>((num_threads + kWarpSize - 1) / kWarpSize));
  for (Warp& warp : m.warps) warp.arrived = warp.generation = 0;
  m.live = num_threads;
  m.at_barrier = 0;
  for (int i = 0; i < num_threads; ++i) {
    Thread& thread = m.threads[static_cast<size_t>(i)];
    const auto n = static_cast<unsigned>(i);
    thread.linear = i;
    thread.index = {n % m.block.x, n / m.block.x % m.block.y, n / m.block.x / m.block.y};
    thread.state = State::kReady;
    thread.groups.clear();
    thread.open_group.clear();
    thread.fiber.start(&thread_main);
  }
}

void run_block(uint3 block_idx) {
  const auto num_threads = static_cast<int>(m.block.x * m.block.y * m.block.z);
  m.block_idx = block_idx;
  start_threads(num_threads);
  BlockOrder order(num_threads,
                   m.seed * 1000003 + block_idx.x + 7919ULL * block_idx.y + 104729ULL * block_idx.z);
  while (m.live > 0) {
    bool progress = order.run_some();
    if (m.error) std::rethrow_exception(std::exchange(m.error, nullptr));
    if (m.live > 0 && m.at_barrier == m.live) {
      release_barrier();
      progress = true;
    }
    if (!progress && m.live > 0) throw std::runtime_error("deadlock: all threads of a block are waiting");
  }
}

void complete(const AsyncCopy& copy) {
  tsan::read(copy.src, static_cast<size_t>(copy.src_bytes));
  tsan::write(copy.dst, static_cast<size_t>(copy.size));
  std::memcpy(copy.dst, copy.src, static_cast<size_t>(copy.src_bytes));
  std::memset(static_cast<char*>(copy.dst) + copy.src_bytes, 0,
              static_cast<size_t>(copy.size - copy.src_bytes));
}

constexpr int kNan = 0xff;  // a byte of a NaN in float32, bf16 and fp16

}  // namespace

void set_seed(uint64_t seed) {
  m.seed = seed;
  m.copy_random.seed(seed);
}
void set_mma_arithmetic(MmaArithmetic arithmetic) {
  m.arithmetic = arithmetic;
}
void remove_site(std::string_view name) {
  m.removed = name;
}

std::vector<std::string> sites() {
  std::vector<std::string> names;
  for (const Where& where : m.sites) names.push_back(name_of(where));
  return names;
}

const uint3& thread_idx() {
  return m.current->index;
}
const uint3& block_idx() {
  return m.block_idx;
}
const dim3& block_dim() {
  return m.block;
}
const dim3& grid_dim() {
  return m.grid;
}
int lane() {
  return m.current->linear % kWarpSize;
}
void* shared_memory() {
  return m.shared;
}

void sync_block(const Where& where) {
  if (removed(where)) return;
  char* sync = &m.barrier_sync[m.barrier & 1];
  tsan::release(sync);
  m.current->state = State::kAtBarrier;
  if (++m.at_barrier == m.live) release_barrier();
  suspend();
  tsan::acquire(sync);
}

namespace {

// orders_memory is true for __syncwarp only: shuffles, ldmatrix and mma do not order memory accesses.
const LaneWords* meet(uint32_t mask, const uint64_t* words, int num_words, bool orders_memory) {
  const int first = m.current->linear / kWarpSize * kWarpSize, own = lane();
  Warp& warp = m.warps[static_cast<size_t>(first / kWarpSize)];
  if (!(mask >> own & 1))
    throw std::runtime_error("warp-wide instruction: the calling lane is not in its mask");
  if (warp.arrived != 0 && warp.mask != mask)
    throw std::runtime_error("warp-wide instruction: lanes pass different masks");
  const uint32_t slot = warp.generation & 1;
  for (int i = 0; i < num_words; ++i) warp.words[slot][own][i] = words[i];
  if (orders_memory) tsan::release(&warp.sync[slot]);
  warp.mask = mask;
  warp.arrived |= 1U << own;
  if (warp.arrived == mask) {
    warp.arrived = 0;
    ++warp.generation;
    for (int i = 0; i < kWarpSize; ++i) {
      if (mask >> i & 1) m.threads[static_cast<size_t>(first + i)].state = State::kReady;
    }
  } else {
    m.current->state = State::kInWarpOp;
    suspend();
  }
  if (orders_memory) tsan::acquire(&warp.sync[slot]);
  return warp.words[slot];
}

}  // namespace

const LaneWords* exchange(uint32_t mask, const uint64_t* words, int num_words) {
  return meet(mask, words, num_words, false);
}

void sync_warp(uint32_t mask, const Where& where) {
  if (removed(where)) return;
  const uint64_t none = 0;
  meet(mask, &none, 1, true);
}

void cp_async(void* dst, const void* src, int size, int src_bytes) {
  const AsyncCopy copy{dst, src, size, src_bytes};
  if (m.seed != 0 && m.copy_random() % 2 != 0) {
    complete(copy);
    return;
  }
  tsan::write(dst, static_cast<size_t>(size));
  std::memset(dst, kNan, static_cast<size_t>(size));
  m.current->open_group.push_back(copy);
}

void cp_async_commit() {
  m.current->groups.push_back(std::exchange(m.current->open_group, {}));
}

void cp_async_wait(int max_pending_groups, const Where& where) {
  if (removed(where)) return;
  auto& groups = m.current->groups;
  const auto pending = static_cast<size_t>(max_pending_groups);
  const size_t num = groups.size() > pending ? groups.size() - pending : 0;
  for (size_t i = 0; i < num; ++i) {
    for (const AsyncCopy& copy : groups[i]) complete(copy);
  }
  groups.erase(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(num));
}

void mma_16816(float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4],
               probe::OperandType type) {
  uint64_t words[3];
  std::memcpy(words, a, 16);
  std::memcpy(words + 2, b, 8);
  const LaneWords* all = exchange(~0U, words, 3);
  // Words 0 to 3 of a lane are its fragment of A, 4 and 5 that of B.
  const auto element = [&](int source_lane, int index, int k) {
    const auto* fragment = reinterpret_cast<const uint32_t*>(all[source_lane]);
    return static_cast<uint16_t>(fragment[index] >> (k % 2 * 16));
  };
  const int row = lane() / 4, column = lane() % 4 * 2;
  for (int i = 0; i < 4; ++i) {
    const int r = row + (i >= 2 ? 8 : 0), n = column + i % 2;
    uint16_t x[16], y[16];
    for (int k = 0; k < 16; ++k) {
      x[k] = element(r % 8 * 4 + k % 8 / 2, (r >= 8) + 2 * (k >= 8), k);
      y[k] = element(n * 4 + k % 8 / 2, 4 + (k >= 8), k);
    }
    if (m.arithmetic == MmaArithmetic::kHopper) {
      d[i] = probe::fused_dot_add(x, y, 16, c[i], type, probe::DotModel{}.fraction_bits);
    } else {
      float sum = c[i];
      for (int k = 0; k < 16; ++k)
        sum = std::fma(probe::to_float(x[k], type), probe::to_float(y[k], type), sum);
      d[i] = sum;
    }
  }
}

void run_grid(Call call, dim3 grid, dim3 block, size_t shared_bytes) {
  m.block = block;
  m.grid = grid;
  m.body = call;
  std::vector<uint3> blocks;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) blocks.push_back({x, y, z});
    }
  }
  if (m.seed != 0) {
    std::mt19937_64 random(m.seed);
    std::shuffle(blocks.begin(), blocks.end(), random);
  }
  for (const uint3 block_idx : blocks) {
    // A separate allocation for each block, exactly as large as requested, so that AddressSanitizer sees its
    // bounds.
    if (posix_memalign(&m.shared, 1024, shared_bytes) != 0) throw std::bad_alloc();
    const std::unique_ptr<void, decltype(&std::free)> memory(m.shared, &std::free);
    std::memset(m.shared, kNan, shared_bytes);
    tsan::release(&m.launch_begin);
    run_block(block_idx);
    tsan::acquire(&m.launch_end);
  }
}

}  // namespace emulated
