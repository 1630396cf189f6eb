#include "cli/model_argument.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <iterator>

#include "base/strings.h"
#include "cli/suggestions.h"
#include "cli/text_input.h"
#include "engine/model_fetch.h"
#include "engine/model_source.h"

namespace quire::cli {
namespace {

bool has_space(const std::string& text) {
  return text.find_first_of(" \t\n") != std::string::npos;
}

bool looks_like_path(const std::string& text) {
  if (text.ends_with(".gguf") || text.ends_with(".safetensors")) return true;
  constexpr std::array<std::string_view, 4> kBegins = {"/", "./", "../", "~/"};
  return !has_space(text) &&
         std::ranges::any_of(kBegins, [&](std::string_view begin) { return text.starts_with(begin); });
}

}  // namespace

bool is_model_argument(const std::string& text) {
  std::error_code error;
  if (text.empty() || text == "-") return false;
  if (std::filesystem::exists(text, error) || looks_like_path(text)) return true;
  return !has_space(text) && (model_name_of(text) || text == embedded_model_name());
}

void separate_model(const std::string& command, std::string& model, std::vector<std::string>& texts,
                    TextOnly text_only) {
  if (model.empty() || is_model_argument(model)) return;
  const bool is_word = !has_space(model) && model != "-";
  const bool is_mistyped = is_word && (!texts.empty() || text_only != TextOnly::kYes);
  if (is_mistyped) {
    std::string message =
        cat("quire ", command, ": there is no model '", model,
            "': a model is a file, a directory or a name on the hub (org/name)", similar_paths_text(model));
    if (!texts.empty() && !has_space(texts.front()))
      message += cat(". A text of several words needs quotes: quire ", command, " \"", model, " ",
                     join(texts, " "), "\"");
    throw UsageError(message);
  }
  if (text_only == TextOnly::kNo)
    throw UsageError(cat("quire ", command, ": a model comes before the text: quire ", command,
                         " org/name \"", model, "\""));
  texts.insert(texts.begin(), model);
  model.clear();
}

bool has_piped_input() {
  struct stat status {};
  return ::fstat(STDIN_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISREG(status.st_mode));
}

std::string with_piped_text(const std::vector<std::string>& texts) {
  std::string text = join(texts, " ");
  if (!has_piped_input()) return text;
  const std::string input = read_standard_input();
  return input.empty() ? text : cat(text, "\n\n", input);
}

}  // namespace quire::cli
