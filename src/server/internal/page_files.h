// The web page at "/": files of src/server/page, linked into the program. Nothing is loaded from elsewhere,
// and the Content-Security-Policy of the page forbids it.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "server/http/router.h"

namespace quire {

// Views into the program's image.
struct PageFile {
  std::string_view name;  // "index.html"
  std::string_view bytes;
};

std::span<const PageFile> page_files();

// "text/html; charset=utf-8" for "index.html"; by the end of the name.
std::string_view page_content_type(std::string_view name);

// GET / for index.html and GET /ui/NAME for the others. They need no API key: they contain no data.
std::vector<Route> page_routes();

}  // namespace quire
