// Flags that several benchmarks share.
#include "cli/bench/bench.h"
#include "cli/bench/dataset.h"
#include "cli/bench/offline.h"

namespace quire::cli {

void add_offline_flags(CLI::App& command, OfflineSampling& sampling, std::string& json) {
  const std::string group = "Measurement";
  command
      .add_flag("--ignore-eos,!--no-ignore-eos", sampling.ignore_eos,
                "Continue after the model's end tokens (default: on)")
      ->group(group);
  command.add_option("--temperature", sampling.temperature, "Sampling temperature; 0 = greedy")->group(group);
  command
      .add_option("--top-p", sampling.top_p,
                  "Sample from the most probable tokens with this cumulative probability")
      ->group(group);
  command
      .add_option("--json", json, "Write the results as one JSON object; - = to stdout instead of the table")
      ->type_name("FILE")
      ->group(group);
}

void add_dataset_flags(CLI::App& command, RandomLengths& lengths, DatasetOptions& dataset,
                       std::string& file) {
  const std::string group = "Requests";
  const auto positive = CLI::Range(1, 1 << 20);
  command.add_option("--num-prompts", dataset.num_prompts, "Number of requests")
      ->check(CLI::Range(1, 10'000'000))
      ->group(group);
  command.add_option("--input-len", lengths.input_len, "Tokens per random prompt")
      ->check(positive)
      ->group(group);
  command
      .add_option_function<int32_t>(
          "--output-len",
          [&lengths, &dataset](int32_t length) {
            lengths.output_len = length;
            dataset.force_output_len = true;
          },
          "Tokens to generate per request; overrides the lengths in --dataset")
      ->check(positive)
      ->default_str("128")
      ->group(group);
  command
      .add_option("--range-ratio", lengths.range_ratio, "Draw lengths from [len * (1 - r), len * (1 + r)]")
      ->check(CLI::Range(0.0, 1.0))
      ->group(group);
  command
      .add_option("--dataset", file,
                  "ShareGPT JSON, JSON lines of prompts, or a trace (CSV with ContextTokens and "
                  "GeneratedTokens) (default: random token ids)")
      ->type_name("FILE")
      ->group(group);
}

}  // namespace quire::cli
