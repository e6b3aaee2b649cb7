#pragma once

#include <ham/net/communicator.hpp>

#include <iostream>

// NOLINTBEGIN(bugprone-macro-parentheses): the expression begins in the middle of a stream's

/// A stream expression on standard output, with the node's number in front where
/// HAM_LOG_NODE_PREFIX is defined: HAM_LOG("x = " << x << std::endl);
#ifdef HAM_LOG_NODE_PREFIX
#define HAM_LOG(expression)                                                                        \
  (std::cout << '(' << (::ham::net::initialised() ? ::ham::net::this_node() : 0) << ") "           \
             << expression)
#else
#define HAM_LOG(expression) (std::cout << expression)
#endif

// NOLINTEND(bugprone-macro-parentheses)
