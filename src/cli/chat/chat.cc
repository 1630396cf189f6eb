// quire chat: a conversation in the terminal.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <utility>

#include "base/error.h"
#include "cli/chat/attachments.h"
#include "cli/chat/history_file.h"
#include "cli/chat/interrupts.h"
#include "cli/chat/line_editor.h"
#include "cli/chat/markdown.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/progress.h"
#include "cli/terminal.h"

namespace quire::cli {
namespace {

constexpr size_t kMaxMessages = 1000;
constexpr std::array kCommands{"/exit", "/file", "/help", "/quit", "/reset", "/system"};

constexpr const char* kHelp =
    "/file PATH      attach a text file to the next message\n"
    "/system [TEXT]  set the system prompt (or remove it) and start a new conversation\n"
    "/reset          start a new conversation\n"
    "/help           show this list\n"
    "/exit           exit (or press Ctrl-D)\n"
    "@PATH in a message attaches the text file PATH; @\"PATH\" if it contains spaces\n";
constexpr const char* kKeys =
    "Ctrl-C          stop the response; discard the message that is being edited\n"
    "Alt-Enter       start a new line (also Ctrl-J, or Enter after a backslash)\n"
    "Up, Down        earlier and later messages; Ctrl-R searches them\n"
    "Tab             complete a command or a path\n";

struct ChatFlags {
  EngineConfig config;
  SamplingFlags sampling;
  std::string system;
  bool no_markdown = false;
  bool no_history = false;
};

// Prints a response while it is generated.
class ResponsePrinter {
 public:
  explicit ResponsePrinter(bool markdown)
      : markdown_(markdown), renderer_(terminal_size(STDOUT_FILENO).columns) {}

  void print(const std::string& piece) {
    std::cout << (markdown_                    ? renderer_.feed(piece)
                  : is_terminal(STDOUT_FILENO) ? without_controls(piece)
                                               : piece)
              << std::flush;
    ends_line_ = piece.empty() ? ends_line_ : piece.back() == '\n';
  }
  // Ends the response with a remark why it was stopped, or an empty one.
  void finish(const std::string& remark) {
    if (markdown_) {
      std::cout << renderer_.finish() << (remark.empty() ? "" : remark + "\n") << std::flush;
    } else {
      std::cout << (remark.empty() || ends_line_ ? "" : " ") << remark << "\n" << std::flush;
    }
  }

 private:
  bool markdown_;
  MarkdownRenderer renderer_;
  bool ends_line_ = true;
};

class Conversation {
 public:
  Conversation(LLM& llm, Interrupts& interrupts, SamplingParams params, bool markdown)
      : llm_(llm), interrupts_(interrupts), params_(std::move(params)), markdown_(markdown) {}

  void set_system(const std::string& text) {
    system_ = text;
    reset();
  }
  void reset() {
    messages_.clear();
    attachments_.clear();
    if (!system_.empty()) messages_.push_back({"system", system_});
  }
  // Attaches a file to the next message. Throws Error.
  void attach(const std::string& path) { attachments_.push_back(read_attachment(path)); }

  // Sends a message with its files, prints the response as it is generated, and adds both to the
  // conversation. Throws Error and leaves the conversation as it was if the message cannot be sent.
  void ask(const std::string& message) {
    std::vector<Attachment> files = attachments_;
    std::ranges::move(read_mentions(message), std::back_inserter(files));
    messages_.push_back({"user", with_attachments(message, files)});
    try {
      messages_.push_back({"assistant", respond()});
    } catch (const Error&) {
      messages_.pop_back();
      throw;
    }
    attachments_.clear();
  }

 private:
  std::string respond() {
    std::string response;
    SamplingParams params = params_;
    const auto used = static_cast<int32_t>(llm_.chat_prompt(messages_).size());
    const int32_t room = llm_.model().max_model_len - used;
    if (room <= 0)
      throw Error("the conversation exceeds the maximum length of the model; /reset starts a new one");
    if (params.max_tokens <= 0 || params.max_tokens > room) params.max_tokens = room;
    Stream stream = llm_.chat_stream(messages_, params);
    ResponsePrinter printer(markdown_);
    interrupts_.watch(&stream);
    try {
      while (const auto piece = stream.next()) {
        response += *piece;
        printer.print(*piece);
      }
    } catch (...) {
      interrupts_.watch(nullptr);
      throw;
    }
    interrupts_.watch(nullptr);
    const std::string& reason = stream.completion().finish_reason;
    const char* cut = params.max_tokens == room ? "[stopped: context is full, /reset starts a new one]"
                                                : "[stopped at --max-tokens]";
    printer.finish(reason == "abort" ? "[stopped]" : reason == "length" ? cut : "");
    return response;
  }

