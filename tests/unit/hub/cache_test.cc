#include "hub/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hub/file_lock.h"
#include "hub/pull.h"
#include "unit/hub/hub_testing.h"

namespace quire::hub {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::write_file;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kCommit(40, 'c');
const std::string kOlderCommit(40, 'b');
const std::string kGitHash(40, '1');
const std::string kOtherGitHash(40, '2');
const std::string kSha256(64, 'a');

// A cache with the model org/name: a configuration, a tokenizer and weights.
class Cache : public testing::Test {
 protected:
  void add_model(const std::string& commit = kCommit) {
    repo.create_directories();
    write_file(repo.blob(kGitHash), "{}");
    write_file(repo.blob(kSha256), "weights");
    repo.link(commit, "config.json", kGitHash);
    repo.link(commit, "tokenizer.json", kGitHash);
    repo.link(commit, "model.safetensors", kSha256);
    repo.set_ref("main", commit);
  }
  std::optional<PulledModel> find(const std::string& name, PullOptions options = {}) const {
    Settings settings;
    settings.cache = dir.path();
    return find_cached(settings, *parse_model_name(name), options);
  }

  test::TempDir dir;
  RepoCache repo{dir.path(), "org/name"};
};

TEST_F(Cache, HasTheLayoutOfHuggingFace) {
  add_model();
  repo.link(kCommit, "1_Pooling/config.json", kGitHash);
  const fs::path root = dir.path() / "models--org--name";
  EXPECT_EQ(test::read_file(root / "refs" / "main"), kCommit);
  EXPECT_EQ(fs::read_symlink(root / "snapshots" / kCommit / "config.json"), "../../blobs/" + kGitHash);
  EXPECT_EQ(fs::read_symlink(root / "snapshots" / kCommit / "1_Pooling/config.json"),
            "../../../blobs/" + kGitHash);
  EXPECT_EQ(repo.incomplete(kSha256), root / "blobs" / (kSha256 + ".incomplete"));
  EXPECT_EQ(repo.lock(kSha256), dir.path() / ".locks" / "models--org--name" / (kSha256 + ".lock"));
  EXPECT_THAT(repo.files(kCommit),
              ElementsAre("1_Pooling/config.json", "config.json", "model.safetensors", "tokenizer.json"));
}

TEST_F(Cache, ReplacesALinkAndARef) {
  add_model();
  repo.link(kCommit, "config.json", kOtherGitHash);
  EXPECT_EQ(fs::read_symlink(repo.snapshot(kCommit) / "config.json"), "../../blobs/" + kOtherGitHash);
  repo.set_ref("refs/pr/1", kCommit);
  EXPECT_EQ(test::read_file(repo.path() / "refs/refs/pr/1"), kCommit);
  repo.set_ref(kOlderCommit, kOlderCommit);
  EXPECT_FALSE(fs::exists(repo.path() / "refs" / kOlderCommit));
}

TEST_F(Cache, FindsACompleteModelByBranchAndCommit) {
  add_model();
  EXPECT_EQ(find("org/name")->path, repo.snapshot(kCommit));
  EXPECT_EQ(find("org/name", {.revision = kCommit})->path, repo.snapshot(kCommit));
  EXPECT_FALSE(find("org/name", {.revision = "dev"}));
  EXPECT_FALSE(find("org/other"));
  EXPECT_FALSE(find("org/name:Q8_0"));
}

TEST_F(Cache, DoesNotFindAModelWithMissingWeights) {
  add_model();
  fs::remove(repo.blob(kSha256));
  EXPECT_FALSE(find("org/name"));
  EXPECT_TRUE(find("org/name", {.text_only = true}));
}

TEST_F(Cache, DoesNotFindAModelWithMissingShards) {
  add_model();
  fs::remove(repo.snapshot(kCommit) / "model.safetensors");
  write_file(repo.blob(kOtherGitHash),
             R"({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})");
  repo.link(kCommit, "model.safetensors.index.json", kOtherGitHash);
  repo.link(kCommit, "model-1.safetensors", kSha256);
  EXPECT_FALSE(find("org/name"));
  repo.link(kCommit, "model-2.safetensors", kSha256);
  EXPECT_TRUE(find("org/name"));
}

TEST_F(Cache, FindsAGgufFile) {
  add_model();
  repo.link(kCommit, "m-Q8_0.gguf", kSha256);
  EXPECT_EQ(find("org/name:Q8_0")->path, repo.snapshot(kCommit) / "m-Q8_0.gguf");
  EXPECT_EQ(find("org/name/m-Q8_0.gguf")->path, repo.snapshot(kCommit) / "m-Q8_0.gguf");
}

TEST_F(Cache, IgnoresARefThatLeavesTheDirectory) {
  add_model();
  write_file(repo.path() / "refs" / "evil", "../../../../etc");
  EXPECT_FALSE(repo.commit_of("evil"));
}

TEST_F(Cache, ListsItsModels) {
  add_model();
  write_file(repo.incomplete(kOtherGitHash), "12345");
  fs::create_directories(dir.path() / "datasets--org--data" / "blobs");
  fs::create_directories(dir.path() / "models--org--..");
  const auto repos = cached_repos(dir.path());
  ASSERT_EQ(repos.size(), 1U);
  EXPECT_EQ(repos[0].repo, "org/name");
  EXPECT_EQ(repos[0].bytes, 2 + 7 + 5);
  EXPECT_EQ(repos[0].incomplete_bytes, 5);
  EXPECT_THAT(repos[0].revisions, ElementsAre("main"));
}

TEST_F(Cache, ListsModelsWithoutLinks) {
  // The newer snapshot shares a file with the older one by a hard link.
  for (const std::string& commit : {kOlderCommit, kCommit})
    write_file(repo.snapshot(commit) / "config.json", "{}");
  write_file(repo.snapshot(kCommit) / "onnx" / "model-Q8_0.gguf", "weights");
  fs::create_hard_link(repo.snapshot(kCommit) / "onnx" / "model-Q8_0.gguf",
                       repo.snapshot(kOlderCommit) / "model.gguf");
  repo.set_ref("main", kCommit);
  const auto repos = cached_repos(dir.path());
  ASSERT_EQ(repos.size(), 1U);
  EXPECT_EQ(repos[0].bytes, 2 + 2 + 7);
  EXPECT_GT(repos[0].modified, 1e9);
  EXPECT_THAT(repos[0].revisions, ElementsAre("main"));
}

TEST_F(Cache, RemovesAGgufModelWithoutLinks) {
  write_file(repo.snapshot(kCommit) / "config.json", "{}");
  write_file(repo.snapshot(kCommit) / "m-Q8_0.gguf", "gguf");
  repo.set_ref("main", kCommit);
  EXPECT_EQ(remove_model(dir.path(), *parse_model_name("org/name:Q8_0")), 4);
  EXPECT_FALSE(fs::exists(repo.snapshot(kCommit) / "m-Q8_0.gguf"));
}

TEST_F(Cache, RemovesAModel) {
  add_model();
  EXPECT_EQ(remove_model(dir.path(), *parse_model_name("org/name")), 2 + 7);
  EXPECT_FALSE(fs::exists(repo.path()));
  EXPECT_FALSE(fs::exists(repo.locks()));
  EXPECT_THAT(error_of([&] { remove_model(dir.path(), *parse_model_name("org/name")); }),
              HasSubstr("is not in the cache"));
}

TEST_F(Cache, RemovesAGgufModelOnly) {
  add_model();
  write_file(repo.blob(kOtherGitHash), "gguf");
  repo.link(kCommit, "m-Q8_0.gguf", kOtherGitHash);
  repo.link(kCommit, "m-Q4_K_M.gguf", kSha256);
  EXPECT_EQ(remove_model(dir.path(), *parse_model_name("org/name:Q8_0")), 4);
  EXPECT_FALSE(fs::exists(repo.blob(kOtherGitHash)));
  // The blob of the other file is also the safetensors file.
  EXPECT_EQ(remove_model(dir.path(), *parse_model_name("org/name:Q4_K_M")), 0);
  EXPECT_TRUE(find("org/name"));
  EXPECT_THAT(error_of([&] { remove_model(dir.path(), *parse_model_name("org/name:Q4_K_M")); }),
              HasSubstr("is not in the cache"));
}

TEST_F(Cache, DoesNotRemoveAModelThatIsDownloaded) {
  add_model();
  const FileLock lock(repo.lock(kSha256), [] {});
  EXPECT_THAT(error_of([&] { remove_model(dir.path(), *parse_model_name("org/name")); }),
              HasSubstr("another process"));
  EXPECT_TRUE(fs::exists(repo.path()));
}

TEST_F(Cache, ComparesTheFreeSpace) {
  require_space(dir.path(), 1);
  const std::string message = error_of([&] { require_space(dir.path(), uint64_t{1} << 60); });
  EXPECT_THAT(message, HasSubstr("1048576.0 TiB"));
  EXPECT_THAT(message, HasSubstr("are free"));
}

TEST(FileLock, WaitsForItsOwner) {
  const test::TempDir dir;
  const fs::path file = dir.path() / "x.lock";
  int waits = 0;
  std::optional<FileLock> first(std::in_place, file, [] {});
  EXPECT_TRUE(first->locked());
  const FileLock second(file, [&] {
    if (++waits == 2) first.reset();
  });
  EXPECT_TRUE(second.locked());
  EXPECT_EQ(waits, 2);
}

TEST(FileLock, SurvivesTheRemovalOfTheFile) {
  const test::TempDir dir;
  const fs::path file = dir.path() / "x.lock";
  std::optional<FileLock> first(std::in_place, file, [] {});
  const FileLock second(file, [&] {
    fs::remove(file);
    first.reset();
  });
  EXPECT_TRUE(second.locked());
  EXPECT_TRUE(fs::exists(file));
}

TEST(FileLock, LetsAnExceptionEndTheWait) {
  const test::TempDir dir;
  const fs::path file = dir.path() / "x.lock";
  const FileLock first(file, [] {});
  EXPECT_EQ(error_of([&] { FileLock(file, [] { throw Error("enough"); }); }), "enough");
}

}  // namespace
}  // namespace quire::hub
