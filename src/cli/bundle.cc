// quire bundle: one executable file that carries a model.
#include <iostream>

#include "base/error.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "engine/bundle.h"
#include "engine/model_source.h"
#include "io/mapped_file.h"

namespace quire::cli {
namespace {

int run_bundle(const std::string& model, const std::string& output) {
  if (!std::filesystem::exists(model)) throw Error(cat(model, ": no such directory or file"));
  const MappedFile self(std::filesystem::canonical("/proc/self/exe"));
  const auto bytes = self.bytes();
  const std::string_view image(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string name = ModelSource::resolve(model).name();
  write_bundle(output, image.substr(0, size_without_bundle(image, "this executable")), name,
               bundle_files(model));
  std::filesystem::permissions(output,
                               std::filesystem::perms::owner_exec | std::filesystem::perms::group_exec |
                                   std::filesystem::perms::others_exec,
                               std::filesystem::perm_options::add);
  std::cerr << output << ": " << format_bytes(static_cast<int64_t>(std::filesystem::file_size(output)))
            << ", carries " << name << "; run it as quire without a MODEL\n";
  return 0;
}

}  // namespace

void add_bundle(CLI::App& app, int& exit_code) {
  CLI::App* command =
      add_command(app, "bundle", "One executable file that carries a model: copy it anywhere and run it");
  auto model = std::make_shared<std::string>();
  auto output = std::make_shared<std::string>();
  command->add_option("MODEL", *model, "Model directory or GGUF file")->required()->type_name("");
  command->add_option("-o,--output", *output, "The executable to write")->required()->type_name("FILE");
  command->callback([model, output, &exit_code] { exit_code = run_bundle(*model, *output); });
}

}  // namespace quire::cli
