// quire merge: writes a checkpoint with a LoRA adapter merged into it.
#include <iostream>
#include <memory>

#include "base/counted.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/progress.h"
#include "engine/model_source.h"
#include "quantize/merge_adapter.h"

namespace quire::cli {
namespace {

struct MergeFlags {
  std::string model;
  std::string revision;
  std::string adapter;
  std::string output;
  int threads = 0;
};

int run_merge(const MergeFlags& flags) {
  fetch_with_progress(flags.model, flags.revision);
  const ModelSource source = ModelSource::resolve(flags.model, {.revision = flags.revision});
  const auto checkpoint = source.open_checkpoint();
  MergeOptions options{.output = flags.output};
  for (auto& [name, bytes] : source.side_files()) options.files.push_back({name, std::move(bytes)});
  MergeResult result;
  {
    ThreadPool pool(flags.threads > 0 ? flags.threads : available_cores());
    ProgressBar bar("Merging", {.rate = "bytes"});
    const auto bytes = static_cast<double>(checkpoint->total_bytes());
    options.progress = [&](double done) { bar.update({.fraction = done, .counted = done * bytes}); };
    result = merge_adapter(*checkpoint, flags.adapter, source.name(), options, pool);
  }
  for (const std::string& warning : result.warnings) log_warning("adapter ", flags.adapter, ": ", warning);
  if (!result.without_effect.empty()) {
    std::cerr << "without effect: " << counted(static_cast<int64_t>(result.without_effect.size()), "tensor")
              << " of the adapter; quire inspect shows them\n";
  }
  if (!result.own_head.empty())
    std::cerr << "note: " << result.own_head
              << " is a tensor of its own now (tie_word_embeddings is false)\n";
  std::cout << flags.output << ": " << counted(result.modules, "module") << " merged, "
            << counted(result.tensors, "tensor") << " changed, " << format_bytes(result.total_bytes) << "\n";
  return 0;
}

}  // namespace

void add_merge(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "merge", "Write a checkpoint with a LoRA adapter merged into it");
  auto flags = std::make_shared<MergeFlags>();
  add_model_flag(*command, flags->model, flags->revision);
  command->get_option("MODEL")->required();
  command->add_option("ADAPTER", flags->adapter, "Directory of the adapter")->required()->type_name("");
  command->add_option("-o,--output", flags->output, "Directory to create")->required()->type_name("DIR");
  command->add_option("--threads", flags->threads,
                      "Threads; 0 = the physical cores available to this process");
  command->callback([flags, &exit_code] { exit_code = run_merge(*flags); });
}

}  // namespace quire::cli
