#include "io/mapped_region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>

namespace quire {
namespace {

// A region as seen by the signal handler. Slots are reused and never freed, so the handler may traverse the
// list at any time.
struct MappedSlot {
  std::atomic<uintptr_t> begin{0};  // 0 = free
  std::atomic<uintptr_t> end{0};    // rounded up to full pages
  std::atomic<bool> lost{false};
  std::array<char, 512> name{};  // zero-terminated; written while the slot is free
  MappedSlot* next = nullptr;
};

struct Regions {
  std::atomic<MappedSlot*> first{nullptr};
  std::atomic<int> num_lost{0};
  std::mutex mutex;  // for registering; the handler takes no lock
  uintptr_t page = 0;
  struct sigaction previous {};
};

// Signal handlers can access only static data.
Regions& regions() {
  static Regions regions;
  return regions;
}

// Only async-signal-safe calls: atomics, sigaction, and mmap, which is a plain system call on Linux.
void on_bus_error(int signal, siginfo_t* info, void*) {
  Regions& all = regions();
  const int saved_errno = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (MappedSlot* slot = all.first.load(std::memory_order_acquire); slot != nullptr; slot = slot->next) {
    const uintptr_t begin = slot->begin.load(std::memory_order_acquire);
    const uintptr_t end = slot->end.load(std::memory_order_relaxed);
    if (begin == 0 || address < begin || address >= end) continue;
    // Everything after the first lost page is replaced at once, by one mapping instead of one per page.
    const uintptr_t page = address / all.page * all.page;
    void* zeros = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (zeros == MAP_FAILED) break;
    if (!slot->lost.exchange(true, std::memory_order_acq_rel))
      all.num_lost.fetch_add(1, std::memory_order_acq_rel);
    errno = saved_errno;
    return;
  }
  // Not a registered region: the instruction is executed again, with the previous handler.
  ::sigaction(signal, &all.previous, nullptr);
  errno = saved_errno;
}

// The caller holds the lock.
void install_handler(Regions& all) {
  if (all.page != 0) return;
  all.page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &all.previous);
}

}  // namespace

void register_mapping(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.empty()) return;
  Regions& all = regions();
  const std::lock_guard lock(all.mutex);
  install_handler(all);
  MappedSlot* slot = all.first.load(std::memory_order_relaxed);
  while (slot != nullptr && slot->begin.load(std::memory_order_relaxed) != 0) slot = slot->next;
  if (slot == nullptr) {
    slot = new MappedSlot;
    slot->next = all.first.load(std::memory_order_relaxed);
    all.first.store(slot, std::memory_order_release);
  }
  const size_t length = std::min(name.size(), slot->name.size() - 1);
  std::copy_n(name.data(), length, slot->name.data());
  slot->name[length] = '\0';
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  slot->lost.store(false, std::memory_order_relaxed);
  slot->end.store((begin + bytes.size() + all.page - 1) / all.page * all.page, std::memory_order_relaxed);
  slot->begin.store(begin, std::memory_order_release);
}

void unregister_mapping(const std::byte* begin) noexcept {
  Regions& all = regions();
  const std::lock_guard lock(all.mutex);
  for (MappedSlot* slot = all.first.load(std::memory_order_relaxed); slot != nullptr; slot = slot->next) {
    if (slot->begin.load(std::memory_order_relaxed) != reinterpret_cast<uintptr_t>(begin)) continue;
    slot->begin.store(0, std::memory_order_release);
    if (slot->lost.exchange(false, std::memory_order_acq_rel))
      all.num_lost.fetch_sub(1, std::memory_order_acq_rel);
    return;
  }
}

std::optional<std::string> lost_mapped_file() {
  Regions& all = regions();
  if (all.num_lost.load(std::memory_order_acquire) == 0) return std::nullopt;
  const std::lock_guard lock(all.mutex);
  for (MappedSlot* slot = all.first.load(std::memory_order_acquire); slot != nullptr; slot = slot->next) {
    if (slot->lost.load(std::memory_order_acquire)) return std::string(slot->name.data());
  }
  return std::nullopt;
}

}  // namespace quire
