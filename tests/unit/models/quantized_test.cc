// Quantized checkpoints: the bits of the dequantized weights, and errors of invalid checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/reference.h"
#include "quant/quant_layout.h"
#include "support/crc32.h"
#include "unit/io/io_test_util.h"
#include "unit/models/edited_checkpoint.h"
#include "unit/models/golden_models.h"
#include "unit/quantized_testing.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Quantized : public ::testing::TestWithParam<std::string> {};

TEST_P(Quantized, WeightsHaveTheBitsOfTheDequantizedOnes) {
  const fs::path dir = test::quantized_model(GetParam());
  const auto checkpoint = Checkpoint::open(dir);
  const nlohmann::json golden = read_json_file(dir / "golden.json");
  ASSERT_GE(golden["crc32"].size(), 4U);
  for (const auto& [name, expected] : golden["crc32"].items()) {
    const QuantizedMatrix* matrix = checkpoint->quantized(name);
    ASSERT_NE(matrix, nullptr) << name;
    EXPECT_TRUE(checkpoint->find(name)->quantized);
    const std::vector<float> weights = quire::test::decode(*matrix);
    EXPECT_EQ(test::crc32(std::as_bytes(std::span(weights))), expected.get<uint32_t>()) << name;
  }
  // The stored parts of quantized weights are not tensors of the checkpoint. Scales of the KV cache and of
  // hyper-connections are.
  for (const auto& name : checkpoint->names()) {
    const bool part = name.ends_with("scale") || name.ends_with("scales") || name.ends_with("_blocks") ||
                      name.ends_with("zero_point") || name.ends_with("_qdata");
    const bool of_streams = name.find("hc_") != std::string::npos;
    EXPECT_TRUE(!part || of_streams || name.ends_with("_proj.output_scale")) << name;
  }
}

TEST_P(Quantized, KeepsThePlannedBytes) {
  const fs::path dir = test::quantized_model(GetParam());
  const test::LoadedModel loaded = test::load_model(dir, reference_ops());
  EXPECT_EQ(loaded.model->weight_bytes(), Model::planned_weight_bytes(*loaded.checkpoint, {}));
}

