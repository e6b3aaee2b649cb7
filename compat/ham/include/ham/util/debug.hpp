// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Compiles the statements that are its arguments only in debug builds.
#ifdef HAM_DEBUG_ON
#define HAM_DEBUG(...) __VA_ARGS__
#else
#define HAM_DEBUG(...)
#endif

#define HAM_UNUSED_VAR(variable) ((void)(variable))
