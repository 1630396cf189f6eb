// Places that adapters change, against the sites that loading numbers.
#include "models/adapter_targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "models/expected_tensors.h"
#include "models/model_traversal.h"
#include "models/weight_loader.h"
#include "nn/attention.h"
#include "ops/reference.h"
#include "unit/models/golden_models.h"

namespace quire::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Loaded {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Decoder> decoder = std::make_unique<Decoder>();
  AdapterTargets targets;
};

// Loads the weights as Model::load does.
Loaded load(const std::string& name) {
  Loaded out{.checkpoint = Checkpoint::open(golden_model(name))};
  const ModelSpec spec = read_spec(*out.checkpoint, Runner::kAuto);
  const TensorResolver resolver(spec, *out.checkpoint);
  const ModelToDescribe described{spec};
  const std::vector<ListedParam> params = list_params(described, resolver);
  const ExpectedTensors expected(spec, resolver, params);
  const ModelOptions options;
  const LoadProgress progress;
  const OpContext context;
  WeightLoader loader(resolver, expected, *out.checkpoint, reference_ops(), context, options, progress,
                      nullptr);
  ModelTraversal(described, loader, *out.decoder).visit();
  out.targets = adapter_targets(*out.checkpoint, spec);
  return out;
}

int32_t site_of(const AdapterTargets& targets, const std::string& name) {
  const AdapterTarget target = find_target(targets, name);
  return target.ranges.size() == 1 ? target.ranges[0].site : -2;
}

TEST(AdapterTargets, HaveTheSitesOfTheLoadedModel) {
  for (const std::string name : {"llama", "llama-untied", "qwen3", "mixtral", "olmoe", "gemma2", "bamba"}) {
    const Loaded loaded = load(name);
    for (size_t i = 0; i < loaded.decoder->layers.size(); ++i) {
      const auto* attention = dynamic_cast<const Attention*>(loaded.decoder->layers[i].mixer.get());
      if (attention == nullptr) continue;
      const std::string module = "model.layers." + std::to_string(i) + ".self_attn.";
      EXPECT_EQ(site_of(loaded.targets, module + "q_proj"), attention->qkv_proj.site) << name;
      EXPECT_EQ(site_of(loaded.targets, module + "o_proj"), attention->o_proj.site) << name;
    }
    EXPECT_EQ(site_of(loaded.targets, "lm_head"), loaded.decoder->lm_head.site) << name;
  }
}

TEST(AdapterTargets, CountAllSites) {
  const Loaded loaded = load("llama-untied");
  // The embedding, the head, and four matrices of each layer.
  EXPECT_EQ(loaded.targets.num_sites, 2 + 4 * loaded.targets.num_layers);
}

TEST(AdapterTargets, DivideAFusedSiteIntoTheRowsOfItsModules) {
  const AdapterTargets targets = load("llama").targets;
  const auto place = [&](const std::string& name) {
    return find_target(targets, "model.layers.1." + name).ranges[0];
  };
  EXPECT_EQ(place("self_attn.q_proj").out_begin, 0);
  EXPECT_EQ(place("self_attn.k_proj").out_begin, 32);
  EXPECT_EQ(place("self_attn.v_proj").out_begin, 48);
  EXPECT_EQ(place("self_attn.v_proj").rows, 16);
  EXPECT_EQ(place("self_attn.v_proj").site_rows, 64);
  EXPECT_EQ(place("self_attn.v_proj").site, place("self_attn.q_proj").site);
  EXPECT_EQ(place("mlp.up_proj").out_begin, 28);
  EXPECT_EQ(place("mlp.down_proj").in, 28);
}

TEST(AdapterTargets, HaveTheNamesOfOtherCheckpointsOfTheArchitecture) {
  const AdapterTargets targets = load("mixtral").targets;
  EXPECT_EQ(site_of(targets, "model.layers.1.block_sparse_moe.gate"),
            site_of(targets, "model.layers.1.mlp.gate"));
  EXPECT_GE(site_of(targets, "layers.1.mlp.gate"), 0);
}

TEST(AdapterTargets, HaveExpertsAsModulesAndAsParameters) {
  const AdapterTargets targets = load("mixtral").targets;
  const auto ranges = [&](const std::string& name) {
    return find_target(targets, "model.layers.1." + name).ranges;
  };
  const auto gates_and_ups = ranges("mlp.experts.gate_up_proj");
  const auto downs = ranges("mlp.experts.down_proj");
  ASSERT_EQ(gates_and_ups.size(), 4U);
  ASSERT_EQ(downs.size(), 4U);
  // The matrices of an expert follow the router, or those of the expert before it.
  int32_t site = site_of(targets, "model.layers.1.mlp.gate");
  for (size_t e = 0; e < 4; ++e) {
    const std::string expert = "block_sparse_moe.experts." + std::to_string(e);
    ++site;
    EXPECT_EQ(ranges(expert + ".w1")[0].site, site);
    EXPECT_EQ(ranges(expert + ".w3")[0].site, site);
    EXPECT_EQ(ranges(expert + ".w3")[0].out_begin, 16);
    EXPECT_EQ(gates_and_ups[e].site, site);
    EXPECT_EQ(gates_and_ups[e].rows, 32);
    ++site;
    EXPECT_EQ(ranges(expert + ".w2")[0].site, site);
    EXPECT_EQ(downs[e].site, site);
  }
  const AdapterModule* stack = find_target(targets, "model.layers.1.mlp.experts").module;
  ASSERT_NE(stack, nullptr);
  EXPECT_EQ(stack->kind, AdapterModuleKind::kStack);
  EXPECT_THAT(stack->parameters, ElementsAre("gate_up_proj", "down_proj"));
}

