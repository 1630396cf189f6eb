#include "server/request_log.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

const RequestRecord kFailed{.method = "POST",
                            .path = "/v1/completions",
                            .status = 400,
                            .remark = "n must be at least 1",
                            .seconds = 0.0123};
const RequestRecord kServed{.method = "GET", .path = "/health", .status = 200, .seconds = 1.5};

TEST(RequestLog, HasMethodPathStatusTimeAndReasonOfAnError) {
  EXPECT_EQ(request_log_line(kFailed, RequestLog::kErrors),
            "POST /v1/completions 400 (12.3 ms): n must be at least 1");
}

TEST(RequestLog, HasOtherRequestsOnlyIfAllAreLogged) {
  EXPECT_EQ(request_log_line(kServed, RequestLog::kErrors), std::nullopt);
  EXPECT_EQ(request_log_line(kServed, RequestLog::kAll), "GET /health 200 (1500 ms)");
  EXPECT_EQ(request_log_line(kFailed, RequestLog::kNone), std::nullopt);
}

TEST(RequestLog, DisconnectIsNotAnError) {
  RequestRecord record = kFailed;
  record.disconnected = true;
  EXPECT_EQ(request_log_line(record, RequestLog::kErrors), std::nullopt);
  EXPECT_EQ(request_log_line(record, RequestLog::kAll),
            "POST /v1/completions 499 (12.3 ms): the client disconnected");
}

TEST(RequestLog, MarksWhatCouldNotBeRead) {
  EXPECT_EQ(request_log_line({.status = 431, .remark = "too long"}, RequestLog::kErrors),
            "- - 431 (0.0 ms): too long");
}

}  // namespace
}  // namespace quire
