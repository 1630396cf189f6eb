// quire check-schema: what each keyword of a JSON Schema does to an output.
#include <algorithm>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/terminal.h"
#include "cli/text_input.h"
#include "grammar/schema.h"
#include "io/json_file.h"

namespace quire::cli {
namespace {

using grammar::KeywordReport;

struct CheckSchemaFlags {
  std::string file;
  bool json = false;
};

const char* effect_name(KeywordReport::Effect effect) {
  switch (effect) {
    case KeywordReport::Effect::kEnforced:
      return "enforced";
    case KeywordReport::Effect::kNone:
      return "no effect";
    case KeywordReport::Effect::kRefused:
      return "refused";
  }
  return "";
}

void print_json(const std::vector<KeywordReport>& report, bool accepted) {
  nlohmann::ordered_json keywords = nlohmann::ordered_json::array();
  for (const KeywordReport& entry : report)
    keywords.push_back(
        {{"pointer", entry.pointer}, {"effect", effect_name(entry.effect)}, {"reason", entry.reason}});
  const nlohmann::ordered_json object = {{"accepted", accepted}, {"keywords", keywords}};
  std::cout << object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

void print_text(const std::vector<KeywordReport>& report) {
  size_t width = 0;
  for (const KeywordReport& entry : report)
    width = std::max(width, std::min<size_t>(entry.pointer.size(), 50));
  for (const KeywordReport& entry : report) {
    const std::string pointer = entry.pointer.empty() ? "(schema)" : without_controls(entry.pointer);
    std::string line = cat(effect_name(entry.effect));
    line.append(11 - line.size(), ' ').append(pointer);
    if (!entry.reason.empty()) {
      if (pointer.size() < width) line.append(width - pointer.size(), ' ');
      line.append("  ").append(without_controls(entry.reason));
    }
    std::cout << line << "\n";
  }
}

int run_check_schema(const CheckSchemaFlags& f) {
  const grammar::Limits limits;
  const std::string text = read_text(f.file, static_cast<int64_t>(limits.specification_bytes) + 1);
  const auto schema = grammar::parse_schema(text, limits);
  if (!schema.ok()) throw Error(cat(f.file, schema.failure().message));
  const std::vector<KeywordReport> report = grammar::check_schema(*schema);
  const bool accepted = std::none_of(report.begin(), report.end(), [](const KeywordReport& entry) {
    return entry.effect == KeywordReport::Effect::kRefused;
  });
  if (f.json) {
    print_json(report, accepted);
  } else {
    print_text(report);
  }
  return accepted ? 0 : 1;
}

}  // namespace

void add_check_schema(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "check-schema",
                                  "Say for each keyword of a JSON Schema whether outputs are held to it");
  auto f = std::make_shared<CheckSchemaFlags>();
  command->add_option("FILE", f->file, "JSON Schema; - reads standard input")->required()->type_name("");
  command->add_flag("--json", f->json, "Print a JSON object");
  command->callback([f, &exit_code] { exit_code = run_check_schema(*f); });
}

}  // namespace quire::cli
