#include "text/tokenizer/vocab_files.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "text/tokenizer/vocabulary.h"

namespace quire::tokenizer {
namespace {

using nlohmann::json;

// Tokens around a text.
enum class TextFrame : uint8_t {
  kFlags,
  kBert,
  kRoberta
};  // kFlags: bos and eos, by add_bos_token and add_eos_token

// The roles of special tokens, in the order in which new ones get their ids.
constexpr std::array<const char*, 7> kRoles = {"bos_token", "eos_token", "unk_token", "sep_token",
                                               "pad_token", "cls_token", "mask_token"};
using RoleDefaults = std::array<const char*, kRoles.size()>;  // empty = none

constexpr RoleDefaults kGptRoles = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", "", "", "", ""};
constexpr RoleDefaults kQwenRoles = {"", "<|endoftext|>", "<|endoftext|>", "", "<|endoftext|>", "", ""};
constexpr RoleDefaults kRobertaRoles = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"};
constexpr RoleDefaults kBertRoles = {"", "", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
constexpr RoleDefaults kMpnetRoles = {"<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"};

// Expressions that split a text before the byte-level step; empty = that of GPT-2, which is part of the step.
constexpr const char* kQwen2Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// A class of tokenizers, and the models whose tokenizers have it if they do not name another.
struct TokenizerClass {
  std::string_view names;   // without "Fast", separated by spaces
  std::string_view models;  // values of model_type
  bool words;               // WordPiece of vocab.txt, otherwise BPE
  RoleDefaults roles;
  TextFrame frame;
  const char* split = "";
};
constexpr std::array<TokenizerClass, 5> kClasses = {{
    {"GPT2Tokenizer CodeGenTokenizer", "gpt2 gpt_neo gptj opt phi starcoder2", false, kGptRoles,
     TextFrame::kFlags},
    {"Qwen2Tokenizer", "qwen2 qwen2_moe qwen3 qwen3_moe qwen3_next", false, kQwenRoles, TextFrame::kFlags,
     kQwen2Split},
    {"RobertaTokenizer BartTokenizer LongformerTokenizer", "roberta bart", false, kRobertaRoles,
     TextFrame::kRoberta},
    {"BertTokenizer DistilBertTokenizer ElectraTokenizer", "bert distilbert electra nomic_bert", true,
     kBertRoles, TextFrame::kBert},
    {"MPNetTokenizer", "mpnet", true, kMpnetRoles, TextFrame::kRoberta},
}};

bool lists(std::string_view names, std::string_view name) {
  return !name.empty() && cat(" ", names, " ").find(cat(" ", name, " ")) != std::string::npos;
}

const TokenizerClass* find_class(std::string_view name, std::string_view model_type) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  const bool general = name.empty() || name == "PreTrainedTokenizer" || name == "TokenizersBackend";
  for (const TokenizerClass& row : kClasses) {
    if (general ? lists(row.models, model_type) : lists(row.names, name)) return &row;
  }
  return nullptr;
}

// An optional file; an empty object if it does not exist.
void parse_optional(std::string_view text, JsonFile& file) {
  parse_json(text.empty() ? "{}" : text, file);
}

// The small files next to a vocabulary.
struct Settings {
  explicit Settings(const VocabFiles& files) {
    config.name = files.origin + "/tokenizer_config.json";
    map.name = files.origin + "/special_tokens_map.json";
    model.name = files.origin + "/config.json";
    parse_optional(files.tokenizer_config_json, config);
    parse_optional(files.special_tokens_map_json, map);
    parse_optional(files.model_config_json, model);
  }
  static JsonPlace root(const JsonFile& file) { return {&file.document, file.name + ": "}; }
  std::string text(const JsonFile& file, const char* name) const {
    const JsonPlace place = root(file).member(name);
    return place.present() && place.value().IsString() ? std::string(place.string()) : std::string();
  }
  bool flag(const char* name, bool otherwise) const {
    return root(config).member(name).boolean_or(otherwise);
  }

