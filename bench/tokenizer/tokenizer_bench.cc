// Measures the tokenizer: encoding, decoding, streaming and loading. Reads commands from standard input, one
// per line, and prints one line of JSON for each, so that compare.py can alternate with another tokenizer.
//
//   load DIR             reads the tokenizer of a directory
//   encode FILE          encodes the file as one text
//   encode_parts FILE    encodes it in parts of about 4 kB, split at line ends
//   decode FILE          encodes it, then decodes the ids at once
//   stream FILE          encodes it, then decodes one id after the other
//   ids FILE             prints the ids of each text of a JSON list of strings
#include <ctime>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "text/detokenizer.h"
#include "text/tokenizer/tokenizer.h"

namespace {

using quire::TokenId;

// Processor time of this process, so other programs on the machine do not count.
double now() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}
double seconds_since(double start) {
  return now() - start;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string_view> parts_of(std::string_view text) {
  constexpr size_t kPart = 4096;
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    size_t end = text.size();
    if (text.size() > kPart) {
      end = text.find('\n', kPart);
      end = end == std::string_view::npos ? text.size() : end + 1;
    }
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

nlohmann::json answer(double seconds, size_t bytes, size_t tokens) {
  return {{"seconds", seconds}, {"bytes", bytes}, {"tokens", tokens}};
}

class Bench {
 public:
  nlohmann::json run(const std::string& command, const std::string& path) {
    if (command == "load") {
      const auto start = now();
      tokenizer_ = quire::Tokenizer::load(path);
      return answer(seconds_since(start), 0, tokenizer_->vocab_size());
    }
    if (!tokenizer_) throw std::runtime_error("load a tokenizer first");
    const std::string text = read_file(path);
    if (command == "encode") return encode({text}, text.size());
    if (command == "encode_parts") return encode(parts_of(text), text.size());
    if (command == "ids") return ids(nlohmann::json::parse(text));
    const std::vector<TokenId> tokens = tokenizer_->encode(text, false);
    const auto start = now();
    std::string decoded;
    if (command == "decode") {
      decoded = tokenizer_->decode(tokens, true);
    } else if (command == "stream") {
      quire::Detokenizer detokenizer(*tokenizer_, true);
      for (const TokenId id : tokens) decoded += detokenizer.push(id);
      decoded += detokenizer.flush();
    } else {
      throw std::runtime_error("unknown command " + command);
    }
    return answer(seconds_since(start), decoded.size(), tokens.size());
  }

 private:
  nlohmann::json encode(const std::vector<std::string_view>& texts, size_t bytes) const {
    size_t tokens = 0;
    const auto start = now();
    for (const std::string_view text : texts) tokens += tokenizer_->encode(text, true).size();
    return answer(seconds_since(start), bytes, tokens);
  }
  nlohmann::json ids(const nlohmann::json& texts) const {
    nlohmann::json result = nlohmann::json::array();
    for (const auto& text : texts) result.push_back(tokenizer_->encode(text.get<std::string>(), true));
    return result;
  }

  std::unique_ptr<quire::Tokenizer> tokenizer_;
};

}  // namespace

int main() {
  Bench bench;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command, path;
    words >> command;
    std::getline(words >> std::ws, path);
    nlohmann::json result;
    try {
      result = bench.run(command, path);
    } catch (const std::exception& error) {
      result = {{"error", error.what()}};
    }
    std::cout << result.dump() << std::endl;
  }
}
