#include "models/pooling_files.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"
#include "io/config_fields.h"
#include "io/config_reader.h"
#include "io/json_file.h"
#include "models/arch/arch.h"
#include "models/tied_head.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr const char* kWholeFile = "config_sentence_transformers.json";

struct PoolName {
  std::string_view name;  // name in the list `pooling_mode`
  std::string_view flag;  // older boolean field
  PoolKind kind;
};
// In the order in which their vectors are concatenated.
constexpr std::array<PoolName, 6> kPoolNames = {{
    {"cls", "pooling_mode_cls_token", PoolKind::kFirst},
    {"max", "pooling_mode_max_tokens", PoolKind::kMax},
    {"mean", "pooling_mode_mean_tokens", PoolKind::kMean},
    {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", PoolKind::kMeanSqrt},
    {"weightedmean", "pooling_mode_weightedmean_tokens", PoolKind::kWeightedMean},
    {"lasttoken", "pooling_mode_lasttoken", PoolKind::kLast},
}};

// A JSON file of the model; nullopt if it does not exist. Throws Error if it is invalid.
std::optional<json> json_file(const Checkpoint& checkpoint, const std::string& name) {
  const auto text = checkpoint.file(name);
  if (!text) return std::nullopt;
  return parse_json(*text, (checkpoint.path() / name).string());
}

// The fields of a JSON file of the model; none if it does not exist.
class FileFields {
 public:
  FileFields(const Checkpoint& checkpoint, const std::string& name)
      : object_(json_file(checkpoint, name).value_or(json::object())),
        reader_(object_, "", ConfigOrigin{(checkpoint.path() / name).string()}, &log_) {}
  FileFields(const FileFields&) = delete;  // the reader refers to the object
  FileFields& operator=(const FileFields&) = delete;
  const ConfigReader& operator*() const { return reader_; }
  const ConfigReader* operator->() const { return &reader_; }
  // Names the fields that were not read. name: of the file, in the message.
  void report(const std::string& name, std::vector<std::string>& warnings) const {
    std::string warning = unread_warning(ConfigFile::kSentenceTransformers, name, log_, object_);
    if (!warning.empty()) warnings.push_back(std::move(warning));
  }

 private:
  json object_;
  FieldLog log_;
  ConfigReader reader_;
};

std::string_view last_part(std::string_view dotted) {
  const size_t dot = dotted.rfind('.');
  return dot == std::string_view::npos ? dotted : dotted.substr(dot + 1);
}

std::vector<PoolKind> read_pooling(const ConfigReader& fields) {
  if (!fields.boolean("include_prompt", true))
    fields.fail("include_prompt", "false (texts pooled without their prompts) is not supported");
  std::vector<PoolKind> kinds;
  const json* mode = fields.find("pooling_mode");
  if (mode == nullptr) {
    for (const PoolName& row : kPoolNames) {
      if (fields.boolean(row.flag, false)) kinds.push_back(row.kind);
    }
    if (kinds.empty()) kinds = {PoolKind::kMean};
    return kinds;
  }
  const auto add = [&](const json& name) {
    const auto row = std::ranges::find_if(kPoolNames, [&](const PoolName& r) { return name == r.name; });
    if (row == kPoolNames.end()) fields.fail("pooling_mode", cat("is ", name.dump(), ", which is not known"));
    kinds.push_back(row->kind);
  };
  if (mode->is_array() && !mode->empty() && mode->size() <= kPoolNames.size()) {
    for (const json& name : *mode) add(name);
  } else {
    add(*mode);
  }
  return kinds;
}

DenseModule read_dense(const Checkpoint& checkpoint, const std::string& folder,
                       std::vector<std::string>& warnings) {
  const FileFields file(checkpoint, folder + "/config.json");
  const ConfigReader& fields = *file;
  DenseModule dense;
  dense.in = fields.integer("in_features", 1, kMaxSize);
  dense.out = fields.integer("out_features", 1, kMaxSize);
  dense.bias = fields.boolean("bias", true);
  if (fields.boolean("use_residual", false)) fields.fail("use_residual", "is not supported");
  const std::string activation = fields.text("activation_function", "torch.nn.modules.activation.Tanh");
  const std::string_view name = last_part(activation);
  if (name == "Tanh") {
    dense.tanh = true;
  } else if (name == "ReLU") {
    dense.activation = Activation::kRelu;
  } else if (name == "GELU") {
    dense.activation = Activation::kGelu;
  } else if (name == "SiLU") {
    dense.activation = Activation::kSilu;
  } else if (name != "Identity") {
    fields.fail("activation_function",
                cat("is '", activation, "'; supported are Identity, Tanh, ReLU, GELU and SiLU of torch.nn"));
  }
  dense.file = (checkpoint.path() / folder / "model.safetensors").string();
  auto weights = checkpoint.file(folder + "/model.safetensors");
  if (!weights) throw Error(cat(dense.file, ": does not exist, but modules.json names its folder"));
  dense.weights = std::move(*weights);
  file.report(folder + "/config.json", warnings);
  return dense;
}

// The tokens of a LogitScore module: a reranker whose score is the difference of their logits.
std::array<int32_t, 2> read_score_tokens(const ConfigReader& fields) {
  constexpr int64_t kHighest = kMaxSize;
  return {static_cast<int32_t>(fields.integer("true_token_id", 0, kHighest)),
          static_cast<int32_t>(fields.integer("false_token_id", 0, kHighest, -1))};
}

ScoreActivation activation_named(std::string_view dotted, ScoreActivation fallback) {
  const std::string_view name = last_part(dotted);
  if (name == "Identity") return ScoreActivation::kIdentity;
  if (name == "Sigmoid") return ScoreActivation::kSigmoid;
  if (name == "Softmax") return ScoreActivation::kSoftmax;
  return fallback;
}

}  // namespace

