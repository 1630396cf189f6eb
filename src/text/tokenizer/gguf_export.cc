#include "text/tokenizer/gguf_export.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "io/json_file.h"
#include "text/tokenizer/gguf.h"

namespace quire {
namespace {

using nlohmann::json;

// tokenizer.ggml.token_type.
constexpr int32_t kNormal = 1;
constexpr int32_t kUnknown = 2;
constexpr int32_t kControl = 3;
constexpr int32_t kUserDefined = 4;
constexpr int32_t kUnused = 5;
constexpr int32_t kByte = 6;

const json& member(const json& object, const char* key) {
  static const json none;
  const auto at = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && at != object.end() ? *at : none;
}

// The steps that split text, one string each; empty if a step has no equivalent in GGUF.
std::vector<std::string> steps_of(const json& pre_tokenizer) {
  std::vector<std::string> steps;
  const auto add = [&](const json& step) {
    const std::string type = member(step, "type").is_string() ? step["type"].get<std::string>() : "";
    if (type == "Split" && member(member(step, "pattern"), "Regex").is_string()) {
      steps.push_back("cut " + step["pattern"]["Regex"].get<std::string>());
    } else if (type == "ByteLevel") {
      steps.emplace_back(member(step, "use_regex") == json(false) ? "bytes" : "bytes, GPT-2's expression");
    } else if (type == "Digits") {
      steps.emplace_back(member(step, "individual_digits") == json(true) ? "digits" : "numbers");
    } else {
      steps.push_back(type);
    }
  };
  if (member(pre_tokenizer, "type") == json("Sequence")) {
    for (const json& step : member(pre_tokenizer, "pretokenizers")) add(step);
  } else if (pre_tokenizer.is_object()) {
    add(pre_tokenizer);
  }
  return steps;
}

std::vector<std::string> steps_of(const tokenizer::GgufRules& rules) {
  json steps = json::array();
  for (const json& entry : json::parse(rules.expressions)) {
    steps.push_back(entry.is_string() ? json{{"type", "Split"}, {"pattern", {{"Regex", entry}}}} : entry);
  }
  const bool has_bytes =
      std::ranges::any_of(steps, [](const json& step) { return step["type"] == "ByteLevel"; });
  if (!has_bytes) steps.push_back({{"type", "ByteLevel"}, {"use_regex", rules.byte_level_expression}});
  return steps_of(json{{"type", "Sequence"}, {"pretokenizers", steps}});
}

bool composes(const json& normalizer) {
  if (member(normalizer, "type") == json("NFC")) return true;
  return std::ranges::any_of(member(normalizer, "normalizers"),
                             [](const json& step) { return member(step, "type") == json("NFC"); });
}

// The GGUF name of the pre-tokenizer with the same steps; empty if there is none.
std::string rules_of(const json& file) {
  const auto steps = steps_of(member(file, "pre_tokenizer"));
  const bool nfc = composes(member(file, "normalizer"));
  const bool ignore_merges = member(member(file, "model"), "ignore_merges") == json(true);
  for (const tokenizer::GgufRules& rules : tokenizer::gguf_rules()) {
    if (rules.nfc == nfc && rules.ignore_merges == ignore_merges && steps_of(rules) == steps)
      return std::string(rules.names.substr(0, rules.names.find(' ')));
  }
  return {};
}

// A merge as "a b", for both formats of the file.
std::string merge_text(const json& merge) {
  if (merge.is_string()) return merge.get<std::string>();
  return cat(merge.at(0).get<std::string>(), " ", merge.at(1).get<std::string>());
}

struct Tokens {
  std::vector<std::string> spellings;
  std::vector<int32_t> types;
};

Tokens tokens_of(const json& file, int64_t vocab_size, bool pieces) {
  Tokens tokens;
  tokens.spellings.resize(static_cast<size_t>(vocab_size));
  tokens.types.assign(tokens.spellings.size(), kUnused);
  const auto put = [&](const std::string& text, const json& id, int32_t type) {
    if (!id.is_number_integer() || id < 0 || id >= vocab_size)
      throw Error(
          cat("tokenizer.json: token '", text, "' has an invalid id; ids must be below ", vocab_size));
    tokens.spellings[id.get<size_t>()] = text;
    tokens.types[id.get<size_t>()] = type;
  };
  for (const auto& [text, id] : member(member(file, "model"), "vocab").items()) {
    const bool byte = pieces && text.size() == 6 && text.starts_with("<0x") && text.ends_with(">");
    put(text, id, byte ? kByte : kNormal);
  }
  for (const json& token : member(file, "added_tokens"))
    put(token.at("content").get<std::string>(), token.at("id"),
        member(token, "special") == json(true) ? kControl : kUserDefined);
  for (size_t i = 0; i < tokens.spellings.size(); ++i) {
    if (tokens.spellings[i].empty()) tokens.spellings[i] = cat("[PAD", i, "]");
  }
  return tokens;
}

}  // namespace

std::string add_gguf_tokenizer(const TokenizerFiles& files, const Tokenizer& tokenizer, int64_t vocab_size,
                               GgufMetadata& out) {
  if (files.tokenizer_json.empty())
    throw Error(cat(files.origin, ": no tokenizer.json; it is required for GGUF files"));
  const json file = parse_json(files.tokenizer_json, cat(files.origin, "/tokenizer.json"));
  const json& model = member(file, "model");
  if (member(model, "type") != json("BPE") || !member(model, "vocab").is_object() ||
      !member(model, "merges").is_array())
    throw Error(cat(files.origin, "/tokenizer.json: only BPE tokenizers can be written as GGUF"));
  const bool pieces = member(model, "byte_fallback") == json(true);
  Tokens tokens = tokens_of(file, vocab_size, pieces);
  std::vector<std::string> merges;
  for (const json& merge : model["merges"]) merges.push_back(merge_text(merge));
  if (const auto unknown = tokenizer.unk_id(); pieces && unknown)
    tokens.types[static_cast<size_t>(*unknown)] = kUnknown;

  std::string note;
  out.text("tokenizer.ggml.model", pieces ? "llama" : "gpt2");
  if (pieces) {
    out.text("tokenizer.ggml.pre", "default");
    // Pieces are merged in the order of their scores, which correspond to the order of merges.
    std::map<std::string, float, std::less<>> scores;
    for (size_t i = 0; i < merges.size(); ++i) {
      std::string both = merges[i];
      both.erase(both.find(' ', 1), 1);
      scores.emplace(std::move(both), -static_cast<float>(i));
    }
    std::vector<float> all;
    for (const std::string& token : tokens.spellings) {
      const auto at = scores.find(token);
      all.push_back(at == scores.end() ? -1e6F : at->second);
    }
    out.f32s("tokenizer.ggml.scores", all);
  } else {
    std::string rules = rules_of(file);
    if (rules.empty()) {
      rules = "gpt-2";
      note = "GGUF has no name for the pre-tokenizer of this model: other programs use that of GPT-2";
    }
    out.text("tokenizer.ggml.pre", rules);
    out.texts("tokenizer.ggml.merges", merges);
  }
  out.texts("tokenizer.ggml.tokens", tokens.spellings);
  out.i32s("tokenizer.ggml.token_type", tokens.types);
  const auto id = [&](const char* role, std::optional<TokenId> token) {
    if (token) out.u32(cat("tokenizer.ggml.", role, "_token_id"), static_cast<uint32_t>(*token));
  };
  id("bos", tokenizer.bos_id());
  id("eos", tokenizer.eos_id());
  id("unknown", tokenizer.unk_id());
  id("padding", tokenizer.pad_id());
  const auto around = tokenizer.encode("", true);
  const auto stands = [&](std::optional<TokenId> token) {
    return token && std::ranges::find(around, *token) != around.end();
  };
  out.boolean("tokenizer.ggml.add_bos_token",
              stands(tokenizer.bos_id()) && around.front() == *tokenizer.bos_id());
  out.boolean("tokenizer.ggml.add_eos_token", around.size() > 1 && stands(tokenizer.eos_id()));
  if (!tokenizer.chat_template().empty()) out.text("tokenizer.chat_template", tokenizer.chat_template());
  out.text("tokenizer.huggingface.json", files.tokenizer_json);
  return note;
}

}  // namespace quire
