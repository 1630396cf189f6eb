// Writes what every golden model computes and how it is loaded, one line per model, quantization and
// instruction set: hashes of all logits, bytes, parameter counts and the order of its matrices. Two builds
// that agree in every bit write the same file, so a refactoring is checked with
//   model_snapshot before.txt … model_snapshot after.txt … diff before.txt after.txt
// The models are those of tests/golden: models, quantized, pooling, and both sets as GGUF files.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "base/fingerprint.h"
#include "base/strings.h"
#include "io/checkpoint.h"
#include "io/gguf/gguf_checkpoint.h"
#include "models/linear_modules.h"
#include "models/model.h"
#include "models/state_layout.h"
#include "nn/pooler.h"
#include "ops/reference.h"
#include "unit/models/gguf_goldens.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// One golden model. `open` reads it again for each load, because loading releases pages of the checkpoint.
struct Source {
  std::string name;
  std::function<std::unique_ptr<Checkpoint>()> open;
};

constexpr size_t kDigits = 16;  // digits of a hash that are written

std::string digits(const Fingerprint& fingerprint) {
  return fingerprint.text().substr(0, kDigits);
}

std::vector<Source> all_sources() {
  std::vector<Source> sources;
  for (const std::string set : {"models", "quantized", "pooling"}) {
    for (const std::string& name : test::golden_names(set))
      sources.push_back({cat(set, "/", name), [dir = test::golden_checkpoint(cat(set, "/", name))] {
                           return Checkpoint::open(dir);
                         }});
  }
  for (const std::string set : {"models", "pooling"}) {
    const nlohmann::json goldens = test::gguf_goldens(set);
    for (const auto& [name, golden_model] : goldens.items()) {
      auto file = std::make_shared<std::string>(
          test::make_gguf(golden_model, test::golden_checkpoint(cat(set, "/", name))));
      sources.push_back({cat("gguf/", set, "/", name), [file, name = name] {
                           return gguf_from_memory(std::as_bytes(std::span(*file)), name + ".gguf");
                         }});
    }
  }
  return sources;
}

// Token ids spread over the vocabulary, the same for each build.
std::vector<int32_t> prompt_for(const ModelSpec& spec) {
  constexpr int32_t kLength = 21;
  std::vector<int32_t> tokens;
  const auto limit = static_cast<int32_t>(std::min<int64_t>(spec.vocab_size, 90));
  for (int32_t i = 0; i < kLength; ++i) tokens.push_back((i * 37 + 5) % limit);
  return tokens;
}

void add_rows(Fingerprint& hash, const std::vector<std::vector<float>>& rows) {
  for (const auto& row : rows) hash.add(std::as_bytes(std::span(row)));
}

// The layers of a pooling model over each row of hidden states.
std::vector<std::vector<float>> pooled(const Pooler& pooler, const OpTable& ops,
                                       const std::vector<std::vector<float>>& hidden) {
  Buffer workspace(ops.workspace_bytes(64, 64, 16, 64, 1));
  const OpContext ctx{nullptr, {workspace.data(), workspace.size()}};
  std::vector<std::vector<float>> all;
  for (const auto& row : hidden) {
    std::vector<float> x(static_cast<size_t>(pooler.widest()));
    std::vector<float> scratch(x.size());
    for (size_t i = 0; i < static_cast<size_t>(pooler.pooled_size()); ++i) x[i] = row[i % row.size()];
    const Shape shape{1, pooler.widest()};
    const TensorView out = apply(OpRunner{ops, ctx}, pooler, make_view(x.data(), DType::kF32, shape),
                                 make_view(scratch.data(), DType::kF32, shape));
    all.emplace_back(out.row<float>(0), out.row<float>(0) + pooler.output_size());
  }
  return all;
}

std::string outputs_of(const Model& model, const OpTable& ops) {
  Fingerprint hash;
  const auto prompt = prompt_for(model.spec());
  test::PagedRunner whole(model, ops, nullptr, {});
  if (model.pooler() != nullptr) {
    const auto hidden = whole.append_hidden(prompt);
    add_rows(hash, hidden);
    add_rows(hash, pooled(*model.pooler(), ops, hidden));
    return digits(hash);
  }
  add_rows(hash, whole.append(prompt, static_cast<int64_t>(prompt.size())));
  test::PagedRunner chunked(model, ops, nullptr, {});
  add_rows(hash, chunked.append(prompt, 5));
  return digits(hash);
}

