// The measurements of one program: one line each on standard output, for people, and one JSON object per line
// in a file. Every line is written at once, so that a crash loses none of the earlier ones.
#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace probe {

// Names and values that distinguish a measurement from others of the same name, in the order in which they
// are printed. In JSON, the values without a name are joined to one value with the name "variant".
using Labels = std::vector<std::pair<std::string, std::string>>;

class Results {
 public:
  // Appends to the file; an empty path writes no JSON. Throws std::runtime_error if it cannot be opened.
  explicit Results(const std::string& path, FILE* table = stdout);
  ~Results();
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  void add(const std::string& measurement, const Labels& labels, double value, const std::string& unit);
  void add_text(const std::string& measurement, const std::string& text);

 private:
  void write_record(const std::string& json) const;

  FILE* table_;
  FILE* records_ = nullptr;
};

// A JSON string with its quotes, and a JSON number; numbers that JSON lacks become null.
std::string json_string(const std::string& text);
std::string json_number(double value);
// At most 5 significant digits; integers have all.
std::string table_number(double value);

}  // namespace probe
