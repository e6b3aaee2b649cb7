// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"

#include <farcall/base/bytes.hpp>
#include <farcall/base/error.hpp>

#include <algorithm>
#include <cstring>
#include <string>

namespace farcall::veo {
namespace {

constexpr int max_arguments = 1 << 20;
constexpr std::size_t buffer_alignment = 8;
constexpr std::size_t frame_alignment = 16;

} // namespace

void prepared_call::keep() {
  if (words.empty()) words.assign(message.words.begin(), message.words.end());
  if (kinds.empty()) kinds.assign(message.kinds.begin(), message.kinds.end());
  message.words = words;
  message.kinds = kinds;
  message.sent = sent;
}

void arguments::make_space(int number) {
  if (number < 0 || number >= max_arguments) {
    throw error("argument " + std::to_string(number) + ": arguments are numbered from 0 to " +
                std::to_string(max_arguments - 1));
  }
  const auto i = static_cast<std::size_t>(number);
  if (i >= words_.size()) {
    words_.resize(i + 1);
    kinds_.resize(i + 1);
    given_.resize(i + 1);
  }
  if (given_[i]) {
    std::erase_if(frames_, [&](const frame& f) { return f.number == number; });
  } else {
    given_[i] = true;
    ++given_count_;
  }
}

void arguments::set(int number, std::uint64_t word, argument_kind kind) {
  const auto i = static_cast<std::size_t>(number);
  // Skip make_space() for an argument that is set already, because programs set the same arguments
  // again for each call.
  if (i >= words_.size() || !given_[i] || !frames_.empty()) make_space(number);
  words_[i] = word;
  kinds_[i] = kind;
  all_integers_ = all_integers_ && kind == argument_kind::integer;
}

void arguments::set_frame(int number, intent way, char* buffer, std::size_t bytes) {
  if (way != intent::in && way != intent::inout && way != intent::out) {
    throw error("argument " + std::to_string(number) +
                ": an intent is VEO_INTENT_IN, _INOUT or _OUT");
  }
  if (buffer == nullptr && bytes != 0) {
    throw error("argument " + std::to_string(number) + ": its buffer is NULL");
  }
  make_space(number);
  all_integers_ = false;
  kinds_[static_cast<std::size_t>(number)] = argument_kind::frame;
  frames_.push_back({number, way, buffer, bytes});
}

void arguments::clear() noexcept {
  words_.clear();
  kinds_.clear();
  given_.clear();
  given_count_ = 0;
  all_integers_ = true;
  frames_.clear();
}

void arguments::refuse_hole() const {
  const auto hole = std::find(given_.begin(), given_.end(), false) - given_.begin();
  throw error("argument " + std::to_string(hole) + " was not set, but argument " +
              std::to_string(words_.size() - 1) + " was");
}

kernel_call arguments::message(std::uint64_t address) const {
  if (given_count_ != words_.size()) [[unlikely]]
    refuse_hole();
  kernel_call call;
  call.address = address;
  call.words = words_;
  if (!all_integers_) call.kinds = kinds_;
  return call;
}

prepared_call arguments::prepare(std::uint64_t address) const {
  prepared_call call;
  call.message = message(address);
  if (frames_.empty()) return call;

  call.words = words_;
  std::size_t end = 0;
  for (const intent way : {intent::in, intent::inout, intent::out}) {
    if (way == intent::inout) call.message.out_from = end;
    for (const frame& f : frames_) {
      if (f.way != way) continue;
      call.words[static_cast<std::size_t>(f.number)] = end;
      if (way != intent::out && f.bytes != 0) {
        call.sent.resize(end + f.bytes);
        std::memcpy(call.sent.data() + end, f.buffer, f.bytes);
      }
      if (way != intent::in && f.bytes != 0) {
        call.results.push_back({f.buffer, end - call.message.out_from, f.bytes});
      }
      end = align_up(end + f.bytes, buffer_alignment);
    }
  }
  // Give the frame a minimum size, so that empty buffers also get an address within the frame.
  call.message.frame_bytes = std::max(align_up(end, frame_alignment), frame_alignment);
  call.message.words = call.words;
  call.message.sent = call.sent;
  return call;
}

} // namespace farcall::veo
