#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace farcall {

/// A line of PMI 1: words "name=value" with spaces between them, the first of which is the command.
class pmi_line {
 public:
  /// `text` without the end of the line.
  explicit pmi_line(std::string text) : text_(std::move(text)) {}

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  /// The value of the first word of that name, which may contain '='.
  [[nodiscard]] std::optional<std::string_view> word(std::string_view name) const noexcept;
  /// That value as a whole number; nothing where it is none in [low, high].
  [[nodiscard]] std::optional<std::uint64_t> number(std::string_view name, std::uint64_t low,
                                                    std::uint64_t high) const noexcept;
  /// Not so where there is an rc, and it is not 0.
  [[nodiscard]] bool is_success() const noexcept;

 private:
  std::string text_;
};

/// A whole number in decimal digits and nothing else; nothing where it is none in [low, high].
[[nodiscard]] std::optional<std::uint64_t> pmi_number(std::string_view text, std::uint64_t low,
                                                      std::uint64_t high) noexcept;

/// The lines that a process and its process manager exchange: a question, an answer. What comes is
/// checked for no more than being lines of a bearable length; after anything else, or none at all,
/// nothing that came later could be trusted to belong to the question, so the connection fails from
/// then on. One thread at a time.
class pmi_connection {
 public:
  /// `socket`: a stream. Whether it blocks does not matter, nor is that changed.
  explicit pmi_connection(unique_fd socket);

  /// Sends `line`, without its end, and returns the line that begins with "cmd=`answer`". Throws
  /// timeout, and error.
  [[nodiscard]] pmi_line ask(const std::string& line, std::string_view answer, time_point deadline);
  /// The next line, or throws.
  [[nodiscard]] pmi_line receive(time_point deadline);
  /// Sends `line` if that needs no waiting, and expects no answer.
  void tell(const std::string& line) noexcept;
  /// Says "cmd=finalize" and waits, not for long, until that was heard.
  void finish() noexcept;

  /// "\"cmd=maxes\"", shortened, without values and bytes that are not printed.
  [[nodiscard]] static std::string quoted(std::string_view line);

 private:
  void send(std::string_view bytes, time_point deadline);
  /// False: the deadline has passed.
  [[nodiscard]] bool wait_for(short event, time_point deadline);
  [[noreturn]] void fail(const std::string& how);

  unique_fd socket_;
  std::string received_; ///< not looked at yet
  std::string asked_;    ///< for messages
  std::string broken_;   ///< why nothing can be asked any more
};

} // namespace farcall
