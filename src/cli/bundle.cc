// quire bundle: writes one executable file that contains a model.
#include <iostream>

#include "base/error.h"
#include "base/executable_path.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "engine/bundle.h"
#include "engine/model_source.h"
#include "io/mapped_file.h"

namespace quire::cli {
namespace {

int run_bundle(const std::string& model, const std::string& revision, const std::string& output) {
  fetch_with_progress(model, revision);
  const ModelSource source = ModelSource::resolve(model, {.revision = revision});
  const std::filesystem::path program = executable_path();
  if (program.empty())
    throw Error("the file of this program was not found; start it by its path or mount /proc");
  const MappedFile self(program);
  const auto bytes = self.bytes();
  const std::string_view image(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string& name = source.name();
  write_bundle(output, image.substr(0, size_without_bundle(image, "this executable")), name,
               bundle_files(source.path()));
  std::filesystem::permissions(output,
                               std::filesystem::perms::owner_exec | std::filesystem::perms::group_exec |
                                   std::filesystem::perms::others_exec,
                               std::filesystem::perm_options::add);
  std::cerr << output << ": " << format_bytes(static_cast<int64_t>(std::filesystem::file_size(output)))
            << " with the model " << name << "; its commands use this model by default\n";
  return 0;
}

}  // namespace

void add_bundle(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "bundle", "Write one executable file that contains a model");
  auto model = std::make_shared<std::string>();
  auto output = std::make_shared<std::string>();
  auto revision = std::make_shared<std::string>();
  add_model_flag(*command, *model, *revision);
  command->get_option("MODEL")->required();
  command->add_option("-o,--output", *output, "The executable to write")->required()->type_name("FILE");
  command->callback([=, &exit_code] { exit_code = run_bundle(*model, *revision, *output); });
}

}  // namespace quire::cli
