#include "quantize/merge_adapter.h"

#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "io/output_file.h"
#include "io/safetensors_writer.h"
#include "lora/load_adapter.h"
#include "models/adapter_targets.h"
#include "models/base_biases.h"
#include "models/pooling_files.h"
#include "models/site_tensors.h"
#include "nn/adapter.h"
#include "quant/codec.h"
#include "quantize/edited_tensor.h"
#include "quantize/low_rank_rows.h"

namespace quire {
namespace {

using Edit = std::function<void(EditedTensor&)>;

// The changes of an adapter, as edits of the tensors that hold the weights. Refers to the adapter.
class Merger {
 public:
  Merger(const Checkpoint& checkpoint, const AdapterWeights& adapter, const ModelToDescribe& model,
         const TensorResolver& resolver)
      : checkpoint_(checkpoint), adapter_(adapter), tensors_(site_tensors(model, resolver)) {
    std::vector<bool> placed(adapter.sites.size());
    for (const SiteTensor& tensor : tensors_) {
      if (tensor.site < static_cast<int32_t>(placed.size())) placed[static_cast<size_t>(tensor.site)] = true;
      add_site(tensor);
    }
    for (const NormTensor& tensor : norm_tensors(model, resolver)) {
      if (const ReplacedNorm* norm = at_site(adapter.norms, tensor.norm)) add_norm(tensor, *norm);
    }
    for (size_t site = 0; site < placed.size(); ++site) {
      if (!placed[site] && adapter.sites[site] != nullptr)
        throw Error(
            "the adapter changes a weight that is computed when the model is loaded; it cannot be merged");
    }
  }

  // Edits by the name that the changed tensor will have, in order.
  const std::map<std::string, std::vector<Edit>, std::less<>>& edits() const { return edits_; }
  // The output embedding that gets a tensor of its own; empty = none.
  const std::string& own_head() const { return own_head_; }
  // The tensor with the values of own_head() before the merge.
  const std::string& shared_head() const { return shared_head_; }

  Buffer merged(ThreadPool& pool, const std::string& name, const std::string& source) const {
    const auto stored = checkpoint_.bytes(source);
    Buffer bytes(stored.size());
    std::memcpy(bytes.data(), stored.data(), stored.size());
    EditedTensor tensor(name, checkpoint_.find(source)->dtype, bytes, pool);
    for (const Edit& edit : edits_.find(name)->second) edit(tensor);
    return bytes;
  }

 private:
  // Whether the adapter changes a tied matrix as an embedding and as an output layer alike.
  bool same_in_both(int32_t site) const {
    const ReplacedMatrix* table = at_site(adapter_.tables, site);
    const ReplacedMatrix* matrix = at_site(adapter_.matrices, site);
    const bool same_matrix =
        table != nullptr && matrix != nullptr ? table->content == matrix->content : table == matrix;
    return same_matrix && adapter_.at(site) == nullptr && !adapter_.embeddings.contains(site) &&
           at_site(adapter_.input_tokens, site) == at_site(adapter_.output_tokens, site);
  }

  void add_site(const SiteTensor& tensor) {
    const std::string& stored = tensor.weight.name;
    if (tensor.own_name.empty()) {
      add_inputs(tensor, stored);
      return add_outputs(tensor, stored);
    }
    // A second copy of the matrix must change with it.
    const bool same = same_in_both(tensor.site) && checkpoint_.find(tensor.own_name) == nullptr;
    const bool inputs = add_inputs(tensor, stored);
    if (same) return;
    add_outputs(tensor, tensor.own_name);
    if (!inputs && !edits_.contains(tensor.own_name)) return;
    own_head_ = tensor.own_name;
    shared_head_ = stored;
  }

  // Adds the edits of an embedding. Returns whether there are any.
  bool add_inputs(const SiteTensor& tensor, const std::string& name) {
    const ReplacedMatrix* table = at_site(adapter_.tables, tensor.site);
    const EmbeddingChange* change = nullptr;
    if (const auto found = adapter_.embeddings.find(tensor.site); found != adapter_.embeddings.end())
      change = found->second.get();
    const TrainedTokens* tokens = at_site(adapter_.input_tokens, tensor.site);
    if (table != nullptr)
      add(tensor, name, [&tensor, values = values_of(*table, tensor)](EditedTensor& edited) {
        edited.replace(tensor, values);
      });
    if (change != nullptr)
      add(tensor, name, [&tensor, change](EditedTensor& edited) { edited.add(tensor, *change); });
    if (tokens != nullptr)
      add(tensor, name, [&tensor, tokens](EditedTensor& edited) { edited.replace(tensor, *tokens); });
    return table != nullptr || change != nullptr || tokens != nullptr;
  }

