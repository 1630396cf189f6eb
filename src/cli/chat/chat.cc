// quire chat: a conversation in the terminal.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/log_hold.h"
#include "base/strings.h"
#include "cli/chat/attachments.h"
#include "cli/chat/conversation.h"
#include "cli/chat/history_file.h"
#include "cli/chat/interrupts.h"
#include "cli/chat/line_editor.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/model_argument.h"
#include "cli/progress.h"
#include "cli/terminal.h"

namespace quire::cli {
namespace {

constexpr size_t kMaxMessages = 1000;
constexpr const char* kHelp =
    "/regen            replace the last answer by another one\n"
    "/file PATH        attach a text file to the next message\n"
    "/system [TEXT]    set the system prompt (or remove it) and start a new conversation\n"
    "/reset            start a new conversation\n"
    "/save FILE        write the conversation to a JSON file\n"
    "/load FILE        continue the conversation in a file\n"
    "/set NAME VALUE   change a sampling parameter, constrain answers (json-schema, regex, grammar), or\n"
    "                  turn stats on or off; /set shows all values\n"
    "/stats            show figures of the last answer, the context and the KV cache\n"
    "/help             show this list\n"
    "/bye              exit (also /exit, /quit or Ctrl-D)\n"
    "@PATH in a message attaches the text file PATH; @\"PATH\" if it contains spaces\n";
constexpr const char* kKeys =
    "Ctrl-C            stop the response; discard the message that is being edited\n"
    "Alt-Enter         start a new line (also Ctrl-J, or Enter after a backslash)\n"
    "Up, Down          earlier and later messages; Ctrl-R searches them\n"
    "Tab               complete a command, a path or a name of /set\n";

// Flags of `quire generate` that would have no effect here.
constexpr std::array kRefusedFlags{
    "--n",        "--use-beam-search", "--best-of", "--length-penalty", "--early-stopping",
    "--logprobs", "--prompt-logprobs"};

struct ChatFlags {
  EngineConfig config;
  SamplingFlags sampling;
  std::string system;
  std::string lora;
  std::vector<std::string> prompts, more_prompts;  // answered instead of a conversation
  bool no_markdown = false;
  bool no_history = false;
  bool no_stats = false;
};

enum class Argument { kNone, kText, kPath, kSetting };

struct ChatCommand {
  std::string_view name;
  Argument argument = Argument::kNone;
  bool needs_argument = false;
  void (*run)(Conversation&, const std::string& argument, bool edits) = nullptr;  // null = exit
};

void print_chat_help(bool edits) {
  std::cout << kHelp << (edits ? kKeys : "Ctrl-C            stop the response\n");
}

void run_set(Conversation& conversation, const std::string& argument) {
  const size_t space = argument.find(' ');
  if (argument.empty()) {
    std::cout << conversation.settings_text();
  } else if (space == std::string::npos) {
    throw Error("/set needs a name and a value, for example /set temperature 0.7; default restores a value");
  } else {
    conversation.set(argument.substr(0, space), argument.substr(argument.find_first_not_of(' ', space)));
  }
}

// In the order of completions.
constexpr std::array<ChatCommand, 12> kCommands = {{
    {"/bye"},
    {"/exit"},
    {"/file", Argument::kPath, true,
     [](Conversation& conversation, const std::string& path, bool) {
       conversation.attach(path);
       std::cout << path << " is attached to the next message.\n";
     }},
    {"/help", Argument::kNone, false,
     [](Conversation&, const std::string&, bool edits) { print_chat_help(edits); }},
    {"/load", Argument::kPath, true,
     [](Conversation& conversation, const std::string& path, bool) {
       std::cout << path << ": " << conversation.load(path) << ".\n";
     }},
    {"/quit"},
    {"/regen", Argument::kNone, false,
     [](Conversation& conversation, const std::string&, bool) { conversation.regenerate(); }},
    {"/reset", Argument::kNone, false,
     [](Conversation& conversation, const std::string&, bool) { conversation.reset(); }},
    {"/save", Argument::kPath, true,
     [](Conversation& conversation, const std::string& path, bool) {
       conversation.save(path);
       std::cout << "The conversation is in " << path << ".\n";
     }},
    {"/set", Argument::kSetting, false,
     [](Conversation& conversation, const std::string& argument, bool) { run_set(conversation, argument); }},
    {"/stats", Argument::kNone, false,
     [](Conversation& conversation, const std::string&, bool) { std::cout << conversation.stats_text(); }},
    {"/system", Argument::kText, false,
     [](Conversation& conversation, const std::string& text, bool) { conversation.set_system(text); }},
}};

const ChatCommand* chat_command(std::string_view name) {
  const auto found = std::ranges::find(kCommands, name, &ChatCommand::name);
  return found == kCommands.end() ? nullptr : &*found;
}

void add_matches(Completions& found, std::string_view text, const std::vector<std::string>& candidates) {
  for (const std::string& candidate : candidates) {
    if (std::string_view(candidate).starts_with(text)) found.texts.push_back(candidate);
  }
}

// Completes commands, their arguments and paths in messages.
Completions complete(std::string_view text) {
  Completions found;
  const size_t mention = mention_at_end(text);
  if (const size_t space = text.find(' '); text.starts_with('/') && space != std::string_view::npos) {
    const ChatCommand* command = chat_command(text.substr(0, space));
    if (command == nullptr || command->argument == Argument::kText) return found;
    found.begin = space + 1;
    const std::string_view argument = text.substr(found.begin);
    if (command->argument == Argument::kPath) {
      found.texts = complete_path(std::string(argument));
    } else if (command->argument == Argument::kSetting) {
      add_matches(found, argument, chat_field_names());
    }
  } else if (mention != std::string_view::npos) {
    found.begin = mention;
    found.texts = complete_path(std::string(text.substr(mention)));
    const bool quoted = text[mention - 1] == '"';
    const auto has_space = [](const std::string& path) { return path.find(' ') != std::string::npos; };
    const bool needs_quotes = quoted || std::ranges::any_of(found.texts, has_space);
    for (std::string& path : found.texts) {
      if (needs_quotes && !quoted) path.insert(0, 1, '"');
      if (needs_quotes && found.texts.size() == 1 && !path.ends_with('/')) path += '"';
    }
  } else if (text.starts_with('/')) {
    for (const ChatCommand& command : kCommands) {
      if (command.name.starts_with(text)) found.texts.emplace_back(command.name);
    }
  }
  return found;
}

// Reads messages with an editor from a terminal, and otherwise one per line.
class Input {
 public:
  explicit Input(const ChatFlags& flags) : history_(flags.no_history ? "" : state_file("chat_history")) {
    if (!is_terminal(STDIN_FILENO) || !has_escapes(STDOUT_FILENO)) return;
    editor_.emplace("> ", complete);
    for (const std::string& message : history_.load(kMaxMessages)) editor_->add_to_history(message);
  }
  bool edits() const { return editor_.has_value(); }