TEST(AdapterTargets, GiveOneModuleTwoPlacesIfKeysAreAlsoValues) {
  const AdapterTargets targets = load("gemma4-keys-as-values").targets;
  size_t twice = 0;
  for (int i = 0; i < targets.num_layers; ++i) {
    const auto ranges =
        find_target(targets, "model.layers." + std::to_string(i) + ".self_attn.k_proj").ranges;
    if (ranges.size() != 2) continue;
    ++twice;
    EXPECT_EQ(ranges[0].site, ranges[1].site);
    EXPECT_EQ(ranges[0].out_begin + ranges[0].rows, ranges[1].out_begin);
  }
  EXPECT_GT(twice, 0U);
}

TEST(AdapterTargets, HaveThePlacesOfEmbeddingsAndOutputLayers) {
  const Loaded tied = load("llama");
  const Loaded untied = load("llama-untied");
  for (const Loaded* loaded : {&tied, &untied}) {
    const AdapterTarget embedding = find_target(loaded->targets, "model.embed_tokens");
    const AdapterTarget head = find_target(loaded->targets, "lm_head");
    ASSERT_EQ(embedding.ranges.size(), 1U);
    ASSERT_EQ(head.ranges.size(), 1U);
    EXPECT_EQ(embedding.module->kind, AdapterModuleKind::kEmbedding);
    EXPECT_EQ(embedding.ranges[0].site, loaded->decoder->embedding.site);
    EXPECT_EQ(head.ranges[0].site, loaded->decoder->lm_head.site);
    const ModelSpec spec = read_spec(*loaded->checkpoint, Runner::kAuto);
    EXPECT_EQ(embedding.ranges[0].rows, spec.vocab_size);
    EXPECT_EQ(embedding.ranges[0].in, spec.hidden_size);
    EXPECT_EQ(embedding.ranges[0].whole->weight, "model.embed_tokens.weight");
    EXPECT_EQ(head.ranges[0].whole->weight, loaded == &tied ? "model.embed_tokens.weight" : "lm_head.weight");
    EXPECT_EQ(embedding.ranges[0].whole->tied, loaded == &tied);
    EXPECT_EQ(head.ranges[0].whole->tied, loaded == &tied);
  }
  EXPECT_EQ(tied.decoder->embedding.site, tied.decoder->lm_head.site);
  EXPECT_TRUE(find_target(load("phi").targets, "lm_head").ranges[0].whole->bias);
  EXPECT_FALSE(find_target(tied.targets, "model.layers.0.self_attn.o_proj").ranges[0].whole);
}

// The score of a tied reranker is made of rows of its embedding.
TEST(AdapterTargets, DoNotReplaceAnEmbeddingThatScoresAreMadeOf) {
  for (const auto& [name, replaceable] :
       {std::pair("qwen3-reranker", false), std::pair("qwen3-embedding", true)}) {
    const auto checkpoint = Checkpoint::open(golden_checkpoint(std::string("pooling/") + name));
    const AdapterTargets targets = adapter_targets(*checkpoint, read_spec(*checkpoint, Runner::kAuto));
    const AdapterTarget target = find_target(targets, "embed_tokens");
    ASSERT_EQ(target.ranges.size(), 1U) << name;
    EXPECT_EQ(target.ranges[0].whole.has_value(), replaceable) << name;
  }
}

// Latent attention applies the norms of its latents itself.
TEST(AdapterTargets, HaveNoPlacesForVectors) {
  const AdapterTargets targets = load("deepseek_v3").targets;
  const AdapterTarget target = find_target(targets, "model.layers.0.self_attn.kv_a_layernorm");
  ASSERT_NE(target.module, nullptr);
  EXPECT_EQ(target.module->kind, AdapterModuleKind::kVector);
  EXPECT_THAT(target.ranges, IsEmpty());
}

TEST(AdapterTargets, CanReplaceNorms) {
  const Loaded loaded = load("gemma3");
  const ModelSpec spec = read_spec(*loaded.checkpoint, Runner::kAuto);
  const AdapterTarget target = find_target(loaded.targets, "model.layers.1.input_layernorm");
  ASSERT_EQ(target.ranges.size(), 1U);
  EXPECT_EQ(target.module->kind, AdapterModuleKind::kNorm);
  EXPECT_EQ(target.ranges[0].whole->weight, "model.layers.1.input_layernorm.weight");
  EXPECT_EQ(target.ranges[0].rows, spec.hidden_size);
}

