// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/farcall.h>
#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

/// Support for tests of the interface for C.
namespace farcall::test {

inline constexpr std::int64_t in_time = std::chrono::nanoseconds(wait_limit).count();
/// Time after which calls to stopped targets are late.
inline constexpr std::int64_t soon = 30'000'000;

inline fc_node c_node(const node& where) {
  fc_node n{};
  EXPECT_EQ(fc_node_at(nullptr, where.id(), &n), FC_OK) << fc_error_text();
  return n;
}

/// Returns the bytes of a ready future as a text.
inline std::string text_in(fc_future* ready) {
  const void* bytes = nullptr;
  std::size_t size = 0;
  EXPECT_EQ(fc_future_get(ready, &bytes, &size), FC_OK) << fc_error_text();
  return {static_cast<const char*>(bytes), size};
}

inline fc_bytes part_of(std::string_view text) { return {text.data(), text.size()}; }
template <class T>
fc_bytes bytes_of(const T& value) {
  return {&value, sizeof value};
}

/// Words of this process that handlers on nodes of this machine set and wait for.
class c_words {
 public:
  c_words() {
    fc_node here{};
    EXPECT_EQ(fc_this_node(nullptr, &here), FC_OK) << fc_error_text();
    EXPECT_EQ(fc_allocate(here, count * sizeof(std::uint32_t), &span_), FC_OK) << fc_error_text();
    words_ = mapped(span_);
    for (std::size_t i = 0; i < count; ++i)
      set(i, 0);
  }
  c_words(const c_words&) = delete;
  c_words& operator=(const c_words&) = delete;
  ~c_words() { EXPECT_EQ(fc_release(nullptr, span_), FC_OK) << fc_error_text(); }

  static constexpr std::size_t count = 16;

  /// Returns a span of one word.
  [[nodiscard]] fc_span span(std::size_t word) const {
    fc_span part{};
    EXPECT_EQ(fc_part(span_, word * sizeof(std::uint32_t), sizeof(std::uint32_t), &part), FC_OK);
    return part;
  }
  void set(std::size_t word, std::uint32_t value = 1) { of(words_[word]).store(value); }
  [[nodiscard]] std::uint32_t get(std::size_t word) { return of(words_[word]).load(); }
  [[nodiscard]] bool becomes(std::size_t word, std::uint32_t value) {
    return eventually([&] { return get(word) >= value; });
  }

  // ---- in handlers ----

  /// Returns the word whose span is at the beginning of the message.
  static std::atomic_ref<std::uint32_t> in(const void* bytes, std::size_t size) {
    fc_span span{};
    if (size < sizeof span) std::abort();
    std::memcpy(&span, bytes, sizeof span);
    return of(*mapped(span));
  }

 private:
  static std::atomic_ref<std::uint32_t> of(std::uint32_t& word) { return std::atomic_ref(word); }
  static std::uint32_t* mapped(const fc_span& span) {
    void* at = nullptr;
    if (fc_map(nullptr, span, &at) != FC_OK) std::abort();
    return static_cast<std::uint32_t*>(at);
  }

  fc_span span_{};
  std::uint32_t* words_ = nullptr;
};

/// Handler that replies with the bytes that it gets.
inline void c_echo(fc_reply* reply, const void* bytes, std::size_t size, void* /*user*/) {
  fc_reply_bytes(reply, bytes, size);
}
/// Handler that adds 1 to a word.
inline void c_count(fc_reply* /*reply*/, const void* bytes, std::size_t size, void* /*user*/) {
  c_words::in(bytes, size).fetch_add(1);
}
/// Handler that waits until a word is not 0, and then replies with the bytes behind the span.
inline void c_hold(fc_reply* reply, const void* bytes, std::size_t size, void* /*user*/) {
  while (c_words::in(bytes, size).load() == 0)
    std::this_thread::yield();
  fc_reply_bytes(reply, static_cast<const std::byte*>(bytes) + sizeof(fc_span),
                 size - sizeof(fc_span));
}
/// Handler that runs until its call is stopped, and then sets a word to 2. Sets the word to 1 at
/// its beginning.
inline void c_run_on(fc_reply* reply, const void* bytes, std::size_t size, void* /*user*/) {
  const auto word = c_words::in(bytes, size);
  word.store(1);
  if (eventually([&] { return fc_reply_stopped(reply); })) word.store(2);
}

/// Registers these handlers in all processes; constructed before main().
inline const bool c_handlers_are_registered = fc_register("echo", &c_echo, nullptr) == FC_OK &&
                                              fc_register("count", &c_count, nullptr) == FC_OK &&
                                              fc_register("hold", &c_hold, nullptr) == FC_OK &&
                                              fc_register("run on", &c_run_on, nullptr) == FC_OK;

/// A fixture with two targets, and C's names for them.
class c_test : public two_targets_test {
 protected:
  c_test() : there_(c_node(target_)), elsewhere_(c_node(other_)) {
    EXPECT_TRUE(c_handlers_are_registered);
  }

  fc_node there_;
  fc_node elsewhere_;
  c_words words_;
};

} // namespace farcall::test
