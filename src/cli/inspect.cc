// quire inspect: what a model is and what it will cost.
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "engine/inspect.h"

namespace quire::cli {
namespace {

using nlohmann::ordered_json;

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
      {"intermediate_size", r.intermediate_size},
      {"num_heads", r.num_heads},
      {"num_kv_heads", r.num_kv_heads},
      {"head_dim", r.head_dim},
      {"vocab_size", r.vocab_size},
      {"max_model_len", r.max_model_len},
      {"tied_embeddings", r.tied_embeddings},
      {"kv_cache_dtype", r.kv_cache_dtype},
      {"kv_bytes_per_token", r.kv_bytes_per_token},
      {"state_bytes_per_sequence", r.state_bytes},
      {"kv_cache_memory", r.kv_memory},
      {"kv_cache_tokens", r.kv_tokens},
      {"full_sequences", r.full_sequences},
      {"tensors", tensors}};
  std::cout << object.dump(2) << "\n";
}

void print_text(const ModelReport& r, bool with_tensors) {
  const auto line = [](std::string_view label, const std::string& value) {
    std::cout << label << std::string(label.size() < 18 ? 18 - label.size() : 1, ' ') << value << "\n";
  };
  line("model", r.name);
  line("architecture", r.architecture);
  line("task", r.task);
  line("parameters", cat(fixed(static_cast<double>(r.num_parameters) / 1e6, 2), " M"));
  line("weights", format_bytes(r.weight_bytes));
  for (const FormatReport& f : r.formats) {
    line("", cat(format_bytes(f.bytes), " in ", f.tensors, " of ", f.name, ", ", fixed(f.bits(), 2),
                 " bits a weight"));
  }
  line("kept as",
       cat(format_bytes(r.weight_memory), r.quantization.empty() ? "" : cat(" in ", r.quantization)));
  line("layers", cat(r.num_layers, " of ", r.hidden_size, " wide, MLP ", r.intermediate_size));
  line("heads", cat(r.num_heads, " query, ", r.num_kv_heads, " key/value, ", r.head_dim, " wide"));
  line("vocabulary", cat(r.vocab_size, r.tied_embeddings ? ", one matrix for input and output" : ""));
  line("context", cat(r.max_model_len, " tokens"));
  line("KV cache", cat(r.kv_bytes_per_token, " bytes a token in ", r.kv_cache_dtype));
  if (r.state_bytes > 0) line("states", cat(format_bytes(r.state_bytes), " a sequence in float32"));
  line("in memory", cat(format_bytes(r.kv_memory), " of KV pool hold ", r.kv_tokens, " tokens, ",
                        r.full_sequences, " sequences of full length"));
  if (!with_tensors) return;
  for (const auto& t : r.tensors)
    std::cout << t.name << "  " << t.dtype << "  " << t.shape << "  " << format_bytes(t.bytes) << "\n";
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "inspect", "What a model is and what it will cost");
  auto config = std::make_shared<EngineConfig>();
  auto json = std::make_shared<bool>(false);
  auto tensors = std::make_shared<bool>(false);
  add_engine_flags(*command, *config);
  command->add_flag("--json", *json, "As a JSON object");
  command->add_flag("--tensors", *tensors, "List every tensor");
  command->callback([=, &exit_code] {
    const ModelReport report = inspect_model(*config);
    if (*json) {
      print_json(report);
    } else {
      print_text(report, *tensors);
    }
    exit_code = 0;
  });
}

}  // namespace quire::cli