Runner runner_from_name(const std::string& name) {
  if (name == "auto") return Runner::kAuto;
  if (name == "generate") return Runner::kGenerate;
  if (name == "pooling") return Runner::kPooling;
  throw Error(cat("--runner: '", name, "' is not known; use auto, generate or pooling"));
}

std::optional<PoolingFiles> read_pooling_files(const Checkpoint& checkpoint) {
  const auto modules = json_file(checkpoint, "modules.json");
  if (!modules) return std::nullopt;
  const std::string place = (checkpoint.path() / "modules.json").string();
  if (!modules->is_array()) throw Error(cat(place, ": not a list of modules"));
  PoolingFiles out;
  for (const json& entry : *modules) {
    const auto text = [&](const char* field) {
      const auto it = entry.is_object() ? entry.find(field) : entry.end();
      if (!entry.is_object() || it == entry.end() || !it->is_string())
        throw Error(cat(place, ": an entry has no string '", field, "'"));
      return it->get<std::string>();
    };
    const std::string type = text("type");
    const std::string folder = text("path");
    // The folder of a module must be inside that of the model.
    if (folder.starts_with('/') || folder.find("..") != std::string::npos)
      throw Error(cat(place, ": names the folder '", folder, "', which is not within the model's"));
    const std::string_view name = last_part(type);
    const std::string inside = folder.empty() ? "" : folder + "/";
    if (out.normalize) throw Error(cat(place, ": ", type, " after Normalize is not supported"));
    if (name == "Transformer") {
      if (!folder.empty())
        throw Error(cat(place, ": the model is in the folder '", folder, "'; use that folder instead"));
      for (const char* file : {"sentence_bert_config.json", "sentence_roberta_config.json",
                               "sentence_xlm-roberta_config.json"}) {
        const FileFields fields(checkpoint, file);
        const int64_t length = fields->integer("max_seq_length", 1, kMaxPositions, 0);
        if (length > 0) out.max_length = length;
        fields->boolean("do_lower_case", false);  // followed by the tokenizer
        fields.report(file, out.warnings);
      }
    } else if (name == "Pooling") {
      const FileFields fields(checkpoint, inside + "config.json");
      out.pooling = read_pooling(*fields);
      fields.report(inside + "config.json", out.warnings);
    } else if (name == "Dense") {
      out.dense.push_back(read_dense(checkpoint, folder, out.warnings));
    } else if (name == "Normalize") {
      out.normalize = true;
    } else if (name == "LogitScore") {
      const FileFields fields(checkpoint, inside + "config.json");
      out.score_tokens = read_score_tokens(*fields);
      fields.report(inside + "config.json", out.warnings);
    } else if (name != "Dropout") {
      throw Error(
          cat(place, ": the module ", type,
              " is not supported; supported are Transformer, Pooling, Dense, Normalize and LogitScore"));
    }
    FieldLog log;
    for (const char* field : {"type", "path"}) log.add(field);
    std::string warning = unread_warning(ConfigFile::kSentenceTransformers, "modules.json", log, entry);
    if (!warning.empty()) out.warnings.push_back(std::move(warning));
  }
  const FileFields whole(checkpoint, kWholeFile);
  for (const char* field : {"prompts", "default_prompt_name", "activation_fn"}) (void)whole->has(field);
  whole.report(kWholeFile, out.warnings);
  return out;
}

