#include "models/registry.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "io/checkpoint.h"
#include "io/config_fields.h"
#include "models/arch/arch.h"
#include "models/arch/composites.h"

namespace quire {
namespace {

// The same model with another head, or with none.
struct Head {
  std::string_view suffix;
  ModelTask task;
};
constexpr std::array<Head, 3> kHeads = {{
    {"ForSequenceClassification", ModelTask::kScore},
    {"ForMaskedLM", ModelTask::kEmbed},
    {"Model", ModelTask::kEmbed},
}};

const Head* find_head(std::string_view name) {
  if (name.ends_with("LMHeadModel")) return nullptr;
  const auto at = std::ranges::find_if(kHeads, [&](const Head& head) { return name.ends_with(head.suffix); });
  return at == kHeads.end() ? nullptr : &*at;
}

// "Qwen3" of "Qwen3ForCausalLM".
std::string_view stem_of(std::string_view name) {
  for (const std::string_view suffix :
       {"ForCausalLM", "LMHeadModel", "ForSequenceClassification", "ForMaskedLM", "TextModel", "Model"}) {
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  }
  return name;
}

// The architecture that has the same name with another head; null if there is none.
const Architecture* find_body(std::string_view name) {
  if (find_head(name) == nullptr) return nullptr;
  const auto same = [](std::string_view a, std::string_view b) {
    const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
    return std::ranges::equal(a, b, {}, lower, lower);
  };
  for (const auto& row : architectures()) {
    const std::string_view stem = stem_of(name);
    const bool of_text = stem.ends_with("Text") && same(stem.substr(0, stem.size() - 4), stem_of(row.name));
    if (of_text || same(stem, stem_of(row.name))) return &row;
  }
  return nullptr;
}

// The names of a classifier's labels, in order.
std::vector<std::string> labels_of(const ConfigReader& config) {
  const nlohmann::json* names = config.find("id2label");
  int64_t count =
      names != nullptr && names->is_object() && !names->empty() ? static_cast<int64_t>(names->size()) : 2;
  count = config.integer("num_labels", 1, kMaxSize, count);
  std::vector<std::string> labels;
  for (int64_t i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    const bool named =
        names != nullptr && names->is_object() && names->contains(number) && (*names)[number].is_string();
    labels.push_back(named ? (*names)[number].get<std::string>() : cat("LABEL_", number));
  }
  return labels;
}

// Sets the task from the suffix of the name: a classifier, or a model without a head.
void read_head(const ConfigReader& config, std::string_view name, ModelSpec& spec) {
  const Head* head = find_head(name);
  if (config.has("is_causal") && !config.boolean("is_causal", true)) set_bidirectional(spec);
  if (head == nullptr) return;
  const bool decoder = spec.task == ModelTask::kGenerate;
  if (head->task != ModelTask::kScore) {
    if (decoder) spec.task = ModelTask::kEmbed;
    return;
  }
  if (!decoder && !spec.classifier)
    config.fail("architectures", cat("contains ", name, ", which is not supported"));
  spec.task = ModelTask::kScore;
  if (decoder) spec.classifier = ClassifierSpec{};
  spec.labels = labels_of(config);
  spec.classifier->num_labels = static_cast<int64_t>(spec.labels.size());
  // GGUF files of rerankers have the rows of "yes" and "no" of the output embedding.
  spec.classifier->difference = spec.labels.size() == 1 && config.boolean("score_difference", false);
  const std::string problem = config.text("problem_type", "");
  const bool single = spec.labels.size() == 1;
  spec.score_activation = problem == "regression"                             ? ScoreActivation::kIdentity
                          : problem == "multi_label_classification" || single ? ScoreActivation::kSigmoid
                                                                              : ScoreActivation::kSoftmax;
}

// Returns null for a text-only model.
const Composite* find_composite(const ConfigReader& config) {
  const auto names = config.texts("architectures");
  if (names.empty()) return nullptr;
  const auto at = std::ranges::find(composites(), names.front(), &Composite::name);
  return at == composites().end() ? nullptr : &*at;
}

// The configuration of the language model: an object of its own, possibly within thinker_config (Qwen Omni),
// or the whole config.json.
ConfigReader text_of(const ConfigReader& config) {
  ConfigReader whole = config.has("thinker_config") ? config.object("thinker_config") : config;
  for (const std::string_view field : {"text_config", "llm_config", "language_config"}) {
    if (whole.has(field)) return whole.object(field);
  }
  return whole;
}

// The placeholder tokens of Gemma 4, with the defaults of transformers.
void read_placeholders(const ConfigReader& config, const ConfigReader& text, ModelSpec& spec) {
  struct Field {
    std::string_view name;
    int32_t id;
  };
  for (const auto& [name, id] :
       {Field{"image_token_id", 258880}, Field{"video_token_id", 258884}, Field{"audio_token_id", 258881}}) {
    const int64_t value = config.integer(name, 0, std::numeric_limits<int32_t>::max(), id);
    if (value < spec.vocab_size) spec.placeholder_ids.push_back(static_cast<int32_t>(value));
  }
  spec.pad_token_id = static_cast<int32_t>(text.integer("pad_token_id", 0, spec.vocab_size - 1, 0));
}

std::string supported_names() {
  std::vector<std::string> names;
  for (const auto& row : architectures()) names.emplace_back(row.name);
  for (const auto& row : composites()) names.emplace_back(row.name);
  return join(names, ", ");
}

// The rest of a longer name is neither compared with the supported names nor part of a message.
constexpr size_t kMaxNameBytes = 200;

// `member`: Architecture::name or Architecture::model_type.
[[noreturn]] void refuse(const ConfigReader& config, std::string_view what, std::string_view given,
                         std::string_view Architecture::*member) {
  given = given.substr(0, kMaxNameBytes);
  const auto closest =
      std::min_element(architectures().begin(), architectures().end(), [&](const auto& a, const auto& b) {
        return edit_distance(given, a.*member) < edit_distance(given, b.*member);
      });
  throw Error(cat(config.origin().file, ": ", what, " '", given,
                  "' is not supported; the closest supported one is ", (*closest).*member,
                  ". Supported: ", supported_names()));
}

}  // namespace

std::span<const Architecture> architectures() {
  static const std::vector<Architecture> all = all_architectures();
  return all;
}

const Architecture& find_architecture(const ConfigReader& config) {
  if (const Composite* composite = find_composite(config)) {
    const std::string type = text_of(config).text("model_type", "");
    const auto known = std::ranges::find(architectures(), type, &Architecture::model_type);
    if (known != architectures().end()) return *known;
    return *std::ranges::find(architectures(), composite->text, &Architecture::model_type);
  }
  const auto names = config.texts("architectures");
  const std::string model_type = config.text("model_type", "");
  if (names.empty() && model_type.empty()) config.fail("architectures", "is missing");
  for (const auto& row : architectures()) {
    if (names.empty() ? row.model_type == model_type : row.name == names.front()) return row;
  }
  if (!names.empty()) {
    if (const Architecture* row = find_body(names.front())) return *row;
  }
  if (names.empty()) refuse(config, "model_type", model_type, &Architecture::model_type);
  refuse(config, "architecture", names.front(), &Architecture::name);
}

WeightNames find_weight_names(const ConfigReader& config) {
  WeightNames names = find_architecture(config).weight_names();
  if (find_composite(config) != nullptr) {
    names.prefixes = text_prefixes();
    names.composite = true;
  }
  return names;
}

namespace {

// The names of the fields that nothing read, and of those in objects that nothing read.
void add_names(const std::string& path, const nlohmann::json& value, std::set<std::string>& names) {
  names.insert(path.substr(path.rfind('.') + 1));
  if (!value.is_object()) return;
  for (const auto& [key, inner] : value.items()) add_names(key, inner, names);
}

// The metadata of a GGUF file without effect: those that were not even copied, or only into fields of the
// configuration that the architecture did not read.
std::vector<std::string> unread_metadata(const FieldLog& log, const ConfigReader& config) {
  std::set<std::string> unread;
  for (const FieldLog::Unread& field : log.unread(config.json())) add_names(field.path, *field.value, unread);
  std::vector<std::string> keys = config.origin().unread;
  std::erase_if(keys, [&](const std::string& key) {
    return std::ranges::any_of(config.origin().keys, [&](const auto& copied) {
      return copied.second == key && !unread.contains(copied.first);
    });
  });
  return keys;
}

ModelSpec parse_configuration(const nlohmann::json& fields, ConfigOrigin origin) {
  FieldLog log;
  const ConfigReader config(fields, "", std::move(origin), &log);
  const Architecture& architecture = find_architecture(config);
  const Composite* composite = find_composite(config);
  const ConfigReader text = composite == nullptr ? config : text_of(config);
  ModelSpec spec = architecture.parse(text);
  spec.architecture = composite == nullptr ? architecture.name : composite->name;
  const auto names = config.texts("architectures");
  if (composite == nullptr && !names.empty()) {
    spec.architecture = names.front();
    read_head(config, names.front(), spec);
  }
  if (composite != nullptr) {
    // Fields of the whole model apply if those of the language model are absent.
    const ConfigReader& of_ids = text.has("eos_token_id") ? text : config;
    spec.eos_token_ids = of_ids.token_ids("eos_token_id", spec.vocab_size);
    if (!text.has("tie_word_embeddings") && config.has("tie_word_embeddings"))
      spec.tie_word_embeddings = config.boolean("tie_word_embeddings", false);
  }
  spec.model_type = architecture.model_type;
  if (composite != nullptr && spec.model_type.starts_with("gemma4")) read_placeholders(config, text, spec);
  // Fields around the language model's own configuration are those of other modalities.
  std::string warning = config.has("_gguf")
                            ? unread_warning(config.origin().file, unread_metadata(log, config))
                            : unread_warning(ConfigFile::kModel, "config.json", log, text.json(), text.path(),
                                             architecture.model_type);
  if (!warning.empty()) spec.warnings.push_back(std::move(warning));
  return spec;
}

}  // namespace

ModelSpec parse_model(const nlohmann::json& config) {
  return parse_configuration(config, {});
}

ModelSpec parse_checkpoint(const Checkpoint& checkpoint) {
  return parse_configuration(checkpoint.config(), checkpoint.config_origin());
}

}  // namespace quire