  // Adds the edits of a linear layer.
  void add_outputs(const SiteTensor& tensor, const std::string& name) {
    if (const ReplacedMatrix* matrix = at_site(adapter_.matrices, tensor.site)) {
      add(tensor, name, [&tensor, values = values_of(*matrix, tensor)](EditedTensor& edited) {
        edited.replace(tensor, values);
      });
      if (!matrix->bias.empty()) {
        check_has_bias(tensor);
        add_edit(tensor.bias->name,
                 [matrix](EditedTensor& edited) { edited.replace_vector(matrix->bias, 0.0F); });
      }
    }
    if (const LowRank* change = adapter_.at(tensor.site)) {
      const auto rows = rows_.try_emplace(tensor.site, *change).first;
      add_low_rank(tensor, name, rows->second);
    }
    if (const TrainedTokens* tokens = at_site(adapter_.output_tokens, tensor.site))
      add(tensor, name, [&tensor, tokens](EditedTensor& edited) { edited.replace(tensor, *tokens); });
  }

  void add_low_rank(const SiteTensor& tensor, const std::string& name, const LowRankRows& rows) {
    const int64_t begin = tensor.out_begin;
    const int64_t end = begin + rows_of_site(tensor);
    // A tensor that several sites use, for example as keys and as values, has one change.
    if (!tensor.source && !changed_.emplace(name, tensor.part).second) return;
    if (rows.changes(begin, end))
      add(tensor, name, [&tensor, &rows](EditedTensor& edited) { edited.add(tensor, rows); });
    bool has_bias = false;
    for (int64_t row = begin; row < end; ++row) has_bias = has_bias || rows.bias(row) != 0.0F;
    if (!has_bias) return;
    check_has_bias(tensor);
    add_edit(tensor.bias->name, [&tensor, &rows](EditedTensor& edited) { edited.add_bias(tensor, rows); });
  }

  void add_norm(const NormTensor& tensor, const ReplacedNorm& norm) {
    const auto replace = [&](const std::string& name, const Buffer& values, float offset) {
      if (values.size() == 0) return;
      add_edit(name, [&values, offset](EditedTensor& edited) {
        edited.replace_vector({values.as<float>(), values.size() / sizeof(float)}, offset);
      });
    };
    replace(tensor.weight.name, norm.weight, tensor.offset);
    if (tensor.bias) replace(tensor.bias->name, norm.bias, 0.0F);
  }

  void add(const SiteTensor& tensor, const std::string& name, Edit edit) {
    check_float(tensor.weight.name);
    edits_[name].push_back(std::move(edit));
  }
  // A tensor of the same name as in the checkpoint.
  void add_edit(const std::string& name, Edit edit) {
    check_float(name);
    edits_[name].push_back(std::move(edit));
  }

  // The rows of the site that the tensor has.
  static int64_t rows_of_site(const SiteTensor& tensor) {
    const int64_t rows = out_features(tensor.weight);
    if (!tensor.source) return rows;
    return tensor.source->transposed ? elements(tensor.weight) / rows : tensor.source->count;
  }
  static std::span<const float> values_of(const ReplacedMatrix& matrix, const SiteTensor& tensor) {
    if (static_cast<int64_t>(matrix.values.size()) == elements(tensor.weight)) return matrix.values;
    throw Error(cat(tensor.weight.name, ": the adapter has been loaded without the values that replace it"));
  }
  static void check_has_bias(const SiteTensor& tensor) {
    if (tensor.bias) return;
    throw Error(cat(tensor.weight.name,
                    ": the adapter adds a bias (lora_bias), and the base has none there; serve the base "
                    "with the adapter"));
  }
  void check_float(const std::string& name) const {
    const TensorInfo& info = *checkpoint_.find(name);
    if (info.quantized || !is_storage_dtype(info.dtype)) {
      throw Error(cat(checkpoint_.path().string(), ": ", name,
                      " is quantized; merge the adapter into the original checkpoint, or serve the base with "
                      "the adapter"));
    }
  }

