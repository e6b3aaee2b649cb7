#pragma once

/// Statements for debug builds.
#ifdef HAM_DEBUG_ON
#define HAM_DEBUG(statement) statement
#else
#define HAM_DEBUG(statement)
#endif

#define HAM_UNUSED_VAR(variable) ((void)(variable))
