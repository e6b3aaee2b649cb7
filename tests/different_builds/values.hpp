// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/farcall.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Tests of values of every packable type, and of memory, between programs of different machines.
/// All builds of the program contain them.
namespace different {

namespace fc = farcall;

/// Sends values of all types to `there`, which describes them and sends them back. Returns a line
/// for each value that was wrong.
std::vector<std::string> wrong_values(const fc::node& there);

/// Has `asked` run wrong_values(there), and returns the result.
std::vector<std::string> wrong_values_between(const fc::node& asked, const fc::node& there);

/// Call with types that differ between machines. Return "ok", or the text of the refusal.
std::string call_with_long_double(const fc::node& there);
std::string call_with_hidden_long_double(const fc::node& there);
std::string call_with_array_of_long_double(const fc::node& there);
std::string call_with_view_of_long_double(const fc::node& there);
std::string call_with_captured_long_double(const fc::node& there);
std::string call_with_aligned_class(const fc::node& there);
/// Calls with a class that is declared to have a fixed layout.
std::string call_with_fixed_class(const fc::node& there);

/// Call with types that may differ between standard libraries. Return "ok" or the refusal's text.
std::string call_with_plain_class(const fc::node& there);
std::string call_with_variant_inside(const fc::node& there);
std::string call_with_string(const fc::node& there);
std::string call_with_numbers(const fc::node& there);
std::string call_with_numbers_by_pointer(const fc::node& there);
std::string call_with_memory(const fc::node& there);

/// Makes all of these calls, and returns a bit for each that was refused. From the lowest bit on:
/// numbers, numbers by pointer, memory, fixed class, plain class, variant inside, string. Has no
/// types of std in its signature, so that programs of different libraries can call it.
std::uint32_t refused_by(const fc::node& there);
std::uint32_t refused_between(const fc::node& asked, const fc::node& there);
/// Throws std::out_of_range.
void throw_for(int v);

/// Functions for large arguments and results.
std::vector<std::uint64_t> counted_up(std::vector<std::uint64_t> values);
std::uint64_t sum_of(fc::remote_span<const std::uint64_t> values);
void multiply(fc::remote_span<std::uint64_t> values, std::uint64_t factor);
/// Returns unregistered memory of the node, which others cannot map.
fc::remote_span<std::uint64_t> private_memory();

/// Return the arguments, or an environment variable, of the process that runs the call.
std::vector<std::string> arguments();
std::string variable(const std::string& name);

/// Never returns.
int sleep_for_ever(int v);

/// Returns n!, by nested calls that alternate between this node and `back`.
std::uint64_t factorial_by_turns(std::uint32_t n, const fc::node& back);

} // namespace different
