#include "support/golden_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <mutex>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/rng.h"
#include "base/strings.h"
#include "io/json_file.h"
#include "quant/codec.h"
#include "support/crc32.h"
#include "support/temp_dir.h"
#include "tensor/dtype.h"

namespace quire::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr uint64_t kGamma = 0x9E3779B97F4A7C15U;  // increment of SplitMix64
constexpr int kScaleBits = 20;                    // mean and deviation are multiples of 2^-20
constexpr int kFieldBits = 21;                    // bits of each of the three integers
constexpr float kUnit = 0x1p-41F;
static_assert(kScaleBits + kFieldBits == 41);

// Outputs of SplitMix64 in a stream of the tensor, which depends on the seed and on FNV-1a of the name.
class Draws {
 public:
  Draws(uint64_t seed, std::string_view name) {
    uint64_t fnv = 0xCBF29CE484222325U;
    for (const char c : name) fnv = (fnv ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
    state_ = derive_seed(seed, fnv);
  }
  uint64_t next() { return mix64(state_ += kGamma); }

 private:
  uint64_t state_;
};

int64_t fixed_point(double value) {
  return static_cast<int64_t>(std::floor(std::ldexp(value, kScaleBits) + 0.5));
}

// Twice the sum of three uniform integers of 21 bits, minus its mean, has a standard deviation of 2^21. The
// only rounding is that of the result.
std::vector<float> normal(Draws draws, size_t count, double mean, double deviation) {
  constexpr uint64_t kField = (uint64_t{1} << kFieldBits) - 1;
  const int64_t offset = fixed_point(mean) * (int64_t{1} << kFieldBits);
  const int64_t scale = fixed_point(deviation);
  std::vector<float> values(count);
  for (float& value : values) {
    const uint64_t bits = draws.next();
    const uint64_t total =
        (bits & kField) + (bits >> kFieldBits & kField) + (bits >> (2 * kFieldBits) & kField);
    const int64_t centered = 2 * static_cast<int64_t>(total) - 3 * static_cast<int64_t>(kField);
    value = static_cast<float>(offset + scale * centered) * kUnit;
  }
  return values;
}

// Rows of the first elements of a random permutation of 0..limit-1, sorted by one draw each.
std::vector<int64_t> distinct(Draws draws, size_t rows, size_t columns, size_t limit) {
  std::vector<int64_t> values;
  for (size_t r = 0; r < rows; ++r) {
    std::vector<std::pair<uint64_t, int64_t>> order(limit);
    for (size_t i = 0; i < limit; ++i) order[i] = {draws.next(), static_cast<int64_t>(i)};
    std::sort(order.begin(), order.end());
    for (size_t c = 0; c < columns; ++c) values.push_back(order[c].second);
  }
  return values;
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string encoded(DType dtype, const std::vector<float>& values) {
  std::string bytes(values.size() * dtype_size(dtype), '\0');
  encode_f32(dtype, values.data(), bytes.data(), static_cast<int64_t>(values.size()));
  return bytes;
}

// The bytes of one tensor. `entry`: [dtype, shape, distribution, parameters...].
std::string tensor_bytes(uint64_t seed, const std::string& name, const json& entry) {
  const auto shape = entry[1].get<std::vector<size_t>>();
  const size_t count = std::accumulate(shape.begin(), shape.end(), size_t{1}, std::multiplies<>());
  const auto type = entry[0].get<std::string>();
  const auto kind = entry[2].get<std::string>();
  if (kind == "distinct" && type == "I64" && shape.size() == 2)
    return bytes_of(distinct({seed, name}, shape[0], shape[1], entry[3].get<size_t>()));
  std::vector<float> values;
  if (kind == "normal") {
    // Tied weights are drawn under the name of the other tensor.
    const Draws draws(seed, entry.size() > 5 ? entry[5].get<std::string>() : name);
    values = normal(draws, count, entry[3].get<double>(), entry[4].get<double>());
  } else if (kind == "constant") {
    values.assign(count, entry[3].get<float>());
  } else if (kind == "values" && entry.size() == 3 + count) {
    for (size_t i = 0; i < count; ++i) values.push_back(entry[3 + i].get<float>());
  } else {
    throw Error(cat(name, ": invalid description ", entry.dump()));
  }
  if (type == "F32") return bytes_of(values);
  if (type == "F16") return encoded(DType::kF16, values);
  if (type == "BF16") return encoded(DType::kBF16, values);
  if (type == "U8") return bytes_of(std::vector<uint8_t>(values.begin(), values.end()));
  throw Error(cat(name, ": unsupported dtype ", type));
}

size_t element_size(const json& entry) {
  const auto type = entry[0].get<std::string>();
  return type == "I64" ? 8 : type == "F32" ? 4 : type == "U8" ? 1 : 2;
}

void write_checkpoint(const fs::path& source, const fs::path& out) {
  fs::create_directories(out);
  fs::copy(source, out, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  const json description = read_json_file(source / "weights.json");
  for (const auto& [file, content] : description["files"].items()) {
    const std::string bytes = golden_weights_file(description["seed"].get<uint64_t>(), content["tensors"]);
    const uint32_t sum = crc32(std::as_bytes(std::span(bytes)));
    if (sum != content["crc32"].get<uint32_t>())
      throw Error(cat((source / "weights.json").string(), ": ", file, " has another CRC-32: ", sum));
    fs::create_directories((out / file).parent_path());
    std::ofstream stream(out / file, std::ios::binary);
    if (!(stream << bytes).flush()) throw Error(cat("cannot write ", (out / file).string()));
  }
}

}  // namespace

fs::path golden_root() {
  return fs::path(QUIRE_SOURCE_DIR) / "tests/golden";
}

fs::path golden_checkpoint(const std::string& name) {
  const fs::path source = golden_root() / name;
  if (!fs::exists(source / "weights.json")) return source;
  static std::mutex mutex;
  static const TempDir directory;
  static std::map<std::string, fs::path> written;
  const std::lock_guard lock(mutex);
  fs::path& path = written[name];
  if (path.empty()) {
    write_checkpoint(source, directory.path() / name);
    path = directory.path() / name;
  }
  return path;
}

std::vector<std::string> golden_names(const std::string& set) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(golden_root() / set)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> expand_ranges(const std::string& pattern) {
  const size_t open = pattern.find('{');
  if (open == std::string::npos) return {pattern};
  const size_t dots = pattern.find("..", open);
  const size_t close = pattern.find('}', open);
  const int first = std::stoi(pattern.substr(open + 1, dots - open - 1));
  const int last = std::stoi(pattern.substr(dots + 2, close - dots - 2));
  std::vector<std::string> names;
  for (int i = first; i <= last; ++i) {
    for (const std::string& rest : expand_ranges(pattern.substr(close + 1)))
      names.push_back(pattern.substr(0, open) + std::to_string(i) + rest);
  }
  return names;
}

std::string golden_weights_file(uint64_t seed, const json& tensors) {
  // Larger elements come first, so that all are aligned; then the order is that of the names.
  std::map<std::pair<size_t, std::string>, const json*> order;
  for (const auto& [pattern, entry] : tensors.items()) {
    for (const std::string& name : expand_ranges(pattern)) order[{8 - element_size(entry), name}] = &entry;
  }
  ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const auto& [key, entry] : order) {
    const std::string& name = key.second;
    const size_t begin = data.size();
    data += tensor_bytes(seed, name, *entry);
    header[name] = {{"dtype", (*entry)[0]}, {"shape", (*entry)[1]}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return file + text + data;
}

}  // namespace quire::test
