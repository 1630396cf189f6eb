#include "cli/command_line.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "base/split.h"
#include "base/strings.h"
#include "cli/foreign_flags.h"
#include "cli/model_argument.h"

namespace quire::cli {
namespace {

std::vector<const CLI::App*> subcommands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::App* find_subcommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : subcommands_of(app)) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

std::vector<std::string> names_of(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  return names;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("+-.0123456789") == std::string_view::npos &&
         text.find_first_of("0123456789") != std::string_view::npos;
}

bool is_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !is_number(word);
}

bool is_sentence(const std::string& word) {
  return word.find_first_of(" \t\n") != std::string::npos;
}

// "quire bench serve".
std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

// Commands that run: those of bench instead of bench.
std::vector<const CLI::App*> runnable(const CLI::App& app) {
  std::vector<const CLI::App*> all;
  for (const CLI::App* command : subcommands_of(app)) {
    const auto inner = subcommands_of(*command);
    if (inner.empty()) all.push_back(command);
    all.insert(all.end(), inner.begin(), inner.end());
  }
  return all;
}

const CLI::Option* option_of(const CLI::App& command, const std::string& name) {
  const CLI::Option* option = name.starts_with('-') ? command.get_option_no_throw(name) : nullptr;
  return option != nullptr && !option->get_positional() ? option : nullptr;
}

