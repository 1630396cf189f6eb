// The flags of the samplers of llama.cpp, of bad words, repetition detection and log-probabilities of given
// tokens.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "quire/sampling_params.h"

namespace quire::cli {

// Changes of sampling parameters by flags on a command line.
using SamplingChanges = std::vector<std::function<void(SamplingParams&)>>;

// Adds the flags. Those that are given append to `changes`, which must outlive the parse.
void add_sampler_flags(CLI::App& command, SamplingChanges& changes, const std::string& group);

}  // namespace quire::cli
