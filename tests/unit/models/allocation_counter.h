// Counts the test program's calls of operator new.
#pragma once

#include <cstdint>

namespace quire::test {

int64_t allocation_count();

}  // namespace quire::test
