#include "server/request_log.h"

#include "base/strings.h"

namespace quire {
namespace {

constexpr int kFirstError = 400;
constexpr int kDisconnected = 499;
constexpr size_t kMaxRemark = 1000;

std::string milliseconds(double seconds) {
  const double ms = 1e3 * seconds;
  return cat(fixed(ms, ms < 100.0 ? 1 : 0), " ms");
}

}  // namespace

std::optional<std::string> request_log_line(const RequestRecord& record, RequestLog which) {
  const bool error = record.status >= kFirstError && !record.disconnected;
  if (which == RequestLog::kNone || (which == RequestLog::kErrors && !error)) return std::nullopt;
  const std::string_view remark =
      record.disconnected ? "the client disconnected" : record.remark.substr(0, kMaxRemark);
  return cat(record.method.empty() ? "-" : record.method, " ", record.path.empty() ? "-" : record.path, " ",
             record.disconnected ? kDisconnected : record.status, " (", milliseconds(record.seconds), ")",
             remark.empty() ? "" : ": ", remark);
}

}  // namespace quire
