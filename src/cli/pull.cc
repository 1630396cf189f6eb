// quire pull, quire list and quire rm: the models in the Hugging Face cache.
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/progress.h"
#include "engine/model_fetch.h"
#include "hub/cache.h"

namespace quire::cli {
namespace {

hub::ModelName require_name(const std::string& text) {
  const auto name = hub::parse_model_name(text);
  if (!name)
    throw Error(
        cat("'", text, "' is not the name of a model; use org/name, org/name:Q4_K_M or org/name/file.gguf"));
  return *name;
}

int run_pull(const std::string& text, const std::string& revision) {
  const hub::ModelName name = require_name(text);
  const double begin = monotonic_seconds();
  hub::PulledModel model;
  {
    DownloadProgress line(text);
    model = fetch_model(name, {.revision = revision, .update = true}, [&](const hub::PullProgress& progress) {
      line.update(progress.bytes, progress.total, progress.file, progress.waiting);
    });
  }
  const double seconds = monotonic_seconds() - begin;
  if (model.downloaded == 0) {
    std::cerr << name.text() << " is up to date\n";
  } else {
    std::cerr << name.text() << ": downloaded " << format_bytes(static_cast<int64_t>(model.downloaded))
              << " in " << fixed(seconds, 1) << " s\n";
  }
  std::cout << model.path.string() << "\n";
  return 0;
}

std::string date_of(double seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm local{};
  localtime_r(&time, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &local);
  return text;
}

int run_list(bool as_json) {
  const hub::Settings settings = hub::read_settings();
  const auto repos = hub::cached_repos(settings.cache);
  if (as_json) {
    auto list = nlohmann::ordered_json::array();
    for (const hub::CachedRepo& repo : repos) {
      list.push_back({{"name", repo.repo},
                      {"bytes", repo.bytes},
                      {"incomplete_bytes", repo.incomplete_bytes},
                      {"revisions", repo.revisions},
                      {"gguf", repo.gguf_files},
                      {"modified", static_cast<int64_t>(repo.modified)}});
    }
    std::cout << list.dump() << "\n";
    return 0;
  }
  if (repos.empty()) {
    std::cerr << "no models in " << settings.cache.string() << "; quire pull downloads one\n";
    return 0;
  }
  size_t width = 4;
  for (const hub::CachedRepo& repo : repos) width = std::max(width, repo.repo.size());
  const auto padded = [](std::string text, size_t size) {
    text.resize(std::max(size, text.size()), ' ');
    return text;
  };
  std::cout << padded("NAME", width) << "  " << padded("SIZE", 10) << "  " << padded("MODIFIED", 16)
            << "  REVISIONS\n";
  for (const hub::CachedRepo& repo : repos) {
    std::cout << padded(repo.repo, width) << "  " << padded(format_bytes(repo.bytes), 10) << "  "
              << padded(date_of(repo.modified), 16) << "  " << join(repo.revisions, ", ");
    if (repo.incomplete_bytes > 0) std::cout << " (incomplete)";
    std::cout << "\n";
    for (const std::string& file : repo.gguf_files) std::cout << "  " << repo.repo << "/" << file << "\n";
  }
  return 0;
}

int run_rm(const std::vector<std::string>& names) {
  const hub::Settings settings = hub::read_settings();
  std::vector<hub::ModelName> models;
  models.reserve(names.size());
  for (const std::string& text : names) models.push_back(require_name(text));
  for (const hub::ModelName& name : models) {
    const int64_t freed = hub::remove_model(settings.cache, name);
    std::cerr << "removed " << name.text() << ", " << format_bytes(freed) << "\n";
  }
  return 0;
}

}  // namespace

void add_pull(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(
      app, "pull", "Download a model from the Hugging Face hub, or update it, and print its path");
  auto name = std::make_shared<std::string>();
  auto revision = std::make_shared<std::string>();
  command->add_option("NAME", *name, "org/name, org/name:Q4_K_M or org/name/file.gguf")
      ->required()
      ->type_name("");
  command->add_option("--revision", *revision, "Branch, tag or commit (default: main)")->type_name("NAME");
  command->callback([=, &exit_code] { exit_code = run_pull(*name, *revision); });
}

void add_list(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "list", "List the models in the Hugging Face cache");
  auto as_json = std::make_shared<bool>(false);
  command->add_flag("--json", *as_json, "Print a JSON list");
  command->callback([=, &exit_code] { exit_code = run_list(*as_json); });
}

void add_rm(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "rm", "Remove models from the Hugging Face cache");
  auto names = std::make_shared<std::vector<std::string>>();
  command
      ->add_option("NAME", *names,
                   "org/name for all files of a repository, or org/name:Q4_K_M or org/name/file.gguf for the "
                   "files of a GGUF model")
      ->required()
      ->type_name("");
  command->callback([=, &exit_code] { exit_code = run_rm(*names); });
}

}  // namespace quire::cli
