// Loading and eviction of LoRA adapters, with readers that tests block.
#include "engine/adapter_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <set>

#include "nn/adapter.h"
#include "support/eventually.h"

namespace quire {
namespace {

constexpr int64_t kBytes = 10;  // size of each adapter

// A store whose adapters are in a table. The calls of the engine thread come from the test.
class Adapters {
 public:
  explicit Adapters(const AdapterStoreLimits& limits) {
    store.set_limits(limits);
    store.start([this] { notify(); }, [this](const std::string& name) { before_read(name); });
  }
  ~Adapters() { unblock_all(); }

  SharedAdapterVersion version(const std::string& name, const std::string& digest = "") {
    auto made = std::make_shared<AdapterVersion>();
    made->name = name;
    made->bytes = kBytes;
    const std::lock_guard lock(mutex_);
    contents_.insert_or_assign(name, digest.empty() ? name : digest);
    return made;
  }
  void set_contents(const std::string& name, Result<std::string> contents) {
    const std::lock_guard lock(mutex_);
    contents_.insert_or_assign(name, std::move(contents));
  }

  void block(const std::string& name) {
    const std::lock_guard lock(mutex_);
    blocked_.insert(name);
  }
  void unblock_all() {
    {
      const std::lock_guard lock(mutex_);
      blocked_.clear();
    }
    changed_.notify_all();
  }

  // Asks for the weights, and waits for them.
  AdapterRef load(const SharedAdapterVersion& version) {
    Result<AdapterRef> ref = store.acquire_or_load(version);
    if (!ref.ok()) ADD_FAILURE() << ref.failure().message;
    if (ref->weights != nullptr) return *ref;
    AdapterOutcome outcome = next();
    EXPECT_EQ(outcome.version, version);
    if (outcome.result.ok()) return *outcome.result;
    ADD_FAILURE() << outcome.result.failure().message;
    return {};
  }
  void ask(const SharedAdapterVersion& version) {
    const Result<AdapterRef> ref = store.acquire_or_load(version);
    EXPECT_TRUE(ref.ok() && ref->weights == nullptr) << version->name;
  }
  AdapterOutcome next() {
    std::unique_lock lock(mutex_);
    while (ready_.empty()) {
      changed_.wait(lock, [this] { return notified_; });
      notified_ = false;
      lock.unlock();
      std::vector<AdapterOutcome> taken = store.take_outcomes();
      lock.lock();
      for (AdapterOutcome& outcome : taken) ready_.push_back(std::move(outcome));
    }
    AdapterOutcome first = std::move(ready_.front());
    ready_.pop_front();
    return first;
  }
  bool is_open(const SharedAdapterVersion& version) {
    const Result<AdapterRef> ref = store.acquire(*version);
    return ref.ok() && ref->weights != nullptr;
  }
  std::vector<std::string> reads() {
    const std::lock_guard lock(mutex_);
    return reads_;
  }

 private:
  void notify() {
    {
      const std::lock_guard lock(mutex_);
      notified_ = true;
    }
    changed_.notify_all();
  }
  void before_read(const std::string& name) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !blocked_.contains(name); });
  }
  Result<AdapterStore::Contents> read(const AdapterVersion& version) {
    const std::lock_guard lock(mutex_);
    reads_.push_back(version.name);
    const Result<std::string>& contents = contents_.at(version.name);
    if (!contents.ok()) return contents.failure();
    return AdapterStore::Contents{std::make_shared<const AdapterWeights>(), *contents, version.bytes};
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool notified_ = false;
  std::set<std::string> blocked_;
  std::map<std::string, Result<std::string>> contents_;
  std::vector<std::string> reads_;
  std::deque<AdapterOutcome> ready_;

 public:
  AdapterStore store{[this](const AdapterVersion& version) { return read(version); }};  // ends first
};

using Names = std::vector<std::string>;

