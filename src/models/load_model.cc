// Model::load and Model::planned_weight_bytes: the passes over the model's description.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fingerprint.h"
#include "base/log.h"
#include "base/strings.h"
#include "models/decoder/decoder.h"
#include "models/expected_tensors.h"
#include "models/matrix_formats.h"
#include "models/model.h"
#include "models/model_traversal.h"
#include "models/param_list.h"
#include "models/state_layout.h"
#include "models/tensor_resolver.h"
#include "models/weight_loader.h"
#include "quant/codec.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// A checkpoint whose tensors have been checked against the model.
struct CheckedSource {
  std::optional<PoolingFiles> files;
  ModelSpec spec;
  TensorResolver resolver;
  std::vector<ListedParam> params;
  ExpectedTensors expected;

  CheckedSource(const Checkpoint& checkpoint, const ModelOptions& options)
      : files(read_pooling_files(checkpoint)),
        spec(options.spec ? *options.spec : read_spec(checkpoint, options.runner)),
        resolver(spec, checkpoint),
        params(list_params({spec, files_or_null()}, resolver)),
        expected(spec, resolver, params) {
    if (options.dtype && !is_storage_dtype(*options.dtype)) {
      throw Error(cat("weights cannot be kept as ", dtype_name(*options.dtype),
                      "; float32, bfloat16 and float16 are supported"));
    }
    expected.check();
  }
  CheckedSource(const CheckedSource&) = delete;  // the resolver refers to the spec
  CheckedSource& operator=(const CheckedSource&) = delete;

  const PoolingFiles* files_or_null() const { return files ? &*files : nullptr; }
};

// Identifies the model and the options of packing. There is one cache file per fingerprint.
std::string options_fingerprint(const fs::path& model, const OpTable& ops, const ModelOptions& options) {
  Fingerprint all;
  all.add(model.string());
  all.add(ops.name);
  all.add(options.dtype ? dtype_name(*options.dtype) : "as stored");
  all.add(options.quantization ? options.quantization->name : "none");
  all.add(static_cast<int64_t>(options.runner));
  all.add(static_cast<int64_t>(options.part.ends));
  all.add(int64_t{options.part.first_layer});
  all.add(int64_t{options.part.end_layer});
  return all.text();
}

// Identifies the packed bytes: the options, the state of the weight files and the build of this program. The
// activation type does not matter, because it does not change packed weights.
std::string weights_fingerprint(const std::string& of_options, const Checkpoint& checkpoint,
                                const std::string& build) {
  Fingerprint all;
  all.add(of_options);
  all.add(int64_t{kPackedVersion});
  all.add(build);
  all.add(checkpoint.config().dump());
  all.add(checkpoint.file("quantize_config.json").value_or(""));
  for (const FileIdentity& file : checkpoint.weight_files()) {
    all.add(file.name);
    all.add(file.bytes);
    all.add(file.inode);
    all.add(file.modified_ns);
  }
  return all.text();
}

// The model's name, as part of the name of its cache file.
std::string plain_name(const fs::path& path) {
  const std::string last = path.filename().empty() ? path.parent_path().filename() : path.filename();
  std::string name = last.substr(0, 64);
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '_' && c != '.'; }, '_');
  return name;
}

// Returns null if packed weights are not cached.
std::unique_ptr<WeightCache> open_weight_cache(const Checkpoint& checkpoint, const OpTable& ops,
                                               const ModelOptions& options) {
  const WeightCacheOptions& own = options.weight_cache;
  if (own.directory.empty()) return nullptr;
  if (options.device != nullptr && !options.device->shares_host_memory()) {
    log_warning(
        "--weight-cache: the weights are packed at each start, because they leave the memory of the host");
    return nullptr;
  }
  if (checkpoint.weight_files().empty()) {
    log_warning("--weight-cache: ", checkpoint.path().string(),
                " is not in a file that identifies it; the weights are packed at each start");
    return nullptr;
  }
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(checkpoint.path(), error);
  const fs::path& model = error ? checkpoint.path() : canonical;
  const std::string of_options = options_fingerprint(model, ops, options);
  const std::string file = cat(plain_name(model), "-", of_options.substr(0, 16), ".weights");
  return std::make_unique<WeightCache>(own.directory / file,
                                       weights_fingerprint(of_options, checkpoint, own.build));
}

}  // namespace

int64_t Model::planned_weight_bytes(Checkpoint& checkpoint, const ModelOptions& options) {
  const CheckedSource source(checkpoint, options);
  const MatrixFormats formats(source.resolver, options);
  int64_t bytes = 0;
  for (const ListedParam& param : source.params) bytes += formats.weight_bytes(param);
  return bytes;
}

std::unique_ptr<Model> Model::load(Checkpoint& checkpoint, const OpTable& ops, const OpContext& ctx,
                                   const ModelOptions& options, const LoadProgress& progress) {
  CheckedSource source(checkpoint, options);
  const ModelSpec& spec = source.spec;
  const int64_t max_len = options.max_model_len > 0 ? options.max_model_len : spec.max_model_len;
  if (spec.position == PositionKind::kLearned && max_len > spec.max_position_embeddings) {
    throw Error(cat("the model has positions for ", spec.max_position_embeddings, " tokens, not for ",
                    max_len, " (--max-model-len)"));
  }
  std::unique_ptr<Model> model(new Model());
  Decoder& decoder = *model->decoder_;
  model->ops_ = &ops;
  model->device_ = options.device;
  model->weight_cache_ = open_weight_cache(checkpoint, ops, options);
  decoder.max_model_len = max_len;
  decoder.tables.ropes.resize(spec.ropes.size());

  WeightLoader loader(source.resolver, source.expected, checkpoint, ops, ctx, options, progress,
                      model->weight_cache_.get());
  const ModelToDescribe described{spec, source.files_or_null(), options.part};
  ModelTraversal(described, loader, decoder).visit();
  loader.wait_for_uploads();

  model->weight_bytes_ = loader.weight_bytes();
  model->num_parameters_ = loader.num_parameters();
  model->weight_dtype_ = loader.weight_dtype();
  model->state_layers_ = state_bytes(spec) > 0;
  if (options.quantization) model->quantization_ = options.quantization->name;
  if (model->weight_cache_) model->weight_cache_->finish();
  decoder.spec = std::move(source.spec);
  number_step_tables(decoder);
  if (!options.defer_rope_tables) model->make_rope_tables(ctx, max_len);
  return model;
}

}  // namespace quire