// The error of loading a quantized golden model whose configuration and tensors `edit` changes; empty if it
// loads.
std::string error_of_edited(const char* name, const std::function<void(test::EditedCheckpoint&)>& edit) {
  test::EditedCheckpoint edited(test::quantized_model(name));
  edit(edited);
  try {
    (void)edited.open();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void drop_tensors(test::EditedCheckpoint& edited, std::string_view suffix) {
  std::erase_if(edited.tensors, [&](const auto& entry) { return entry.first.ends_with(suffix); });
}

TEST(QuantizedOrder, IsRequiredByDescAct) {
  const auto error_with = [](const nlohmann::json& changes) {
    return error_of_edited("gptq-4bit-act-order", [&](test::EditedCheckpoint& edited) {
      drop_tensors(edited, ".g_idx");
      edited.config["quantization_config"].update(changes);
    });
  };
  EXPECT_THAT(error_with({{"desc_act", true}}),
              AllOf(HasSubstr(".g_idx"), HasSubstr("is missing, but 'desc_act'")));
  EXPECT_EQ(error_with({{"desc_act", false}}), "");
  EXPECT_EQ(error_with({{"desc_act", true}, {"static_groups", true}}), "");
}

TEST(QuantizedOrder, IsRequiredByActorder) {
  const auto error_with = [](const nlohmann::json& order) {
    return error_of_edited("compressed-w4a16", [&](test::EditedCheckpoint& edited) {
      edited.config["quantization_config"]["config_groups"]["group_0"]["weights"]["actorder"] = order;
    });
  };
  EXPECT_THAT(error_with("group"),
              AllOf(HasSubstr(".weight_g_idx"), HasSubstr("is missing, but 'actorder'")));
  EXPECT_THAT(error_with(true), HasSubstr("is missing, but 'actorder'"));
  EXPECT_THAT(error_with("sideways"),
              HasSubstr("'quantization_config.config_groups.group_0.weights.actorder' is"));
  for (const nlohmann::json& order :
       {nlohmann::json("weight"), nlohmann::json("static"), nlohmann::json(false)})
    EXPECT_EQ(error_with(order), "") << order;
}

TEST(QuantizedZeroPoints, AreRequiredIfTheConfigurationSaysThatThereAreSome) {
  EXPECT_THAT(error_of_edited("compressed-w4a16-zeros",
                              [](auto& edited) { drop_tensors(edited, ".weight_zero_point"); }),
              HasSubstr("is missing, but 'symmetric' of the quantization is false"));
}

TEST(QuantizedConfiguration, NumbersNeverWrap) {
  EXPECT_THAT(error_of_edited("gptq-4bit",
                              [](auto& edited) {
                                edited.config["quantization_config"]["bits"] = (int64_t{1} << 32) + 4;
                              }),
              HasSubstr("'quantization_config.bits' is 4294967300, but must be between 1 and 32"));
}

TEST(QuantizedActivations, AreInt8IfTheCheckpointSaysSo) {
  const auto activations_of = [](const char* name) {
    return Checkpoint::open(test::quantized_model(name))->default_activations();
  };
  EXPECT_EQ(activations_of("compressed-w8a8"), ActivationFormat::kInt8);
  EXPECT_EQ(activations_of("quark-int8"), ActivationFormat::kInt8);
  EXPECT_EQ(activations_of("quark-int8-groups"), ActivationFormat::kInt16);
  EXPECT_EQ(activations_of("torchao-int8-dynamic"), ActivationFormat::kInt8);
  EXPECT_EQ(activations_of("torchao-int8"), ActivationFormat::kInt16);
  EXPECT_EQ(activations_of("compressed-w4a16"), ActivationFormat::kInt16);
  EXPECT_EQ(activations_of("gptq-4bit"), ActivationFormat::kInt16);
}

TEST(QuantizedActivations, TokenScalesNeedAStrategyOfInt8Activations) {
  const auto token_scales = [](const char* name) {
    return Checkpoint::open(test::quantized_model(name))->token_activation_scales();
  };
  EXPECT_TRUE(token_scales("compressed-w8a8"));
  EXPECT_FALSE(token_scales("compressed-w8a16"));
  EXPECT_FALSE(token_scales("compressed-fp8"));
  EXPECT_FALSE(token_scales("torchao-int8-dynamic"));
}

TEST(QuantizedActivations, OutliersStayFloatIfTheCheckpointSaysSo) {
  const auto threshold = [](const char* name) {
    return Checkpoint::open(test::quantized_model(name))->outlier_threshold();
  };
  EXPECT_EQ(threshold("bitsandbytes-int8"), 6.0F);
  EXPECT_EQ(threshold("gptq-8bit"), 0.0F);
}

// The rounding error of an activation is at most 1/254 of the maximum of its group with 8 bits, 1/64262
// with 16.
TEST_P(Quantized, QuantizedActivationsChangeLogitsSlightlyAndEquallyForAnyChunking) {
  const fs::path dir = test::quantized_model(GetParam());
  const OpTable& ops = reference_ops();
  const test::LoadedModel exact = test::load_model(dir, ops);
  bool integers = false;
  for (const auto& name : exact.checkpoint->names()) {
    const QuantizedMatrix* matrix = exact.checkpoint->quantized(name);
    integers = integers || (matrix != nullptr && integer_values(matrix->format()));
  }
  const std::vector<int32_t> prompt = {3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9, 32, 38};
  const auto want = test::PagedRunner(*exact.model, ops, nullptr, {}).append(prompt, 13);
  for (const auto& [activations, max_error] :
       {std::pair(ActivationFormat::kInt8, 0.05), std::pair(ActivationFormat::kInt16, 0.0002)}) {
    const test::LoadedModel rounded = test::load_model(dir, ops, {.quantized_activations = activations});
    const auto got = test::PagedRunner(*rounded.model, ops, nullptr, {}).append(prompt, 13);
    EXPECT_EQ(test::PagedRunner(*rounded.model, ops, nullptr, {}).append(prompt, 1), got);
    EXPECT_EQ(got != want, integers) << "float activations if the quantized values are not integers";
    double error = 0.0;
    double size = 0.0;
    for (size_t i = 0; i < prompt.size(); ++i) {
      for (size_t j = 0; j < want[i].size(); ++j) {
        error += std::pow(double{got[i][j]} - double{want[i][j]}, 2);
        size += std::pow(double{want[i][j]}, 2);
      }
    }
    EXPECT_LT(std::sqrt(error / size), max_error);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Quantized, ::testing::ValuesIn(test::golden_names("quantized")),
                         [](const auto& test) { return test::test_name(test.param); });

// Power-of-two scales for blocks of two rows and 32 columns; the last block is smaller.
TEST(QuantizedFloats, ScalesOfFp8MayBePowersOfTwo) {
  std::string file =
      test::safetensors_file(R"({"m.weight":{"dtype":"F8_E4M3","shape":[3,40],"data_offsets":[0,120]},)"
                             R"("m.weight_scale":{"dtype":"U8","shape":[2,2],"data_offsets":[120,124]}})",
                             124);
  const std::string exponents = {126, 127, static_cast<char>(128), static_cast<char>(129)};
  file.replace(file.size() - 4, 4, exponents);
  const std::string config =
      R"({"quantization_config":{"quant_method":"quark","global_quant_config":{"weight":)"
      R"({"dtype":"fp8_e4m3","qscheme":"per_block","block_size":[2,32]}}}})";
  const auto checkpoint = Checkpoint::from_memory({"x", config, "", test::as_bytes(file)});
  const std::vector<float> weights = quire::test::decode(*checkpoint->quantized("m.weight"));
  ASSERT_EQ(weights.size(), 120U);
  for (size_t i = 0; i < weights.size(); ++i) {
    const float scale = i < 80 ? (i % 40 < 32 ? 0.5F : 1.0F) : (i % 40 < 32 ? 2.0F : 4.0F);
    EXPECT_EQ(weights[i], scale * f8e4m3_to_f32(static_cast<uint8_t>(i & 0x7f))) << i;
  }
}

// A copy of a golden checkpoint whose safetensors header was changed.
class BrokenCheckpoint {
 public:
  explicit BrokenCheckpoint(const std::string& name) : from_(test::quantized_model(name)) {
    dir_ = fs::temp_directory_path() / ("quire-broken-" + name + "-" + std::to_string(::getpid()));
    fs::create_directories(dir_);
    fs::copy_file(from_ / "config.json", dir_ / "config.json", fs::copy_options::overwrite_existing);
  }
  ~BrokenCheckpoint() { fs::remove_all(dir_); }

  void change_config(const std::function<void(nlohmann::json&)>& change) const {
    nlohmann::json config = read_json_file(from_ / "config.json");
    change(config);
    std::ofstream(dir_ / "config.json") << config;
  }
  // Writes the changed header. Returns the directory.
  const fs::path& write(const std::function<void(nlohmann::json&)>& change_header) const {
    std::ifstream in(from_ / "model.safetensors", std::ios::binary);
    std::string file((std::istreambuf_iterator<char>(in)), {});
    uint64_t size = 0;
    std::memcpy(&size, file.data(), 8);
    nlohmann::json header = nlohmann::json::parse(file.substr(8, size));
    change_header(header);
    const std::string text = header.dump();
    const uint64_t length = text.size();
    std::ofstream(dir_ / "model.safetensors", std::ios::binary)
        << std::string(reinterpret_cast<const char*>(&length), 8) << text << file.substr(8 + size);
    return dir_;
  }
  // The error of opening it; empty if there is none.
  std::string error(const std::function<void(nlohmann::json&)>& change_header) const {
    try {
      Checkpoint::open(write(change_header));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

 private:
  fs::path from_;
  fs::path dir_;
};

TEST(QuantizedActivations, HaveOneScalePerTokenIfTheCheckpointSaysSo) {
  test::expect_token_scales(reference_ops());
  // Without the strategy, the inputs of down_proj have two scales per token, and the logits differ.
  const BrokenCheckpoint grouped("compressed-w8a8");
  grouped.change_config([](nlohmann::json& config) {
    config["quantization_config"]["config_groups"]["group_0"]["input_activations"].erase("strategy");
  });
  const test::LoadedModel loaded = test::load_model(grouped.write([](nlohmann::json&) {}), reference_ops(),
                                                    {.quantized_activations = ActivationFormat::kInt8});
  const nlohmann::json golden = read_json_file(test::quantized_model("compressed-w8a8") / "golden.json");
  for (const auto& item : golden.at("rounded")) {
    const auto prompt = item["prompt"].get<std::vector<int32_t>>();
    const auto expected = item["logits"].get<std::vector<float>>();
    test::PagedRunner runner(*loaded.model, reference_ops(), nullptr, {});
    const auto logits = runner.append(prompt, static_cast<int64_t>(prompt.size())).back();
    float largest = 0.0F;
    float difference = 0.0F;
    for (size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      difference = std::max(difference, std::abs(logits[i] - expected[i]));
    }
    EXPECT_GT(difference, 1e-3 * largest);
  }
}

constexpr const char* kModule = "model.layers.1.mlp.up_proj";

TEST(QuantizedErrors, NameMissingScalesAndZeroPoints) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"gptq-4bit", {".scales"}},
      {"gptq-4bit-zeros", {".scales", ".qzeros"}},
      {"awq", {".scales", ".qzeros"}},
      {"fp8-blocks", {".weight"}},
      {"modelopt-nvfp4", {".weight", ".weight_scale_2"}},
      {"bitnet", {".weight"}},
      {"bitsandbytes-nf4", {".weight", ".weight.absmax", ".weight.quant_map"}},
      {"bitsandbytes-nf4-double", {".weight.nested_absmax", ".weight.nested_quant_map"}},
      {"compressed-w4a16", {".weight_scale", ".weight_shape"}},
      {"compressed-w8a8", {".weight"}},
      {"compressed-nvfp4", {".weight_scale"}},
      {"squeezellm-3bit-outliers", {".qweight", ".rows", ".cols", ".full_row_indices"}},
      {"quark-uint4", {".weight", ".weight_zero_point"}},
      {"torchao-int8", {"._weight_scale"}},
      {"torchao-int4", {"._weight_scale", "._weight_zero_point"}},
  };
  for (const auto& [name, suffixes] : cases) {
    const BrokenCheckpoint broken(name);
    EXPECT_EQ(broken.error([](nlohmann::json&) {}), "") << name;
    for (const std::string& suffix : suffixes) {
      const std::string message = broken.error([&](nlohmann::json& header) {
        // Under another name, so that the file has no hole.
        const auto entry = header.at(kModule + suffix);
        header.erase(kModule + suffix);
        header["model.other"] = entry;
      });
      EXPECT_THAT(message, AllOf(HasSubstr(kModule + suffix), HasSubstr("missing"))) << name;
    }
  }
}

TEST(QuantizedErrors, NameTensorsOfTheWrongShape) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"gptq-4bit", ".qweight"},
      {"gptq-4bit", ".scales"},
      {"gptq-4bit-act-order", ".g_idx"},
      {"gptq-4bit-zeros", ".qzeros"},
      {"awq", ".scales"},
      {"awq", ".qzeros"},
      {"fp8-blocks", ".weight_scale_inv"},
      {"modelopt-nvfp4", ".weight_scale"},
      {"squeezellm-4bit", ".qweight"},
      {"squeezellm-4bit", ".lookup_table"},
      {"squeezellm-3bit-outliers", ".vals"},
      {"squeezellm-3bit-outliers", ".full_row_indices"},
      {"bitsandbytes-nf4", ".weight.absmax"},
      {"compressed-w4a16", ".weight_packed"},
      {"compressed-w4a16", ".weight_scale"},
      {"compressed-w8a8", ".weight_scale"},
      {"compressed-w4a16-zeros", ".weight_zero_point"},
      {"quark-uint4", ".weight"},
      {"quark-uint4", ".weight_scale"},
      {"quark-int8-groups", ".weight_zero_point"},
      {"quark-mxfp4", ".weight_scale"},
      {"torchao-int4", "._weight_qdata"},
      {"torchao-int4-dynamic", "._weight_zero_point"},
      {"torchao-fp8", "._weight_scale"}};
  for (const auto& [name, suffix] : cases) {
    const BrokenCheckpoint broken(name);
    const std::string message = broken.error([&, s = suffix](nlohmann::json& header) {
      auto& shape = header.at(kModule + s).at("shape");
      int64_t numel = 1;
      for (const auto& dim : shape) numel *= dim.get<int64_t>();
      shape = shape.size() == 1 ? nlohmann::json{1, numel} : nlohmann::json{numel / 3, 3};
      if (numel % 3 != 0 && shape.size() == 2 && shape[1] == 3) shape = {numel / 2, 2};
    });
    EXPECT_THAT(message, HasSubstr(kModule)) << name << suffix;
  }
}

