#pragma once

#include "argument_kind.hpp"

#include <farcall/base/error.hpp>
#include <farcall/call/pack.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// What the host library and aveorun say to each other: far calls, made in the lanes of contexts.
/// Both programs know them by the names of the types below.
namespace farcall::veo {

/// A call of a kernel.
struct kernel_call {
  std::uint64_t address = 0;
  /// Requests of this context since the last message that the host did by itself; each had the
  /// result 0.
  std::uint32_t done_by_host = 0;
  std::span<const std::uint64_t> words;
  std::span<const argument_kind> kinds; ///< empty: all integers
  /// Memory behind the stack arguments: what goes in only, in and out, out only, in this order.
  std::uint64_t frame_bytes = 0;
  std::uint64_t out_from = 0;      ///< the answer brings the frame from here to its end
  std::span<const std::byte> sent; ///< beginning of the frame
};

/// What became of a request.
struct outcome {
  std::uint64_t value = 0;
  /// Signal that ended the kernel, and with it the process; or one of the following.
  std::int32_t signal = 0;

  static constexpr std::int32_t refused = -1;   ///< not run, as the process is ending
  static constexpr std::int32_t no_memory = -2; ///< there is no memory at this address
  /// The kernel takes or gives by value what is no word.
  static constexpr std::int32_t not_callable = -3;
};

/// The same with memory that comes back. Sent from where it lies, and kept by whoever receives it.
struct outcome_with_bytes {
  outcome what;
  std::span<const std::byte> sent;
  std::vector<std::byte> received;
};

/// An address, a handle, or 0 and the reason.
struct found {
  std::uint64_t value = 0;
  std::string why;
  bool is_refused = false; ///< not looked for, as the process is ending
};

/// What a call of the system gave, and errno when it failed.
struct system_result {
  std::int64_t value = 0;
  std::int32_t error = 0;
};

/// What a helper is told when it starts.
struct helper_settings {
  std::int32_t node = 0;       ///< VE_NODE_NUMBER
  std::int32_t identifier = 0; ///< that stands in the tags of addresses
  bool serves_vhcall = false;  ///< the program is the host of VHcall, not the helper itself
  std::vector<std::string> environment; ///< "NAME=value"
};

/// What it says of itself.
struct helper_description {
  std::uint64_t pid = 0;
  /// As far as the reason is known why kernels are called without their debug information.
  std::string remark;
};

/// A context as its worker on the target sees it.
struct context_settings {
  std::uint64_t stack_bytes = 0;
  std::int32_t first_core = -1; ///< to be pinned to this and the next ones; -1: not at all
  std::int32_t cores = 1;
};

/// What aveorun does. The host has none.
class helper {
 public:
  helper() = default;
  helper(const helper&) = delete;
  helper& operator=(const helper&) = delete;
  virtual ~helper() = default;

  virtual helper_description start(const helper_settings& settings) = 0;
  virtual void open_context(const context_settings& settings) = 0;
  virtual outcome run(const kernel_call& call) = 0;
  virtual outcome_with_bytes run_with_frame(const kernel_call& call) = 0;
  virtual found load(const std::string& path) = 0;
  virtual found unload(std::uint64_t library) = 0;
  virtual found symbol(std::uint64_t library, const std::string& name) = 0;
  virtual found allocate(std::uint64_t bytes) = 0;
  virtual outcome release(std::uint64_t address) = 0;
  virtual outcome write(std::uint64_t address, std::span<const std::byte> bytes) = 0;
  virtual outcome_with_bytes read(std::uint64_t address, std::uint64_t bytes) = 0;
  virtual outcome copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) = 0;
  /// System V segments that others have made.
  virtual system_result find_segment(std::int64_t key, std::uint64_t bytes, std::int32_t flags) = 0;
  virtual system_result attach_segment(std::int32_t id, std::int32_t flags) = 0;
  virtual system_result detach_segment(std::uint64_t address) = 0;

  /// That of this process; null in the host.
  static helper* instance;
};

/// The helper that a message is for. Throws error on the host.
[[nodiscard]] helper& this_helper();