TEST(AdapterStore, ReadsAnAdapterWhenItIsFirstNeeded) {
  Adapters adapters({.bytes = 100});
  const auto sql = adapters.version("sql");
  adapters.block("sql");
  EXPECT_EQ(adapters.store.state(*sql), AdapterState::kRegistered);
  EXPECT_FALSE(adapters.is_open(sql));
  EXPECT_EQ(adapters.store.state(*sql), AdapterState::kRegistered);
  adapters.ask(sql);
  adapters.ask(sql);  // a second request waits for the same load
  EXPECT_EQ(adapters.store.state(*sql), AdapterState::kLoading);
  adapters.unblock_all();
  const AdapterOutcome outcome = adapters.next();
  ASSERT_TRUE(outcome.result.ok());
  EXPECT_TRUE(outcome.was_read);
  EXPECT_EQ(outcome.result->digest, "sql");
  EXPECT_EQ(adapters.store.state(*sql), AdapterState::kResident);
  EXPECT_TRUE(adapters.is_open(sql));
  EXPECT_EQ(adapters.reads(), Names{"sql"});
  EXPECT_EQ(adapters.store.stats().bytes, kBytes);
}

TEST(AdapterStore, EvictsTheLeastRecentlyUsedAdapter) {
  for (const AdapterStoreLimits& limits :
       {AdapterStoreLimits{.bytes = 2 * kBytes}, AdapterStoreLimits{.bytes = 100, .adapters = 2}}) {
    Adapters adapters(limits);
    const auto a = adapters.version("a");
    const auto b = adapters.version("b");
    const auto c = adapters.version("c");
    adapters.load(a);
    adapters.load(b);
    adapters.load(a);
    adapters.load(c);
    EXPECT_EQ(adapters.store.state(*a), AdapterState::kResident);
    EXPECT_EQ(adapters.store.state(*b), AdapterState::kRegistered);
    EXPECT_EQ(adapters.store.state(*c), AdapterState::kResident);
    EXPECT_EQ(adapters.store.stats().num_evicted, 1);
    EXPECT_EQ(adapters.store.stats().num_resident, 2);
    EXPECT_EQ(adapters.reads(), (Names{"a", "b", "c"}));
  }
}

// One adapter has room. The requests of `a` continue; new ones do not delay `b`, and have their turn after
// it.
TEST(AdapterStore, ALoadWaitsForRunningRequestsAndNotForNewOnes) {
  Adapters adapters({.bytes = kBytes});
  const auto a = adapters.version("a");
  const auto b = adapters.version("b");
  AdapterRef running = adapters.load(a);
  adapters.ask(b);
  ASSERT_TRUE(test::eventually([&] { return !adapters.is_open(a); }));
  adapters.ask(a);
  EXPECT_EQ(adapters.reads(), Names{"a"});
  running = {};
  AdapterOutcome loaded = adapters.next();
  EXPECT_EQ(loaded.version, b);
  ASSERT_TRUE(test::eventually([&] { return !adapters.is_open(b); }));
  EXPECT_EQ(adapters.reads(), (Names{"a", "b"}));
  loaded.result = AdapterRef{};
  EXPECT_EQ(adapters.next().version, a);
  EXPECT_EQ(adapters.reads(), (Names{"a", "b", "a"}));
}

TEST(AdapterStore, ClosesNoMoreAdaptersThanALoadNeeds) {
  Adapters adapters({.bytes = 3 * kBytes});
  const std::vector<SharedAdapterVersion> used = {adapters.version("a"), adapters.version("b"),
                                                  adapters.version("c")};
  std::vector<AdapterRef> running;
  for (const auto& version : used) running.push_back(adapters.load(version));
  adapters.ask(adapters.version("d"));
  const auto num_open = [&] {
    return std::ranges::count_if(used, [&](const auto& version) { return adapters.is_open(version); });
  };
  ASSERT_TRUE(test::eventually([&] { return num_open() < 3; }));
  EXPECT_EQ(num_open(), 2);
}