// quark stores them as output scales of the projections.
TEST(QuantizedKvScales, AreReadFromOutputScalesOfProjections) {
  const BrokenCheckpoint checkpoint("quark-fp8");
  const std::vector<int32_t> prompt = {3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9, 32, 38};
  const auto logits = [&](const std::string& keys, const std::string& values) {
    const fs::path& dir = checkpoint.write([&](nlohmann::json& header) {
      for (int layer = 0; layer < 2; ++layer) {
        const std::string attention = "model.layers." + std::to_string(layer) + ".self_attn.";
        for (const auto& [stored, other] :
             {std::pair(attention + "k_proj.output_scale", attention + "k_proj" + keys),
              std::pair(attention + "v_proj.output_scale", attention + "v_proj" + values)}) {
          const nlohmann::json entry = header.at(stored);
          header.erase(stored);
          header[other] = entry;
        }
      }
    });
    const test::LoadedModel loaded = test::load_model(dir, reference_ops());
    return test::PagedRunner(*loaded.model, reference_ops(), nullptr, {.kv_dtype = DType::kF8E4M3})
        .append(prompt, 13);
  };
  const auto stored = logits(".output_scale", ".output_scale");
  EXPECT_EQ(logits(".k_scale", ".v_scale"), stored);
  EXPECT_NE(logits(".input_scale_2", ".input_scale_2"), stored);
}

