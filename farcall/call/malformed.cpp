// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/call/malformed.hpp>
#include <farcall/call/packer.hpp>

#include <string>

namespace farcall {
namespace {

/// Text about the likely cause of a message that does not match its types.
constexpr std::string_view advice =
    "; check that both programs are built from the same argument types and packers";

[[noreturn]] void malformed(std::string what) {
  throw malformed_message("malformed message: " + what.append(advice));
}

} // namespace

void throw_message_too_short(std::size_t wanted, std::size_t left) {
  malformed(std::to_string(wanted) + " bytes expected, " + std::to_string(left) + " left");
}

namespace detail {

void throw_count_too_large(std::size_t count, std::size_t min_bytes, std::size_t left) {
  malformed("a count of " + std::to_string(count) + " elements of " + std::to_string(min_bytes) +
            " bytes or more, " + std::to_string(left) + " bytes left");
}

void throw_malformed(std::string_view what) { malformed(std::string(what)); }

void throw_bytes_left(std::size_t bytes) {
  malformed(std::to_string(bytes) + " bytes are left behind its values");
}

void throw_packer_differs(std::string_view type, std::size_t written, std::size_t read) {
  throw malformed_message("malformed message: farcall::packer<" + std::string(type) +
                          ">::unpack() has read " + std::to_string(read) +
                          " bytes of a value for which pack() writes " + std::to_string(written) +
                          "; it must read the types that pack() writes, in the same order");
}

void throw_malformed_in(std::string_view type, const malformed_message& why) {
  throw malformed_message(std::string(why.what()) + "; it was read by farcall::packer<" +
                          std::string(type) + ">::unpack()");
}

void throw_out_of_range(std::string_view what, std::size_t value, std::size_t limit) {
  malformed(std::string(what) + " is " + std::to_string(value) + ", must be below " +
            std::to_string(limit));
}

void throw_nested_too_deep_to_pack() {
  throw error("a value nested more than " + std::to_string(max_nesting) +
              " levels deep cannot be sent; send it as a sequence, for example a vector of its "
              "nodes");
}

void throw_nested_too_deep_to_unpack() {
  malformed("values nested more than " + std::to_string(max_nesting) + " levels deep");
}

void throw_packed_beyond(std::size_t wanted, std::size_t capacity) {
  throw error("a value took " + std::to_string(wanted) +
              " bytes or more when it was packed, after " + std::to_string(capacity) +
              " when it was counted; do not change arguments during the call, and let packer::pack "
              "write the same bytes each time");
}

void throw_valueless_variant() {
  throw error(
      "a std::variant without a value (valueless_by_exception) cannot be sent; assign to it first");
}

} // namespace detail
} // namespace farcall