  const Checkpoint& checkpoint_;
  const AdapterWeights& adapter_;
  std::vector<SiteTensor> tensors_;
  std::map<int32_t, LowRankRows> rows_;                // by site
  std::set<std::pair<std::string, int64_t>> changed_;  // tensors and their parts with a change of low rank
  std::map<std::string, std::vector<Edit>, std::less<>> edits_;
  std::string own_head_;
  std::string shared_head_;
};

// config.json; untied: with an output embedding of its own.
std::string config_text(const Checkpoint& checkpoint, bool untied) {
  std::string text = checkpoint.file("config.json").value_or(checkpoint.config().dump(2) + "\n");
  if (!untied) return text;
  constexpr const char* kTied = "tie_word_embeddings";
  auto config = nlohmann::ordered_json::parse(text);
  config[kTied] = false;
  for (const char* part : {"text_config", "llm_config"}) {
    if (config.contains(part) && config[part].is_object() && config[part].contains(kTied))
      config[part][kTied] = false;
  }
  return config.dump(2) + "\n";
}

}  // namespace

MergeResult merge_weights(Checkpoint& checkpoint, const AdapterWeights& adapter, const MergeOptions& options,
                          ThreadPool& pool) {
  if (checkpoint.config_origin().file != ConfigOrigin().file) {
    throw Error(cat(checkpoint.path().string(),
                    ": adapters are merged into safetensors checkpoints, not into GGUF files"));
  }
  const ModelSpec spec = read_spec(checkpoint, Runner::kAuto);
  const auto files = read_pooling_files(checkpoint);
  const TensorResolver resolver(spec, checkpoint);
  const Merger merger(checkpoint, adapter, {spec, files ? &*files : nullptr}, resolver);

  std::vector<TensorInfo> announced;
  const std::vector<std::string> names = checkpoint.names();
  for (const std::string& name : names) announced.push_back(*checkpoint.find(name));
  const std::string& head = merger.own_head();
  const bool adds_head = !head.empty() && checkpoint.find(head) == nullptr;
  if (adds_head) {
    TensorInfo info = *checkpoint.find(merger.shared_head());
    info.name = head;
    announced.push_back(std::move(info));
  }
  OutputDirectory output(options.output);
  SafetensorsWriter writer(output.working(), std::move(announced));
  write_file(output.working() / "config.json", config_text(checkpoint, !head.empty()));
  write_side_files(output.working(), options.files);

  int64_t done = 0;
  const auto write = [&](const std::string& name, const std::string& source) {
    if (merger.edits().contains(name)) {
      const Buffer merged = merger.merged(pool, name, source);
      writer.write(name, {merged.data(), merged.size()});
    } else {
      writer.write(name, checkpoint.bytes(source));
    }
    done += static_cast<int64_t>(checkpoint.find(source)->bytes);
    checkpoint.release(source);
    if (options.progress)
      options.progress(static_cast<double>(done) / static_cast<double>(writer.total_bytes()));
  };
  if (adds_head) write(head, merger.shared_head());
  for (const std::string& name : names) write(name, name == head ? merger.shared_head() : name);
  writer.finish();
  // Some architectures cannot have an output embedding of their own.
  parse_checkpoint(*Checkpoint::open(output.working()));
  output.finish();
  return {.tensors = static_cast<int64_t>(merger.edits().size()),
          .total_bytes = writer.total_bytes(),
          .own_head = head};
}

MergeResult merge_adapter(Checkpoint& checkpoint, const std::filesystem::path& path,
                          const std::string& base_name, const MergeOptions& options, ThreadPool& pool) {
  const ModelSpec spec = read_spec(checkpoint, Runner::kAuto);
  auto loaded = lora::load_adapter(
      {.name = "", .path = path}, adapter_targets(checkpoint, spec), {.base_name = base_name},
      {.checkpoint = &checkpoint,
       .biases = [&](std::span<const int32_t> sites) { return read_site_biases(checkpoint, spec, sites); },
       .keeps_values = true});
  if (!loaded.ok()) throw Error(loaded.failure().message);
  MergeResult result = merge_weights(checkpoint, *loaded->adapter, options, pool);
  result.modules = static_cast<int64_t>(loaded->info.modules.size());
  result.without_effect = std::move(loaded->info.without_effect);
  result.warnings = std::move(loaded->info.warnings);
  return result;
}

}  // namespace quire
