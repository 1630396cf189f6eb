// The bytes of a connection: the parsed request does not depend on how the bytes are split into pieces. (The
// byte at which an invalid request is rejected may depend on it, because the parser checks complete headers.)
#include <algorithm>

#include "fuzz/fuzz.h"
#include "server/http/request_parser.h"

namespace quire {
namespace {

// Passes the bytes to the parser in pieces of at most `piece` bytes. Returns the parsed request, or "".
std::string parse(std::string_view bytes, size_t piece) {
  HttpLimits limits;
  limits.max_header_bytes = 2048;
  limits.max_body_bytes = 4096;
  HttpRequestParser parser(limits);
  std::string pending;
  while (!parser.done() && !parser.error()) {
    const size_t taken = parser.consume(pending);
    fuzz::require(taken <= pending.size(), "no more is taken than was offered");
    pending.erase(0, taken);
    if (parser.done() || parser.error()) break;
    if (parser.header_done() && parser.body_too_large()) break;
    if (taken > 0) continue;
    if (bytes.empty()) break;
    pending += bytes.substr(0, piece);
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  if (parser.error() || !parser.header_done()) return "";
  HttpRequest& request = parser.request();
  fuzz::require(request.body.size() <= limits.max_body_bytes, "the body is within its limit");
  return request.method + " " + request.path + "?" + request.query + " " +
         (parser.done() ? "done " : "open ") + request.body;
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = quire::fuzz::text_of(data, size);
  const std::string whole = quire::parse(bytes, std::max<size_t>(size, 1));
  const std::string pieces = quire::parse(bytes, 7);
  if (whole.empty() && pieces.empty()) return 0;
  if (whole != pieces) std::fprintf(stderr, "whole:  %s\npieces: %s\n", whole.c_str(), pieces.c_str());
  quire::fuzz::require(whole == pieces, "the cutting into pieces changes nothing");
  return 0;
}
