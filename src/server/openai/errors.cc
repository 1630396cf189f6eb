#include "server/openai/errors.h"

#include <array>

#include "server/openai/json_out.h"

namespace quire {
namespace {

struct KindRow {
  ErrorKind kind;
  int status;
};
constexpr std::array<KindRow, 8> kKinds = {{
    {ErrorKind::kInvalidArgument, 400},
    {ErrorKind::kContextLength, 400},
    {ErrorKind::kNotFound, 404},
    {ErrorKind::kUnauthorized, 401},
    {ErrorKind::kTooLarge, 413},
    {ErrorKind::kUnsupported, 400},  // 501 and other server errors make clients retry
    {ErrorKind::kOverloaded, 503},
    {ErrorKind::kInternal, 500},
}};

// `type` of a status, and its `code` unless the error has its own.
struct StatusRow {
  int status;
  std::string_view type;
  std::string_view code;
};
constexpr std::array<StatusRow, 14> kStatuses = {{
    {400, "invalid_request_error", ""},
    {401, "invalid_request_error", "invalid_api_key"},
    {403, "invalid_request_error", "forbidden"},
    {404, "invalid_request_error", "not_found"},
    {405, "invalid_request_error", "method_not_allowed"},
    {408, "invalid_request_error", "request_timeout"},
    {413, "invalid_request_error", "request_too_large"},
    {415, "invalid_request_error", "unsupported_media_type"},
    {417, "invalid_request_error", "expectation_failed"},
    {431, "invalid_request_error", "header_too_large"},
    {500, "server_error", "internal_error"},
    {501, "not_supported_error", "not_supported"},
    {503, "unavailable_error", "overloaded"},
    {505, "invalid_request_error", "http_version"},
}};

const StatusRow& row_of(int status) {
  for (const StatusRow& row : kStatuses) {
    if (row.status == status) return row;
  }
  return kStatuses.front();
}

// `code` of an error that differs from that of its status.
std::string_view code_of(ErrorKind kind) {
  if (kind == ErrorKind::kContextLength) return "context_length_exceeded";
  return kind == ErrorKind::kUnsupported ? "not_supported" : "";
}

}  // namespace

int http_status(ErrorKind kind) {
  for (const KindRow& row : kKinds) {
    if (row.kind == kind) return row.status;
  }
  return 500;
}

std::string error_body(int status, std::string_view message, std::string_view param, std::string_view code) {
  const StatusRow& row = row_of(status);
  const std::string_view shown_code = code.empty() ? row.code : code;
  std::string body;
  JsonOut out(body);
  out.begin_object().key("error").begin_object();
  out.key("message").string(message).key("type").string(row.type);
  out.key("param").string_or_null(param).key("code").string_or_null(shown_code);
  out.end_object().end_object();
  return body;
}

HttpResponse error_response(int status, std::string_view message, std::string_view param,
                            std::string_view code) {
  HttpResponse response;
  response.status = status;
  response.body = error_body(status, message, param, code);
  response.remark = message;
  if (status == 503) response.headers.add("Retry-After", "1");
  if (status == 401) response.headers.add("WWW-Authenticate", "Bearer");
  return response;
}

HttpResponse error_response(const Failure& failure) {
  return error_response(http_status(failure.kind), failure.message, failure.param, code_of(failure.kind));
}

std::string error_body(const Failure& failure) {
  return error_body(http_status(failure.kind), failure.message, failure.param, code_of(failure.kind));
}

}  // namespace quire
