// LoRA adapters that are loaded while requests run: the same bits, and nothing else waits or fails.
#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "support/eventually.h"
#include "unit/engine/engine_testing.h"
#include "unit/engine/lora_testing.h"

namespace quire {
namespace {

using test::adapter_path;
using test::AdapterCopy;
using test::Answer;
using test::config_with_adapters;
using test::Gate;
using test::kAdapter;
using test::kLoraModel;
using test::kOtherAdapter;
using test::lora_config;
using test::lora_request;
using test::Pending;
using test::tokens_with;
using testing::HasSubstr;

std::vector<TokenId> prompt_of(uint64_t seed, const Engine& engine) {
  return test::random_prompt(seed, 20, engine.model().vocab_size);
}

AdapterState state_of(const Engine& engine, const std::string& name) {
  return engine.find_adapter(name)->state;
}

TEST(LoraResidency, NothingIsReadBeforeARequestNeedsIt) {
  std::atomic<int> reads = 0;
  EngineHooks hooks;
  hooks.before_adapter = [&](const std::string&) { ++reads; };
  EngineConfig config = lora_config(kLoraModel);
  for (int i = 0; i < 2000; ++i)
    config.lora_modules.push_back({"adapter-" + std::to_string(i), adapter_path(kAdapter).string()});
  const auto engine = Engine::start(config, {}, hooks);
  EXPECT_EQ(engine->adapters().size(), 2000U);
  EXPECT_EQ(engine->adapters().back().name, "adapter-1999");
  const auto prompt = prompt_of(1, *engine);
  tokens_with(*engine, prompt, "");
  EXPECT_EQ(reads, 0);
  EXPECT_EQ(state_of(*engine, "adapter-1234"), AdapterState::kRegistered);
  tokens_with(*engine, prompt, "adapter-1234");
  EXPECT_EQ(reads, 1);
  EXPECT_EQ(state_of(*engine, "adapter-1234"), AdapterState::kResident);
  Pending pending;
  const auto refused = engine->submit(lora_request(prompt, "other"), pending.sink());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.failure().message, HasSubstr("adapter-9 and 1990 more"));
}

// Whether an adapter was in memory, was loaded for the request, or was evicted and loaded again.
TEST(LoraResidency, ARequestHasTheSameBitsHoweverItsAdapterWasLoaded) {
  const auto names = {std::string(kAdapter), std::string(kOtherAdapter), std::string("qwen3-all-linear")};
  EngineConfig config = config_with_adapters(kLoraModel, names);
  config.enable_prefix_caching = false;
  const auto request = [](const Engine& engine, const std::string& name) {
    Request made = lora_request(prompt_of(3, engine), name);
    made.sampling.edit().logprobs = 2;
    made.sampling.edit().prompt_logprobs = 1;
    return made;
  };
  const auto roomy = Engine::start(config);
  std::map<std::string, Answer> expected;
  for (const std::string& name : names) {
    const Answer loaded_for_it = test::ask(*roomy, request(*roomy, name));
    expected[name] = test::ask(*roomy, request(*roomy, name));
    test::expect_same(loaded_for_it, expected[name]);
  }
  config.max_cpu_loras = 1;
  const auto small = Engine::start(config);
  for (int i = 0; i < 3; ++i) {
    for (const std::string& name : names)
      test::expect_same(test::ask(*small, request(*small, name)), expected[name]);
  }
  // All at once, with one adapter in memory at a time.
  std::vector<std::pair<std::string, Pending>> pending;
  for (int i = 0; i < 4; ++i) {
    for (const std::string& name : names) pending.emplace_back(name, Pending());
  }
  for (auto& [name, one] : pending) ASSERT_TRUE(small->submit(request(*small, name), one.sink()).ok());
  for (auto& [name, one] : pending) test::expect_same(one.wait(), expected[name]);
  small->check_integrity();
}

TEST(LoraResidency, OtherRequestsRunWhileAnAdapterLoads) {
  Gate gate;
  const auto engine =
      Engine::start(config_with_adapters(kLoraModel, {kAdapter, kOtherAdapter}), {}, gate.hooks());
  const auto prompt = prompt_of(4, *engine);
  gate.open();
  const auto other = tokens_with(*engine, prompt, kOtherAdapter);
  gate.close();
  Pending waiting;
  ASSERT_TRUE(engine->submit(lora_request(prompt, kAdapter), waiting.sink()).ok());
  EXPECT_EQ(gate.wait(), kAdapter);
  EXPECT_EQ(state_of(*engine, kAdapter), AdapterState::kLoading);
  EXPECT_EQ(tokens_with(*engine, prompt, kOtherAdapter), other);
  EXPECT_EQ(tokens_with(*engine, prompt, "").size(), 8U);
  EXPECT_EQ(engine->stats().num_waiting, 1);
  EXPECT_EQ(engine->view()->num_requests, 1);
  EXPECT_TRUE(engine->busy());
  gate.open();
  const Answer answer = waiting.wait();
  EXPECT_FALSE(answer.failure.has_value());
  EXPECT_EQ(answer.samples.at(0).tokens, tokens_with(*engine, prompt, kAdapter));
  EXPECT_TRUE(test::eventually([&] { return engine->stats().num_waiting == 0; }));
}

TEST(LoraResidency, RequestsAreAbortedWhileTheirAdapterLoads) {
  Gate gate;
  const auto engine =
      Engine::start(config_with_adapters(kLoraModel, {kAdapter, kOtherAdapter}), {}, gate.hooks());
  const auto prompt = prompt_of(5, *engine);
  Pending reading;
  Pending second;
  Pending queued;
  const auto first_id = engine->submit(lora_request(prompt, kAdapter), reading.sink());
  const auto second_id = engine->submit(lora_request(prompt, kAdapter), second.sink());
  const auto queued_id = engine->submit(lora_request(prompt, kOtherAdapter), queued.sink());
  gate.wait();
  engine->abort(*first_id);
  engine->abort(*queued_id);
  EXPECT_EQ(reading.wait().samples.at(0).reason, FinishReason::kAbort);
  EXPECT_EQ(queued.wait().samples.at(0).reason, FinishReason::kAbort);
  EXPECT_EQ(state_of(*engine, kOtherAdapter), AdapterState::kRegistered);
  gate.open();
  EXPECT_EQ(second.wait().samples.at(0).tokens, tokens_with(*engine, prompt, kAdapter));
  engine->check_integrity();
}

TEST(LoraResidency, TheQueueCountsRequestsThatWaitForAdapters) {
  Gate gate;
  EngineConfig config = config_with_adapters(kLoraModel, {kAdapter});
  config.max_num_queued_requests = 2;
  const auto engine = Engine::start(config, {}, gate.hooks());
  const auto prompt = prompt_of(6, *engine);
  std::vector<Pending> waiting(2);
  for (Pending& one : waiting) ASSERT_TRUE(engine->submit(lora_request(prompt, kAdapter), one.sink()).ok());
  Pending refused;
  const auto full = engine->submit(lora_request(prompt, kAdapter), refused.sink());
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.failure().kind, ErrorKind::kOverloaded);
  gate.open();
  for (Pending& one : waiting) EXPECT_FALSE(one.wait().failure.has_value());
  EXPECT_EQ(tokens_with(*engine, prompt, kAdapter).size(), 8U);
}

