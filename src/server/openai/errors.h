// The OpenAI error object and its HTTP status.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "server/http/http_types.h"

namespace quire {

int http_status(ErrorKind kind);

// {"error":{"message","type","param","code"}}
std::string error_body(int status, std::string_view message, std::string_view param, std::string_view code);

// Adds Retry-After if trying again may help.
HttpResponse error_response(int status, std::string_view message, std::string_view param = {},
                            std::string_view code = {});
HttpResponse error_response(const Failure& failure);
std::string error_body(const Failure& failure);

}  // namespace quire
