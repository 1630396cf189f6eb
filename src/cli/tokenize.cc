// quire tokenize and quire detokenize. They read the tokenizer's files only.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/model_argument.h"
#include "cli/text_input.h"
#include "engine/loader.h"
#include "io/json_file.h"

namespace quire::cli {
namespace {

using nlohmann::json;

constexpr auto kReplace = json::error_handler_t::replace;

struct TokenizeFlags {
  std::string model;
  std::string revision;
  std::vector<std::string> inputs;  // positional; "-" = standard input
  std::optional<std::string> text;
  std::string file;
  std::string jsonl;
  std::vector<TokenId> ids;
  bool json = false;
  bool no_special_tokens = false;
};

void add_flags(CLI::App& command, TokenizeFlags& f, const std::string& input_name, const std::string& help) {
  add_model_flag(command, f.model, f.revision);
  command.add_option(input_name, f.inputs, help)->type_name("");
  command.add_option("--file", f.file, "Read the input from this file")->type_name("FILE");
  command
      .add_option("--jsonl", f.jsonl,
                  "Read one JSON object per line and print one per line (- = standard input)")
      ->type_name("FILE");
  command.add_flag("--json", f.json, "Print a JSON object");
}

std::unique_ptr<Tokenizer> open_tokenizer(TokenizeFlags& f) {
  fetch_with_progress(f.model, f.revision, true);
  auto tokenizer = load_text(f.model, "", f.revision).tokenizer;
  if (!tokenizer) throw Error(cat(f.model, ": has neither tokenizer.json nor tokenizer.model"));
  return tokenizer;
}

// Returns the input as one text, or nullopt if no input is given. A pipe is read if there is no other input.
std::optional<std::string> input_text(const TokenizeFlags& f) {
  if (f.text) return f.text;
  if (!f.file.empty()) return read_text_file(f.file, int64_t{1} << 40);
  const bool dash = f.inputs == std::vector<std::string>{"-"};
  if (!f.inputs.empty() && !dash) return join(f.inputs, " ");
  if (dash || has_piped_input()) return read_standard_input();
  return std::nullopt;
}

// Calls handle(object) for each line and prints the JSON it returns.
template <typename F>
void each_line(const std::string& path, F&& handle) {
  std::ifstream file;
  if (path != "-") {
    file.open(path);
    if (!file) throw Error(cat("cannot read ", path));
  }
  std::istream& in = path == "-" ? std::cin : file;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.empty()) continue;
    const json object = json::parse(line, nullptr, false);
    if (!object.is_object()) throw Error(cat(path, ":", number, ": not a JSON object"));
    try {
      std::cout << handle(object).dump(-1, ' ', false, kReplace) << "\n";
    } catch (const json::exception& error) {
      throw Error(cat(path, ":", number, ": ", error.what()));
    }
  }
}

json tokens_json(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  json tokens = json::array();
  for (const TokenId id : ids) tokens.push_back(std::string(tokenizer.id_to_token(id)));
  return {{"ids", ids}, {"tokens", tokens}};
}

int run_tokenize(TokenizeFlags f) {
  separate_model("tokenize", f.model, f.inputs);
  const auto tokenizer = open_tokenizer(f);
  if (!f.jsonl.empty()) {
    each_line(f.jsonl, [&](const json& object) {
      return tokens_json(*tokenizer,
                         tokenizer->encode(object.at("text").get<std::string>(), !f.no_special_tokens));
    });
    return 0;
  }
  const auto text = input_text(f);
  if (!text) {
    std::fprintf(stderr,
                 "quire tokenize: no text; add it in quotes, or use --file FILE, --jsonl FILE or - for "
                 "standard input\n");
    return 2;
  }
  const auto ids = tokenizer->encode(*text, !f.no_special_tokens);
  if (f.json) {
    std::cout << tokens_json(*tokenizer, ids).dump(-1, ' ', false, kReplace) << "\n";
  } else {
    for (size_t i = 0; i < ids.size(); ++i) std::cout << (i > 0 ? " " : "") << ids[i];
    std::cout << "\n";
  }
  return 0;
}

std::vector<TokenId> parse_ids(const std::string& text) {
  std::vector<TokenId> ids;
  std::string number;
  const auto take = [&] {
    if (number.empty()) return;
    try {
      size_t used = 0;
      const long value = std::stol(number, &used);
      if (used != number.size() || value < 0 || value > 0x7fffffff) throw std::out_of_range(number);
      ids.push_back(static_cast<TokenId>(value));
    } catch (const std::exception&) {
      throw Error(cat("'", number, "' is not a valid token id"));
    }
    number.clear();
  };
  for (const char c : text) {
    if (c == ' ' || c == ',' || c == '\n' || c == '\t' || c == '\r' || c == '[' || c == ']') {
      take();
    } else {
      number += c;
    }
  }
  take();
  return ids;
}

int run_detokenize(TokenizeFlags f) {
  // Token ids are words without quotes.
  if (!f.model.empty() && !is_model_argument(f.model)) {
    f.inputs.insert(f.inputs.begin(), f.model);
    f.model.clear();
  }
  const auto tokenizer = open_tokenizer(f);
  if (!f.jsonl.empty()) {
    each_line(f.jsonl, [&](const json& object) -> json {
      return {{"text", tokenizer->decode(object.at("ids").get<std::vector<TokenId>>(), f.no_special_tokens)}};
    });
    return 0;
  }
  std::vector<TokenId> ids = f.ids;
  if (ids.empty()) {
    const auto text = input_text(f);
    if (!text) {
      std::fprintf(stderr,
                   "quire detokenize: no token ids; add them, or use --file FILE, --jsonl FILE or - for "
                   "standard input\n");
      return 2;
    }
    ids = parse_ids(*text);
  }
  const std::string text = tokenizer->decode(ids, f.no_special_tokens);
  if (f.json) {
    std::cout << json{{"text", text}}.dump(-1, ' ', false, kReplace) << "\n";
  } else {
    std::cout << text << "\n";
  }
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "tokenize", "Convert text to token ids");
  auto flags = std::make_shared<TokenizeFlags>();
  add_flags(*command, *flags, "TEXT", "Text; - reads standard input, as does a pipe without other text");
  command->add_option("--text", flags->text, "Text to tokenize")->type_name("TEXT");
  command->add_flag("--no-special-tokens", flags->no_special_tokens, "Do not add special tokens such as <s>");
  command->callback([flags, &exit_code] { exit_code = run_tokenize(*flags); });
}

void add_detokenize(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "detokenize", "Convert token ids to text");
  auto flags = std::make_shared<TokenizeFlags>();
  add_flags(*command, *flags, "ID", "Token ids; - reads standard input, as does a pipe without other ids");
  command->add_option("--ids", flags->ids, "Token ids, separated by spaces or commas")
      ->delimiter(',')
      ->type_name("ID");
  command->add_flag("--no-special-tokens", flags->no_special_tokens, "Omit special tokens from the text");
  command->callback([flags, &exit_code] { exit_code = run_detokenize(*flags); });
}

}  // namespace quire::cli
