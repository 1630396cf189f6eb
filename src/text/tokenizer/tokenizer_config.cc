// Reading of the small files next to a tokenizer: roles of tokens, added tokens, chat templates.
#include <charconv>

#include "text/tokenizer/pipeline.h"

namespace quire::tokenizer {

namespace {

// A token, written as its spelling or as an object with "content"; nullopt for anything else.
std::optional<std::string> read_token(const JsonPlace& place) {
  if (!place.present()) return std::nullopt;
  if (place.value().IsString()) return std::string(place.string());
  if (!place.value().IsObject()) return std::nullopt;
  const JsonPlace content = place.member("content");
  return content.present() && content.value().IsString() ? std::optional(std::string(content.string()))
                                                         : std::nullopt;
}

// The tokens named by the keys: "bos_token", "image_token" and the like, and those of the objects in which
// files list the tokens that only their model has.
void read_named_tokens(const JsonPlace& place, bool any_name, TokenizerConfig& config) {
  if (!place.present() || !place.value().IsObject()) return;
  for (const auto& member : place.value().GetObject()) {
    const std::string name(view(member.name));
    if (!any_name && !name.ends_with("_token")) continue;
    const auto token = read_token(JsonPlace(&member.value, place.path() + name));
    if (!token) continue;
    const bool added = config.named_tokens.emplace(name, *token).second;
    if (added && !token->empty()) config.special_tokens.push_back(*token);
  }
}

void read_roles(const JsonPlace& root, TokenizerConfig& config) {
  read_named_tokens(root, false, config);
  for (const char* name : {"extra_special_tokens", "model_specific_special_tokens"})
    read_named_tokens(root.member(name), true, config);
  const auto role = [&](const char* name, std::optional<std::string>& token) {
    if (const auto named = config.named_tokens.find(name); !token && named != config.named_tokens.end())
      token = named->second;
  };
  role("bos_token", config.bos_token);
  role("eos_token", config.eos_token);
  role("unk_token", config.unk_token);
  role("pad_token", config.pad_token);
  for (const char* name : {"additional_special_tokens", "extra_special_tokens"}) {
    const JsonPlace more = root.member(name);
    if (!more.present() || !more.value().IsArray()) continue;
    for (rapidjson::SizeType i = 0; i < more.value().Size(); ++i) {
      if (const auto token = read_token(more.element(i))) config.special_tokens.push_back(*token);
    }
  }
}

void read_chat_templates(const JsonPlace& place, TokenizerConfig& config) {
  if (!place.present()) return;
  if (place.value().IsString()) {
    config.chat_templates["default"] = place.string();
    return;
  }
  if (!place.value().IsArray()) place.fail("must be a string or a list of named templates");
  for (rapidjson::SizeType i = 0; i < place.value().Size(); ++i) {
    const JsonPlace entry = place.element(i);
    config.chat_templates[std::string(entry.member("name").string())] = entry.member("template").string();
  }
}

}  // namespace

void read_tokenizer_config(const JsonFile& file, TokenizerConfig& config) {
  FieldLog log;
  const JsonPlace root(&file.document, file.name + ": ", &log);
  read_roles(root, config);
  const auto flag = [&](const char* name) -> std::optional<bool> {
    const JsonPlace place = root.member(name);
    return place.present() ? std::optional(place.boolean_or(false)) : std::nullopt;
  };
  config.add_bos_token = flag("add_bos_token");
  config.add_eos_token = flag("add_eos_token");
  config.do_lower_case = flag("do_lower_case");
  config.strip_accents = flag("strip_accents");
  config.tokenize_chinese_chars = flag("tokenize_chinese_chars");
  const JsonPlace type = root.member("tokenizer_class");
  if (type.present() && type.value().IsString()) config.tokenizer_class = type.string();
  config.legacy = flag("legacy").value_or(true);
  read_chat_templates(root.member("chat_template"), config);
  const JsonPlace added = root.member("added_tokens_decoder");
  if (auto warning = unread_warning(ConfigFile::kTokenizerConfig, file, log); !warning.empty())
    config.warnings.push_back(std::move(warning));
  if (!added.present()) return;
  added.expect_object();
  for (const auto& member : added.value().GetObject()) {
    const std::string_view key = view(member.name);
    const JsonPlace entry(&member.value, added.path() + "." + std::string(key));
    uint64_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id > kHighestTokenId)
      entry.fail("the key must be a token id");
    AddedToken token = read_added_token(entry);
    token.id = static_cast<TokenId>(id);
    config.added_tokens.push_back(token);
  }
}

void read_special_tokens_map(const JsonFile& file, TokenizerConfig& config) {
  FieldLog log;
  read_roles(JsonPlace(&file.document, file.name + ": ", &log), config);
  if (auto warning = unread_warning(ConfigFile::kTokenizerConfig, file, log); !warning.empty())
    config.warnings.push_back(std::move(warning));
}

void read_sentence_config(const JsonFile& file, TokenizerConfig& config) {
  const JsonPlace root(&file.document, file.name + ": ");
  config.lower_case = root.member("do_lower_case").boolean_or(false);
}

void read_processor_template(const JsonFile& file, TokenizerConfig& config) {
  read_chat_templates(JsonPlace(&file.document, file.name + ": ").member("chat_template"), config);
}

void read_added_tokens(const JsonFile& file, TokenizerConfig& config) {
  const JsonPlace root(&file.document, file.name + ": ");
  for (const auto& member : file.document.GetObject()) {
    AddedToken token;
    token.content = view(member.name);
    token.id =
        static_cast<TokenId>(JsonPlace(&member.value, root.path() + token.content).integer(kHighestTokenId));
    token.normalized = false;
    config.added_tokens.push_back(token);
  }
}

}  // namespace quire::tokenizer
