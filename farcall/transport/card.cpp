// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/version.hpp>
#include <farcall/transport/card.hpp>

#include <fstream>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace farcall {
namespace {

constexpr std::uint32_t card_magic = 0x66617263; // the text "farc", read as a big-endian word
constexpr std::size_t max_windows = 16;
constexpr std::uint32_t max_workers_of_node = 256;
constexpr std::uint32_t max_transports = 16;
constexpr std::size_t max_transport_bytes = 4096;

/// First bytes of an encoded card, which every build can read.
struct preamble {
  std::uint32_t magic = card_magic;
  std::uint32_t version = wire_version;
  std::uint32_t pointer_bytes = sizeof(void*);
  std::uint32_t release = this_release;
};
static_assert(sizeof(preamble) == 16);

void check(const preamble& head) {
  if (head.magic == std::uint32_t{0x63726166}) {
    throw error("the peer has the other byte order; farcall needs one byte order in a job");
  }
  if (head.magic != card_magic) {
    throw malformed_message("the bytes of a node's card are no card");
  }
  if (head.version != wire_version) {
    throw error("the peer has another version of farcall: " +
                difference_text(head.release, head.version));
  }
  if (head.pointer_bytes != sizeof(void*)) {
    throw error("the peer has pointers of " + std::to_string(head.pointer_bytes) +
                " bytes, this program of " + std::to_string(sizeof(void*)) +
                "; farcall needs one size in a job");
  }
}

/// Returns the boot id of the running system, or an empty text if it cannot be read.
std::string boot_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  (void)std::getline(file, boot);
  return boot;
}

} // namespace

std::span<const std::byte> bytes_for(const card& c, std::string_view scheme) noexcept {
  const auto at = c.transports.find(scheme);
  return at == c.transports.end() ? std::span<const std::byte>{} : at->second;
}

std::string machine_identity() {
  const std::string boot = boot_identity();
  return boot.empty() ? "" : boot + "/" + std::to_string(::geteuid());
}

std::string network_identity() {
  const std::string boot = boot_identity();
  struct stat of{};
  if (boot.empty() || ::stat("/proc/self/ns/net", &of) != 0) return "";
  return boot + "/" + std::to_string(of.st_ino);
}

std::vector<std::byte> encode_format() {
  byte_writer w;
  w.number(preamble{});
  return std::move(w).bytes();
}

void check_format(std::span<const std::byte> bytes) {
  byte_reader r(bytes, "a node's format");
  check(r.number<preamble>());
}

std::vector<std::byte> encode(const card& c) {
  byte_writer w;
  w.number(preamble{});
  w.number(c.id);
  w.text(c.name);
  w.text(c.host);
  w.text(c.machine);
  w.text(c.architecture);
  w.text(c.transport);
  w.number(c.pid);
  w.number(c.cores);
  w.number(c.workers);
  w.text(c.build);
  w.number(c.key_digest);
  w.number(c.lane_bytes);
  w.number(static_cast<std::uint32_t>(c.windows.size()));
  for (const memory_window& window : c.windows)
    w.number(window);
  w.number(c.owner);
  w.number(static_cast<std::uint32_t>(c.transports.size()));
  for (const auto& [scheme, bytes] : c.transports) {
    w.text(scheme);
    w.block(bytes);
  }
  return std::move(w).bytes();
}

card decode_card(std::span<const std::byte> bytes) {
  byte_reader r(bytes, "a node's card");
  check(r.number<preamble>());
  card c;
  c.id = r.number<node_id>();
  c.name = r.text();
  c.host = r.text();
  c.machine = r.text();
  c.architecture = r.text();
  c.transport = r.text();
  c.pid = r.number<std::uint64_t>();
  c.cores = r.number<std::uint32_t>();
  c.workers = r.number<std::uint32_t>();
  if (c.workers == 0 || c.workers > max_workers_of_node) {
    throw malformed_message("a node's card announces an impossible number of workers");
  }
  c.build = r.text();
  c.key_digest = r.number<std::uint64_t>();
  c.lane_bytes = r.number<std::uint32_t>();
  const auto windows = r.number<std::uint32_t>();
  if (windows > max_windows) throw malformed_message("a node's card announces too much memory");
  for (std::uint32_t i = 0; i < windows; ++i) {
    const auto window = r.number<memory_window>();
    if (window.address + window.bytes < window.address) {
      throw malformed_message("a node's card announces memory that wraps around");
    }
    c.windows.push_back(window);
  }
  c.owner = r.number<node_id>();
  const auto transports = r.number<std::uint32_t>();
  if (transports > max_transports) {
    throw malformed_message("a node's card has data for too many transports");
  }
  for (std::uint32_t i = 0; i < transports; ++i) {
    std::string scheme = r.text();
    const auto bytes = r.block();
    if (bytes.size() > max_transport_bytes ||
        !c.transports.emplace(std::move(scheme), std::vector(bytes.begin(), bytes.end())).second) {
      throw malformed_message("a node's card has too much data for a transport, or has it twice");
    }
  }
  if (!r.empty()) throw malformed_message("a node's card is followed by something else");
  return c;
}

} // namespace farcall
