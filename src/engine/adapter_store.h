// The weights of LoRA adapters in memory. They are read by a thread of the store when a request first needs
// them, and the least recently used ones are evicted when others need their memory.
//
// The store owns the weights; requests share them through leases (AdapterRef::weights) and so keep them while
// they run. An adapter without leases can be evicted. If the next adapter fits only after requests have
// ended, the store closes adapters that are in use: they admit no new requests, which wait until it has been
// loaded and theirs is loaded again. So every load waits at most for requests that run already.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "contract/adapter.h"
#include "engine/engine_types.h"
#include "io/open_file.h"

namespace quire {

// An adapter that was registered under a name: its files as they were then. Shared by the registry and by
// requests that wait for it; constant except for `loading`.
struct AdapterVersion {
  int64_t id = 0;  // ascending in order of registration
  std::string name;
  std::string path;
  int64_t rank = 0;   // the largest of its modules
  int64_t bytes = 0;  // in memory
  FileIdentity weights_file;
  std::optional<FileIdentity> config_file;
  bool found_in_directory = false;  // named by a request, below --lora-dir

  // Guarded by the mutex of the store.
  struct Loading {
    enum class Stage : uint8_t { kIdle, kQueued, kReading };
    Stage stage = Stage::kIdle;
    bool named = true;               // new requests can name it
    std::string digest;              // empty until it was loaded once
    std::optional<Failure> failure;  // it cannot be loaded, now or later
  };
  Loading loading;
};
using SharedAdapterVersion = std::shared_ptr<AdapterVersion>;

// The end of a load.
struct AdapterOutcome {
  SharedAdapterVersion version;
  Result<AdapterRef> result;
  bool was_read = false;  // false: its contents were in memory
  double seconds = 0.0;   // that reading took
};

struct AdapterStoreLimits {
  int64_t bytes = 0;
  int32_t adapters = 0;  // 0 = no limit
};

struct AdapterStoreStats {
  int64_t num_resident = 0;  // different contents, with unloaded ones that requests still use
  int64_t bytes = 0;         // that they and the one being read take
  int64_t num_evicted = 0;   // since the start
};

class AdapterStore {
 public:
  struct Contents {
    std::shared_ptr<const AdapterWeights> weights;
    std::string digest;
    int64_t bytes = 0;  // in memory; saved matrices can take more or less than in the file
  };
  // Reads a version that fits into the limits, on the thread of the store. May throw std::bad_alloc.
  using Reader = std::function<Result<Contents>(const AdapterVersion&)>;

  explicit AdapterStore(Reader reader) : reader_(std::move(reader)) {}
  ~AdapterStore() { stop(); }
  AdapterStore(const AdapterStore&) = delete;
  AdapterStore& operator=(const AdapterStore&) = delete;

  // Before start().
  void set_limits(const AdapterStoreLimits& limits) { limits_ = limits; }
  const AdapterStoreLimits& limits() const { return limits_; }
  // Starts the thread. on_outcome is called on it, without a lock, when take_outcomes() has something new.
  // before_read: for tests; gets the name of each adapter that is about to be read.
  void start(std::function<void()> on_outcome, std::function<void(const std::string&)> before_read = {});
  // Waits for the adapter that is being read. Nothing is loaded, and on_outcome not called, after that.
  void stop();

  // Any thread. The weights for a request, null if they have to be loaded first: they are not in memory, or
  // are closed. A failure if an earlier load showed that the version cannot be loaded.
  Result<AdapterRef> acquire(AdapterVersion& version);
  // No new request names the version. Its memory is released when no other version has the same contents and
  // the last request that uses it has ended.
  void forget(AdapterVersion& version);
  AdapterState state(const AdapterVersion& version) const;
  AdapterStoreStats stats() const;

  // Engine thread. The same as acquire(); if the weights are null, they will be loaded, and
  // take_outcomes() returns the version.
  Result<AdapterRef> acquire_or_load(const SharedAdapterVersion& version);
  // No request waits for the version any more. It may have an outcome nevertheless.
  void cancel(AdapterVersion& version);
  // The loads that have ended since the last call, in order. The results are leases: take them soon.
  std::vector<AdapterOutcome> take_outcomes();

 private:
  class Signal;
  struct Lease;
  struct Resident {
    int32_t id = 0;                                 // AdapterRef::id
    std::shared_ptr<const AdapterWeights> weights;  // null = only requests use them
    std::weak_ptr<Lease> lease;                     // shared by all its requests
    int64_t bytes = 0;
    uint64_t last_use = 0;
    bool closed = false;  // admits no new requests
  };
  using Residents = std::map<std::string, Resident, std::less<>>;  // by digest
  struct Next {
    SharedAdapterVersion version;  // to be read; null = none for now
    bool answered = false;         // there are new outcomes
  };

  void run();
  void load(const SharedAdapterVersion& version);
  Result<Contents> read_contents(const AdapterVersion& version);

  // The following need mutex_.
  Next next_load();
  AdapterRef lend(const std::string& digest, Resident& resident);
  AdapterRef keep(AdapterVersion& version, Contents contents);
  bool make_room(int64_t bytes);
  void remove_unused();
  int64_t used() const;

  const Reader reader_;
  AdapterStoreLimits limits_;
  std::function<void()> on_outcome_;
  std::function<void(const std::string&)> before_read_;
  std::shared_ptr<Signal> signal_;  // shared with leases, which may outlive the store
  std::thread thread_;

  mutable std::mutex mutex_;
  bool stopping_ = false;
  std::deque<SharedAdapterVersion> queue_;  // to be loaded, in order
  int64_t reading_bytes_ = 0;
  Residents residents_;
  std::map<std::string, int64_t, std::less<>> named_;  // number of named versions with a known digest
  std::vector<AdapterOutcome> outcomes_;
  int32_t last_id_ = 0;
  uint64_t last_use_ = 0;
  int64_t num_evicted_ = 0;
};

}  // namespace quire