TEST(AdapterTargets, HaveAPlaceForEachHeadOfLatentAttention) {
  const Loaded loaded = load("deepseek_v3");
  const AdapterTarget target = find_target(loaded.targets, "model.layers.1.self_attn.kv_b_proj");
  ASSERT_NE(target.module, nullptr);
  EXPECT_EQ(target.module->kind, AdapterModuleKind::kDerived);
  const ModelSpec model = read_spec(*loaded.checkpoint, Runner::kAuto);
  const auto& spec = std::get<MlaSpec>(model.layers[1].mixer);
  ASSERT_EQ(target.ranges.size(), 2U * static_cast<size_t>(spec.num_heads));
  const ModuleShape shape = module_shape(target.ranges);
  EXPECT_EQ(shape.out, int64_t{spec.num_heads} * (spec.qk_nope_head_dim + spec.v_head_dim));
  EXPECT_EQ(shape.in, spec.kv_lora_rank);
  // Keys, then values, of the second head.
  EXPECT_TRUE(target.ranges[2].part->transposed);
  EXPECT_EQ(target.ranges[2].part->begin, spec.qk_nope_head_dim + spec.v_head_dim);
  EXPECT_EQ(target.ranges[2].rows, spec.kv_lora_rank);
  EXPECT_FALSE(target.ranges[3].part->transposed);
  EXPECT_EQ(target.ranges[3].part->count, spec.v_head_dim);
}

TEST(AdapterTargets, RefuseBlocksThatLayersShare) {
  const AdapterTargets targets = load("zamba2").targets;
  const AdapterTarget target = find_target(targets, "model.layers.1.shared_transformer.self_attn.q_proj");
  ASSERT_NE(target.module, nullptr);
  EXPECT_EQ(target.module->kind, AdapterModuleKind::kShared);
  EXPECT_THAT(target.module->ranges, IsEmpty());
}

TEST(AdapterTargets, AcceptAnyPrefixOfAMultimodalModel) {
  const AdapterTargets targets = load("glm_ocr").targets;
  for (const std::string prefix : {"model.language_model.", "language_model.model.", "model.", ""})
    EXPECT_GE(site_of(targets, prefix + "layers.0.self_attn.q_proj"), 0) << prefix;
  EXPECT_EQ(site_of(targets, "other.layers.0.self_attn.q_proj"), -2);
}

TEST(AdapterTargets, TellModulesThatAreNotRunFromUnknownOnes) {
  const AdapterTargets composite = load("glm_ocr").targets;
  EXPECT_TRUE(is_unused(composite, "model.vision_tower.encoder.layers.0.mlp.fc1"));
  EXPECT_FALSE(is_unused(composite, "model.language_model.layers.0.self_attn.other_proj"));
  const AdapterTargets plain = load("llama").targets;
  EXPECT_FALSE(is_unused(plain, "model.vision_tower.encoder.layers.0.mlp.fc1"));
  EXPECT_FALSE(is_unused(plain, "model.layers.9.self_attn.q_proj"));
  // Layers that use the keys and values of another layer have projections without effect.
  const AdapterTargets borrowed = load("gemma3n").targets;
  const std::string last = "model.layers." + std::to_string(borrowed.num_layers - 1) + ".self_attn.";
  EXPECT_TRUE(is_unused(borrowed, last + "k_proj"));
  EXPECT_EQ(site_of(borrowed, last + "k_proj"), -2);
  EXPECT_GE(site_of(borrowed, last + "q_proj"), 0);
}

TEST(AdapterTargets, FindModulesOfQuantizedModels) {
  for (const std::string name :
       {"awq", "gptq-4bit-act-order", "compressed-w4a16", "bitsandbytes-nf4", "fp8-blocks"}) {
    const auto checkpoint = Checkpoint::open(quantized_model(name));
    const AdapterTargets targets = adapter_targets(*checkpoint, read_spec(*checkpoint, Runner::kAuto));
    for (const std::string module :
         {"self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.up_proj"}) {
      const AdapterTarget target = find_target(targets, "model.layers.0." + module);
      ASSERT_EQ(target.ranges.size(), 1U) << name << " " << module;
      EXPECT_GT(target.ranges[0].rows, 0) << name << " " << module;
    }
    EXPECT_EQ(targets.scaled_inputs, name == "awq") << name;
  }
}

TEST(NumberedName, ReplacesComponentsOfDigits) {
  const auto name = numbered_name("layers.12.mlp.experts.7.w1.a2.0");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->pattern, "layers.{}.mlp.experts.{}.w1.a2.{}");
  EXPECT_THAT(name->numbers, ElementsAre(12, 7, 0, -1));
  EXPECT_FALSE(numbered_name("1.2.3.4.5"));
  EXPECT_FALSE(numbered_name("layers.99999999999.mlp"));
}

}  // namespace
}  // namespace quire::test