  JsonFile config, map, model;
};

// The token of a role; an empty one if the role has none.
AddedToken token_of_role(const Settings& settings, size_t role, const RoleDefaults& defaults) {
  AddedToken token;
  token.special = true;
  token.normalized = false;
  for (const JsonFile* file : {&settings.config, &settings.map}) {
    const auto at = file->document.FindMember(kRoles[role]);
    if (at == file->document.MemberEnd()) continue;
    if (at->value.IsString()) token.content = view(at->value);
    if (at->value.IsObject()) token = read_added_token(Settings::root(*file).member(kRoles[role]));
    token.special = true;
    return token;
  }
  token.content = defaults[role];
  return token;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t'))
      line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string quoted_json(std::string_view text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

// "model" of tokenizer.json from vocab.json and merges.txt.
std::string bpe_model(const VocabFiles& files) {
  JsonFile vocabulary;  // reports errors with the name of the file
  vocabulary.name = files.origin + "/vocab.json";
  parse_json(files.vocab_json, vocabulary);
  std::string_view vocab = files.vocab_json;
  if (vocab.starts_with("\xEF\xBB\xBF")) vocab.remove_prefix(3);
  std::string text = cat(R"({"type":"BPE","vocab":)", vocab, R"(,"merges":[)");
  bool first = true;
  for (const std::string_view line : lines_of(files.merges_txt)) {
    if (line.empty() || line.starts_with("#version")) continue;
    text += cat(first ? "" : ",", quoted_json(line));
    first = false;
  }
  return text + "]}";
}

// "model" of tokenizer.json from vocab.txt, whose lines are the tokens. The last of equal ones counts.
std::string word_piece_model(const VocabFiles& files, const std::string& unknown) {
  std::map<std::string_view, size_t> ids;
  const auto lines = lines_of(files.vocab_txt);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].empty()) ids[lines[i]] = i;
  }
  std::string text = cat(R"({"type":"WordPiece","unk_token":)", quoted_json(unknown), R"(,"vocab":{)");
  bool first = true;
  for (const auto& [token, id] : ids) {
    text += cat(first ? "" : ",", quoted_json(token), ":", id);
    first = false;
  }
  return text + "}}";
}

// The steps of tokenizer.json besides the model and the tokens around the text.
json pipeline_steps(const TokenizerClass& kind, const Settings& settings) {
  if (kind.words) {
    const JsonPlace accents = Settings::root(settings.config).member("strip_accents");
    return {{"normalizer",
             {{"type", "BertNormalizer"},
              {"clean_text", true},
              {"handle_chinese_chars", settings.flag("tokenize_chinese_chars", true)},
              {"strip_accents", accents.present() ? json(accents.boolean_or(false)) : json()},
              {"lowercase", settings.flag("do_lower_case", true)}}},
            {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
            {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}}};
  }
  const bool own_split = *kind.split != '\0';
  json bytes = {{"type", "ByteLevel"},
                {"add_prefix_space", settings.flag("add_prefix_space", false)},
                {"use_regex", !own_split}};
  json steps = {{"decoder", {{"type", "ByteLevel"}}}};
  if (own_split) {
    const json split = {
        {"type", "Split"}, {"pattern", {{"Regex", kind.split}}}, {"behavior", "Isolated"}, {"invert", false}};
    steps["normalizer"] = {{"type", "NFC"}};
    steps["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
  } else {
    steps["pre_tokenizer"] = std::move(bytes);
  }
  return steps;
}

// Finds the ids of the special tokens: in the vocabulary, among the added tokens, or new ones after both.
void add_special_tokens(std::vector<AddedToken> tokens, const Pipeline& pipeline, TokenizerConfig& config) {
  auto next = static_cast<TokenId>(pipeline.vocabulary.size());
  for (const AddedToken& token : config.added_tokens) next = std::max(next, token.id + 1);
  for (AddedToken& token : tokens) {
    config.special_tokens.push_back(token.content);
    const auto known = std::ranges::find(config.added_tokens, token.content, &AddedToken::content);
    if (known != config.added_tokens.end()) continue;
    const auto id = pipeline.vocabulary.find(token.content);
    token.id = id ? *id : next++;
    config.added_tokens.push_back(std::move(token));
  }
}

TokenId special_id(const std::string& content, const char* role, const TokenizerConfig& config,
                   const std::string& origin) {
  const auto at = std::ranges::find(config.added_tokens, content, &AddedToken::content);
  if (content.empty() || at == config.added_tokens.end())
    throw Error(cat(origin, "/tokenizer_config.json: ", role, " is missing"));
  return at->id;
}

// The tokens around a text and a pair of texts.
PostProcessor make_frame(const TokenizerClass& kind, const std::array<std::string, kRoles.size()>& roles,
                         const TokenizerConfig& config, const std::string& origin) {
  PostProcessor processor;
  const auto id = [&](size_t role) { return special_id(roles[role], kRoles[role], config, origin); };
  if (kind.frame == TextFrame::kFlags) {
    std::vector<PostProcessor::Part> parts;
    std::vector<PostProcessor::PairPart> pair;
    const bool bos = config.add_bos_token.value_or(false);
    const bool eos = config.add_eos_token.value_or(false);
    if (!bos && !eos) return processor;
    if (bos) parts.push_back({false, id(0)});
    parts.push_back({true, -1});
    if (eos) parts.push_back({false, id(1)});
    for (int text = 0; text < 2; ++text) {
      if (bos) pair.push_back({-1, id(0), text});
      pair.push_back({text, -1, text});
      if (eos) pair.push_back({-1, id(1), text});
    }
    processor.templates.push_back(std::move(parts));
    processor.pair = std::move(pair);
    return processor;
  }
  const TokenId sep = id(3);
  const TokenId cls = id(5);
  processor.templates.push_back({{false, cls}, {true, -1}, {false, sep}});
  if (kind.frame == TextFrame::kBert) {
    processor.pair = {{-1, cls, 0}, {0, -1, 0}, {-1, sep, 0}, {1, -1, 1}, {-1, sep, 1}};
  } else {
    processor.pair = {{-1, cls, 0}, {0, -1, 0}, {-1, sep, 0}, {-1, sep, 0}, {1, -1, 0}, {-1, sep, 0}};
  }
  return processor;
}

}  // namespace

std::string read_vocab_files(const VocabFiles& files, Pipeline& pipeline, TokenizerConfig& config) {
  const Settings settings(files);
  std::string name = settings.text(settings.config, "tokenizer_class");
  if (name.empty()) name = settings.text(settings.model, "tokenizer_class");
  const std::string model_type = settings.text(settings.model, "model_type");
  const TokenizerClass* kind = find_class(name, model_type);
  const bool has_files =
      kind != nullptr &&
      (kind->words ? !files.vocab_txt.empty() : !files.vocab_json.empty() && !files.merges_txt.empty());
  if (!has_files)
    return name.empty() ? cat("of ", model_type.empty() ? "an unknown model" : model_type) : name;

  std::array<std::string, kRoles.size()> roles;
  std::vector<AddedToken> special;
  for (size_t i = 0; i < kRoles.size(); ++i) {
    AddedToken token = token_of_role(settings, i, kind->roles);
    roles[i] = token.content;
    if (!token.content.empty()) special.push_back(std::move(token));
  }
  config.bos_token = roles[0];
  config.eos_token = roles[1];
  config.unk_token = roles[2];
  config.pad_token = roles[4];

  std::string steps = pipeline_steps(*kind, settings).dump();
  steps.pop_back();
  JsonFile whole;
  whole.name = cat(files.origin, kind->words ? "/vocab.txt" : "/vocab.json with merges.txt");
  parse_json(
      cat(steps, ",\"model\":", kind->words ? word_piece_model(files, roles[2]) : bpe_model(files), "}"),
      whole);
  read_tokenizer_json(whole, pipeline, config.warnings);

  if (!Settings::root(settings.config).member("added_tokens_decoder").present()) {
    // Those of added_tokens.json: special ones are matched in the original text, others in the normalized
    // one.
    for (AddedToken& token : config.added_tokens) {
      const bool is_special =
          std::ranges::find(config.special_tokens, token.content) != config.special_tokens.end();
      token.normalized = !is_special;
    }
  }
  const std::vector<std::string> more = config.special_tokens;
  for (const std::string& content : more) {
    if (std::ranges::find(special, content, &AddedToken::content) != special.end()) continue;
    AddedToken& token = special.emplace_back();
    token.content = content;
    token.special = true;
    token.normalized = false;
  }
  add_special_tokens(std::move(special), pipeline, config);
  pipeline.post_processor = make_frame(*kind, roles, config, files.origin);
  return {};
}

}  // namespace quire::tokenizer
