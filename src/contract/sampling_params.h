// The record is part of the public API; here it has its place among the contracts.
#pragma once

#include "contract/ids.h"
#include "quire/sampling_params.h"
