#include "text/tokenizer/byte_ranks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "base/error.h"
#include "base/strings.h"
#include "text/unicode/unicode.h"

namespace quire::tokenizer {
namespace {

constexpr size_t kLongestToken = 4096;  // bytes

constexpr std::string_view kCl100k =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// The expression of Moonshot (Kimi): runs of Han characters are separate. The original uses an intersection
// of classes with the same meaning; sc: the script property, not script extensions.
constexpr std::string_view kKimi =
    R"(\p{sc:Han}+)"
    R"(|[^\r\n\p{L}\p{N}]?(?:(?!\p{sc:Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*(?:(?!\p{sc:Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?(?:(?!\p{sc:Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+(?:(?!\p{sc:Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kKimiClass = "TikTokenTokenizer";
constexpr int kKimiSpecials = 256;  // after the ranks, named or not
constexpr std::string_view kQwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The special tokens of a tekken.json that does not list any.
constexpr std::array<std::string_view, 20> kTekkenControls = {"<unk>",
                                                              "<s>",
                                                              "</s>",
                                                              "[INST]",
                                                              "[/INST]",
                                                              "[AVAILABLE_TOOLS]",
                                                              "[/AVAILABLE_TOOLS]",
                                                              "[TOOL_RESULTS]",
                                                              "[/TOOL_RESULTS]",
                                                              "[TOOL_CALLS]",
                                                              "[IMG]",
                                                              "<pad>",
                                                              "[IMG_BREAK]",
                                                              "[IMG_END]",
                                                              "[PREFIX]",
                                                              "[MIDDLE]",
                                                              "[SUFFIX]",
                                                              "[SYSTEM_PROMPT]",
                                                              "[/SYSTEM_PROMPT]",
                                                              "[TOOL_CONTENT]"};

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

// Returns false if the text is not base64.
bool decode_base64(std::string_view text, std::string& out) {
  out.clear();
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  uint32_t word = 0;
  int bits = 0;
  for (const char c : text) {
    const int digit = base64_digit(c);
    if (digit < 0) return false;
    word = (word << 6) | static_cast<uint32_t>(digit);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    out += static_cast<char>((word >> bits) & 0xFFU);
  }
  return !out.empty();
}

// Bytes in the spelling of a byte-level vocabulary.
std::string spelling_of(std::string_view bytes) {
  std::string spelling;
  for (const char c : bytes) unicode::append(spelling, character_of_byte(static_cast<uint8_t>(c)));
  return spelling;
}

// Collects byte strings by rank, then builds the BPE model.
class Ranks {
 public:
  explicit Ranks(std::string name) : name_(std::move(name)) {}

  void add(std::string bytes, size_t rank) {
    if (rank != tokens_.size()) throw Error(cat(name_, ": rank ", rank, " is at position ", tokens_.size()));
    if (bytes.size() > kLongestToken) throw Error(cat(name_, ": the token of rank ", rank, " is too long"));
    const auto [at, added] = places_.emplace(bytes, rank);
    if (!added) throw Error(cat(name_, ": ranks ", at->second, " and ", rank, " have the same bytes"));
    tokens_.push_back(std::move(bytes));
  }
  size_t size() const { return tokens_.size(); }

  // Token ids are ranks + first_id. Existing spellings are kept.
  void fill(TokenId first_id, Pipeline& pipeline) const {
    for (int byte = 0; byte < 256; ++byte) {
      if (!places_.contains(std::string(1, static_cast<char>(byte))))
        throw Error(cat(name_, ": has no token for the byte ", byte));
    }
    pipeline.vocabulary.reserve(tokens_.size(), tokens_.size() * 8);
    Bpe bpe;
    bpe.byte_level = true;
    bpe.ignore_merges = true;
    bpe.merges.reserve(tokens_.size() * 2);
    for (size_t rank = 0; rank < tokens_.size(); ++rank) {
      const auto id = first_id + static_cast<TokenId>(rank);
      const std::string spelling = spelling_of(tokens_[rank]);
      if (pipeline.vocabulary.add(spelling, id) != Vocabulary::Added::kNew)
        pipeline.vocabulary.add_spelling(spelling, id);
      const std::string_view bytes = tokens_[rank];
      // Every pair of tokens that forms this token gets its rank.
      for (size_t cut = 1; cut < bytes.size(); ++cut) {
        const auto left = places_.find(std::string(bytes.substr(0, cut)));
        const auto right = places_.find(std::string(bytes.substr(cut)));
        if (left == places_.end() || right == places_.end()) continue;
        bpe.merges.add(first_id + static_cast<TokenId>(left->second),
                       first_id + static_cast<TokenId>(right->second), static_cast<uint32_t>(rank), id, true);
      }
    }
    prepare(bpe, pipeline.vocabulary);
    for (int byte = 0; byte < 256; ++byte) {
      bpe.byte_symbols[static_cast<size_t>(byte)] =
          first_id + static_cast<TokenId>(places_.at(std::string(1, static_cast<char>(byte))));
    }
    pipeline.model = std::move(bpe);
    pipeline.decoder.steps.emplace_back(ByteLevelDecoder{});
  }

