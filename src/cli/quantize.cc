// quire quantize: writes a quantized checkpoint that other engines can load too.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/perplexity.h"
#include "cli/progress.h"
#include "cli/text_input.h"
#include "engine/model_source.h"
#include "quantize/quantize_gguf.h"
#include "quantize/quantize_model.h"
#include "text/tokenizer/gguf_export.h"
#include "text/tokenizer/tokenizer.h"

namespace quire::cli {
namespace {

struct QuantizeFlags {
  std::string model;
  std::string revision;
  std::string output;
  std::string format;
  TargetOptions target;
  Method method = Method::kNearest;
  GptqOptions gptq;
  float smooth_strength = 0.5F;
  bool kv_scales = false;
  std::string text;
  int64_t samples = 128;
  int64_t sample_len = 512;
  std::string eval_text;
  int32_t window = 0;
  int threads = 0;
};

const std::map<std::string, Method>& methods() {
  static const std::map<std::string, Method> table = {{"rtn", Method::kNearest},
                                                      {"gptq", Method::kGptq},
                                                      {"awq", Method::kAwq},
                                                      {"smoothquant", Method::kSmoothQuant},
                                                      {"imatrix", Method::kImportance}};
  return table;
}

// Returns at most `samples` sequences of sample_len tokens, spread evenly over the calibration text.
std::vector<std::vector<int32_t>> calibration_of(const QuantizeFlags& flags, const ModelSource& source,
                                                 const Checkpoint& checkpoint) {
  if (flags.method == Method::kNearest && !flags.kv_scales) return {};
  if (flags.text.empty())
    throw Error(
        cat(flags.kv_scales ? "--kv-scales" : "--method", " needs a calibration text; use --text FILE"));
  const std::string text = read_text(flags.text);
  const auto tokenizer = source.open_tokenizer();
  if (tokenizer == nullptr)
    throw Error(cat(source.name(), ": has no tokenizer to encode the calibration text"));
  const std::vector<TokenId> ids = tokenizer->encode(text, false);
  const int64_t longest = longest_sequence(checkpoint);
  const auto bos = tokenizer->encode("", true);
  const auto size = static_cast<size_t>(std::min(flags.sample_len, longest)) - bos.size();
  const size_t count = (ids.size() + size - 1) / size;
  const size_t wanted = std::min(count, static_cast<size_t>(flags.samples));
  std::vector<std::vector<int32_t>> samples;
  for (size_t i = 0; i < wanted; ++i) {
    const size_t begin = i * count / wanted * size;
    std::vector<int32_t>& sample = samples.emplace_back(bos.begin(), bos.end());
    sample.insert(sample.end(), ids.begin() + static_cast<ptrdiff_t>(begin),
                  ids.begin() + static_cast<ptrdiff_t>(std::min(ids.size(), begin + size)));
  }
  return samples;
}

std::string formats_text() {
  std::string text = "Formats:\n";
  for (const TargetFormat& format : target_formats()) {
    const std::string name(format.name);
    text += cat("  ", name, std::string(12 - std::min<size_t>(11, name.size()), ' '), format.summary, "\n");
  }
  text += "  gguf-TYPE   GGUF file; TYPE is one of";
  for (const std::string& name : gguf_formats()) text += " " + name.substr(5);
  return text + "\n";
}

// Returns the tokenizer metadata of a GGUF file; appends remarks for the user to `notes`.
GgufMetadata tokenizer_metadata(const ModelSource& source, const Checkpoint& checkpoint,
                                std::vector<std::string>& notes) {
  const auto tokenizer = source.open_tokenizer();
  if (tokenizer == nullptr) throw Error(cat(source.name(), ": has no tokenizer to write into the GGUF file"));
  const auto side_files = source.side_files();
  TokenizerFiles files;
  files.origin = source.name();
  for (const auto& [name, bytes] : side_files) {
    if (name == "tokenizer.json") files.tokenizer_json = bytes;
  }
  GgufMetadata metadata;
  std::string note = add_gguf_tokenizer(files, *tokenizer, vocabulary_size(checkpoint), metadata);
  if (!note.empty()) notes.push_back(std::move(note));
  // In a list of end tokens, the second one ends a turn.
  const auto ends = checkpoint.config().find("eos_token_id");
  if (ends != checkpoint.config().end() && ends->is_array() && ends->size() > 1 &&
      (*ends)[1].is_number_unsigned())
    metadata.u32("tokenizer.ggml.eot_token_id", (*ends)[1].get<uint32_t>());
  return metadata;
}

QuantizeResult run_gguf(const QuantizeFlags& flags, const GgmlType& type, const ModelSource& source,
                        Checkpoint& checkpoint, ThreadPool& pool, const QuantizeProgress& progress) {
  const TargetOptions& own = flags.target;
  if (flags.kv_scales || own.bits || own.group_size || own.zero_points)
    throw Error(cat("--kv-scales, --bits, --group-size and --asymmetric cannot be combined with --format ",
                    flags.format));
  std::vector<std::string> notes;
  GgufOptions options{.type = &type,
                      .output = flags.output,
                      .name = source.name(),
                      .tokenizer = tokenizer_metadata(source, checkpoint, notes),
                      .method = flags.method,
                      .gptq = flags.gptq};
  options.calibration = calibration_of(flags, source, checkpoint);
  QuantizeResult result = quantize_gguf(checkpoint, options, pool, progress);
  result.notes.insert(result.notes.end(), notes.begin(), notes.end());
  return result;
}

QuantizeResult run_target(const QuantizeFlags& flags, const ModelSource& source, Checkpoint& checkpoint,
                          ThreadPool& pool, const QuantizeProgress& progress) {
  QuantizeOptions options{.target = make_target(flags.format, flags.target),
                          .method = flags.method,
                          .gptq = flags.gptq,
                          .smooth_strength = flags.smooth_strength,
                          .kv_scales = flags.kv_scales,
                          .output = flags.output};
  options.calibration = calibration_of(flags, source, checkpoint);
  for (auto& [name, bytes] : source.side_files()) options.files.push_back({name, std::move(bytes)});
  return quantize_model(checkpoint, options, pool, progress);
}

void print_table(const std::vector<std::string>& names, const std::vector<int64_t>& bytes,
                 const std::vector<Perplexity>& measured) {
  const auto line = [](const std::array<std::string, 4>& cells) {
    constexpr std::array<size_t, 4> kWidths = {28, 12, 24, 12};
    std::string text;
    for (size_t i = 0; i < cells.size(); ++i) {
      text += cells[i];
      if (i + 1 < cells.size())
        text += std::string(cells[i].size() < kWidths[i] ? kWidths[i] - cells[i].size() : 1, ' ');
    }
    std::cout << text << "\n";
  };
  line({"model", "tensors", "perplexity", "difference"});
  for (size_t i = 0; i < names.size(); ++i) {
    std::array<std::string, 4> cells = {names[i], format_bytes(bytes[i]), "", ""};
    if (!measured.empty()) {
      cells[2] = cat(fixed(measured[i].perplexity, 5), " +- ", fixed(measured[i].standard_error, 5));
      const double ratio = measured[i].perplexity / measured[0].perplexity - 1.0;
      if (i > 0) cells[3] = cat(ratio < 0 ? "" : "+", fixed(100.0 * ratio, 3), " %");
    }
    line(cells);
  }
}

int run_quantize(const QuantizeFlags& flags) {
  const GgmlType* gguf = gguf_target(flags.format);
  if (gguf == nullptr)
    make_target(flags.format, flags.target);  // rejects wrong flags before reading the model
  const std::string text = flags.eval_text.empty() ? "" : read_text(flags.eval_text);
  fetch_with_progress(flags.model, flags.revision);
  const ModelSource source = ModelSource::resolve(flags.model, {.revision = flags.revision});
  const auto checkpoint = source.open_checkpoint();
  QuantizeResult result;
  {
    ThreadPool pool(flags.threads > 0 ? flags.threads : available_cores());
    ProgressBar bar("Quantizing", {.rate = "bytes"});
    const auto bytes = static_cast<double>(checkpoint->total_bytes());
    const auto progress = [&](double done) { bar.update({.fraction = done, .counted = done * bytes}); };
    result = gguf != nullptr ? run_gguf(flags, *gguf, source, *checkpoint, pool, progress)
                             : run_target(flags, source, *checkpoint, pool, progress);
  }
  for (const std::string& note : result.notes) std::cerr << "note: " << note << "\n";
  if (!result.kept.empty()) std::cerr << "not quantized: " << join(result.kept, ", ") << "\n";
  const double bits = 8.0 * static_cast<double>(result.quantized_bytes) /
                      static_cast<double>(std::max<int64_t>(1, result.num_quantized));
  std::cerr << flags.output << ": " << fixed(static_cast<double>(result.num_quantized) / 1e6, 2)
            << " M weights in " << flags.format << ", " << fixed(bits, 2) << " bits each";
  if (result.relative_error > 0.0) std::cerr << ", relative error " << fixed(result.relative_error, 4);
  std::cerr << "\n";

  std::vector<Perplexity> measured;
  if (!text.empty()) {
    EngineConfig config;
    config.threads = flags.threads;
    config.revision = flags.revision;
    for (const std::string& model : {flags.model, flags.output}) {
      config.model = model;
      measured.push_back(measure_perplexity(config, text, flags.eval_text, flags.window));
    }
  }
  print_table({source.name(), flags.output}, {result.bytes_before, result.bytes_after}, measured);
  return 0;
}

}  // namespace

void add_quantize(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "quantize", "Write a quantized checkpoint");
  auto flags = std::make_shared<QuantizeFlags>();
  add_model_flag(*command, flags->model, flags->revision);
  command->add_option("-o,--output", flags->output, "Directory to create")->required()->type_name("DIR");
  command->add_option("--format", flags->format, "One of the formats below")->required()->type_name("NAME");
  command->add_option("--bits", flags->target.bits, "Bits per weight (default: the format's)");
  command->add_option("--group-size", flags->target.group_size,
                      "Columns per scale; 0 = one scale per row (default: the format's)");
  command->add_flag_callback(
      "--asymmetric", [flags] { flags->target.zero_points = true; }, "Use a zero point per group");
  command->add_flag_callback(
      "--no-double-quant", [flags] { flags->target.nested_scales = false; },
      "bnb-nf4, bnb-fp4: keep the scales in float32");
  add_choice(*command, "--method", flags->method, methods(), "rtn",
             "Rounding to nearest (rtn), or a method with calibration");
  command
      ->add_option("--text", flags->text,
                   "Calibration text (- = standard input) for --kv-scales and all methods except rtn")
      ->type_name("FILE");
  command->add_option("--samples", flags->samples, "Number of calibration sequences")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--sample-len", flags->sample_len, "Tokens per calibration sequence")
      ->check(CLI::Range(16, 1 << 20));
  command
      ->add_option("--damp", flags->gptq.damp,
                   "gptq: dampening of the Hessian, as a fraction of its mean diagonal")
      ->check(CLI::Range(0.0, 10.0));
  command->add_flag("--act-order,!--no-act-order", flags->gptq.act_order,
                    "gptq: quantize columns by decreasing activation size; groups stay contiguous (default: "
                    "on)");
  command->add_option("--smooth-strength", flags->smooth_strength, "smoothquant: migration strength, 0 to 1")
      ->check(CLI::Range(0.0F, 1.0F));
  command->add_flag("--kv-scales", flags->kv_scales, "Write calibrated scales for an fp8 KV cache");
  command
      ->add_option("--eval-text", flags->eval_text,
                   "Measure the perplexity of this text (- = standard input) before and after")
      ->type_name("FILE");
  command
      ->add_option("--window", flags->window,
                   "Tokens per window of --eval-text (default: the model's maximum length, at most 2048)")
      ->check(CLI::Range(2, 1 << 30));
  command->add_option("--threads", flags->threads,
                      "Threads; 0 = the physical cores available to this process");
  command->footer(formats_text());
  command->callback([flags, &exit_code] { exit_code = run_quantize(*flags); });
}

}  // namespace quire::cli
