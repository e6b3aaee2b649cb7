// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Packing of arguments: how values are turned into the bytes of a message, and the bytes into
/// values. Include this file rather than its parts, so that every part of a program sees the same
/// packers.
///
/// Packable types:
/// * trivially copyable types without addresses, which are sent by memcpy: numbers, enums, plain
///   structs, std::array of these, std::complex, std::bitset, times and durations of std::chrono,
///   and lambdas that capture only such values;
/// * std::string and std::filesystem::path, and std::string_view and std::span<const T>, which
///   arrive as views;
/// * std::vector, deque, list, set and map, the multi and unordered kinds of set and map, and
///   std::array;
/// * std::pair, tuple, optional and variant, and std::unique_ptr to an object whose type is not a
///   polymorphic class;
/// * any type for which the program defines a farcall::packer (packer.hpp), and all of these types
///   nested in each other.
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