TEST(AdapterStore, OpensClosedAdaptersWhenOthersHaveMadeRoom) {
  Adapters adapters({.bytes = 2 * kBytes});
  const std::vector<SharedAdapterVersion> used = {adapters.version("a"), adapters.version("b")};
  std::vector<AdapterRef> running = {adapters.load(used[0]), adapters.load(used[1])};
  adapters.ask(adapters.version("c"));
  size_t closed = 0;
  ASSERT_TRUE(test::eventually([&] {
    closed = adapters.is_open(used[0]) ? 1 : 0;
    return !adapters.is_open(used[closed]);
  }));
  running[1 - closed] = {};
  EXPECT_EQ(adapters.next().version->name, "c");
  EXPECT_EQ(adapters.store.state(*used[1 - closed]), AdapterState::kRegistered);
  EXPECT_TRUE(test::eventually([&] { return adapters.is_open(used[closed]); }));
}

TEST(AdapterStore, OpensClosedAdaptersWhenNoRequestWaitsAnyMore) {
  Adapters adapters({.bytes = kBytes});
  const auto a = adapters.version("a");
  const auto b = adapters.version("b");
  const AdapterRef running = adapters.load(a);
  adapters.ask(b);
  ASSERT_TRUE(test::eventually([&] { return !adapters.is_open(a); }));
  adapters.store.cancel(*b);
  EXPECT_EQ(adapters.store.state(*b), AdapterState::kRegistered);
  EXPECT_TRUE(test::eventually([&] { return adapters.is_open(a); }));
  EXPECT_EQ(adapters.reads(), Names{"a"});
}

TEST(AdapterStore, RefusesAnAdapterThatCannotBeLoadedUntilItIsRegisteredAgain) {
  Adapters adapters({.bytes = 100});
  const auto bad = adapters.version("bad");
  adapters.set_contents("bad", invalid_argument("element 3 is not a finite number"));
  adapters.ask(bad);
  EXPECT_EQ(adapters.next().result.failure().kind, ErrorKind::kInvalidArgument);
  const Result<AdapterRef> later = adapters.store.acquire(*bad);
  ASSERT_FALSE(later.ok());
  EXPECT_EQ(later.failure().message, "element 3 is not a finite number");
  EXPECT_EQ(later.failure().param, "model");
  EXPECT_EQ(adapters.store.stats().bytes, 0);
  EXPECT_NE(adapters.load(adapters.version("bad")).weights, nullptr);
}

TEST(AdapterStore, TriesAgainAfterAShortageOfMemory) {
  Adapters adapters({.bytes = 100});
  const auto sql = adapters.version("sql");
  adapters.set_contents("sql", Failure{ErrorKind::kOverloaded, "there is not enough memory", ""});
  adapters.ask(sql);
  EXPECT_FALSE(adapters.next().result.ok());
  adapters.set_contents("sql", std::string("sql"));
  EXPECT_NE(adapters.load(sql).weights, nullptr);
}

TEST(AdapterStore, RefusesOtherContentsThanThoseThatWereEvicted) {
  Adapters adapters({.bytes = kBytes});
  const auto a = adapters.version("a");
  adapters.load(a);
  adapters.load(adapters.version("b"));
  adapters.set_contents("a", std::string("other"));
  adapters.ask(a);
  EXPECT_NE(adapters.next().result.failure().message.find("has changed on disk"), std::string::npos);
}

TEST(AdapterStore, EqualContentsAreInMemoryOnce) {
  Adapters adapters({.bytes = 100});
  const auto a = adapters.version("a", "equal");
  const auto copy = adapters.version("copy", "equal");
  const AdapterRef first = adapters.load(a);
  const AdapterRef second = adapters.load(copy);
  EXPECT_EQ(first.weights, second.weights);
  EXPECT_EQ(first.id, second.id);
  EXPECT_EQ(adapters.store.stats().bytes, kBytes);
  adapters.store.forget(*a);
  EXPECT_TRUE(adapters.is_open(copy));
  adapters.store.forget(*copy);
  EXPECT_EQ(adapters.store.stats().bytes, kBytes);  // requests use it
  const auto third = adapters.version("third", "equal");
  EXPECT_EQ(adapters.load(third).weights, first.weights);
}

