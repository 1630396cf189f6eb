"""Importing this module lets functions of httpx that are called without a timeout wait until HANG_S for a response, instead of 5 s."""

import httpx
from waiting import HANG_S

httpx._config.DEFAULT_TIMEOUT_CONFIG.read = HANG_S