std::vector<std::string> long_flags(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string with_dashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

class Translator {
 public:
  Translator(const CLI::App& app, std::vector<std::string> arguments)
      : app_(app), words_(std::move(arguments)) {}

  CommandLine run() {
    if (words_.empty()) return {{"--help"}, {}};
    if (words_[0] == "help") {
      words_.erase(words_.begin());
      words_.emplace_back("--help");
    }
    if (words_[0].starts_with('-')) return flags_of_the_program();
    find_command();
    while (at_ < words_.size() && words_[at_] != "--") {
      if (is_flag(words_[at_])) {
        take_flag();
      } else {
        rest_.push_back(words_[at_++]);
      }
    }
    return assemble();
  }

 private:
  // A flag with its value, if that is in the same word.
  struct Flag {
    std::string typed;  // as it was typed, without the value
    std::string name;   // with "-" for "_"
    std::optional<std::string> value;
  };

  [[noreturn]] void fail(const std::string& message) const {
    throw UsageError(cat(full_name(*command_), ": ", message));
  }

  CommandLine flags_of_the_program() {
    const std::string& flag = words_[0];
    if (flag == "-v" || flag == "-V" || flag == "-version") return {{"--version"}, {}};
    if (flag == "-help" || flag == "-?") return {{"--help"}, {}};
    if (option_of(app_, flag) != nullptr) return {words_, {}};
    throw UsageError(cat("quire: a command comes before ", flag, ", for example: quire generate ",
                         join(words_, " "), "; quire --help lists the commands"));
  }

  void find_command() {
    command_ = find_subcommand(app_, words_[0]);
    if (command_ == nullptr) command_ = other_command(words_[0]);
    at_ = 1;
    front_.push_back(command_->get_name());
    const auto inner = subcommands_of(*command_);
    if (inner.empty()) return;
    if (words_.size() == 1) words_.emplace_back("--help");
    if (option_of(*command_, words_[1]) != nullptr) return;
    const CLI::App* found = find_subcommand(*command_, words_[1]);
    if (found == nullptr) {
      fail(cat("there is no command '", words_[1], "'", did_you_mean(words_[1], names_of(inner)), " (it has ",
               enumerate(names_of(inner), "and"), ")"));
    }
    command_ = found;
    at_ = 2;
    front_.push_back(command_->get_name());
  }

  // The command for a word that is not the name of one.
  const CLI::App* other_command(const std::string& word) const {
    for (const ForeignCommand& row : foreign_commands()) {
      if (row.name != word) continue;
      const CLI::App* found = find_subcommand(app_, std::string(row.here));
      if (found != nullptr) return found;
      throw UsageError(cat("quire: there is no command '", word, "': ", row.note));
    }
    if (is_sentence(word)) {
      throw UsageError(cat("quire: a command comes first: quire generate \"", word,
                           "\" continues the text, quire run MODEL \"", word, "\" answers"));
    }
    if (is_model_argument(word))
      throw UsageError(
          cat("quire: a command comes before the model: quire run ", word, ", or quire serve ", word));
    throw UsageError(cat("quire: there is no command '", word, "'",
                         did_you_mean(word, names_of(subcommands_of(app_))),
                         " (quire --help lists the commands)"));
  }

  void take_flag() {
    const std::string& word = words_[at_];
    const size_t equals = word.find('=');
    Flag flag;
    flag.typed = word.substr(0, equals);
    flag.name = flag.typed.starts_with("--") ? with_dashes(flag.typed) : flag.typed;
    if (equals != std::string::npos) flag.value = word.substr(equals + 1);
    ++at_;
    if (option_of(*command_, flag.typed) != nullptr) flag.name = flag.typed;
    if (const CLI::Option* option = option_of(*command_, flag.name)) return take_own(flag, *option);
    // Parts of vLLM's JSON arguments: --speculative-config.method ngram.
    const std::string base = flag.name.substr(0, flag.name.find('.'));
    if (const ForeignFlag* row = find_foreign_flag(base, front_[0])) return take_foreign(flag, *row);
    if (flag.name.starts_with("--no-")) {
      const ForeignFlag* row = find_foreign_flag("--" + flag.name.substr(5), front_[0]);
      if (row != nullptr && row->value == ForeignValue::kNone && row->action != ForeignAction::kSame)
        return ignore(flag.typed, row->action == ForeignAction::kIgnored ? row->note : "it is the default");
    }
    // A flag of one letter with its value: -pTEXT.
    const bool attached = word[1] != '-' && option_of(*command_, word.substr(0, 2)) != nullptr;
    if (!attached || option_of(*command_, "-" + flag.name) != nullptr) fail(unknown(flag.name, word));
    rest_.push_back(word);
  }

  void take_own(const Flag& flag, const CLI::Option& option) {
    if (flag.value) {
      given_[flag.name] = value_here(flag.name, *flag.value);
      rest_.push_back(flag.name + "=" + given_[flag.name]);
      return;
    }
    rest_.push_back(flag.name);
    const int num_values = option.get_items_expected_max() == 0 ? 0 : option.get_items_expected_min();
    for (int i = 0; i < num_values && at_ < words_.size(); ++i) {
      rest_.push_back(value_here(flag.name, words_[at_++]));
      given_[flag.name] = rest_.back();
    }
  }

  void take_foreign(const Flag& flag, const ForeignFlag& row) {
    const std::optional<std::string> value = take_value(flag, row);
    switch (row.action) {
      case ForeignAction::kSame:
        return add_same(flag, row, value);
      case ForeignAction::kModel:
        return set_model(flag, *value);
      case ForeignAction::kModelFile:
        model_file_ = *value;
        return;
      case ForeignAction::kIgnored:
        // Lists of numbers: --cudagraph-capture-sizes 1 2 4.
        while (row.value == ForeignValue::kOne && at_ < words_.size() && is_number(words_[at_])) ++at_;
        return ignore(flag.typed, row.note);
      case ForeignAction::kUnavailable:
        if (value && has_word(row.harmless, *value)) return;
        fail(cat(flag.typed, " is not available: ", row.note));
    }
  }

  std::optional<std::string> take_value(const Flag& flag, const ForeignFlag& row) {
    if (flag.value || row.value == ForeignValue::kNone) return flag.value;
    const bool has_next = at_ < words_.size() && !is_flag(words_[at_]);
    if (row.value == ForeignValue::kOptional)
      return has_next && has_word(row.harmless, words_[at_]) ? std::optional(words_[at_++]) : std::nullopt;
    if (!has_next) fail(cat(flag.typed, " needs a value"));
    return words_[at_++];
  }

  void add_same(const Flag& flag, const ForeignFlag& row, const std::optional<std::string>& value) {
    std::string target(row.here);
    std::string text = value.value_or("");
    if (const size_t equals = target.find('='); equals != std::string::npos) {
      text = target.substr(equals + 1);
      target.resize(equals);
    }
    const CLI::Option* option = option_of(*command_, target);
    if (option == nullptr) fail(elsewhere(flag.typed, target));
    if (is_number(text)) text += row.unit;
    text = value_here(target, text);
    const bool repeatable = option->get_expected_max() > 1;
    const auto [given, is_new] = given_.emplace(target, text);
    if (!is_new && !repeatable) {
      if (given->second == text) return;
      fail(cat(flag.typed, " is ", target, " here, which is already ", given->second));
    }
    tail_.push_back(option->get_items_expected_max() == 0 ? target : target + "=" + text);
  }

  void set_model(const Flag& flag, const std::string& value) {
    if (model_) fail(cat("two models are given: ", *model_, " and ", value));
    const auto positionals =
        command_->get_options([](const CLI::Option* option) { return option->get_positional(); });
    const bool has_model = std::ranges::any_of(positionals, [](const CLI::Option* option) {
      return option->get_name(true) == "MODEL" || option->get_name(true) == "NAME";
    });
    if (!has_model) fail(cat(flag.typed, " is not available: this command has no model"));
    model_ = value;
  }

  void ignore(const std::string& typed, std::string_view note) {
    notes_.push_back(cat(full_name(*command_), ": ", typed, " has no effect: ", note));
  }

  static std::string value_here(const std::string& flag, const std::string& value) {
    for (const ForeignValueName& row : foreign_values()) {
      if (row.flag == flag && row.name == value) return std::string(row.here);
    }
    return value;
  }

  // "--port is a flag of quire serve".
  std::string elsewhere(const std::string& typed, const std::string& name) const {
    std::vector<std::string> commands;
    bool is_sampling = false;
    for (const CLI::App* command : runnable(app_)) {
      const CLI::Option* option = option_of(*command, name);
      if (option == nullptr) continue;
      commands.push_back(full_name(*command));
      is_sampling = is_sampling || option->get_group().starts_with("Sampling");
    }
    if (commands.size() > 4) commands = {"other commands"};
    std::string field = name.substr(2);
    std::replace(field.begin(), field.end(), '-', '_');
    if (field == "sampling_seed") field = "seed";
    return cat(typed, " is not a flag of this command; ",
               typed == name ? "" : cat("its name is ", name, ", and "), "it is a flag of ",
               enumerate(commands, "and"),
               is_sampling && command_->get_name() == "serve" ? cat(" (requests have the field ", field, ")")
                                                              : std::string());
  }

  std::string unknown(const std::string& name, const std::string& word) const {
    if (is_sentence(word)) return cat("'", word, "' begins with -; put -- before it if it is a text");
    const auto commands = runnable(app_);
    const std::string long_name = name.starts_with("--") ? name : "-" + name;
    if (std::ranges::any_of(commands, [&](const CLI::App* c) { return option_of(*c, name) != nullptr; }))
      return elsewhere(name, name);
    std::vector<std::string> others;
    for (const Origin origin : {Origin::kVllm, Origin::kLlamaCpp, Origin::kOllama}) {
      for (const ForeignFlag& row : foreign_flags(origin)) {
        for (std::string& other : split_text(row.names, " ")) {
          if (other.starts_with("--")) others.push_back(std::move(other));
        }
      }
    }
    return cat("there is no flag ", name, did_you_mean(long_name, long_flags(*command_), others), " (",
               full_name(*command_), " --help-all lists the flags)");
  }

  CommandLine assemble() {
    CommandLine out;
    out.arguments = front_;
    if (model_) out.arguments.push_back(model_file_ ? *model_ + "/" + *model_file_ : *model_);
    if (model_file_ && !model_) fail("the repository of the file is missing: -hf org/name");
    for (const auto& words : {rest_, tail_})
      out.arguments.insert(out.arguments.end(), words.begin(), words.end());
    out.arguments.insert(out.arguments.end(), words_.begin() + static_cast<std::ptrdiff_t>(at_),
                         words_.end());
    out.notes = notes_;
    return out;
  }

  const CLI::App& app_;
  std::vector<std::string> words_;
  size_t at_ = 0;  // next word
  const CLI::App* command_ = nullptr;
  std::vector<std::string> front_;  // the command
  std::vector<std::string> rest_;   // positional arguments and own flags
  std::vector<std::string> tail_;   // flags that replace others
  std::optional<std::string> model_;
  std::optional<std::string> model_file_;
  std::map<std::string, std::string> given_;  // values of flags
  std::vector<std::string> notes_;
};

}  // namespace

CommandLine translate_command_line(const CLI::App& app, std::vector<std::string> arguments) {
  return Translator(app, std::move(arguments)).run();
}

}  // namespace quire::cli
