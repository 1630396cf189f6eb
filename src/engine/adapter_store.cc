#include "engine/adapter_store.h"

#include <algorithm>
#include <condition_variable>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/thread_name.h"

namespace quire {

// Wakes the thread of the store. Its mutex may be locked while that of the store is, never the reverse.
class AdapterStore::Signal {
 public:
  void raise() {
    {
      const std::lock_guard lock(mutex_);
      raised_ = true;
    }
    changed_.notify_one();
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
  }
  // Whether the end of a lease raises the signal. A lease that has ended before this call has expired.
  void want_memory(bool wanted) {
    const std::lock_guard lock(mutex_);
    wants_memory_ = wanted;
  }
  void lease_ended() {
    {
      const std::lock_guard lock(mutex_);
      if (!wants_memory_) return;
      raised_ = true;
    }
    changed_.notify_one();
  }
  // Waits until the signal is raised; false = the store is stopped.
  bool wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return raised_ || stopping_; });
    raised_ = false;
    return !stopping_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool raised_ = false;
  bool stopping_ = false;
  bool wants_memory_ = false;
};

// Shared by all requests with these weights.
struct AdapterStore::Lease {
  Lease(std::shared_ptr<const AdapterWeights> lent, std::shared_ptr<Signal> to_raise)
      : weights(std::move(lent)), signal(std::move(to_raise)) {}
  ~Lease() {
    weights.reset();
    signal->lease_ended();
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  std::shared_ptr<const AdapterWeights> weights;
  std::shared_ptr<Signal> signal;
};

namespace {

using Stage = AdapterVersion::Loading::Stage;

// Failures that another attempt may not have.
bool may_pass(ErrorKind kind) {
  return kind == ErrorKind::kOverloaded || kind == ErrorKind::kNotFound;
}

}  // namespace

void AdapterStore::start(std::function<void()> on_outcome,
                         std::function<void(const std::string&)> before_read) {
  on_outcome_ = std::move(on_outcome);
  before_read_ = std::move(before_read);
  signal_ = std::make_shared<Signal>();
  thread_ = std::thread([this] { run(); });
}

void AdapterStore::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  signal_->stop();
  thread_.join();
}

Result<AdapterRef> AdapterStore::acquire(AdapterVersion& version) {
  const std::lock_guard lock(mutex_);
  if (version.loading.failure) return *version.loading.failure;
  const auto found = residents_.find(version.loading.digest);
  if (found == residents_.end() || found->second.closed) return AdapterRef{};
  return lend(found->first, found->second);
}

Result<AdapterRef> AdapterStore::acquire_or_load(const SharedAdapterVersion& version) {
  Result<AdapterRef> acquired = acquire(*version);
  if (!acquired.ok() || acquired->weights != nullptr) return acquired;
  {
    const std::lock_guard lock(mutex_);
    if (version->loading.stage != Stage::kIdle) return acquired;
    // Ending a load then needs no memory.
    outcomes_.reserve(outcomes_.size() + queue_.size() + 2);
    queue_.push_back(version);
    version->loading.stage = Stage::kQueued;
  }
  signal_->raise();
  return acquired;
}

void AdapterStore::cancel(AdapterVersion& version) {
  {
    const std::lock_guard lock(mutex_);
    if (version.loading.stage != Stage::kQueued) return;
    version.loading.stage = Stage::kIdle;
    std::erase_if(queue_, [&](const SharedAdapterVersion& queued) { return queued.get() == &version; });
  }
  signal_->raise();  // adapters may be closed for it
}

void AdapterStore::forget(AdapterVersion& version) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(version.loading.named, false)) return;
  const auto named = named_.find(version.loading.digest);
  if (named == named_.end() || --named->second > 0) return;
  named_.erase(named);
  const auto found = residents_.find(version.loading.digest);
  if (found == residents_.end()) return;
  found->second.weights.reset();
  remove_unused();
}

AdapterState AdapterStore::state(const AdapterVersion& version) const {
  const std::lock_guard lock(mutex_);
  if (version.loading.stage != Stage::kIdle) return AdapterState::kLoading;
  return residents_.contains(version.loading.digest) ? AdapterState::kResident : AdapterState::kRegistered;
}

AdapterStoreStats AdapterStore::stats() const {
  const std::lock_guard lock(mutex_);
  const auto in_memory = [](const auto& entry) {
    return entry.second.weights != nullptr || !entry.second.lease.expired();
  };
  return {.num_resident = std::ranges::count_if(residents_, in_memory),
          .bytes = used(),
          .num_evicted = num_evicted_};
}

std::vector<AdapterOutcome> AdapterStore::take_outcomes() {
  std::vector<AdapterOutcome> taken;
  const std::lock_guard lock(mutex_);
  outcomes_.swap(taken);
  outcomes_.reserve(queue_.size() + 2);
  return taken;
}

void AdapterStore::run() {
  name_this_thread("quire-lora");
  while (signal_->wait()) {
    while (true) {
      Next next;
      try {
        const std::lock_guard lock(mutex_);
        next = next_load();
      } catch (const std::bad_alloc&) {  // tried again at the next signal
        break;
      }
      if (next.answered) on_outcome_();
      if (next.version == nullptr) break;
      load(next.version);
    }
  }
}