TEST(LoraResidency, AnEngineIsDrainedAndShutDownWhileAnAdapterLoads) {
  for (const bool drain : {true, false}) {
    Gate gate;
    auto engine = Engine::start(config_with_adapters(kLoraModel, {kAdapter}), {}, gate.hooks());
    std::atomic<bool> failed = false;
    // The loading thread ends only when the gate is open.
    const auto sink = [&](RequestOutput&& output) {
      EXPECT_TRUE(output.finished);
      failed = output.failure.has_value() && output.failure->kind == ErrorKind::kOverloaded;
      gate.open();
    };
    ASSERT_TRUE(engine->submit(lora_request(prompt_of(7, *engine), kAdapter), sink).ok());
    gate.wait();
    if (drain) {
      EXPECT_FALSE(engine->drain(std::chrono::milliseconds(0)));
      EXPECT_TRUE(test::eventually([&] { return failed.load(); }));
    }
    engine.reset();
    EXPECT_TRUE(failed);
  }
}

TEST(LoraResidency, AnAdapterThatCannotBeLoadedFailsOnlyItsOwnRequests) {
  const AdapterCopy bad(kAdapter);
  bad.damage();
  Gate gate;
  EngineConfig config = config_with_adapters(kLoraModel, {kOtherAdapter});
  config.lora_modules.push_back({"bad", bad.path()});
  const auto engine = Engine::start(config, {}, gate.hooks());
  const auto prompt = prompt_of(8, *engine);
  std::vector<Pending> failing(2);
  Pending good;
  ASSERT_TRUE(engine->submit(lora_request(prompt, "bad"), failing[0].sink()).ok());
  gate.wait();
  ASSERT_TRUE(engine->submit(lora_request(prompt, "bad"), failing[1].sink()).ok());
  ASSERT_TRUE(engine->submit(lora_request(prompt, kOtherAdapter), good.sink()).ok());
  gate.open();
  for (Pending& one : failing) {
    const Answer answer = one.wait();
    ASSERT_TRUE(answer.failure.has_value());
    EXPECT_EQ(answer.failure->kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(answer.failure->message, HasSubstr("'bad'"));
    EXPECT_THAT(answer.failure->message, HasSubstr("not a finite number"));
    EXPECT_EQ(answer.samples.at(0).reason, FinishReason::kError);
  }
  EXPECT_FALSE(good.wait().failure.has_value());
  // Later requests are refused at once, until it is loaded again.
  Pending later;
  const auto refused = engine->submit(lora_request(prompt, "bad"), later.sink());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.failure().message, HasSubstr("not a finite number"));
  bad.replace(kAdapter);
  ASSERT_TRUE(engine->load_adapter({"bad", bad.path()}, true).ok());
  EXPECT_EQ(tokens_with(*engine, prompt, "bad").size(), 8U);
}

