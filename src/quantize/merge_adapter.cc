#include "quantize/merge_adapter.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "io/output_file.h"
#include "io/safetensors_writer.h"
#include "lora/load_adapter.h"
#include "models/adapter_targets.h"
#include "models/base_biases.h"
#include "models/pooling_files.h"
#include "models/site_tensors.h"
#include "models/stored_values.h"
#include "nn/adapter.h"
#include "quant/codec.h"
#include "quantize/low_rank_rows.h"

namespace quire {
namespace {

// The change of a site to one tensor of the checkpoint.
struct Edit {
  const SiteTensor* at;
  const LowRankRows* rows;
  bool bias;  // the tensor is the site's bias
};

// A tensor of the checkpoint while it is changed.
struct EditedTensor {
  const std::string& name;
  DType dtype;
  Buffer bytes;

  // Adds the edit to a matrix [out, in], or [in, out] if it is transposed.
  void add_to_matrix(ThreadPool& pool, const Edit& edit) {
    const StoredTensor& tensor = edit.at->weight;
    const int64_t rows = out_features(tensor);
    const int64_t columns = elements(tensor) / rows;
    const std::vector<int64_t> order = stored_rows(tensor, rows);
    const int64_t begin = tensor.stacked ? edit.at->part * elements(tensor) : 0;
    const int64_t row_step = tensor.transposed ? 1 : columns;
    const int64_t column_step = tensor.transposed ? rows : 1;
    std::atomic<int64_t> too_large = -1;
    constexpr int64_t kRowsOfARange = 16;
    pool.parallel_for(rows, kRowsOfARange, [&](int64_t first, int64_t end, int) {
      std::vector<float> w(static_cast<size_t>(columns));
      std::vector<float> sum(w.size());
      for (int64_t row = first; row < end; ++row) {
        const int64_t site_row = edit.at->out_begin + row;
        if (!edit.rows->changes(site_row, site_row + 1)) continue;
        const int64_t at = begin + order[static_cast<size_t>(row)] * row_step;
        load_strided_f32(dtype, bytes.data(), at, column_step, columns, w.data());
        edit.rows->add_to(site_row, w, sum);
        for (int64_t k = 0; k < columns; ++k) {
          const int64_t element = at + k * column_step;
          store_f32(dtype, bytes.data(), element, w[static_cast<size_t>(k)]);
          if (!std::isfinite(load_f32(dtype, bytes.data(), element))) too_large = row;
        }
      }
    });
    if (too_large >= 0) refuse(too_large);
  }

  void add_to_bias(const Edit& edit) {
    const StoredTensor& tensor = *edit.at->bias;
    const int64_t count = elements(tensor);
    const std::vector<int64_t> order = stored_rows(tensor, count);
    const int64_t begin = tensor.stacked ? edit.at->part * count : 0;
    for (int64_t row = 0; row < count; ++row) {
      const int64_t at = begin + order[static_cast<size_t>(row)];
      const float sum = load_f32(dtype, bytes.data(), at) + edit.rows->bias(edit.at->out_begin + row);
      store_f32(dtype, bytes.data(), at, sum);
      if (!std::isfinite(load_f32(dtype, bytes.data(), at))) refuse(row);
    }
  }

  [[noreturn]] void refuse(int64_t row) const {
    throw Error(cat(name, ": a sum in row ", row, " is not finite in ", dtype_name(dtype),
                    "; the base was not "
                    "merged"));
  }
};

// The changes of an adapter, by the tensors that hold the weights.
class Merger {
 public:
  Merger(const Checkpoint& checkpoint, const AdapterWeights& adapter, const ModelToDescribe& model,
         const TensorResolver& resolver)
      : checkpoint_(checkpoint), tensors_(site_tensors(model, resolver)) {
    if (!adapter.embeddings.empty() || !adapter.matrices.empty() || !adapter.tables.empty() ||
        !adapter.input_tokens.empty() || !adapter.output_tokens.empty() || !adapter.norms.empty()) {
      throw Error(
          "adapters on embeddings, saved modules, trained tokens and trained biases of norms cannot be "
          "merged "
          "yet; serve the base with the adapter");
    }
    std::vector<bool> placed(adapter.sites.size());
    for (const SiteTensor& tensor : tensors_) {
      const LowRank* change = adapter.at(tensor.site);
      if (change == nullptr) continue;
      placed[static_cast<size_t>(tensor.site)] = true;
      const auto rows = rows_.try_emplace(tensor.site, *change).first;
      add(tensor, rows->second);
    }
    for (size_t site = 0; site < placed.size(); ++site) {
      if (!placed[site] && adapter.sites[site] != nullptr)
        throw Error(
            "the adapter changes a weight that is computed when the model is loaded; it cannot be merged");
    }
  }

  // Changed tensors by the name that they will have.
  const std::map<std::string, std::vector<Edit>, std::less<>>& edits() const { return edits_; }
  // The output embedding that gets a tensor of its own; empty = none.
  const std::string& own_head() const { return own_head_; }
  // The tensor with the values of own_head() before the merge.
  const std::string& shared_head() const { return shared_head_; }

  Buffer merged(ThreadPool& pool, const std::string& name, const std::string& source) const {
    const auto stored = checkpoint_.bytes(source);
    EditedTensor tensor{name, checkpoint_.find(source)->dtype, Buffer(stored.size())};
    std::memcpy(tensor.bytes.data(), stored.data(), stored.size());
    for (const Edit& edit : edits_.find(name)->second) {
      if (edit.bias) {
        tensor.add_to_bias(edit);
      } else {
        tensor.add_to_matrix(pool, edit);
      }
    }
    return std::move(tensor.bytes);
  }

 private:
  void add(const SiteTensor& tensor, const LowRankRows& rows) {
    const int64_t begin = tensor.out_begin;
    const int64_t end = begin + out_features(tensor.weight);
    if (rows.changes(begin, end)) {
      check_float(tensor.weight.name);
      std::string name = tensor.weight.name;
      if (!tensor.own_name.empty()) {
        own_head_ = tensor.own_name;
        shared_head_ = std::exchange(name, tensor.own_name);
      }
      add({&tensor, &rows, false}, name);
    }
    bool has_bias = false;
    for (int64_t row = begin; row < end; ++row) has_bias = has_bias || rows.bias(row) != 0.0F;
    if (!has_bias) return;
    if (!tensor.bias) {
      throw Error(cat(tensor.weight.name,
                      ": the adapter adds a bias (lora_bias), and the base has none there; serve the base "
                      "with the adapter"));
    }
    check_float(tensor.bias->name);
    add({&tensor, &rows, true}, tensor.bias->name);
  }
  // A tensor that several sites use, for example as keys and as values, has one change.
  void add(const Edit& edit, const std::string& name) {
    std::vector<Edit>& edits = edits_[name];
    const auto same = [&](const Edit& other) { return other.at->part == edit.at->part; };
    if (std::ranges::none_of(edits, same)) edits.push_back(edit);
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
  std::vector<SiteTensor> tensors_;
  std::map<int32_t, LowRankRows> rows_;  // by site
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
       .biases = [&](std::span<const int32_t> sites) { return read_site_biases(checkpoint, spec, sites); }});
  if (!loaded.ok()) throw Error(loaded.failure().message);
  MergeResult result = merge_weights(checkpoint, *loaded->adapter, options, pool);
  result.modules = static_cast<int64_t>(loaded->info.modules.size());
  result.without_effect = std::move(loaded->info.without_effect);
  result.warnings = std::move(loaded->info.warnings);
  return result;
}

}  // namespace quire