 private:
  std::string name_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, size_t> places_;
};

// Splits text by one expression, into bytes for the model.
PreTokenizer cut_by(std::string_view expression, const std::string& name) {
  JsonDocument steps(rapidjson::kObjectType);
  auto& allocator = steps.GetAllocator();
  JsonValue pattern(rapidjson::kObjectType);
  pattern.AddMember(
      "Regex", JsonValue(expression.data(), static_cast<rapidjson::SizeType>(expression.size()), allocator),
      allocator);
  JsonValue split(rapidjson::kObjectType);
  split.AddMember("type", "Split", allocator);
  split.AddMember("pattern", pattern, allocator);
  split.AddMember("behavior", "Isolated", allocator);
  split.AddMember("invert", false, allocator);
  JsonValue bytes(rapidjson::kObjectType);
  bytes.AddMember("type", "ByteLevel", allocator);
  bytes.AddMember("add_prefix_space", false, allocator);
  bytes.AddMember("use_regex", false, allocator);
  JsonValue all(rapidjson::kArrayType);
  all.PushBack(split, allocator);
  all.PushBack(bytes, allocator);
  steps.AddMember("type", "Sequence", allocator);
  steps.AddMember("pretokenizers", all, allocator);
  return read_pre_tokenizer(JsonPlace(&steps, name + ": "));
}

std::vector<std::string> read_controls(const JsonPlace& root, size_t count) {
  std::vector<std::string> controls;
  const JsonPlace list = root.member("special_tokens");
  if (list.present()) {
    list.expect_array();
    for (rapidjson::SizeType i = 0; i < list.value().Size(); ++i) {
      const JsonPlace entry = list.element(i);
      if (entry.member("rank").integer(kHighestTokenId) != i)
        entry.fail("is not at the position of its rank");
      controls.emplace_back(entry.member("token_str").string());
    }
  } else {
    controls.assign(kTekkenControls.begin(), kTekkenControls.end());
  }
  if (controls.size() > count)
    root.fail(cat("has ", controls.size(), " special tokens, but config states ", count));
  while (controls.size() < count) controls.push_back(cat("<SPECIAL_", controls.size(), ">"));
  return controls;
}

// For tokens that the other files do not name.
void name_token(std::optional<std::string>& role, std::string_view token, const Vocabulary& vocabulary) {
  if (!role && vocabulary.find(token)) role = token;
}

// Kimi's special tokens that have no name in the configuration.
void add_reserved(size_t first, const std::string& name, Pipeline& pipeline, const TokenizerConfig& config) {
  for (int i = 0; i < kKimiSpecials; ++i) {
    AddedToken token;
    token.id = static_cast<TokenId>(first) + i;
    const auto named = [&](const AddedToken& other) { return other.id == token.id; };
    if (std::ranges::any_of(config.added_tokens, named)) continue;
    token.content = cat("<|reserved_token_", token.id, "|>");
    token.special = true;
    token.normalized = false;
    add_token(pipeline, token, name);
  }
}

}  // namespace

bool is_tekken(const JsonFile& file) {
  const JsonPlace root(&file.document, "");
  const JsonPlace vocab = root.member("vocab");
  return vocab.present() && vocab.value().IsArray() && root.member("config").present() &&
         !root.member("model").present();
}

void read_tekken(const JsonFile& file, Pipeline& pipeline, TokenizerConfig& config) {
  const JsonPlace root(&file.document, file.name + ": ");
  const JsonPlace settings = root.member("config");
  settings.expect_object();
  const uint64_t size = settings.member("default_vocab_size").integer(kHighestTokenId);
  const uint64_t num_controls = settings.member("default_num_special_tokens").integer(kHighestTokenId);
  const JsonPlace vocab = root.member("vocab");
  if (num_controls > size || vocab.value().Size() < size - num_controls)
    settings.fail(cat("states ", size, " tokens, of which ", num_controls, " are special, but vocab has ",
                      vocab.value().Size()));
  const auto controls = read_controls(root, num_controls);
  for (size_t i = 0; i < controls.size(); ++i) {
    if (pipeline.vocabulary.add(controls[i], static_cast<TokenId>(i)) != Vocabulary::Added::kNew)
      root.fail("has the duplicate special token \"" + controls[i] + "\"");
    AddedToken& token = pipeline.controls.emplace_back();
    token.content = controls[i];
    token.id = static_cast<TokenId>(i);
    token.special = true;
    token.normalized = false;
  }
  Ranks ranks(file.name);
  std::string bytes;
  for (rapidjson::SizeType i = 0; i < size - num_controls; ++i) {
    const JsonPlace entry = vocab.element(i);
    if (!decode_base64(entry.member("token_bytes").string(), bytes)) entry.fail("token_bytes is not base64");
    ranks.add(bytes, entry.member("rank").integer(kHighestTokenId));
  }
  ranks.fill(static_cast<TokenId>(num_controls), pipeline);
  pipeline.pre_tokenizer = cut_by(settings.member("pattern").string(), file.name);
  name_token(config.bos_token, "<s>", pipeline.vocabulary);
  name_token(config.eos_token, "</s>", pipeline.vocabulary);
  name_token(config.unk_token, "<unk>", pipeline.vocabulary);
  name_token(config.pad_token, "<pad>", pipeline.vocabulary);
  std::vector<PostProcessor::Part> parts;
  const auto bos = config.bos_token ? pipeline.vocabulary.find(*config.bos_token) : std::nullopt;
  if (config.add_bos_token.value_or(true) && bos) parts.push_back({false, *bos});
  parts.push_back({true, -1});
  pipeline.post_processor.templates.push_back(std::move(parts));
}

bool is_rank_file(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  const size_t space = line.find(' ');
  std::string token;
  return space != std::string_view::npos && decode_base64(line.substr(0, space), token) &&
         line.substr(space + 1).find_first_not_of("0123456789\r") == std::string_view::npos;
}

void read_rank_file(std::string_view bytes, const std::string& name, Pipeline& pipeline,
                    TokenizerConfig& config) {
  Ranks ranks(name);
  std::string token;
  size_t number = 0;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t space = line.find(' ');
    size_t rank = 0;
    const char* digits = line.data() + std::min(space + 1, line.size());
    const char* line_end = line.data() + line.size();
    const bool right = space != std::string_view::npos && decode_base64(line.substr(0, space), token) &&
                       std::from_chars(digits, line_end, rank).ptr == line_end && digits != line_end;
    if (!right) throw Error(cat(name, ":", number, ": is not a base64 token and its rank"));
    ranks.add(token, rank);
  }
  const bool says_tokens = !config.added_tokens.empty();
  ranks.fill(0, pipeline);
  const bool kimi = config.tokenizer_class == kKimiClass;
  pipeline.pre_tokenizer = cut_by(kimi ? kKimi : says_tokens ? kCl100k : kQwen, name);
  if (kimi) add_reserved(ranks.size(), name, pipeline, config);
  if (kimi || says_tokens) return;
  pipeline.normalizer.emplace_back(UnicodeForm{unicode::NormalForm::kNfc});
  std::vector<std::string> specials = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  constexpr int kExtras = 205;
  for (int i = 0; i < kExtras; ++i) specials.push_back(cat("<|extra_", i, "|>"));
  for (size_t i = 0; i < specials.size(); ++i) {
    AddedToken added;
    added.content = specials[i];
    added.id = static_cast<TokenId>(ranks.size() + i);
    added.special = true;
    added.normalized = false;
    add_token(pipeline, added, name);
  }
  name_token(config.eos_token, "<|endoftext|>", pipeline.vocabulary);
}

}  // namespace quire::tokenizer
