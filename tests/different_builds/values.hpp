#pragma once

#include <farcall/farcall.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Values of every type that can travel, and memory, between programs of different machines. Part
/// of all builds of the program.
namespace different {

namespace fc = farcall;

/// Sends values of all types to `there`, which says what it got and gives it back. What was wrong.
std::vector<std::string> wrong_values(const fc::node& there);

/// The same, asked for by `asked`.
std::vector<std::string> wrong_values_between(const fc::node& asked, const fc::node& there);

/// Calls with types that are not the same on all machines: "ok", or the text of the refusal.
std::string call_with_long_double(const fc::node& there);
std::string call_with_hidden_long_double(const fc::node& there);
std::string call_with_array_of_long_double(const fc::node& there);
std::string call_with_view_of_long_double(const fc::node& there);
std::string call_with_captured_long_double(const fc::node& there);
std::string call_with_aligned_class(const fc::node& there);
/// The class says that it is the same everywhere.
std::string call_with_fixed_class(const fc::node& there);

/// Calls that differ between standard libraries: the same.
std::string call_with_plain_class(const fc::node& there);
std::string call_with_variant_inside(const fc::node& there);
std::string call_with_string(const fc::node& there);
std::string call_with_numbers(const fc::node& there);
std::string call_with_numbers_by_pointer(const fc::node& there);
std::string call_with_memory(const fc::node& there);

/// All of those at once, without types of std, for programs of different libraries: a bit for each
/// call that was refused, in the lowest that with numbers, then by pointer, memory, fixed class,
/// plain class, variant inside, string.
std::uint32_t refused_by(const fc::node& there);
std::uint32_t refused_between(const fc::node& asked, const fc::node& there);
/// Throws std::out_of_range.
void throw_for(int v);

/// Sizes, for large arguments and results.
std::vector<std::uint64_t> counted_up(std::vector<std::uint64_t> values);
std::uint64_t sum_of(fc::remote_span<const std::uint64_t> values);
void multiply(fc::remote_span<std::uint64_t> values, std::uint64_t factor);
/// Memory outside farcall's: not reachable by mapping.
fc::remote_span<std::uint64_t> private_memory();

/// Of the process that runs it.
std::vector<std::string> arguments();
std::string variable(const std::string& name);

/// Never returns.
int sleep_for_ever(int v);

/// Its own answer, after it asked `back` to a depth.
std::uint64_t factorial_by_turns(std::uint32_t n, const fc::node& back);

} // namespace different
