// What of a model comes out of a weight cache, and what a file of it must have been made of.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "base/log.h"
#include "base/strings.h"
#include "models/loader.h"
#include "ops/outliers.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// Which weights of which files, and how they are to be packed: a model has a file for each of these.
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

// And the state of the files and of this program. Activations are no part of it: they meet the same codes.
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

// The model's own name in a file's.
std::string plain_name(const fs::path& path) {
  const std::string last = path.filename().empty() ? path.parent_path().filename() : path.filename();
  std::string name = last.substr(0, 64);
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '_' && c != '.'; }, '_');
  return name;
}

}  // namespace

void ModelLoader::open_weight_cache() {
  const WeightCacheOptions& own = options_.weight_cache;
  if (own.directory.empty()) return;
  if (checkpoint_.weight_files().empty()) {
    log_warning("--weight-cache: ", checkpoint_.path().string(),
                " lies in no file that it could be known by; the weights are packed at each start");
    return;
  }
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(checkpoint_.path(), error);
  const fs::path& model = error ? checkpoint_.path() : canonical;
  const std::string of_options = options_fingerprint(model, ops_, options_);
  const std::string file = cat(plain_name(model), "-", of_options.substr(0, 16), ".weights");
  model_->weight_cache_ = std::make_unique<WeightCache>(
      own.directory / file, weights_fingerprint(of_options, checkpoint_, own.build));
}

Buffer ModelLoader::kept(const std::string& name, int64_t bytes, const std::function<Buffer()>& make) {
  return model_->weight_cache_ ? model_->weight_cache_->next(name, bytes, make) : make();
}

Buffer ModelLoader::kept(const std::string& name, const PackedLinear& matrix,
                         const std::function<Buffer()>& make) {
  return kept(name, ops_.packed_bytes(matrix.format, matrix.n, matrix.k), make);
}

PackedLinear ModelLoader::kept_matrix(std::span<const ExpectedTensor* const> tensors, Role role,
                                      int32_t expert) {
  PackedLinear packed = outline(tensors, role);
  std::vector<std::string> names;
  for (const ExpectedTensor* tensor : tensors) names.push_back(tensor->name);
  std::string name = quire::join(names, "+") + (tensors[0]->stacked ? cat("#", expert) : std::string());
  FloatParts parts;
  if (may_be_pruned(packed.format, packed.k, role)) {
    WeightFormat pruned = packed.format;
    pruned.two_of_four = true;
    const std::string pruned_name = name + " 2:4";
    // The cache knows without a look at the weights.
    std::optional<bool> known;
    if (model_->weight_cache_)
      known = model_->weight_cache_->holds_next(pruned_name, ops_.packed_bytes(pruned, packed.n, packed.k));
    if (!known) parts = float_parts(tensors, expert);
    if (known ? *known : is_pruned(parts.views)) {
      packed.format = pruned;
      name = pruned_name;
    }
  }
  packed.data = kept(name, packed, [&] {
    if (is_coded(packed.format)) return std::move(pack_codes(tensors, expert).data);
    if (parts.views.empty()) parts = float_parts(tensors, expert);
    return std::move(ops_.pack_linear(ctx_, parts.views, packed.format).data);
  });
  if (num_outliers(tensors) > 0) {
    // These few come from the checkpoint at each start.
    std::vector<CodedRows> ordered;
    pack_outliers(coded_parts(tensors, expert, ordered), packed);
  }
  return packed;
}

}  // namespace quire