TEST(LoraResidency, AnAdapterThatHasChangedOnDiskIsNotLoaded) {
  const auto change_config = [](const AdapterCopy& files) {
    std::ofstream(files.path() + "/adapter_config.json", std::ios::app) << "\n";
  };
  const auto change_weights = [](const AdapterCopy& files) { files.replace(kOtherAdapter); };
  const std::vector<std::function<void(const AdapterCopy&)>> changes = {change_config, change_weights};
  for (const auto& change : changes) {
    const AdapterCopy files(kAdapter);
    EngineConfig config = lora_config(kLoraModel);
    config.lora_modules = {{"own", files.path()}};
    const auto engine = Engine::start(config);
    change(files);
    const Answer answer = test::ask(*engine, lora_request(prompt_of(9, *engine), "own"));
    ASSERT_TRUE(answer.failure.has_value());
    EXPECT_THAT(answer.failure->message, HasSubstr("has changed on disk; load the adapter again"));
    ASSERT_TRUE(engine->load_adapter({"own", files.path()}, true).ok());
    EXPECT_EQ(tokens_with(*engine, prompt_of(9, *engine), "own").size(), 8U);
  }
}

TEST(LoraResidency, AnAdapterThatIsLargerThanTheMemoryIsRefusedWhenItIsRegistered) {
  EngineConfig config = lora_config(kLoraModel);
  config.enable_lora = true;
  config.lora_memory = 10000;
  const auto engine = Engine::start(config);
  ASSERT_TRUE(engine->load_adapter({"first", adapter_path(kAdapter).string()}).ok());
  const Status large = engine->load_adapter({"large", adapter_path(kOtherAdapter).string()});
  ASSERT_FALSE(large.ok());
  EXPECT_THAT(large.failure().message, HasSubstr("'large' takes"));
  EXPECT_THAT(large.failure().message, HasSubstr("9.8 KiB (--lora-memory)"));
  // Others share the memory.
  ASSERT_TRUE(engine->load_adapter({"second", adapter_path("qwen3-all-linear").string()}).ok());
  for (const char* name : {"first", "second", "first"}) tokens_with(*engine, prompt_of(2, *engine), name);
}

TEST(LoraResidency, ARequestKeepsTheVersionThatItNamedWhileItLoads) {
  Gate gate;
  const auto engine = Engine::start(config_with_adapters(kLoraModel, {kAdapter}), {}, gate.hooks());
  const auto prompt = prompt_of(10, *engine);
  Pending waiting;
  ASSERT_TRUE(engine->submit(lora_request(prompt, kAdapter), waiting.sink()).ok());
  gate.wait();
  ASSERT_TRUE(engine->load_adapter({kAdapter, adapter_path(kOtherAdapter).string()}, true).ok());
  gate.open();
  const auto first = waiting.wait().samples.at(0).tokens;
  EXPECT_NE(tokens_with(*engine, prompt, kAdapter), first);
  ASSERT_TRUE(engine->load_adapter({"original", adapter_path(kAdapter).string()}).ok());
  EXPECT_EQ(tokens_with(*engine, prompt, "original"), first);
}

