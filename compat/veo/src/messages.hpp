// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "argument_kind.hpp"

#include <farcall/base/error.hpp>
#include <farcall/call/pack.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Messages that the host library sends to the helper program: typed calls in the lanes of contexts
/// or in the lane of the calling thread. Both programs identify the calls by the names of the types
/// below.
namespace farcall::veo {

struct kernel_call {
  std::uint64_t address = 0;
  /// Number of requests that the host has executed itself since the context's last message. The
  /// result of each of these requests is 0.
  std::uint32_t done_by_host = 0;
  std::span<const std::uint64_t> words;
  std::span<const argument_kind> kinds; ///< empty if all arguments are integers
  /// Size of the frame, the memory to which stack arguments point. The frame contains the in
  /// arguments first, followed by the inout and the out arguments.
  std::uint64_t frame_bytes = 0;
  /// Offset in the frame of the bytes that the reply returns. These bytes extend to the end of the
  /// frame.
  std::uint64_t out_from = 0;
  std::span<const std::byte> sent; ///< beginning of the frame
};

/// Result of a request.
struct outcome {
  std::uint64_t value = 0;
  /// Number of the signal if a signal has ended the kernel, and with it the process. 0 for success,
  /// or one of the constants below for another error.
  std::int32_t signal = 0;

  /// The request was not run, because the process is ending.
  static constexpr std::int32_t refused = -1;
  static constexpr std::int32_t no_memory = -2; ///< no memory is mapped at the request's address
  /// The function cannot be called, because it takes or returns a value that does not fit into a
  /// register.
  static constexpr std::int32_t not_callable = -3;
};

/// Result of a request that returns bytes of memory. The sender packs the view `sent` without an
/// extra copy; the receiver gets the bytes in `received`.
struct outcome_with_bytes {
  outcome what;
  std::span<const std::byte> sent;
  std::vector<std::byte> received;
};

/// Result of a request for an address or a handle. If there is none, `value` is 0 and `why` the
/// reason.
struct found {
  std::uint64_t value = 0;
  std::string why;
  bool is_refused = false; ///< the request was not executed, because the process is ending
};

/// Result of a system call, with the errno if the call failed.
struct system_result {
  std::int64_t value = 0;
  std::int32_t error = 0;
};

/// Settings that the host sends to a helper when the helper starts.
struct helper_settings {
  std::int32_t node = 0;       ///< VE_NODE_NUMBER
  std::int32_t identifier = 0; ///< identifier of the process in the tags of addresses
  bool serves_vhcall = false;  ///< true if the program, not the helper, is the host of VHcall
  std::vector<std::string> environment; ///< "NAME=value"
};

/// Description of a helper, which is the reply to its start message.
struct helper_description {
  std::uint64_t pid = 0;
  /// Reason why kernels are called without types from their debug information; empty if the types
  /// are used.
  std::string remark;
};

/// Settings of a context for its worker thread in the helper.
struct context_settings {
  std::uint64_t stack_bytes = 0;
  /// First of the `cores` CPUs to which the worker thread is pinned; -1 if it is not pinned.
  std::int32_t first_core = -1;
  std::int32_t cores = 1;
};

/// Requests that the host program sends to the helper program, which executes them. The object that
/// implements these requests exists only in the helper program. In the host program, `instance` is
/// null.
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
  /// The next three functions find, attach and detach System V segments that exist; they do not
  /// create segments.
  virtual system_result find_segment(std::int64_t key, std::uint64_t bytes, std::int32_t flags) = 0;
  virtual system_result attach_segment(std::int32_t id, std::int32_t flags) = 0;
  virtual system_result detach_segment(std::uint64_t address) = 0;

  /// The helper object of this process; null in the host program.
  static helper* instance;
};

/// Returns the helper object of this process. Throws error in the host program.
[[nodiscard]] helper& this_helper();

// The messages are functor types, because the host can name a type without linking the code that
// executes it.
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

  // The flags say which optional parts follow the head, so that a call without arguments takes only
  // 16 bytes.
  static constexpr std::uint32_t has_kinds = 1U << 31;
  static constexpr std::uint32_t has_frame = 1U << 30;
  static constexpr std::uint32_t max_words = has_frame - 1;

  /// Fixed part of each call. A single write of this struct is faster than three writes of its
  /// members.
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
    const std::size_t words = flags & max_words;
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
