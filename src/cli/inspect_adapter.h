// quire inspect for LoRA adapters.
#pragma once

#include "engine/inspect_adapter.h"

namespace quire::cli {

void print_adapter(const AdapterReport& report);
void print_adapter_json(const AdapterReport& report);

}  // namespace quire::cli
