// quire render: prints the prompt that the chat template produces. Does not load the weights.
#include <iostream>

#include "base/error.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "engine/chat_context.h"
#include "engine/loader.h"
#include "io/json_file.h"

namespace quire::cli {
namespace {

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

// The fields of a chat request: a file with one, or with its messages, and what the flags add.
Json read_fields(const RenderFlags& f) {
  Json fields = require_json(read_text_file(f.messages), f.messages);
  if (fields.is_array()) fields = {{"messages", std::move(fields)}};
  if (!fields.is_object() || !fields.contains("messages"))
    throw Error(cat(f.messages, ": must be a list of messages"));
  if (!f.tools.empty()) fields["tools"] = require_json(read_text_file(f.tools), f.tools);
  if (!f.documents.empty()) fields["documents"] = require_json(read_text_file(f.documents), f.documents);
  if (!f.kwargs.empty()) fields["chat_template_kwargs"] = require_json(f.kwargs, "--kwargs");
  if (!f.chat_template.empty()) fields["chat_template"] = read_text_file(f.chat_template);
  if (f.continue_final_message) fields["continue_final_message"] = true;
  if (f.no_generation_prompt || f.continue_final_message) fields["add_generation_prompt"] = false;
  return fields;
}

int run_render(const RenderFlags& f) {
  auto request = read_chat_request(read_fields(f), MediaParts::kKeep);
  if (!request.ok()) throw Error(request.failure().message);
  // A template needs no model; the special tokens then come from flags.
  LoadedText text;
  fetch_with_progress(f.model, f.revision, true);
  if (request->chat_template.empty() || !f.model.empty()) text = load_text(f.model, "", f.revision);
  if (request->chat_template.empty() && text.chat_templates.empty())
    throw Error("the model has no chat template; use --chat-template FILE");
  if (f.bos_token) request->special_tokens["bos_token"] = *f.bos_token;
  if (f.eos_token) request->special_tokens["eos_token"] = *f.eos_token;
  const auto prompt = render_chat(text.chat_templates, text.tokenizer.get(), std::move(request).value());
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