TEST(QuantizedErrors, AnUnsupportedMethodListsTheSupportedOnes) {
  const BrokenCheckpoint broken("awq");
  broken.change_config(
      [](nlohmann::json& config) { config["quantization_config"]["quant_method"] = "aqlm"; });
  EXPECT_THAT(broken.error([](nlohmann::json&) {}),
              AllOf(HasSubstr("'aqlm', which is not supported"), HasSubstr("gptq, awq, compressed-tensors")));
  broken.change_config([](nlohmann::json& config) { config["quantization_config"] = 3; });
  EXPECT_THAT(broken.error([](nlohmann::json&) {}), HasSubstr("is not an object"));
  broken.change_config([](nlohmann::json& config) { config["quantization_config"]["version"] = "gemv"; });
  EXPECT_THAT(broken.error([](nlohmann::json&) {}), HasSubstr("version 'gemv'"));
  broken.change_config([](nlohmann::json& config) { config["quantization_config"]["zero_point"] = "no"; });
  EXPECT_THAT(broken.error([](nlohmann::json&) {}), HasSubstr("quantization_config.zero_point"));
}

TEST(QuantizedErrors, NameUnsupportedFieldsOfQuark) {
  const BrokenCheckpoint broken("quark-int4");
  const auto message = [&](const char* field, const nlohmann::json& value) {
    broken.change_config([&](nlohmann::json& config) {
      config["quantization_config"]["global_quant_config"]["weight"][field] = value;
    });
    return broken.error([](nlohmann::json&) {});
  };
  EXPECT_EQ(message("dtype", "int4"), "");
  EXPECT_THAT(message("dtype", "mx9"),
              AllOf(HasSubstr(".weight is quantized to 'mx9'"), HasSubstr("fp8_e4m3, fp4")));
  EXPECT_THAT(message("qscheme", "per_channel"), HasSubstr("without group scales"));
  EXPECT_THAT(message("dtype", 4),
              HasSubstr("'quantization_config.global_quant_config.weight.dtype' must be"));
  broken.change_config([](nlohmann::json& config) {
    nlohmann::json& weight = config["quantization_config"]["global_quant_config"]["weight"];
    nlohmann::json first = weight;
    first["dtype"] = "fp8_e4m3";
    weight = {first, weight};
  });
  EXPECT_THAT(broken.error([](nlohmann::json&) {}),
              HasSubstr("is quantized in two steps, first to 'fp8_e4m3'"));
}