// The matrices that the loader makes, in order, with their labels, shapes and formats.
struct MatrixOrder {
  Fingerprint hash;
  int64_t count = 0;

  void add(std::span<const std::string> tensors, const PackedLinear& matrix) {
    ++count;
    for (const std::string& name : tensors) hash.add(name);
    hash.add(matrix.label);
    hash.add(matrix.n);
    hash.add(matrix.k);
    hash.add(static_cast<int64_t>(matrix.format.dtype));
    hash.add(static_cast<int64_t>(matrix.format.sparse_24));
  }
};

std::string load_and_run(const Source& source, const std::string& quantization, const OpTable& ops) {
  MatrixOrder order;
  ModelOptions options;
  options.quantization = quantization_from_name(quantization);
  options.on_packed = [&](std::span<const std::string> tensors, const PackedLinear& matrix) {
    order.add(tensors, matrix);
  };
  const int64_t planned = Model::planned_weight_bytes(*source.open(), options);
  const test::LoadedModel loaded = test::load_model(source.open(), ops, options);
  const Model& model = *loaded.model;
  return cat("planned ", planned, " loaded ", model.weight_bytes(), " activations ",
             model.activation_bytes(64), " parameters ", model.num_parameters(), " dtype ",
             dtype_name(model.weight_dtype()), " matrices ", order.count, " ", digits(order.hash),
             " outputs ", outputs_of(model, ops));
}

// The modules that `quire quantize` lists, and the bytes that each layer caches. Module lists are sorted,
// because their order has no meaning.
std::string structure_of(const Source& source) {
  const auto checkpoint = source.open();
  const ModelSpec spec = Model::load(*checkpoint, reference_ops(), {}, {}, {})->spec();
  Fingerprint cache;
  for (const LayerSpec& layer : spec.layers) cache.add(kv_bytes_of(layer, DType::kBF16, 16));
  cache.add(state_bytes(spec));
  std::set<std::string> modules;
  for (const LinearModule& module : linear_modules(*checkpoint))
    modules.insert(cat(module.weight, " ", module.name, " ", module.layer, " ", module.expert, " ",
                       module.plain, " ", module.keep_float));
  Fingerprint names;
  for (const std::string& module : modules) names.add(module);
  for (const std::string& module : attention_modules(*checkpoint)) names.add(module);
  for (int32_t layer = 0; layer < spec.num_layers(); ++layer) {
    for (const ScalableInput& input : scalable_inputs(*checkpoint, layer)) {
      for (const std::string& matrix : input.matrices) names.add(matrix);
      names.add(input.source);
      names.add(input.source_bias);
    }
  }
  return cat("modules ", modules.size(), " ", digits(names), " cache ", digits(cache));
}

// An exception is part of the snapshot: a model that cannot be quantized must be refused in the same way.
std::string guarded(const std::function<std::string()>& compute) {
  try {
    return compute();
  } catch (const std::exception& error) {
    return cat("error ", error.what());
  }
}

void write_snapshot(std::ostream& out, std::string_view filter) {
  const std::string_view best = select_cpu_isa().name;
  for (const Source& source : all_sources()) {
    if (source.name.find(filter) == std::string::npos) continue;
    out << source.name << ' ' << guarded([&] { return structure_of(source); }) << '\n';
    for (const std::string quantization : {"auto", "int8", "int4"}) {
      out << source.name << ' ' << quantization << " reference "
          << guarded([&] { return load_and_run(source, quantization, reference_ops()); }) << '\n';
      out << source.name << ' ' << quantization << ' ' << best << ' '
          << guarded([&] { return load_and_run(source, quantization, *select_cpu_isa().table); }) << '\n';
    }
  }
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr
        << "usage: model_snapshot FILE [NAME]   writes FILE for the golden models whose name contains NAME\n";
    return 2;
  }
  std::ofstream out(argv[1]);
  quire::write_snapshot(out, argc == 3 ? argv[2] : "");
  out.close();
  if (!out) {
    std::cerr << "model_snapshot: cannot write " << argv[1] << '\n';
    return 1;
  }
  return 0;
}
