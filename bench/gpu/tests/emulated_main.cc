// Runs the tests of the kernels. EMULATED_REMOVE=file:line removes one barrier or wait; EMULATED_SITES=path
// writes the names of all that were called.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "../emulated/device.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const char* site = std::getenv("EMULATED_REMOVE")) emulated::remove_site(site);
  const int status = RUN_ALL_TESTS();
  if (const char* path = std::getenv("EMULATED_SITES")) {
    std::ofstream out(path);
    for (const auto& site : emulated::sites()) out << site << '\n';
  }
  return status;
}
