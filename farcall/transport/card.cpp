#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/transport/card.hpp>

namespace farcall {
namespace {

constexpr std::uint32_t card_magic = 0x66617263; // "farc" read as a big-endian word
constexpr std::size_t most_windows = 16;
constexpr std::uint32_t most_workers = 256;

/// Everything before the body that must be readable whatever the other side is.
struct preamble {
  std::uint32_t magic = card_magic;
  std::uint32_t version = wire_version;
  std::uint32_t pointer_bytes = sizeof(void*);
  std::uint32_t reserved = 0;
};
static_assert(sizeof(preamble) == 16);

void check(const preamble& head) {
  if (head.magic == std::uint32_t{0x63726166}) {
    throw error("the peer has the other byte order; farcall needs one byte order in a job");
  }
  if (head.magic != card_magic) {
    throw malformed_message("what should be a node's card is something else");
  }
  if (head.version != wire_version) {
    throw error("the peer speaks version " + std::to_string(head.version) +
                " of the wire format, this program version " + std::to_string(wire_version) +
                "; build both with the same farcall");
  }
  if (head.pointer_bytes != sizeof(void*)) {
    throw error("the peer has pointers of " + std::to_string(head.pointer_bytes) +
                " bytes, this program of " + std::to_string(sizeof(void*)) +
                "; farcall needs one size in a job");
  }
}

} // namespace

bool is_device(const card& c) noexcept { return c.transport.starts_with("cuda"); }

std::vector<std::byte> encode_format() {
  byte_writer w;
  w.number(preamble{});
  return std::move(w).bytes();
}

void check_format(std::span<const std::byte> bytes) {
  byte_reader r(bytes, "what a node says of its format");
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
  w.text(c.address);
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
  c.address = r.text();
  c.transport = r.text();
  c.pid = r.number<std::uint64_t>();
  c.cores = r.number<std::uint32_t>();
  c.workers = r.number<std::uint32_t>();
  if (c.workers == 0 || c.workers > most_workers) {
    throw malformed_message("a node's card announces an impossible number of workers");
  }
  c.build = r.text();
  c.key_digest = r.number<std::uint64_t>();
  c.lane_bytes = r.number<std::uint32_t>();
  const auto windows = r.number<std::uint32_t>();
  if (windows > most_windows) throw malformed_message("a node's card announces too much memory");
  for (std::uint32_t i = 0; i < windows; ++i) {
    const auto window = r.number<memory_window>();
    if (window.address + window.bytes < window.address) {
      throw malformed_message("a node's card announces memory that wraps around");
    }
    c.windows.push_back(window);
  }
  if (!r.empty()) throw malformed_message("a node's card is followed by something else");
  return c;
}

} // namespace farcall
