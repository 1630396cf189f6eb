// The log lines of requests.
#pragma once

#include <optional>
#include <string>

#include "server/http/http_types.h"

namespace quire {

enum class RequestLog {
  kNone,
  kErrors,  // requests that end with a status of 400 or above
  kAll,
};

// Method, path, status, milliseconds, and the reason of an error or what the request took; nullopt if the
// request is not logged. If the client disconnects before the end, the status is 499, as in nginx, which is
// not an error.
std::optional<std::string> request_log_line(const RequestRecord& record, RequestLog which);

}  // namespace quire
