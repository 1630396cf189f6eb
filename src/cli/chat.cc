// quire chat: a conversation in the terminal.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <iostream>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/progress.h"

namespace quire::cli {
namespace {

constexpr const char* kHelp =
    "/help           this list\n"
    "/reset          forget the conversation\n"
    "/system [TEXT]  set the system prompt and begin anew; without TEXT, none\n"
    "/exit           leave (Ctrl-D too)\n"
    "Ctrl-C          stop the answer\n";

// Turns Ctrl-C into the end of the running answer. The signal is blocked in every thread and taken by one of
// its own, so that it may lock and print.
class Interrupts {
 public:
  Interrupts() : thread_([this] { run(); }) {}
  ~Interrupts() {
    stop_ = true;
    pthread_kill(thread_.native_handle(), SIGINT);
    thread_.join();
  }
  // Must be called before any thread is made.
  static void block() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
  }
  void watch(Stream* stream) {
    const std::lock_guard lock(mutex_);
    stream_ = stream;
  }

 private:
  void run() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    int signal = 0;
    while (sigwait(&set, &signal) == 0 && !stop_) {
      const std::lock_guard lock(mutex_);
      if (stream_ != nullptr) {
        stream_->cancel();
      } else {
        std::cout << "\n(/exit or Ctrl-D leaves)\n> " << std::flush;
      }
    }
  }

  std::mutex mutex_;
  Stream* stream_ = nullptr;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class Conversation {
 public:
  Conversation(LLM& llm, Interrupts& interrupts, SamplingParams params)
      : llm_(llm), interrupts_(interrupts), params_(std::move(params)) {}

  void set_system(const std::string& text) {
    system_ = text;
    reset();
  }
  void reset() {
    messages_.clear();
    if (!system_.empty()) messages_.push_back({"system", system_});
  }
  // Asks, prints the answer as it comes, and remembers both.
  void ask(const std::string& question) {
    messages_.push_back({"user", question});
    std::string answer;
    try {
      SamplingParams params = params_;
      const auto used = static_cast<int32_t>(llm_.chat_prompt(messages_).size());
      const int32_t room = llm_.model().max_model_len - used;
      if (room <= 0) throw Error("the conversation is longer than the model takes; /reset begins anew");
      if (params.max_tokens <= 0 || params.max_tokens > room) params.max_tokens = room;
      Stream stream = llm_.chat_stream(messages_, params);
      interrupts_.watch(&stream);
      while (const auto piece = stream.next()) {
        answer += *piece;
        std::cout << *piece << std::flush;
      }
      interrupts_.watch(nullptr);
      const std::string& reason = stream.completion().finish_reason;
      const char* cut =
          params.max_tokens == room ? " [cut: no room left, /reset begins anew]" : " [cut at --max-tokens]";
      std::cout << (reason == "abort" ? " [stopped]" : reason == "length" ? cut : "") << "\n";
    } catch (const Error& error) {
      interrupts_.watch(nullptr);
      std::cout << std::flush;
      std::cerr << "quire chat: " << error.what() << "\n";
      messages_.pop_back();
      return;
    }
    messages_.push_back({"assistant", answer});
  }

 private:
  LLM& llm_;
  Interrupts& interrupts_;
  SamplingParams params_;
  std::string system_;
  std::vector<ChatMessage> messages_;
};

int run_chat(const EngineConfig& config, const SamplingFlags& sampling, const std::string& system) {
  Interrupts::block();
  std::optional<ProgressBar> loading(std::in_place, "Loading");
  LLM llm(config, [&](double done) { loading->update(done); });
  loading.reset();
  SamplingParams params = llm.default_sampling_params();
  params.max_tokens = 0;  // the rest of the context
  sampling.apply(params);
  Interrupts interrupts;
  Conversation conversation(llm, interrupts, params);
  conversation.set_system(system);

  const bool terminal = isatty(STDIN_FILENO) == 1;
  if (terminal) std::cout << llm.model().name << " is ready. /help lists the commands.\n";
  std::string line;
  while (true) {
    if (terminal) std::cout << "> " << std::flush;
    if (!std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    if (line == "/exit" || line == "/quit") break;
    if (line == "/help") {
      std::cout << kHelp;
    } else if (line == "/reset") {
      conversation.reset();
    } else if (line == "/system" || line.rfind("/system ", 0) == 0) {
      conversation.set_system(line.size() > 8 ? line.substr(8) : "");
    } else if (line[0] == '/') {
      std::cout << "There is no command " << line << ".\n" << kHelp;
    } else {
      conversation.ask(line);
    }
  }
  if (terminal) std::cout << "\n";
  return 0;
}

}  // namespace

void add_chat(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "chat", "Talk with a model in the terminal");
  auto config = std::make_shared<EngineConfig>();
  auto sampling = std::make_shared<SamplingFlags>();
  auto system = std::make_shared<std::string>();
  add_engine_flags(*command, *config);
  command->add_option("--system", *system, "System prompt")->type_name("TEXT");
  add_sampling_flags(*command, *sampling);
  command->callback(
      [config, sampling, system, &exit_code] { exit_code = run_chat(*config, *sampling, *system); });
}

}  // namespace quire::cli
