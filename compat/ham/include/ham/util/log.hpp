// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ham/net/communicator.hpp>

#include <iostream>

/// Stream that writes to standard output, for example `HAM_LOG << "x = " << x << std::endl`. If
/// HAM_LOG_NODE_PREFIX is defined, the line begins with the number of the node that writes it, or
/// with 0 without a job.
#ifdef HAM_LOG_NODE_PREFIX
#define HAM_LOG (::std::cout << (::ham::net::initialised() ? ::ham::net::this_node() : 0) << ":\t")
#else
#define HAM_LOG (::std::cout)
#endif
