// Models by name: gets the files of "org/name" from the Hugging Face cache or the hub.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>

namespace quire::python {

// Returns (name, path) of the model in the cache, or None if `model` is not a name. Missing files are
// downloaded; the GIL is released meanwhile. token: None = as in the environment, "" = none. cache: None = as
// in the environment. progress(bytes, total, file, waiting) is called several times per second; its
// exceptions, and those of signal handlers, end the download.
nanobind::object fetch(const std::string& model, const std::string& revision,
                       const std::optional<std::string>& token, const std::optional<std::string>& cache,
                       const nanobind::object& progress);

}  // namespace quire::python