PromptFiles read_prompts(const Checkpoint& checkpoint) {
  PromptFiles out;
  const FileFields file(checkpoint, kWholeFile);
  const ConfigReader& fields = *file;
  if (const json* prompts = fields.find("prompts")) {
    if (!prompts->is_object()) fields.fail("prompts", "must be an object");
    for (const auto& [name, text] : prompts->items()) {
      if (!text.is_string()) fields.fail("prompts", cat("has no text for '", name, "'"));
      out.prompts[name] = text.get<std::string>();
    }
  }
  out.default_name = fields.text("default_prompt_name", "");
  if (!out.default_name.empty() && !out.prompts.contains(out.default_name))
    fields.fail("default_prompt_name", cat("is '", out.default_name, "', which is none of the prompts"));
  return out;
}

namespace {

// Follows the files of sentence-transformers, if there are any.
void read_task(const Checkpoint& checkpoint, Runner runner, ModelSpec& spec) {
  const auto files = read_pooling_files(checkpoint);
  const bool generates = spec.task == ModelTask::kGenerate;
  if (runner == Runner::kGenerate) {
    if (!generates)
      throw Error(cat("--runner generate: ", spec.architecture, " gives ",
                      spec.task == ModelTask::kEmbed ? "embeddings" : "scores", ", no text"));
    return;
  }
  if (generates && !files && runner == Runner::kAuto) return;
  if (generates) spec.task = ModelTask::kEmbed;
  if (files) {
    spec.warnings.insert(spec.warnings.end(), files->warnings.begin(), files->warnings.end());
    if (spec.task == ModelTask::kEmbed && !files->pooling.empty()) {
      spec.pooling = files->pooling;
      spec.normalize = files->normalize;
    }
    if (files->max_length > 0) spec.max_model_len = std::min(spec.max_model_len, files->max_length);
    if (files->score_tokens && !spec.classifier) {
      for (const int32_t token : *files->score_tokens) {
        if (token >= spec.vocab_size)
          throw Error(cat("LogitScore names the token ", token, ", the vocabulary has ", spec.vocab_size));
      }
      spec.task = ModelTask::kScore;
      spec.score_tokens = *files->score_tokens;
      spec.score_activation = ScoreActivation::kSigmoid;
      spec.labels = {"LABEL_0"};
    }
  }
  if (spec.task == ModelTask::kScore) {
    const std::string of_files = FileFields(checkpoint, kWholeFile)->text("activation_fn", "");
    const ConfigReader config(checkpoint.config(), "", checkpoint.config_origin());
    const std::string older = config.text("sbert_ce_default_activation_function", "");
    const std::string inner = config.object("sentence_transformers").text("activation_fn", older);
    spec.score_activation = activation_named(of_files.empty() ? inner : of_files, spec.score_activation);
  }
}

}  // namespace

ModelSpec read_spec(const Checkpoint& checkpoint, Runner runner) {
  ModelSpec spec = parse_checkpoint(checkpoint);
  for (std::string& warning : checkpoint.warnings()) spec.warnings.push_back(std::move(warning));
  read_task(checkpoint, runner, spec);
  use_own_head(checkpoint, spec);
  return spec;
}

}  // namespace quire