// The longest matching pattern applies.
TEST(QuantizedErrors, MatchLayersByThePatternsOfQuark) {
  const BrokenCheckpoint broken("quark-int4");
  const auto message = [&](const std::vector<std::string>& patterns) {
    broken.change_config([&](nlohmann::json& config) {
      for (size_t i = 0; i < patterns.size(); ++i)
        config["quantization_config"]["layer_quant_config"][patterns[i]]["weight"]["dtype"] =
            "mx" + std::to_string(i);
    });
    return broken.error([](nlohmann::json&) {});
  };
  EXPECT_EQ(message({"*.other"}), "");
  EXPECT_THAT(message({"*layers.1.mlp*"}), HasSubstr("layers.1.mlp.down_proj.weight is quantized to 'mx0'"));
  EXPECT_THAT(message({"*.mlp.*", "*.mlp.down_p[r]oj"}),
              HasSubstr("layers.0.mlp.down_proj.weight is quantized to 'mx1'"));
}

TEST(QuantizedErrors, NameMissingFieldsInTheMetadataOfTorchao) {
  const BrokenCheckpoint broken("torchao-int8");
  const std::string name = std::string(kModule) + ".weight";
  const auto message = [&](const std::function<void(nlohmann::json&)>& change) {
    return broken.error([&](nlohmann::json& header) {
      nlohmann::json& text = header["__metadata__"][name];
      nlohmann::json description = nlohmann::json::parse(text.get<std::string>());
      change(description);
      text = description.dump();
    });
  };
  EXPECT_EQ(message([](nlohmann::json&) {}), "");
  EXPECT_THAT(message([](nlohmann::json& description) { description["_type"] = "NF4Tensor"; }),
              AllOf(HasSubstr(name + " is stored as 'NF4Tensor'"), HasSubstr("Int8Tensor, IntxUnpacked")));
  EXPECT_THAT(message([](nlohmann::json& description) { description.erase("_type"); }),
              HasSubstr("without '_type'"));
  EXPECT_THAT(message([](nlohmann::json& description) { description["_data"].erase("block_size"); }),
              HasSubstr("without a 'block_size'"));
  EXPECT_THAT(broken.error([&](nlohmann::json& header) { header["__metadata__"].erase(name); }),
              HasSubstr("has no description '" + name + "'"));
  EXPECT_THAT(broken.error([&](nlohmann::json& header) {
    header[std::string(kModule) + "._weight_act_pre_scale"] = header["model.norm.weight"];
    header.erase("model.norm.weight");
  }),
              HasSubstr("_weight_act_pre_scale scales activations"));
}

TEST(QuantizedErrors, AnUnknownPackingOfAutoRoundListsTheSupportedOnes) {
  const BrokenCheckpoint broken("auto-round-4bit");
  const auto same = [](nlohmann::json&) {};
  broken.change_config([](nlohmann::json& config) {
    config["quantization_config"]["packing_format"] = "auto_round:llm_compressor";
  });
  EXPECT_THAT(broken.error(same), AllOf(HasSubstr("packing_format 'auto_round:llm_compressor'"),
                                        HasSubstr("auto_round:auto_gptq, auto_round:auto_awq")));
  broken.change_config([](nlohmann::json& config) { config["quantization_config"]["extra_config"] = 7; });
  EXPECT_THAT(broken.error(same),
              HasSubstr("'quantization_config.extra_config' must be an object, but is 7"));
  broken.change_config([](nlohmann::json&) {});
  const std::string scales = std::string(kModule) + ".scales";
  EXPECT_THAT(broken.error([&](nlohmann::json& header) {
    header["elsewhere"] = header[scales];
    header.erase(scales);
  }),
              HasSubstr(scales));
}

}  // namespace
}  // namespace quire