TEST(AdapterStore, ForgottenAdaptersStayUntilTheirRequestsHaveEnded) {
  Adapters adapters({.bytes = kBytes});
  const auto a = adapters.version("a");
  const auto b = adapters.version("b");
  AdapterRef running = adapters.load(a);
  adapters.store.forget(*a);
  EXPECT_EQ(adapters.store.stats().num_resident, 1);
  adapters.ask(b);
  running = {};
  EXPECT_EQ(adapters.next().version, b);
  EXPECT_EQ(adapters.store.stats().num_resident, 1);
  EXPECT_EQ(adapters.store.stats().num_evicted, 0);
}

TEST(AdapterStore, LoadsAForgottenAdapterForTheRequestsThatWait) {
  Adapters adapters({.bytes = 100});
  const auto a = adapters.version("a");
  adapters.block("a");
  adapters.ask(a);
  adapters.store.forget(*a);
  adapters.unblock_all();
  AdapterOutcome loaded = adapters.next();
  ASSERT_TRUE(loaded.result.ok());
  EXPECT_NE(loaded.result->weights, nullptr);
  EXPECT_EQ(adapters.store.stats().num_resident, 1);
  loaded.result = AdapterRef{};
  EXPECT_EQ(adapters.store.stats().num_resident, 0);
}

TEST(AdapterStore, StopsWhileLoadsWait) {
  AdapterRef running;
  {
    Adapters adapters({.bytes = kBytes});
    running = adapters.load(adapters.version("a"));
    adapters.ask(adapters.version("b"));
    adapters.ask(adapters.version("c"));
    adapters.store.stop();
    EXPECT_EQ(adapters.reads(), Names{"a"});
  }
  running = {};  // after the store
}

// Requests that run for a while and end, on adapters of which a third fits: each of them ends.
TEST(AdapterStore, ServesAllRequestsUnderAShortage) {
  constexpr int kAdapters = 9;
  constexpr int kRequests = 2000;
  Adapters adapters({.bytes = 3 * kBytes});
  std::vector<SharedAdapterVersion> versions;
  for (int i = 0; i < kAdapters; ++i) versions.push_back(adapters.version("adapter " + std::to_string(i)));
  std::map<SharedAdapterVersion, int> waiting;
  std::deque<AdapterRef> running;
  uint64_t state = 1;
  int ended = 0;
  const auto run = [&](const AdapterRef& ref, int count) {
    for (int i = 0; i < count; ++i) running.push_back(ref);
  };
  const auto end_some = [&](size_t max_running) {
    for (; running.size() > max_running; ++ended) running.pop_front();
  };
  for (int i = 0; i < kRequests; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const SharedAdapterVersion& version = versions[(state >> 33) % kAdapters];
    const Result<AdapterRef> ref = adapters.store.acquire_or_load(version);
    ASSERT_TRUE(ref.ok());
    if (ref->weights != nullptr) {
      run(*ref, 1);
    } else {
      ++waiting[version];
    }
    for (const AdapterOutcome& outcome : adapters.store.take_outcomes()) {
      ASSERT_TRUE(outcome.result.ok());
      run(*outcome.result, std::exchange(waiting[outcome.version], 0));
    }
    EXPECT_LE(adapters.store.stats().bytes, 3 * kBytes);
    end_some(4);
  }
  ASSERT_TRUE(test::eventually([&] {
    for (const AdapterOutcome& outcome : adapters.store.take_outcomes())
      run(*outcome.result, std::exchange(waiting[outcome.version], 0));
    end_some(0);
    return ended == kRequests;
  }));
}

}  // namespace
}  // namespace quire
