// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/job/pmi_manager.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include <unistd.h>

namespace farcall {
namespace {

/// Time to wait for the reply to a request for which the caller gives no deadline. The process
/// manager replies to such requests at once.
constexpr std::chrono::seconds reply_time{60};
/// Longest line in bytes, its end included. Slurm accepts at most 1,024 bytes, and MPICH's client
/// reads no more.
constexpr std::size_t line_limit = 1000;
constexpr std::string_view key_prefix = "farcall-";
constexpr std::size_t max_key_bytes = 30;
/// Maximum number of pieces in which a value is sent. A card needs fewer.
constexpr std::uint64_t max_pieces = 1000;
/// Maximum size of the prefix of a value's first piece: the number of pieces and a point, at most
/// "1000.".
constexpr std::size_t count_bytes = 5;
/// Maximum number of "cmd=set" lines that may follow the reply to initack.
constexpr int max_settings = 16;
constexpr std::size_t min_piece_bytes = 64;
/// Largest value that is accepted if the process manager sends its limits for keys and values.
constexpr std::uint64_t max_limit = 1U << 30;

// ---- values -------------------------------------------------------------------------------------

constexpr std::string_view digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encodes bytes in base64url without padding (RFC 4648, section 5), because values must not
/// contain spaces, and because some process managers interpret values as numbers.
std::string encoded(std::string_view bytes) {
  std::string text;
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(c);
    for (count += 8; count >= 6; count -= 6)
      text += digits[bits >> (count - 6) & 63];
  }
  if (count > 0) text += digits[bits << (6 - count) & 63];
  return text;
}

/// Decodes base64url. Returns an empty optional if `text` is not base64url.
std::optional<std::string> decoded(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : text) {
    const std::size_t digit = digits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 255);
  }
  // Six bits come from each digit, eight go into each byte. The bits that remain must be zero, and
  // must be fewer than six.
  if (count >= 6 || (bits & ((1U << count) - 1)) != 0) return std::nullopt;
  return bytes;
}

bool is_key(std::string_view key) {
  return !key.empty() && key.size() <= max_key_bytes &&
         key.find_first_not_of(std::string(digits) + "._") == std::string_view::npos;
}

// ---- the end ------------------------------------------------------------------------------------

/// A connection on which exit() has to send "finalize". If MPI has been initialised by then, exit()
/// sends nothing, because MPI_Finalize sends the line.
struct put_off {
  std::unique_ptr<pmi_connection> connection;
  mpi_state (*mpi)() noexcept = nullptr;
  pid_t process = 0;
};
/// The object is never freed, because exit() uses it after static objects were destroyed. There is
/// only one, because a process has one process manager.
constinit put_off* at_exit = nullptr;

void finish_at_exit() {
  // Send nothing in a forked child, because the process manager does not know the child.
  if (at_exit->connection && at_exit->process == ::getpid() &&
      at_exit->mpi() == mpi_state::not_started)
    at_exit->connection->finish();
  at_exit->connection.reset();
}

void finish_later(std::unique_ptr<pmi_connection> connection, mpi_state (*mpi)() noexcept) {
  if (at_exit == nullptr) {
    auto made = std::make_unique<put_off>();
    if (std::atexit(finish_at_exit) != 0) throw std::bad_alloc();
    at_exit = made.release();
  }
  *at_exit = {std::move(connection), mpi, ::getpid()};
}

} // namespace

pmi_manager::pmi_manager(unique_fd socket, node_id rank, std::uint32_t size, time_point deadline,
                         mpi_state (*mpi)() noexcept)
    : connection_(std::make_unique<pmi_connection>(std::move(socket))), rank_(rank), size_(size),
      mpi_(mpi) {
  begin(deadline);
}

