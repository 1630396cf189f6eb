// Build-time tool: packs a model directory into one file that is linked into the program.
//   quire_pack_model MODEL_DIR OUTPUT
#include <cstdio>
#include <exception>

#include "engine/bundle.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: quire_pack_model MODEL_DIR OUTPUT\n");
    return 2;
  }
  try {
    const std::filesystem::path model = argv[1];
    quire::write_bundle(argv[2], "", model.filename().string(), quire::bundle_files(model));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