// The messages. Types, so that the host needs no code behind them.
struct start_helper {
  helper_description operator()(const helper_settings& s) const { return this_helper().start(s); }
};
struct open_context {
  void operator()(const context_settings& s) const { this_helper().open_context(s); }
};
struct run_kernel {
  outcome operator()(const kernel_call& c) const { return this_helper().run(c); }
};
struct run_kernel_with_frame {
  outcome_with_bytes operator()(const kernel_call& c) const {
    return this_helper().run_with_frame(c);
  }
};
struct load_library {
  found operator()(const std::string& path) const { return this_helper().load(path); }
};
struct unload_library {
  found operator()(std::uint64_t library) const { return this_helper().unload(library); }
};
struct find_symbol {
  found operator()(std::uint64_t library, const std::string& name) const {
    return this_helper().symbol(library, name);
  }
};
struct allocate_memory {
  found operator()(std::uint64_t bytes) const { return this_helper().allocate(bytes); }
};
struct release_memory {
  outcome operator()(std::uint64_t address) const { return this_helper().release(address); }
};
struct write_memory {
  outcome operator()(std::uint64_t address, std::span<const std::byte> bytes) const {
    return this_helper().write(address, bytes);
  }
};
struct read_memory {
  outcome_with_bytes operator()(std::uint64_t address, std::uint64_t bytes) const {
    return this_helper().read(address, bytes);
  }
};
struct copy_memory {
  outcome operator()(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) const {
    return this_helper().copy(to, from, bytes);
  }
};
struct find_segment {
  system_result operator()(std::int64_t key, std::uint64_t bytes, std::int32_t flags) const {
    return this_helper().find_segment(key, bytes, flags);
  }
};
struct attach_segment {
  system_result operator()(std::int32_t id, std::int32_t flags) const {
    return this_helper().attach_segment(id, flags);
  }
};
struct detach_segment {
  system_result operator()(std::uint64_t address) const {
    return this_helper().detach_segment(address);
  }
};

} // namespace farcall::veo

namespace farcall {

template <>
struct packer<veo::kernel_call> {
  static constexpr bool has_views = true;

  // A call without arguments is 16 bytes: what is rare is behind flags.
  static constexpr std::uint32_t has_kinds = 1U << 31;
  static constexpr std::uint32_t has_frame = 1U << 30;
  static constexpr std::uint32_t most_words = has_frame - 1;

  /// What every call has; written in one piece, which is quicker than three.
  struct head {
    std::uint64_t address;
    std::uint32_t done_by_host;
    std::uint32_t words_and_flags;
  };

  static void pack(writer& w, const veo::kernel_call& c) {
    w(head{c.address, c.done_by_host,
           static_cast<std::uint32_t>(c.words.size()) | (c.kinds.empty() ? 0 : has_kinds) |
               (c.frame_bytes == 0 ? 0 : has_frame)});
    if (!c.words.empty()) w.bytes(c.words.data(), c.words.size_bytes(), alignof(std::uint64_t));
    if (!c.kinds.empty()) w.bytes(c.kinds.data(), c.kinds.size());
    if (c.frame_bytes != 0) w(c.frame_bytes, c.out_from, c.sent);
  }

  static veo::kernel_call unpack(reader& r) {
    veo::kernel_call c;
    c.address = r.number<std::uint64_t>();
    c.done_by_host = r.number<std::uint32_t>();
    const auto flags = r.number<std::uint32_t>();
    const std::size_t words = flags & most_words;
    const auto* first = r.bytes(words * sizeof(std::uint64_t), alignof(std::uint64_t));
    c.words = {reinterpret_cast<const std::uint64_t*>(first), words};
    if ((flags & has_kinds) != 0) {
      c.kinds = {reinterpret_cast<const veo::argument_kind*>(r.bytes(words)), words};
    }
    if ((flags & has_frame) != 0) {
      c.frame_bytes = r.number<std::uint64_t>();
      c.out_from = r.number<std::uint64_t>();
      c.sent = r.read<std::span<const std::byte>>();
      if (c.out_from > c.frame_bytes || c.sent.size() > c.frame_bytes) {
        throw malformed_message("a kernel's stack arguments do not fit their frame");
      }
    }
    return c;
  }
};

template <>
struct packer<veo::outcome_with_bytes> {
  static void pack(writer& w, const veo::outcome_with_bytes& o) { w(o.what, o.sent); }
  static veo::outcome_with_bytes unpack(reader& r) {
    const auto what = r.read<veo::outcome>();
    return {what, {}, r.read<std::vector<std::byte>>()};
  }
};

template <>
struct packer<veo::found> {
  static void pack(writer& w, const veo::found& f) { w(f.value, f.why, f.is_refused); }
  static veo::found unpack(reader& r) {
    const auto value = r.read<std::uint64_t>();
    auto why = r.read<std::string>();
    return {value, std::move(why), r.read<bool>()};
  }
};

template <>
struct packer<veo::helper_settings> {
  static void pack(writer& w, const veo::helper_settings& s) {
    w(s.node, s.identifier, s.serves_vhcall, s.environment);
  }
  static veo::helper_settings unpack(reader& r) {
    const auto node = r.read<std::int32_t>();
    const auto identifier = r.read<std::int32_t>();
    const auto serves_vhcall = r.read<bool>();
    return {node, identifier, serves_vhcall, r.read<std::vector<std::string>>()};
  }
};

template <>
struct packer<veo::helper_description> {
  static void pack(writer& w, const veo::helper_description& d) { w(d.pid, d.remark); }
  static veo::helper_description unpack(reader& r) {
    const auto pid = r.read<std::uint64_t>();
    return {pid, r.read<std::string>()};
  }
};

} // namespace farcall
