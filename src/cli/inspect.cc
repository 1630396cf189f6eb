// quire inspect: reports a model's architecture, weight formats and memory requirements, or the contents of a
// LoRA adapter.
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/counted.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/inspect_adapter.h"
#include "cli/memory_bar.h"
#include "engine/inspect.h"

namespace quire::cli {
namespace {

using nlohmann::ordered_json;

const char* kind_name(KvGroupKind kind) {
  switch (kind) {
    case KvGroupKind::kFull:
      return "full attention";
    case KvGroupKind::kSlidingWindow:
      return "sliding window";
    case KvGroupKind::kChunked:
      return "chunked attention";
    case KvGroupKind::kState:
      return "recurrent state";
  }
  return "";
}

ordered_json kv_groups(const KvLayout& layout) {
  ordered_json groups = ordered_json::array();
  for (const KvGroupSpec& group : layout.groups)
    groups.push_back({{"kind", kind_name(group.kind)}, {"window", group.window}, {"layers", group.layers}});
  return groups;
}

// One line for all groups of a kind: "5 groups of sliding window 512, 15 layers".
void print_kv_groups(const KvLayout& layout, const auto& line) {
  for (size_t begin = 0; begin < layout.groups.size();) {
    const KvGroupSpec& first = layout.groups[begin];
    size_t end = begin;
    std::set<int32_t> layers;
    for (; end < layout.groups.size() && layout.groups[end].kind == first.kind &&
           layout.groups[end].window == first.window;
         ++end)
      layers.insert(layout.groups[end].layers.begin(), layout.groups[end].layers.end());
    line(begin == 0 ? "KV groups" : "",
         cat(end - begin, " of ", kind_name(first.kind), first.window > 0 ? cat(" ", first.window) : "", ", ",
             layers.size(), layers.size() == 1 ? " layer" : " layers"));
    begin = end;
  }
}

// null = the model has none.
ordered_json size_or_null(int64_t size) {
  return size > 0 ? ordered_json(size) : ordered_json(nullptr);
}

void print_json(const ModelReport& r) {
  ordered_json tensors = ordered_json::array();
  for (const auto& t : r.tensors) {
    tensors.push_back({{"name", t.name}, {"dtype", t.dtype}, {"shape", t.shape}, {"bytes", t.bytes}});
  }
  ordered_json bytes = ordered_json::object();
  ordered_json formats = ordered_json::array();
  for (const FormatReport& f : r.formats) {
    bytes[f.name] = f.bytes;
    formats.push_back({{"name", f.name},
                       {"tensors", f.tensors},
                       {"parameters", f.parameters},
                       {"bytes", f.bytes},
                       {"bits_per_weight", f.bits()}});
  }
  const ordered_json object = {
      {"name", r.name},
      {"architecture", r.architecture},
      {"task", r.task},
      {"num_parameters", r.num_parameters},
      {"weight_bytes", r.weight_bytes},
      {"weight_bytes_by_dtype", bytes},
      {"formats", formats},
      {"quantization",
       r.quantization.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(r.quantization)},
      {"weight_memory", r.weight_memory},
      {"num_layers", r.num_layers},
      {"hidden_size", r.hidden_size},
      {"intermediate_size", size_or_null(r.intermediate_size)},
      {"num_heads", size_or_null(r.num_heads)},
      {"num_kv_heads", size_or_null(r.num_kv_heads)},
      {"head_dim", size_or_null(r.head_dim)},
      {"vocab_size", r.vocab_size},
      {"max_model_len", r.max_model_len},
      {"tied_embeddings", r.tied_embeddings},
      {"kv_cache_dtype", r.kv_cache_dtype},
      {"kv_bytes_per_token", r.kv_bytes_per_token},
      {"kv_bytes_per_old_token", r.kv_bytes_per_old_token},
      {"kv_bytes_per_sequence", r.kv_bytes_per_sequence},
      {"kv_block_size", r.kv_layout.block_size},
      {"kv_bytes_per_block", r.kv_layout.bytes_per_block},
      {"kv_groups", kv_groups(r.kv_layout)},
      {"state_bytes_per_sequence", r.state_bytes},
      {"kv_cache_memory", r.kv_memory},
      {"kv_cache_tokens", size_or_null(r.kv_bytes_per_token > 0 && !r.is_encoder ? r.kv_tokens : 0)},
      {"full_sequences", size_or_null(r.is_encoder ? 0 : r.full_sequences)},
      {"free_memory", r.free_memory},
      {"tensors", tensors}};
  std::cout << object.dump(2) << "\n";
}

// Lines about the KV cache of a model that keeps one.
void print_kv_cache(const ModelReport& r, const auto& line) {
  const bool has_windows = r.kv_bytes_per_old_token < r.kv_bytes_per_token;
  if (r.kv_bytes_per_token > 0)
    line("KV cache", cat(r.kv_bytes_per_token, " bytes per token in ", r.kv_cache_dtype,
                         has_windows ? cat(", ", r.kv_bytes_per_old_token, " past all windows") : ""));
  line("KV blocks", cat(r.kv_layout.block_size, " tokens, ", format_bytes(r.kv_layout.bytes_per_block)));
  print_kv_groups(r.kv_layout, line);
  if (r.state_bytes > 0)
    line("recurrent state", cat(format_bytes(r.state_bytes), " per sequence in float32"));
  // Without keys and values, sequences have any length.
  line("capacity",
       cat(r.kv_bytes_per_token > 0 ? cat("a sequence of ", r.kv_tokens, " tokens, or ") : std::string(),
           counted(r.full_sequences, "sequence"), " of ", r.max_model_len, " tokens at ",
           format_bytes(r.kv_bytes_per_sequence), ", in ", format_bytes(r.kv_memory), " of KV cache"));
}

void print_text(const ModelReport& r, bool with_tensors) {
  const auto line = [](std::string_view label, const std::string& value) {
    std::cout << label << std::string(label.size() < 18 ? 18 - label.size() : 1, ' ') << value << "\n";
  };
  line("model", r.name);
  line("architecture", r.architecture);
  line("task", r.task);
  if (r.tensors.empty()) {
    line("weights", "none (the directory has a config.json only)");
  } else {
    line("parameters", cat(fixed(static_cast<double>(r.num_parameters) / 1e6, 2), " M"));
    line("weights", format_bytes(r.weight_bytes));
  }
  for (const FormatReport& f : r.formats) {
    line("", cat(format_bytes(f.bytes), " in ", f.tensors, " of ", f.name, ", ", fixed(f.bits(), 2),
                 " bits per weight"));
  }
  if (!r.tensors.empty()) {
    line("in memory",
         cat(format_bytes(r.weight_memory), r.quantization.empty() ? "" : cat(" in ", r.quantization)));
  }
  line("layers",
       cat(r.num_layers, ", hidden size ", r.hidden_size,
           r.intermediate_size > 0 ? cat(", intermediate size ", r.intermediate_size) : std::string()));
  if (r.num_heads > 0)
    line("heads", cat(r.num_heads, " query, ", r.num_kv_heads, " key/value, head size ", r.head_dim));
  line("vocabulary", cat(r.vocab_size, " tokens", r.tied_embeddings ? ", tied embeddings" : ""));
  line("context", cat(r.max_model_len, " tokens"));
  if (!r.is_encoder) print_kv_cache(r, line);
  if (!r.tensors.empty()) {
    line("memory", memory_bar(r.weight_memory, r.is_encoder ? 0 : r.kv_memory, r.free_memory));
    line("", memory_legend(r.weight_memory, r.is_encoder ? 0 : r.kv_memory, r.free_memory));
  }
  if (!with_tensors) return;
  for (const auto& t : r.tensors)
    std::cout << t.name << "  " << t.dtype << "  " << t.shape << "  " << format_bytes(t.bytes) << "\n";
}

// `base` has the model that --model names, and how to run it; its model is empty without the flag.
void inspect_adapter_for(const std::string& path, const EngineConfig& base, bool json) {
  if (!base.model.empty()) fetch_with_progress(base);
  const AdapterReport report = inspect_adapter(path, base.model.empty() ? nullptr : &base);
  json ? print_adapter_json(report) : print_adapter(report);
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  CLI::App* command =
      add_command(app, "inspect", "Report a model's architecture, weight formats and memory requirements");
  auto config = std::make_shared<EngineConfig>();
  auto json = std::make_shared<bool>(false);
  auto tensors = std::make_shared<bool>(false);
  auto base = std::make_shared<std::string>();
  add_engine_flags(*command, *config);
  command->add_flag("--json", *json, "Print a JSON object");
  command->add_flag("--tensors", *tensors, "List every tensor");
  command
      ->add_option("--model", *base,
                   "Base model of a LoRA adapter, if MODEL is a directory with adapter_config.json or a GGUF "
                   "file of an "
                   "adapter: shows what the adapter changes in it")
      ->type_name("MODEL");
  command->callback([=, &exit_code] {
    exit_code = 0;
    if (is_adapter(config->model)) {
      const std::string adapter = std::exchange(config->model, *base);
      return inspect_adapter_for(adapter, *config, *json);
    }
    if (config->model.empty()) config->model = *base;
    fetch_with_progress(*config);
    const ModelReport report = inspect_model(*config);
    if (*json) {
      print_json(report);
    } else {
      print_text(report, *tensors);
    }
  });
}

}  // namespace quire::cli
