// quire parse: prints the reasoning, text and tool calls that the server finds in a model's output.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <random>

#include "base/error.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/text_input.h"
#include "engine/chat_context.h"
#include "engine/loader.h"
#include "io/json_file.h"
#include "text/output/choose_format.h"
#include "text/output/output_parser.h"

namespace quire::cli {
namespace {

struct ParseFlags {
  std::string model;
  std::string revision;
  std::string text;
  std::string tools;
  std::string chat_template;
  std::string split_at;
  std::optional<std::string> tool_call_parser;
  std::optional<std::string> reasoning_parser;
  bool json = false;
};

// The formats of an output, and how they were found.
struct OutputFormats {
  DetectedFormat formats;
  OutputStart start = OutputStart::kDefault;
};

Json read_tools(const std::string& path) {
  if (path.empty()) return nullptr;
  Json value = require_json(read_text_file(path), path);
  if (!value.is_array()) throw Error(cat(path, ": must be a list of tools"));
  return value;
}

// The prompt of one user message, whose end tells what the output begins with. Empty if the template refuses.
std::string prompt_of_user(const LoadedText& text, const std::string& source, const Json& tools) {
  Json fields = {{"messages", Json::array({{{"role", "user"}, {"content", "Hello"}}})}};
  if (!tools.is_null()) fields["tools"] = tools;
  if (!source.empty()) fields["chat_template"] = source;
  auto request = read_chat_request(fields);
  if (!request.ok()) throw Error(request.failure().message);
  const auto prompt = render_chat(text.chat_templates, text.tokenizer.get(), std::move(request).value());
  if (prompt.ok()) return *prompt;
  std::fprintf(stderr, "quire parse: %s; the output is taken to begin with text\n",
               prompt.failure().message.c_str());
  return "";
}

OutputFormats find_formats(const ParseFlags& f, const Json& tools) {
  OutputFormats result;
  LoadedText text;
  if (!f.model.empty() || (f.chat_template.empty() && !f.tool_call_parser && !f.reasoning_parser)) {
    fetch_with_progress(f.model, f.revision, true);
    text = load_text(f.model, "", f.revision);
  }
  const std::string source = f.chat_template.empty() ? std::string() : read_text_file(f.chat_template);
  std::optional<ChatTemplate> given;
  if (!source.empty()) given = ChatTemplate::parse(source, f.chat_template);
  const ChatTemplate* chat_template = given ? &*given : tool_template(text.chat_templates);
  if (chat_template != nullptr) {
    result.formats = detect_format(*chat_template, text.tokenizer ? text.tokenizer->named_tokens()
                                                                  : std::map<std::string, std::string>());
    if (result.formats.calls_method == FormatMethod::kGeneric && !f.tool_call_parser)
      std::fprintf(stderr,
                   "quire parse: the template shows no format of tool calls; they are looked for as JSON\n");
  } else if (!f.tool_call_parser && !f.reasoning_parser) {
    throw Error(
        "the model has no chat template; use --chat-template, --tool-call-parser or --reasoning-parser");
  }
  apply_parser_names({f.tool_call_parser, f.reasoning_parser}, result.formats);
  if (chat_template != nullptr) {
    result.start =
        output_start(result.formats.calls, result.formats.reasoning, prompt_of_user(text, source, tools));
  }
  return result;
}

uint64_t split_number(std::string_view text, std::string_view flag) {
  uint64_t value = 0;
  bool valid = !text.empty() && text.size() < 19;
  for (const char c : text) {
    valid = valid && c >= '0' && c <= '9';
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  if (!valid) throw Error(cat(flag, " must be a byte, 'all' or 'random:SEED'"));
  return value;
}

// The bytes at which the text is divided, ascending.
std::vector<size_t> find_cuts(const std::string& split_at, size_t size) {
  constexpr std::string_view kRandom = "random:";
  std::vector<size_t> cuts;
  if (split_at.empty()) return cuts;
  if (split_at == "all") {
    for (size_t i = 1; i < size; ++i) cuts.push_back(i);
  } else if (split_at.starts_with(kRandom)) {
    std::mt19937_64 random(split_number(std::string_view(split_at).substr(kRandom.size()), "--split-at"));
    constexpr size_t kMaxPiece = 12;
    for (size_t at = 0; (at += 1 + random() % kMaxPiece) < size;) cuts.push_back(at);
  } else {
    cuts.push_back(std::min<uint64_t>(split_number(split_at, "--split-at"), size));
  }
  return cuts;
}

Json event_json(const OutputEvent& event, const std::string& id) {
  switch (event.type) {
    case OutputEventType::kReasoning:
      return {{"type", "reasoning"}, {"text", event.text}};
    case OutputEventType::kText:
      return {{"type", "text"}, {"text", event.text}};
    case OutputEventType::kCallBegin:
      return {{"type", "call_begin"}, {"index", event.index}, {"id", id}, {"name", event.name}};
    case OutputEventType::kArguments:
      return {{"type", "arguments"}, {"index", event.index}, {"text", event.text}};
    case OutputEventType::kCallEnd:
      return {{"type", "call_end"}, {"index", event.index}};
  }
  return nullptr;
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

void print_parsed_json(const DetectedFormat& formats, std::span<const OutputEvent> events,
                       const ParsedOutput& output) {
  Json result = {{"reasoning", text_or_null(output.reasoning)},
                 {"content", text_or_null(output.text)},
                 {"tool_calls", Json::array()},
                 {"events", Json::array()},
                 {"tool_call_parser", formats.calls == nullptr ? "none" : formats.calls->name},
                 {"reasoning_parser", formats.reasoning == nullptr ? "none" : formats.reasoning->name}};
  std::vector<std::string> ids;
  for (const auto& call : output.calls) {
    ids.push_back(call_id(formats.calls, static_cast<int>(ids.size()), call.name, call.id, 0));
    result["tool_calls"].push_back({{"id", ids.back()}, {"name", call.name}, {"arguments", call.arguments}});
  }
  for (const auto& event : events)
    result["events"].push_back(event_json(event, ids.empty() ? "" : ids[static_cast<size_t>(event.index)]));
  std::cout << result.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

void print_parsed_text(const DetectedFormat& formats, const ParsedOutput& output) {
  std::cout << "tool-call parser: " << (formats.calls == nullptr ? "none" : formats.calls->name)
            << "\nreasoning parser: " << (formats.reasoning == nullptr ? "none" : formats.reasoning->name)
            << "\n";
  if (!output.reasoning.empty()) std::cout << "reasoning:\n" << output.reasoning << "\n";
  if (!output.text.empty()) std::cout << "content:\n" << output.text << "\n";
  for (const auto& call : output.calls) {
    std::cout << "call: " << call.name << "\n" << call.arguments << "\n";
    if (!call.complete) std::cout << "(the output ends within this call)\n";
  }
}

int run_parse(const ParseFlags& f) {
  const Json tools = read_tools(f.tools);
  const OutputFormats found = find_formats(f, tools);
  const std::string text = read_text(f.text, int64_t{1} << 40);
  OutputParserOptions options;
  options.calls = found.formats.calls;
  options.reasoning = found.formats.reasoning;
  options.tools = std::make_shared<const ToolSet>(tools);
  options.start = found.start;
  OutputParser parser(options);
  std::vector<OutputEvent> events;
  size_t begin = 0;
  for (const size_t cut : find_cuts(f.split_at, text.size())) {
    parser.push(std::string_view(text).substr(begin, cut - begin), events);
    begin = cut;
  }
  parser.push(std::string_view(text).substr(begin), events);
  parser.finish(events);
  const ParsedOutput output = fold_events(events);
  if (f.json) {
    print_parsed_json(found.formats, events, output);
  } else {
    print_parsed_text(found.formats, output);
  }
  return 0;
}

}  // namespace

void add_parse(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(
      app, "parse", "Print the reasoning, text and tool calls that the server finds in a model's output");
  auto f = std::make_shared<ParseFlags>();
  add_model_flag(*command, f->model, f->revision);
  command->add_option("--text", f->text, "Output of the model (- = standard input)")
      ->required()
      ->type_name("FILE");
  command->add_flag("--json", f->json, "Print a JSON object, with the events of a stream");
  command
      ->add_option("--tool-call-parser", f->tool_call_parser,
                   "Format of tool calls, or none (default: found with the chat template)")
      ->type_name("NAME");
  command
      ->add_option("--reasoning-parser", f->reasoning_parser,
                   "Format of reasoning, or none (default: found with the chat template)")
      ->type_name("NAME");
  command->add_option("--tools", f->tools, "JSON list of tools")->type_name("FILE");
  command
      ->add_option("--chat-template", f->chat_template, "Jinja file that replaces the model's chat template")
      ->type_name("FILE");
  command
      ->add_option(
          "--split-at", f->split_at,
          "Pass the output to the parser in pieces: divided at this byte, at all bytes, or at random")
      ->type_name("BYTE|all|random:SEED");
  command->callback([f, &exit_code] { exit_code = run_parse(*f); });
}

}  // namespace quire::cli
