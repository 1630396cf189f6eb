// The state machines that read tool calls. A machine sees the bytes of the output and the markers that it
// expects in its present state, and writes events. It keeps the text of what may turn out not to be a call,
// and nothing else. One per parser; not thread-safe.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "text/output/events.h"
#include "text/output/formats.h"
#include "text/output/literal.h"
#include "text/output/tool_set.h"

namespace quire {

// A set of roles of markers.
using MarkerRoles = uint32_t;
constexpr MarkerRoles roles(std::initializer_list<MarkerRole> list) {
  MarkerRoles set = 0;
  for (const MarkerRole role : list) set |= MarkerRoles{1} << static_cast<unsigned>(role);
  return set;
}
constexpr bool has_role(MarkerRoles set, MarkerRole role) {
  return (set >> static_cast<unsigned>(role) & 1) != 0;
}

// Next step of the parser after a machine has seen a byte or a marker.
enum class MachineStep : uint8_t {
  kContinue,
  kDone,        // the calls are over; the byte or marker belonged to them
  kDoneBefore,  // the calls were over before it, and it is looked at again
  kRefused,     // no call: raw() is text, and the byte or marker is looked at again
  kList,        // not this machine's calls, but JSON after the same marker; raw() and the byte are its input
};

class CallReader {
 public:
  virtual ~CallReader() = default;
  // Starts at a marker, or with a byte where calls need no marker (bare). `marker` is kept for raw().
  virtual void start(MarkerRole role, std::string_view marker) = 0;
  // Starts without a marker. `anywhere`: within text, so the name must be one of a tool.
  virtual void start_bare() {}
  virtual MarkerRoles expected() const = 0;
  virtual MachineStep byte(char c) = 0;
  virtual MachineStep marker(MarkerRole role, std::string_view text) = 0;
  // The end of the output. Writes what was held back of a call; text that is not a call is left in raw().
  virtual void finish() = 0;
  // Whether the machine reads reasoning now, as channels do.
  virtual bool in_reasoning() const { return false; }

  const std::string& raw() const { return raw_; }

 protected:
  // Refuses the call before the last byte, which is looked at again.
  MachineStep refuse_last() {
    if (!raw_.empty()) raw_.pop_back();
    return MachineStep::kRefused;
  }
  // A byte between the calls of a section. `any`: the section has had a call.
  MachineStep section_byte(char c, bool any);

  std::string raw_;  // the bytes since the marker, while it is not sure that there is a call
};

struct MachineContext {
  const CallFormat* format = nullptr;
  const ToolSet* tools = nullptr;
  EventWriter* events = nullptr;
};

// A name of a tool can have these bytes; others cannot, or are not worth the risk of taking text for a call.
bool is_name_byte(char c);
inline constexpr size_t kMaxToolName = 256;
// White space and names that may precede a call.
inline constexpr size_t kMaxCallHead = 512;

inline MachineStep CallReader::section_byte(char c, bool any) {
  if (!is_json_space(c)) return any ? MachineStep::kDoneBefore : MachineStep::kRefused;
  if (any) return MachineStep::kContinue;
  raw_ += c;
  return raw_.size() > kMaxCallHead ? refuse_last() : MachineStep::kContinue;
}

std::unique_ptr<CallReader> make_json_calls(const MachineContext& context);
std::unique_ptr<CallReader> make_named_calls(const MachineContext& context);
std::unique_ptr<CallReader> make_xml_calls(const MachineContext& context);
std::unique_ptr<CallReader> make_python_calls(const MachineContext& context);
std::unique_ptr<CallReader> make_gemma_calls(const MachineContext& context);
std::unique_ptr<CallReader> make_channels(const MachineContext& context);
std::unique_ptr<CallReader> make_call_reader(const MachineContext& context);

}  // namespace quire
