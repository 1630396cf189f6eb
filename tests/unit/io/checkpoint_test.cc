#include "io/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "io/mapped_file.h"
#include "unit/io/io_test_util.h"

namespace quire {
namespace {

using test::error_of;
using test::safetensors_file;
using test::TempDir;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kA = R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
constexpr const char* kB = R"({"b":{"dtype":"F16","shape":[3],"data_offsets":[0,6]}})";

TEST(MappedFile, ContainsTheBytesOfTheFile) {
  const TempDir dir;
  const MappedFile file(dir.write("x", "abc"));
  ASSERT_EQ(file.bytes().size(), 3U);
  EXPECT_EQ(std::to_integer<char>(file.bytes()[1]), 'b');
}

TEST(MappedFile, EmptyFilesAreEmpty) {
  const TempDir dir;
  EXPECT_TRUE(MappedFile(dir.write("x", "")).bytes().empty());
}

TEST(MappedFile, ReleasedPagesCanBeReadAgain) {
  const TempDir dir;
  std::string text(50'000, 'x');
  text[20'000] = 'y';
  const MappedFile file(dir.write("x", text));
  file.release(10, 49'000);
  file.release(0, SIZE_MAX);
  file.release(60'000, 1);
  EXPECT_EQ(std::to_integer<char>(file.bytes()[20'000]), 'y');
}

TEST(MappedFile, ErrorsNameThePath) {
  const TempDir dir;
  EXPECT_THAT(error_of([&] { MappedFile(dir.path() / "none"); }), HasSubstr("none: No such file"));
  EXPECT_THAT(error_of([&] { MappedFile file(dir.path()); }), HasSubstr("not a regular file"));
}

TEST(Checkpoint, ReadsASingleFile) {
  const TempDir dir;
  dir.write("config.json", R"({"model_type":"x"})");
  dir.write("model.safetensors", safetensors_file(kA, 16));
  const auto checkpoint = Checkpoint::open(dir.path());
  EXPECT_EQ(checkpoint->path(), dir.path());
  EXPECT_EQ(checkpoint->config()["model_type"], "x");
  EXPECT_FALSE(checkpoint->generation_config().has_value());
  EXPECT_THAT(checkpoint->names(), ElementsAre("a"));
  EXPECT_EQ(checkpoint->total_bytes(), 16);
  EXPECT_EQ(checkpoint->find("b"), nullptr);
  EXPECT_EQ(checkpoint->find("a")->shape_text(), "[2, 2]");
  EXPECT_EQ(std::to_integer<int>(checkpoint->bytes("a")[5]), 5);
  checkpoint->release("a");
  checkpoint->release("b");
  EXPECT_EQ(std::to_integer<int>(checkpoint->bytes("a")[5]), 5);
}

TEST(Checkpoint, ReadsTheOnlySafetensorsFileOfAnyName) {
  const TempDir dir;
  dir.write("config.json", "{}");
  dir.write("weights.safetensors", safetensors_file(kA, 16));
  EXPECT_THAT(Checkpoint::open(dir.path())->names(), ElementsAre("a"));
}

TEST(Checkpoint, ReadsShardsThroughTheirIndex) {
  const TempDir dir;
  dir.write("config.json", "{}");
  dir.write("generation_config.json", R"({"eos_token_id":[1,2]})");
  dir.write("m-1.safetensors", safetensors_file(kA, 16));
  dir.write("m-2.safetensors", safetensors_file(kB, 6));
  dir.write("model.safetensors.index.json",
            R"({"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})");
  const auto checkpoint = Checkpoint::open(dir.path());
  EXPECT_THAT(checkpoint->names(), ElementsAre("a", "b"));
  EXPECT_EQ(checkpoint->total_bytes(), 22);
  EXPECT_EQ((*checkpoint->generation_config())["eos_token_id"].size(), 2U);
}

TEST(Checkpoint, WarnsOfUnknownKeysOfTheIndex) {
  const TempDir dir;
  dir.write("config.json", "{}");
  dir.write("m-1.safetensors", safetensors_file(kA, 16));
  const std::string index = R"({"metadata":{"total_size":16},"weight_map":{"a":"m-1.safetensors"})";
  dir.write("model.safetensors.index.json", index + "}");
  EXPECT_THAT(Checkpoint::open(dir.path())->warnings(), ElementsAre());
  dir.write("model.safetensors.index.json", index + R"(,"renamed":{"a":"b"}})");
  EXPECT_THAT(Checkpoint::open(dir.path())->warnings(),
              ElementsAre(HasSubstr("model.safetensors.index.json: 'renamed' is unknown")));
}

// transformers uses the tensor of the last shard, for any index.
TEST(Checkpoint, RejectsATensorWithDifferentValuesInTwoShards) {
  const TempDir dir;
  dir.write("config.json", "{}");
  dir.write("m-1.safetensors", safetensors_file(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                                R"("x":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                                                3));
  dir.write("m-2.safetensors", safetensors_file(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                                R"("y":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                                2));
  dir.write("model.safetensors.index.json",
            R"({"weight_map":{"a":"m-1.safetensors","x":"m-1.safetensors","y":"m-2.safetensors"}})");
  EXPECT_THAT(error_of([&] { Checkpoint::open(dir.path()); }),
              AllOf(HasSubstr("m-2.safetensors: tensor 'a' is in "),
                    HasSubstr("m-1.safetensors as well, with other values")));
}

TEST(Checkpoint, AcceptsATensorWithTheSameValuesInTwoShards) {
  const TempDir dir;
  dir.write("config.json", "{}");
  dir.write("m-1.safetensors", safetensors_file(kA, 16));
  dir.write("m-2.safetensors", safetensors_file(kA, 16));
  dir.write("model.safetensors.index.json", R"({"weight_map":{"a":"m-2.safetensors"}})");
  EXPECT_THAT(Checkpoint::open(dir.path())->names(), ElementsAre("a"));
  dir.write("model.safetensors.index.json",
            R"({"weight_map":{"a":"m-2.safetensors","a2":"m-1.safetensors"}})");
  EXPECT_THAT(error_of([&] { Checkpoint::open(dir.path()); }), HasSubstr("'a2' in m-1.safetensors"));
}

TEST(Checkpoint, ReportsUnalignedTensorsAndReadsTheirBytes) {
  // The header has an odd length, so no tensor is aligned to two bytes.
  std::string header = kA;
  while (header.size() % 2 == 0) header += ' ';
  const std::string file = safetensors_file(header, 16);
  const auto checkpoint = Checkpoint::from_memory({"memory", "{}", "", test::as_bytes(file)});
  const bool aligned = reinterpret_cast<uintptr_t>(checkpoint->bytes("a").data()) % 4 == 0;
  EXPECT_EQ(checkpoint->aligned("a"), aligned);
  EXPECT_FALSE(aligned);
  EXPECT_THAT(error_of([&] { checkpoint->view("a"); }), HasSubstr("tensor 'a'"));
}

TEST(Checkpoint, ReadsShardsWithoutAnIndex) {
  const TempDir dir;
  dir.write("config.json", "{}");
  dir.write("model-00001-of-00002.safetensors", safetensors_file(kA, 16));
  dir.write("consolidated.safetensors", safetensors_file(kA, 16));
  EXPECT_THAT(error_of([&] { Checkpoint::open(dir.path()); }),
              HasSubstr("shards are missing: model-00002-of-00002.safetensors"));
  dir.write("model-00002-of-00002.safetensors", safetensors_file(kB, 6));
  EXPECT_THAT(Checkpoint::open(dir.path())->names(), testing::ElementsAre("a", "b"));
}

TEST(Checkpoint, ReadsAllFilesWithoutNumbersAndIndex) {
  const TempDir dir;
  dir.write("config.json", "{}");
  dir.write("first.safetensors", safetensors_file(kA, 16));
  dir.write("second.safetensors", safetensors_file(kB, 6));
  EXPECT_THAT(Checkpoint::open(dir.path())->names(), testing::ElementsAre("a", "b"));
  dir.write("third.safetensors",
            safetensors_file(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2));
  EXPECT_THAT(error_of([&] { Checkpoint::open(dir.path()); }), HasSubstr("tensor 'a' is in"));
}

TEST(Checkpoint, TakesAnEmptyGenerationConfigForNone) {
  const TempDir dir;
  dir.write("config.json", "{}");
  dir.write("model.safetensors", safetensors_file(kA, 16));
  for (const char* text : {"", "\n"}) {
    dir.write("generation_config.json", text);
    EXPECT_FALSE(Checkpoint::open(dir.path())->generation_config());
  }
  dir.write("generation_config.json", "{}");
  EXPECT_TRUE(Checkpoint::open(dir.path())->generation_config()->empty());
}

TEST(Checkpoint, HasTensorsOfTypesThatNothingComputesWith) {
  const TempDir dir;
  dir.write("config.json", "{}");
  dir.write("model.safetensors",
            safetensors_file(R"({"a":{"dtype":"C64","shape":[2],"data_offsets":[0,16]},)"
                             R"("b":{"dtype":"F4","shape":[3,2],"data_offsets":[16,19]},)"
                             R"("c":{"dtype":"I4","shape":[8],"data_offsets":[19,23]}})",
                             23));
  const auto checkpoint = Checkpoint::open(dir.path());
  EXPECT_EQ(checkpoint->find("a")->type_name(), "C64");
  EXPECT_EQ(checkpoint->bytes("b").size(), 3U);
  EXPECT_EQ(checkpoint->bytes("c").size(), 4U);
}

TEST(Checkpoint, ViewsDoNotCopy) {
  std::string header = kA;
  while (header.size() % 8 != 0) header += ' ';
  const std::string file = safetensors_file(header, 16);
  const auto checkpoint =
      Checkpoint::from_memory({"memory", R"({"k":1})", R"({"g":2})", test::as_bytes(file)});
  const TensorView view = checkpoint->view("a");
  EXPECT_EQ(view.data, checkpoint->bytes("a").data());
  EXPECT_EQ(view.shape, (Shape{2, 2}));
  EXPECT_EQ(view.row_stride, 2);
  EXPECT_EQ(checkpoint->config()["k"], 1);
  EXPECT_EQ((*checkpoint->generation_config())["g"], 2);
  EXPECT_THAT(error_of([&] { checkpoint->view("x"); }), HasSubstr("has no tensor 'x'"));
}

struct BadDirectory {
  const char* what;
  const char* file;  // replaces a file of a valid checkpoint; removed if the content is empty
  const char* content;
  const char* message;
};

const BadDirectory kBadDirectories[] = {
    {"missing_shard", "m-2.safetensors", "", "are missing: m-2.safetensors"},
    {"missing_config", "config.json", "", "has no config.json"},
    {"config_is_not_JSON", "config.json", "{\n\n,}", "config.json:3: "},
    {"config_is_not_an_object", "config.json", "[]", "config.json: not a JSON object"},
    {"generation_config_is_broken", "generation_config.json", "{", "generation_config.json:1: "},
    {"index_is_broken", "model.safetensors.index.json", "{\"weight_map\":", "index.json:1: "},
    {"index_is_a_list", "model.safetensors.index.json", "[]", "'weight_map' is missing or not an object"},
    {"index_without_a_map", "model.safetensors.index.json", "{}", "'weight_map' is missing or not an object"},
    {"index_with_an_empty_map", "model.safetensors.index.json", R"({"weight_map":{}})",
     "'weight_map' is empty"},
    {"index_names_no_file", "model.safetensors.index.json", R"({"weight_map":{"a":1}})",
     "has no file name for tensor 'a'"},
    {"index_leads_upwards", "model.safetensors.index.json", R"({"weight_map":{"a":"../m-1.safetensors"}})",
     "names '../m-1.safetensors' for tensor 'a'"},
    {"index_leads_to_the_root", "model.safetensors.index.json", R"({"weight_map":{"a":"/etc/passwd"}})",
     "not a file name in the directory"},
    {"index_names_the_directory", "model.safetensors.index.json", R"({"weight_map":{"a":".."}})",
     "not a file name in the directory"},
    {"index_names_an_absent_tensor", "model.safetensors.index.json",
     R"({"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors","c":"m-2.safetensors"}})",
     "'c' in m-2.safetensors"},
    {"shard_is_truncated", "m-2.safetensors", "abc", "m-2.safetensors: has 3 bytes"},
};

class CheckpointDirectory : public testing::TestWithParam<BadDirectory> {};

TEST_P(CheckpointDirectory, ReportsTheProblem) {
  const TempDir dir;
  dir.write("config.json", "{}");
  dir.write("m-1.safetensors", safetensors_file(kA, 16));
  dir.write("m-2.safetensors", safetensors_file(kB, 6));
  dir.write("model.safetensors.index.json",
            R"({"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})");
  ASSERT_NO_THROW(Checkpoint::open(dir.path()));
  if (*GetParam().content != '\0') {
    dir.write(GetParam().file, GetParam().content);
  } else {
    std::filesystem::remove(dir.path() / GetParam().file);
  }
  EXPECT_THAT(error_of([&] { Checkpoint::open(dir.path()); }),
              AllOf(HasSubstr(dir.path().string()), HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(Bad, CheckpointDirectory, testing::ValuesIn(kBadDirectories),
                         [](const auto& test) { return std::string(test.param.what); });

TEST(Checkpoint, RejectsADirectoryWithoutSafetensors) {
  const TempDir dir;
  dir.write("config.json", "{}");
  dir.write("weights.bin", "x");
  EXPECT_THAT(error_of([&] { Checkpoint::open(dir.path()); }),
              HasSubstr("has neither model.safetensors nor"));
  EXPECT_THAT(error_of([&] { Checkpoint::open(dir.path() / "none"); }), HasSubstr("no such directory"));
  EXPECT_THAT(error_of([&] { Checkpoint::open(dir.path() / "config.json"); }), HasSubstr("not a GGUF file"));
}

TEST(Checkpoint, RejectsPicklesWithInstructions) {
  const TempDir dir;
  dir.write("config.json", R"({"quantization_config":{"quant_method":"torchao"}})");
  dir.write("pytorch_model-00002-of-00002.bin", "x");
  dir.write("pytorch_model-00001-of-00002.bin", "x");
  EXPECT_THAT(
      error_of([&] { Checkpoint::open(dir.path()); }),
      AllOf(HasSubstr("pickle file (pytorch_model-00001-of-00002.bin)"), HasSubstr("save_pretrained()")));
}

TEST(Checkpoint, ReadsTheMetadataOfAllFiles) {
  const std::string a = safetensors_file(
      R"({"__metadata__":{"x":"1"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})", 16);
  const std::string b = safetensors_file(
      R"({"__metadata__":{"y":"2"},"b":{"dtype":"F16","shape":[3],"data_offsets":[0,6]}})", 6);
  CheckpointBytes bytes{"x", "{}", "", test::as_bytes(a)};
  bytes.more_safetensors.push_back(test::as_bytes(b));
  const auto checkpoint = Checkpoint::from_memory(bytes);
  EXPECT_EQ(checkpoint->metadata("x"), "1");
  EXPECT_EQ(checkpoint->metadata("y"), "2");
  EXPECT_EQ(checkpoint->metadata("z"), std::nullopt);
}

}  // namespace
}  // namespace quire
