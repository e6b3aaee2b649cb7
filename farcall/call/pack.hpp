#pragma once

/// Argument packing: how values become the bytes of a message and values again. Include this file
/// rather than its parts, so that every part of a program sees the same packers.
///
/// What can be sent:
///  * trivially copyable types without addresses, by memcpy: numbers, enums, plain structs,
///  std::array
///    of these, std::complex, std::bitset, times and durations of std::chrono, lambdas that capture
///    only such values;
///  * std::string and std::filesystem::path; std::string_view and std::span<const T> (arrive as
///  views);
///  * std::vector, deque, list, set, map, their multi and unordered kinds, and std::array;
///  * std::pair, tuple, optional, variant, and std::unique_ptr to what is not polymorphic;
///  * any type with a farcall::packer of its own (packer.hpp);
/// and all of these in one another.
#include <farcall/call/bitwise.hpp>
#include <farcall/call/not_packable.hpp>
#include <farcall/call/pack_choices.hpp>
#include <farcall/call/pack_maps.hpp>
#include <farcall/call/pack_sequences.hpp>
#include <farcall/call/pack_strings.hpp>
#include <farcall/call/pack_tuples.hpp>
#include <farcall/call/packer.hpp>
#include <farcall/call/reader.hpp>
#include <farcall/call/writer.hpp>
