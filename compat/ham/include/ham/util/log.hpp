#pragma once

#include <ham/net/communicator.hpp>

#include <iostream>

/// A stream on standard output, as far as a program sees: HAM_LOG << "x = " << x << std::endl;
/// Where HAM_LOG_NODE_PREFIX is defined, the line begins with the node's number, 0 where there is
/// no job.
#ifdef HAM_LOG_NODE_PREFIX
#define HAM_LOG (::std::cout << (::ham::net::initialised() ? ::ham::net::this_node() : 0) << ":\t")
#else
#define HAM_LOG (::std::cout)
#endif