pmi_manager::pmi_manager(unique_fd socket, std::uint32_t id, time_point deadline,
                         mpi_state (*mpi)() noexcept)
    : connection_(std::make_unique<pmi_connection>(std::move(socket))), mpi_(mpi) {
  if (mpi_() == mpi_state::running) {
    throw error(
        "the process manager serves one connection of a process at a time (PMI_PORT), and MPI "
        "has it: make the job before MPI_Init, or give it MPI_COMM_WORLD");
  }
  ask("cmd=initack pmiid=" + std::to_string(id), "initack", deadline);
  std::optional<std::uint64_t> rank;
  std::optional<std::uint64_t> size;
  // Besides the rank and the size, the process manager may send other settings, such as "debug".
  // Skip these.
  for (int lines = 0; !rank || !size; ++lines) {
    const pmi_line line = connection_->receive(deadline);
    const auto new_rank = line.number("rank", 0, no_node - 1);
    const auto new_size = line.number("size", 1, no_node);
    if (line.word("cmd") != "set" || (line.word("rank") && !new_rank) ||
        (line.word("size") && !new_size) || lines == max_settings) {
      throw error("the process manager should have said \"cmd=set size=…\" and \"cmd=set rank=…\", "
                  "with numbers, but said " +
                  pmi_connection::quoted(line.text()));
    }
    if (new_rank) rank = new_rank;
    if (new_size) size = new_size;
  }
  rank_ = static_cast<node_id>(*rank);
  size_ = static_cast<std::uint32_t>(*size);
  begin(deadline);
}

void pmi_manager::begin(time_point deadline) {
  if (rank_ >= size_) {
    throw error("the process manager says that this is process " + std::to_string(rank_) + " of " +
                std::to_string(size_) + ", counted from 0");
  }
  const mpi_state mpi = mpi_();
  require_before_end(mpi);
  // If MPI has already sent "init", send no second "init", because Slurm does not reply to it.
  if (mpi != mpi_state::running)
    ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline);

  const pmi_line limits = ask("cmd=get_maxes", "maxes", deadline);
  const auto key_limit = limits.number("keylen_max", 1, max_limit);
  const auto value_limit = limits.number("vallen_max", 1, max_limit);
  if (!key_limit || !value_limit) {
    throw error(
        "the process manager should have said \"cmd=maxes … keylen_max=… vallen_max=…\", with "
        "numbers, but said " +
        pmi_connection::quoted(limits.text()));
  }
  const pmi_line space = ask("cmd=get_my_kvsname", "my_kvsname", deadline);
  space_ = space.word("kvsname").value_or("");
  if (space_.empty()) {
    throw error("the process manager should have said \"cmd=my_kvsname kvsname=…\", but said " +
                pmi_connection::quoted(space.text()));
  }
  // Both limits of the process manager count a terminating zero, so that one byte less can be used.
  const std::size_t key = key_text(size_ - 1, std::string(max_key_bytes, 'k'), max_pieces).size();
  const std::size_t around = put_line(std::string(key, 'k'), "").size() + 1;
  const std::size_t left = line_limit > around ? line_limit - around : 0;
  piece_bytes_ = std::min(static_cast<std::size_t>(*value_limit - 1), left);
  if (*key_limit <= key || piece_bytes_ < min_piece_bytes) {
    throw error("the process manager's limits leave no space for keys of " + std::to_string(key) +
                " bytes with values: " + pmi_connection::quoted(limits.text()) + ", " +
                pmi_connection::quoted(space.text()));
  }
}

void pmi_manager::require_before_end(mpi_state mpi) {
  if (mpi == mpi_state::ended) {
    throw error(
        "MPI_Finalize has told the process manager that this process ends, so it listens no "
        "more: make the job before that");
  }
}

pmi_manager::~pmi_manager() { finalize(); }

pmi_connection& pmi_manager::connection() {
  if (is_finalized_)
    throw error("the process manager knows that this process ends, and listens no more");
  return *connection_;
}

pmi_line pmi_manager::ask(const std::string& line, std::string_view reply, time_point deadline) {
  pmi_line got = connection().ask(line, reply, deadline);
  if (!got.is_success()) {
    throw error("the process manager refuses " + pmi_connection::quoted(line) + ": " +
                pmi_connection::quoted(got.text()));
  }
  return got;
}

std::string pmi_manager::key_text(node_id of, const std::string& key, std::size_t piece) {
  return std::string(key_prefix) + std::to_string(of) + "-" + key + "-" + std::to_string(piece);
}