TEST(LoraDirectory, RequestsNameItsSubdirectories) {
  const test::TempDir dir;
  const std::filesystem::path outside = adapter_path(kOtherAdapter);
  std::filesystem::copy(adapter_path(kAdapter), dir.path() / "own", std::filesystem::copy_options::recursive);
  std::filesystem::create_directory(dir.path() / "empty");
  std::filesystem::create_directory(dir.path() / ".hidden");
  std::filesystem::create_directory_symlink(dir.path() / "own", dir.path() / "alias");
  std::filesystem::create_directory_symlink(outside, dir.path() / "outside");
  dir.write("file", "");
  EngineConfig config = lora_config(kLoraModel);
  config.lora_dir = dir.path().string();
  const auto engine = Engine::start(config);
  EXPECT_TRUE(engine->adapters().empty());
  const auto prompt = prompt_of(11, *engine);
  const auto own = tokens_with(*engine, prompt, "own");
  EXPECT_NE(own, tokens_with(*engine, prompt, ""));
  EXPECT_EQ(tokens_with(*engine, prompt, "alias"), own);
  EXPECT_EQ(engine->adapters().size(), 2U);
  EXPECT_EQ(engine->adapters()[0].path, std::filesystem::canonical(dir.path() / "own").string());
  const std::string long_name(300, 'a');
  for (const std::string& name :
       {std::string("missing"), std::string(".hidden"), std::string("."), std::string(".."),
        std::string("own/../own"), std::string("outside"), std::string("file"), long_name,
        dir.path().string(), std::string("own\0", 4)}) {
    EXPECT_EQ(engine->require_adapter(name).failure().kind, ErrorKind::kNotFound) << name;
  }
  EXPECT_THAT(engine->require_adapter("empty").failure().message, HasSubstr("adapter_config.json"));
  // A name that is unloaded is found again.
  ASSERT_TRUE(engine->unload_adapter("own").ok());
  EXPECT_EQ(tokens_with(*engine, prompt, "own"), own);
}

TEST(LoraDirectory, AnAdapterIsRegisteredAgainAfterItsFileHasChanged) {
  const test::TempDir dir;
  const auto put = [&](const std::string& name) {
    std::filesystem::remove_all(dir.path() / "own");
    std::filesystem::copy(adapter_path(name), dir.path() / "own", std::filesystem::copy_options::recursive);
  };
  put(kAdapter);
  EngineConfig config = config_with_adapters(kLoraModel, {kOtherAdapter});
  config.lora_dir = dir.path().string();
  const auto engine = Engine::start(config);
  ASSERT_TRUE(engine->require_adapter("own").ok());
  put(kOtherAdapter);
  const auto prompt = prompt_of(12, *engine);
  EXPECT_TRUE(test::ask(*engine, lora_request(prompt, "own")).failure.has_value());
  EXPECT_EQ(tokens_with(*engine, prompt, "own"), tokens_with(*engine, prompt, kOtherAdapter));
}

TEST(LoraDirectory, MustExist) {
  EngineConfig config = lora_config(kLoraModel);
  config.lora_dir = "/no/such/directory";
  EXPECT_THROW(Engine::start(config), Error);
}

// Threads that submit, abort, load, replace and unload at random, with room for two of five adapters. Every
// request ends, and those that are not aborted and found their adapter have its tokens.
TEST(LoraResidency, SurvivesRandomRequestsAndChanges) {
  constexpr int kThreads = 4;
  constexpr int kActs = 60;
  const std::vector<std::string> golden = {kAdapter, kOtherAdapter, "qwen3-rank-1"};
  EngineConfig config = config_with_adapters(kLoraModel, golden);
  config.max_cpu_loras = 2;
  config.max_num_seqs = 8;
  const auto engine = Engine::start(config);
  const auto prompt = prompt_of(13, *engine);
  std::map<std::string, std::vector<TokenId>> expected;
  for (const std::string& name : golden) expected[name] = tokens_with(*engine, prompt, name);
  const auto act = [&](int thread) {
    uint64_t drawn = 0;
    const auto below = [&](uint64_t n) { return mix64(static_cast<uint64_t>(thread) << 32 | drawn++) % n; };
    const std::string changing = "changing-" + std::to_string(thread % 2);
    for (int round = 0; round < kActs; ++round) {
      const std::string& content = golden[below(golden.size())];
      switch (below(6)) {
        case 0:
          (void)engine->load_adapter({changing, adapter_path(content).string()}, below(2) == 0);
          break;
        case 1:
          (void)engine->unload_adapter(changing);
          break;
        case 2: {
          Pending pending;
          const auto id = engine->submit(lora_request(prompt, changing), pending.sink());
          if (!id.ok()) break;
          if (below(2) == 0) engine->abort(*id);
          EXPECT_FALSE(pending.wait().failure.has_value());
          break;
        }
        default: {
          Pending first;
          Pending second;
          ASSERT_TRUE(engine->submit(lora_request(prompt, content), first.sink()).ok());
          ASSERT_TRUE(engine->submit(lora_request(prompt, ""), second.sink()).ok());
          EXPECT_EQ(first.wait().samples.at(0).tokens, expected[content]);
          EXPECT_FALSE(second.wait().failure.has_value());
        }
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(act, i);
  for (std::thread& thread : threads) thread.join();
  engine->check_integrity();
}

}  // namespace
}  // namespace quire