  std::optional<std::string> read() {
    if (editor_) {
      auto message = editor_->read();
      if (message && !message->empty()) {
        editor_->add_to_history(*message);
        history_.append(*message);
      }
      return message;
    }
    if (is_terminal(STDIN_FILENO)) std::cout << "> " << std::flush;
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }

 private:
  HistoryFile history_;
  std::optional<LineEditor> editor_;
};

// Runs a command or sends a message. Returns false if the program should end.
bool process(const std::string& line, Conversation& conversation, bool edits) {
  if (line.empty()) return true;
  if (line[0] != '/') {
    conversation.ask(line);
    return true;
  }
  const size_t space = std::min(line.find(' '), line.size());
  const size_t begin = std::min(line.find_first_not_of(' ', space), line.size());
  const std::string argument = line.substr(begin, line.find_last_not_of(' ') + 1 - begin);
  const ChatCommand* command = chat_command(line.substr(0, space));
  const bool complete_command = command != nullptr && (!command->needs_argument || !argument.empty());
  if (!complete_command || (command->argument == Argument::kNone && !argument.empty())) {
    std::cout << (command == nullptr ? "Unknown command " : "Not a command: ") << line << "\n";
    print_chat_help(edits);
    return true;
  }
  if (command->run == nullptr) return false;
  command->run(conversation, argument, edits);
  return true;
}

void say_that_text_is_continued(const std::string& model) {
  std::cerr
      << model
      << " has no chat template: it continues your text instead of answering. --chat-template FILE makes "
         "it a chat.\n";
}

int run_chat(ChatFlags flags) {
  flags.lora = lora_name(flags.lora, flags.config);
  fetch_with_progress(flags.config);
  Interrupts interrupts;
  std::optional<ProgressBar> loading(std::in_place, "Loading");
  LLM llm(flags.config, [&](double done) { loading->update(done); });
  loading.reset();
  const ModelDescription model = llm.model();
  if (model.task != "generate") {
    throw Error(cat(model.name, " (", model.architecture,
                    ") generates no text: it computes embeddings or scores; see quire serve"));
  }
  interrupts.start_conversation();
  ChatSettings settings{
      .sampling = llm.default_sampling_params(), .stats = !flags.no_stats, .lora = flags.lora};
  settings.sampling.max_tokens = model.max_new_tokens;  // 0 = the rest of the context
  flags.sampling.apply(settings.sampling);
  const bool styles = has_styles(STDOUT_FILENO);
  Conversation conversation(llm, interrupts, settings,
                            {.markdown = styles && !flags.no_markdown && model.has_chat_template,
                             .terminal = is_terminal(STDOUT_FILENO),
                             .styles = styles});
  conversation.set_system(flags.system);

  if (!flags.prompts.empty()) {
    conversation.ask(with_piped_text(flags.prompts));
    return 0;
  }
  const bool terminal = is_terminal(STDIN_FILENO);
  if (conversation.continues_text()) say_that_text_is_continued(model.name);
  if (terminal) std::cout << model.name << " is ready. Type /help for a list of commands.\n" << std::flush;
  Input input(flags);
  // Lines of other threads would break an answer or the line that is being edited.
  std::optional<LogHold> hold;
  if (is_terminal(STDERR_FILENO)) hold.emplace();
  while (const auto line = input.read()) {
    if (hold) hold->release();
    try {
      if (!process(*line, conversation, input.edits())) break;
    } catch (const Error& error) {
      std::cout << std::flush;
      std::cerr << "quire chat: " << error.what() << "\n";
    }
    if (hold) hold->release();
  }
  if (terminal) std::cout << "\n";
  return 0;
}

// Replaces flags that would have no effect by ones that say so. Scripts that pass them expect several
// answers or probabilities.
void refuse_flags(CLI::App& command) {
  for (const char* name : kRefusedFlags) {
    command.remove_option(command.get_option(name));
    command
        .add_option_function<std::vector<std::string>>(
            name,
            [name](const std::vector<std::string>&) {
              throw CLI::ValidationError(name, "has no effect in a chat; quire generate has it");
            })
        ->expected(0, 1)
        ->group("");  // hidden
  }
}

CLI::App* add_chat_command(CLI::App& app, int& exit_code, const std::string& name,
                           const std::string& description) {
  CLI::App* command = add_command(app, name, description);
  auto flags = std::make_shared<ChatFlags>();
  add_engine_flags(*command, flags->config);
  const std::string one =
      "Print the response to this message and exit. The text of a pipe is added to the message";
  command->add_option("PROMPT", flags->prompts, one)->type_name("");
  command->add_option("--prompt,-p", flags->more_prompts, one)->type_name("TEXT");
  command->add_option("--system", flags->system, "System prompt")->type_name("TEXT");
  command->add_flag(
      "--no-markdown", flags->no_markdown,
      "Print responses as they are. Markdown is rendered only if stdout is a terminal and NO_COLOR is "
      "not set");
  command->add_flag("--no-history", flags->no_history,
                    "Neither read nor write the history of messages, $XDG_STATE_HOME/quire/chat_history");
  command->add_flag("--no-stats", flags->no_stats,
                    "Do not print tokens, tokens/s and the time to the first token after each answer");
  add_lora_flag(*command, flags->lora);
  add_sampling_flags(*command, flags->sampling);
  refuse_flags(*command);
  CLI::Option* log_level = command->get_option("--log-level")->default_str("warning");
  command->callback([flags, name, log_level, &exit_code] {
    if (log_level->count() == 0) set_log_level(LogLevel::kWarning);
    separate_model(name, flags->config.model, flags->prompts,
                   name == "run" ? TextOnly::kNo : TextOnly::kSentence);
    std::ranges::move(flags->more_prompts, std::back_inserter(flags->prompts));
    exit_code = run_chat(*flags);
  });
  return command;
}

}  // namespace

void add_chat(CLI::App& app, int& exit_code) {
  add_chat_command(app, exit_code, "chat", "Chat with a model in the terminal");
}

void add_run(CLI::App& app, int& exit_code) {
  CLI::App* command = add_chat_command(
      app, exit_code, "run", "Download a model if it is not in the cache, and chat with it in the terminal");
  command->get_option("MODEL")->required();
}

}  // namespace quire::cli