  LLM& llm_;
  Interrupts& interrupts_;
  SamplingParams params_;
  bool markdown_;
  std::string system_;
  std::vector<Attachment> attachments_;  // for the next message
  std::vector<ChatMessage> messages_;
};

// Completes commands and paths.
Completions complete(std::string_view text) {
  Completions found;
  constexpr std::string_view kFile = "/file ";
  const size_t mention = mention_at_end(text);
  if (text.starts_with(kFile)) {
    found.begin = kFile.size();
    found.texts = complete_path(std::string(text.substr(kFile.size())));
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
    for (const char* command : kCommands) {
      if (std::string_view(command).starts_with(text)) found.texts.emplace_back(command);
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
  const size_t space = std::min(line.find(' '), line.size());
  const std::string command = line.substr(0, space);
  const std::string argument = space < line.size() ? line.substr(space + 1) : "";
  const auto print_help = [edits] {
    std::cout << kHelp << (edits ? kKeys : "Ctrl-C          stop the response\n");
  };
  if (line.empty()) return true;
  if (line[0] != '/') {
    conversation.ask(line);
  } else if (line == "/exit" || line == "/quit") {
    return false;
  } else if (line == "/help") {
    print_help();
  } else if (line == "/reset") {
    conversation.reset();
  } else if (command == "/system") {
    conversation.set_system(argument);
  } else if (command == "/file" && !argument.empty()) {
    const std::string path = argument.substr(0, argument.find_last_not_of(' ') + 1);
    conversation.attach(path);
    std::cout << path << " is attached to the next message.\n";
  } else {
    std::cout << "Unknown command " << line << "\n";
    print_help();
  }
  return true;
}

int run_chat(const ChatFlags& flags) {
  fetch_with_progress(flags.config);
  Interrupts interrupts;
  std::optional<ProgressBar> loading(std::in_place, "Loading");
  LLM llm(flags.config, [&](double done) { loading->update(done); });
  loading.reset();
  interrupts.start_conversation();
  SamplingParams params = llm.default_sampling_params();
  params.max_tokens = llm.model().max_new_tokens;  // 0 = the rest of the context
  flags.sampling.apply(params);
  Conversation conversation(llm, interrupts, params, has_styles(STDOUT_FILENO) && !flags.no_markdown);
  conversation.set_system(flags.system);

  const bool terminal = is_terminal(STDIN_FILENO);
  if (terminal)
    std::cout << llm.model().name << " is ready. Type /help for a list of commands.\n" << std::flush;
  Input input(flags);
  while (const auto line = input.read()) {
    try {
      if (!process(*line, conversation, input.edits())) break;
    } catch (const Error& error) {
      std::cout << std::flush;
      std::cerr << "quire chat: " << error.what() << "\n";
    }
  }
  if (terminal) std::cout << "\n";
  return 0;
}

}  // namespace

namespace {

CLI::App* add_chat_command(CLI::App& app, int& exit_code, const std::string& name,
                           const std::string& description) {
  CLI::App* command = add_command(app, name, description);
  auto flags = std::make_shared<ChatFlags>();
  add_engine_flags(*command, flags->config);
  command->add_option("--system", flags->system, "System prompt")->type_name("TEXT");
  command->add_flag(
      "--no-markdown", flags->no_markdown,
      "Print responses as they are. Markdown is rendered only if stdout is a terminal and NO_COLOR is "
      "not set");
  command->add_flag("--no-history", flags->no_history,
                    "Neither read nor write the history of messages, $XDG_STATE_HOME/quire/chat_history");
  add_sampling_flags(*command, flags->sampling);
  command->callback([flags, &exit_code] { exit_code = run_chat(*flags); });
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