AdapterStore::Next AdapterStore::next_load() {
  Next next;
  while (!stopping_ && !queue_.empty()) {
    const SharedAdapterVersion version = queue_.front();
    const auto found = residents_.find(version->loading.digest);
    // The end of a lease raises the signal from here on, so that none is missed after make_room() has looked.
    signal_->want_memory(true);
    const bool resident = found != residents_.end() && found->second.weights != nullptr;
    if (!resident && !make_room(version->bytes)) return next;
    queue_.pop_front();
    if (!resident) {
      version->loading.stage = Stage::kReading;
      reading_bytes_ = version->bytes;
      next.version = version;
      break;
    }
    version->loading.stage = Stage::kIdle;
    outcomes_.push_back({version, lend(found->first, found->second)});
    next.answered = true;
  }
  signal_->want_memory(false);
  for (auto& [digest, resident] : residents_) resident.closed = false;
  return next;
}

void AdapterStore::load(const SharedAdapterVersion& version) {
  const double begin = monotonic_seconds();
  Result<Contents> read = read_contents(*version);
  const double seconds = monotonic_seconds() - begin;
  {
    const std::lock_guard lock(mutex_);
    reading_bytes_ = 0;
    AdapterVersion::Loading& loading = version->loading;
    loading.stage = Stage::kIdle;
    Result<AdapterRef> result = Failure{ErrorKind::kOverloaded, "", ""};
    try {
      if (read.ok() && !loading.digest.empty() && loading.digest != read->digest)
        read = invalid_argument(
            cat("adapter '", version->name, "' has changed on disk; load the adapter again"), "model");
      if (read.ok()) {
        result = keep(*version, std::move(read).value());
      } else {
        if (!may_pass(read.failure().kind)) loading.failure = read.failure();
        result = read.failure();
      }
    } catch (const std::bad_alloc&) {  // a failure without a message
    }
    outcomes_.push_back({version, std::move(result), true, seconds});
  }
  on_outcome_();
}

Result<AdapterStore::Contents> AdapterStore::read_contents(const AdapterVersion& version) {
  try {
    if (before_read_) before_read_(version.name);
    Result<Contents> read = reader_(version);
    if (read.ok()) return read;
    Failure failure = read.failure();
    failure.param = "model";
    log_warning(failure.message);
    return failure;
  } catch (const std::bad_alloc&) {
    return Failure{ErrorKind::kOverloaded, "", ""};
  }
}

AdapterRef AdapterStore::lend(const std::string& digest, Resident& resident) {
  std::shared_ptr<Lease> lease = resident.lease.lock();
  if (lease == nullptr) {
    if (resident.weights == nullptr) return {};
    lease = std::make_shared<Lease>(resident.weights, signal_);
    resident.lease = lease;
  }
  resident.last_use = ++last_use_;
  const AdapterWeights* weights = lease->weights.get();
  return {.id = resident.id, .digest = digest, .weights = {std::move(lease), weights}};
}

// Takes the contents of a version that was read, or those in memory that are equal.
AdapterRef AdapterStore::keep(AdapterVersion& version, Contents contents) {
  AdapterVersion::Loading& loading = version.loading;
  if (loading.digest.empty()) {
    loading.digest = contents.digest;
    if (loading.named) ++named_[loading.digest];
  }
  remove_unused();
  const auto [entry, added] = residents_.try_emplace(loading.digest);
  Resident& resident = entry->second;
  if (added) {
    resident.id = ++last_id_;
    resident.bytes = contents.bytes;
    resident.weights = std::move(contents.weights);
  } else if (resident.weights == nullptr) {  // they belonged to requests alone, which may have ended by now
    const std::shared_ptr<Lease> lease = resident.lease.lock();
    resident.weights = lease != nullptr ? lease->weights : std::move(contents.weights);
  }
  AdapterRef lent = lend(entry->first, resident);
  if (!named_.contains(loading.digest)) resident.weights.reset();
  return lent;
}

// Forgets contents that neither a version nor a request has.
void AdapterStore::remove_unused() {
  std::erase_if(residents_, [](const auto& entry) {
    return entry.second.weights == nullptr && entry.second.lease.expired();
  });
}

int64_t AdapterStore::used() const {
  int64_t sum = reading_bytes_;
  for (const auto& [digest, resident] : residents_) {
    if (resident.weights != nullptr || !resident.lease.expired()) sum += resident.bytes;
  }
  return sum;
}

// Evicts adapters without requests until another one fits. If that is not enough, closes some of the others
// and returns false. Call again when a lease has ended.
bool AdapterStore::make_room(int64_t bytes) {
  remove_unused();
  int64_t left_bytes = used();
  auto left = static_cast<int64_t>(residents_.size());
  const auto fits = [&] {
    return bytes <= limits_.bytes - left_bytes && (limits_.adapters == 0 || left < limits_.adapters);
  };
  const auto without = [&](const Resident& resident) {
    left_bytes -= resident.bytes;
    --left;
  };
  if (fits()) return true;
  std::vector<Residents::iterator> by_use;
  for (auto it = residents_.begin(); it != residents_.end(); ++it) by_use.push_back(it);
  // Those that are closed come first: they admit no requests, so they end soonest.
  std::ranges::sort(by_use, {}, [](const Residents::iterator& it) {
    return std::pair(!it->second.closed, it->second.last_use);
  });
  std::vector<Residents::iterator> in_use;
  for (const Residents::iterator& it : by_use) {
    if (!it->second.lease.expired()) {
      in_use.push_back(it);
    } else if (!fits()) {
      without(it->second);
      residents_.erase(it);
      ++num_evicted_;
    }
  }
  if (fits()) return true;
  // The bytes and adapters that stay when those that end soon have ended.
  for (const Residents::iterator& it : in_use) {
    if (it->second.weights == nullptr) without(it->second);
  }
  for (const Residents::iterator& it : in_use) {
    if (it->second.weights == nullptr) continue;
    it->second.closed = !fits();
    if (it->second.closed) without(it->second);
  }
  return false;
}

}  // namespace quire
