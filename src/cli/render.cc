// quire render: prints the prompt that the chat template produces. Does not load the weights.
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "engine/chat_context.h"
#include "engine/loader.h"
#include "io/json_file.h"

namespace quire::cli {
namespace {

using nlohmann::ordered_json;

struct RenderFlags {
  std::string model;
  std::string revision;
  std::string messages;
  std::string chat_template;
  std::string tools;
  std::string documents;
  std::string kwargs;
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  bool no_generation_prompt = false;
  bool continue_final_message = false;
};

ordered_json read_ordered(const std::string& path) {
  if (path.empty()) return nullptr;
  ordered_json value = ordered_json::parse(read_text_file(path), nullptr, false);
  if (value.is_discarded()) throw Error(cat(path, ": not valid JSON"));
  return value;
}

int run_render(const RenderFlags& f) {
  LoadedText text;
  std::optional<ChatTemplate> given;
  // With --chat-template no model is needed; the special tokens then come from flags.
  if (!f.chat_template.empty()) given = ChatTemplate::parse(read_text_file(f.chat_template), f.chat_template);
  fetch_with_progress(f.model, f.revision, true);
  if (!given || !f.model.empty()) text = load_text(f.model, f.chat_template, f.revision);
  if (!given && !text.chat_template) throw Error("the model has no chat template; use --chat-template FILE");

  ChatRenderOptions options;
  options.messages = read_ordered(f.messages);
  if (options.messages.is_object() && options.messages.contains("messages")) {
    options.messages = ordered_json(options.messages["messages"]);
  }
  if (!options.messages.is_array()) throw Error(cat(f.messages, ": must be a list of messages"));
  options.tools = read_ordered(f.tools);
  options.documents = read_ordered(f.documents);
  if (!f.kwargs.empty()) {
    options.kwargs = ordered_json::parse(f.kwargs, nullptr, false);
    if (!options.kwargs.is_object()) throw Error("--kwargs: must be a JSON object");
  }
  options.add_generation_prompt = !f.no_generation_prompt && !f.continue_final_message;
  options.continue_final_message = f.continue_final_message;
  options.bos_token = f.bos_token;
  options.eos_token = f.eos_token;
  add_chat_context(options, text.tokenizer.get());
  const auto prompt = (given ? *given : *text.chat_template).render(options);
  if (!prompt.ok()) throw Error(prompt.failure().message);
  std::cout << *prompt << std::flush;
  return 0;
}

}  // namespace

void add_render(CLI::App& app, int& exit_code) {
  CLI::App* command =
      add_command(app, "render", "Print the prompt that the chat template produces from messages");
  auto f = std::make_shared<RenderFlags>();
  add_model_flag(*command, f->model, f->revision);
  command->add_option("--messages", f->messages, "JSON list of messages")->required()->type_name("FILE");
  command
      ->add_option("--chat-template", f->chat_template, "Jinja file that replaces the model's chat template")
      ->type_name("FILE");
  command->add_option("--tools", f->tools, "JSON list of tools")->type_name("FILE");
  command->add_option("--documents", f->documents, "JSON list of documents")->type_name("FILE");
  command->add_option("--kwargs", f->kwargs, "Additional template variables as a JSON object")
      ->type_name("JSON");
  command->add_option("--bos-token", f->bos_token, "Start token (default: the tokenizer's)")
      ->type_name("TEXT");
  command->add_option("--eos-token", f->eos_token, "End token (default: the tokenizer's)")->type_name("TEXT");
  command->add_flag("--no-add-generation-prompt", f->no_generation_prompt,
                    "Do not append the start of the assistant's turn");
  command->add_flag("--continue-final-message", f->continue_final_message,
                    "Leave the last message open, so that generation continues it");
  command->callback([f, &exit_code] { exit_code = run_render(*f); });
}

}  // namespace quire::cli
