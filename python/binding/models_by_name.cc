#include "models_by_name.h"

#include <cstdlib>
#include <string_view>

#include "convert.h"
#include "engine/model_fetch.h"
#include "gil.h"
#include "hub/settings.h"

namespace quire::python {
namespace {

// The settings of the environment, with the values that were given.
hub::Settings settings_with(const std::optional<std::string>& token,
                            const std::optional<std::string>& cache) {
  return hub::read_settings([&](const char* variable) -> const char* {
    const std::string_view name = variable;
    if (cache && name == "HF_HUB_CACHE") return cache->c_str();
    if (token && name == "HF_TOKEN") return token->c_str();
    if (token && name == "HF_HUB_DISABLE_IMPLICIT_TOKEN") return token->empty() ? "1" : "";
    return std::getenv(variable);
  });
}

}  // namespace

nb::object fetch(const std::string& model, const std::string& revision,
                 const std::optional<std::string>& token, const std::optional<std::string>& cache,
                 const nb::object& progress) {
  hub::PulledModel pulled;
  std::string text;
  {
    const GilRelease released;
    const auto name = model_name_of(model);
    if (name) {
      text = name->text();
      hub::PullOptions options;
      if (!revision.empty()) options.revision = revision;
      const auto report = [&](const hub::PullProgress& state) {
        const nb::gil_scoped_acquire acquired;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        progress(state.bytes, state.total, to_str(state.file), state.waiting);
      };
      pulled = or_missing_path(model, [&] {
        return hub::pull(settings_with(token, cache), *name, options, {report, check_model_files});
      });
    }
  }
  if (text.empty()) return nb::none();
  return nb::make_tuple(to_str(text), to_str(pulled.path.string()));
}

}  // namespace quire::python