std::string pmi_manager::put_line(const std::string& key, std::string_view value) const {
  return "cmd=put kvsname=" + space_ + " key=" + key + " value=" + std::string(value);
}

void pmi_manager::put(const std::string& key, const std::string& value) {
  if (!is_key(key)) {
    throw error("the key " + pmi_connection::quoted(key) +
                " should be letters, digits, '.', '_' "
                "and '-', at most " +
                std::to_string(max_key_bytes));
  }
  if (!put_.insert(key).second) throw error("the key \"" + key + "\" has been put already");
  const std::string text = encoded(value);
  const std::size_t first = piece_bytes_ - count_bytes;
  const std::size_t pieces =
      1 + (text.size() > first ? (text.size() - first + piece_bytes_ - 1) / piece_bytes_ : 0);
  if (pieces > max_pieces) {
    throw error("the value of \"" + key + "\" has " + std::to_string(value.size()) +
                " bytes, more than can be exchanged by PMI");
  }
  const time_point deadline = deadline_after(reply_time);
  // Put the number of pieces before the text of the first piece. This also prevents an empty first
  // piece, because Hydra drops empty values.
  std::string piece = std::to_string(pieces) + "." + text.substr(0, first);
  for (std::size_t i = 0, at = first; i < pieces; ++i, at += piece_bytes_) {
    ask(put_line(key_text(rank_, key, i), piece), "put_result", deadline);
    piece = text.substr(std::min(at, text.size()), piece_bytes_);
  }
}

void pmi_manager::fence(time_point deadline) { ask("cmd=barrier_in", "barrier_out", deadline); }

std::string pmi_manager::get(node_id from, const std::string& key, time_point deadline) {
  std::uint64_t pieces = 1;
  std::string text;
  for (std::size_t i = 0; i < pieces; ++i) {
    const pmi_line got = connection().ask(
        "cmd=get kvsname=" + space_ + " key=" + key_text(from, key, i), "get_result", deadline);
    const auto value = got.word("value");
    if (!got.is_success() || !value) {
      throw error("process " + std::to_string(from) + " has put nothing as \"" + key +
                      "\", or not all of it: " + pmi_connection::quoted(got.text()),
                  from);
    }
    if (i > 0) {
      text += *value;
      continue;
    }
    const std::size_t point = value->find('.');
    const auto count = pmi_number(value->substr(0, point), 1, max_pieces);
    if (point == std::string_view::npos || !count) {
      throw malformed_message(
          "what process " + std::to_string(from) + " has put as \"" + key +
              "\" does not say its length: " + pmi_connection::quoted(got.text()),
          from);
    }
    pieces = *count;
    text = value->substr(point + 1);
  }
  auto bytes = decoded(text);
  if (!bytes) {
    throw malformed_message("what process " + std::to_string(from) + " has put as \"" + key +
                                "\" is not base64url: " + pmi_connection::quoted(text),
                            from);
  }
  return std::move(*bytes);
}

void pmi_manager::on_lost(std::function<void(node_id rank, const std::string& how)> /*lost*/) {}

void pmi_manager::abort(int status, const std::string& why) noexcept {
  log::error(why);
  try {
    connection().tell("cmd=abort exitcode=" + std::to_string(status));
  } catch (const std::exception&) {
    // Ignore the error. Either finalize() was called, so that the process manager accepts no
    // requests any more, or memory has run out. In both cases the process manager notices the end
    // of this process.
  }
}

void pmi_manager::finalize() noexcept {
  if (std::exchange(is_finalized_, true)) return;
  switch (mpi_()) {
  case mpi_state::absent:
    connection_->finish();
    return;
  case mpi_state::not_started:
    try {
      finish_later(std::move(connection_), mpi_);
    } catch (const std::bad_alloc&) {
      log::error(
          "no memory is left to tell the process manager at exit() that this process ends in "
          "order");
    }
    return;
  case mpi_state::running:
  case mpi_state::ended:
    return;
  }
}

} // namespace farcall
