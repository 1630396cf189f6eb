// Counts the requests of each adapter, for vLLM's metric lora_requests_info. Engine thread only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace quire {

class AdapterRequests {
 public:
  // name: of the adapter, as the request gave it; empty = the base model, which is not counted.
  void arrived(const std::string& name);
  void started(std::string_view name);
  void ended(std::string_view name, bool had_started);

  // Whether the following may have changed since the last call.
  bool take_change();
  // The adapters with requests that wait, or that run, in alphabetical order, separated by commas.
  std::string waiting() const;
  std::string running() const;

 private:
  struct Counts {
    int64_t waiting = 0;
    int64_t running = 0;
  };
  std::string names(int64_t Counts::*count) const;

  std::map<std::string, Counts, std::less<>> counts_;
  bool changed_ = true;
};

}  // namespace quire
