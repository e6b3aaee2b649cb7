// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/call/message_handler.hpp>
#include <farcall/native/arguments.hpp>
#include <farcall/native/call_layout.hpp>
#include <farcall/native/library_table.hpp>
#include <farcall/native/native_call.hpp>
#include <farcall/offload/job_counters.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <typeinfo>
#include <utility>

namespace farcall::native {
namespace {

/// Number of bytes for buffers that need no heap memory.
constexpr std::size_t near_bytes = 512;

// ---- names --------------------------------------------------------------------------------------

/// The names of functions that this process has looked up, by the numbers in requests' headers.
class function_names {
 public:
  static function_names& instance() {
    // The object is never destroyed, because jobs may use it while the program ends.
    static auto* const names = new function_names;
    return *names;
  }

  /// Returns the 32-bit FNV-1a hash of a name, which is the number by which requests tell it.
  static std::uint32_t number_of(std::string_view name) noexcept {
    std::uint32_t hash = 0x811c9dc5;
    for (const char c : name)
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193;
    return hash;
  }

  void add(const std::string& name) {
    const std::uint32_t number = number_of(name);
    {
      const std::lock_guard guard(mutex_);
      if (!names_.emplace(number, name).second) return;
    }
    farcall::detail::name_in_counters(farcall::detail::type_name<native_call>(), number, name);
  }

  std::string find(std::uint32_t number) {
    const std::lock_guard guard(mutex_);
    const auto found = names_.find(number);
    return found == names_.end() ? std::string() : found->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::uint32_t, std::string> names_;
};

// ---- running a call on its node -----------------------------------------------------------------

/// Calls the function. `word_of(i)` returns the word of argument i: its value, or its address.
template <class WordOf>
reply_head run_with(const function& f, const WordOf& word_of) {
  // The members that the calls below set are not initialized, because this would cost time.
  register_image image;
  std::fill_n(image.integers, std::size(image.integers), std::uint64_t{0});
  std::array<std::uint64_t, signature::max_parameters> stack;
  argument_placer placer(image, stack.data());
  const std::span<const parameter> parameters = f.type->parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    placer.add(parameters[i].kind, word_of(i));
  placer.finish();
  image.code = f.code;
  image.stack_top = nullptr;
  image.passes_exceptions = 1;
  errno = 0;
  invoke(image);
  const std::int32_t error_number = errno;
  return {result_word(f.type->result, image), error_number, 0};
}

void run_with_values(const function& f, message& m) {
  argument_words words;
  read_words(*f.type, m.payload(), words);
  if (m.payload().size() != f.type->parameters.size() * word_bytes) throw_other_arguments(*f.type);
  m.release();
  const reply_head head = run_with(f, [&](std::size_t i) noexcept { return words[i]; });
  m.reply(std::as_bytes(std::span(&head, 1)));
}

/// Memory for a reply with buffers. A short one needs no heap memory.
class reply_memory {
 public:
  /// Returns memory for `size` bytes, which is aligned for buffers. Throws std::bad_alloc.
  std::byte* allocate(std::size_t size) {
    if (size <= sizeof near_) return near_;
    far_ = std::make_unique_for_overwrite<line[]>(size / sizeof(line) + 1);
    return far_[0].bytes;
  }

 private:
  struct alignas(buffer_alignment) line {
    std::byte bytes[buffer_alignment];
  };
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): only bytes that were written are read
  alignas(buffer_alignment) std::byte near_[near_bytes];
  std::unique_ptr<line[]> far_;
};

void run_with_buffers(const function& f, message& m) {
  message::kept_payload kept;
  const std::span<const std::byte> payload = m.keep(kept);
  argument_words words;
  read_words(*f.type, payload, words);
  call_layout layout;
  read_layout(*f.type, words, payload.size(), layout);
  reply_memory memory;
  std::byte* const reply = memory.allocate(layout.reply_bytes);
  std::memset(reply, 0, layout.reply_bytes);
  const std::span<const parameter> parameters = f.type->parameters;
  const reply_head head = run_with(f, [&](std::size_t i) noexcept {
    const passing way = parameters[i].way;
    if (way == passing::value) return words[i];
    if (words[i] == no_buffer) return std::uint64_t{0};
    const call_layout::place& place = layout.places[i];
    const std::byte* const sent = is_sent(way) ? payload.data() + place.sent : nullptr;
    if (!is_returned(way)) return reinterpret_cast<std::uint64_t>(sent);
    std::byte* const returned = reply + place.returned;
    if (sent != nullptr) std::memcpy(returned, sent, words[i]);
    return reinterpret_cast<std::uint64_t>(returned);
  });
  std::memcpy(reply, &head, sizeof head);
  m.reply({reply, layout.reply_bytes});
}

void run_call(am::request_context& request) noexcept {
  farcall::detail::message_type<native_call>::run(
      request, request.context(), [](native_call call, message& m) {
        const library_table::use used(library_table::instance(), call.library);
        const function& f = used.at(call.function);
        if (call.arguments != f.type->parameters.size()) throw_other_arguments(*f.type);
        if (f.type->has_buffers) {
          run_with_buffers(f, m);
        } else {
          run_with_values(f, m);
        }
      });
}

/// Returns true if an exception of the class E was thrown on the node.
template <class E>
bool is_a(const remote_error& e) {
  return e.type_name() == demangle(typeid(E).name());
}

} // namespace

// ---- libraries of this node, for other nodes ----------------------------------------------------

// The types of these callables have names that are the same in all builds, so that programs of
// different builds can call each other.
struct load_library {
  std::uint64_t operator()(const std::string& path) const {
    return library_table::instance().load(path);
  }
};

struct unload_library {
  void operator()(std::uint64_t id) const { library_table::instance().unload(id); }
};

struct find_function {
  std::uint32_t operator()(std::uint64_t library, const std::string& symbol,
                           const std::string& signature_text) const {
    const std::uint32_t number = library_table::instance().find(library, symbol, signature_text);
    function_names::instance().add(symbol);
    return number;
  }
};

// The entry is not local to this file, and its name is the same in all builds, so that programs of
// different builds can call each other.
entry native_entry{farcall::detail::type_name<native_call>(),
                   [] { return std::string("reply_head(native_call, bytes)"); }, &run_call,
                   entry_compiler,
                   [](std::uint32_t extra) { return function_names::instance().find(extra); }};

// ---- calls to other nodes -----------------------------------------------------------------------

void rethrow(const remote_error& e) {
  if (is_a<unknown_library>(e))
    throw unknown_function(node_text(e.node()) + ": " + e.text(), e.node());
  throw; // NOLINT(bugprone-throw-keyword-missing): the exception is `e`
}

std::uint64_t load(const timed_node& where, const std::string& path) {
  try {
    return sync(where, load_library{}, path);
  } catch (const remote_error& e) {
    if (!is_a<error>(e)) throw;
    const std::string what = path.empty() ? "its own program" : "the library '" + path + "'";
    throw error(node_text(e.node()) + " cannot load " + what + ": " + e.text(), e.node());
  }
}

void unload(const timed_node& where, std::uint64_t library) {
  try {
    sync(where, unload_library{}, library);
  } catch (const remote_error& e) {
    rethrow(e);
  }
}

remote_function find(const timed_node& where, std::uint64_t library, const std::string& symbol,
                     std::string_view signature_text) {
  const signature& type = signature::of(signature_text);
  try {
    const std::uint32_t number = sync(where, find_function{}, library, symbol, type.text);
    function_names::instance().add(symbol);
    return {library, number, function_names::number_of(symbol), &type};
  } catch (const remote_error& e) {
    if (is_a<error>(e)) throw unknown_function(node_text(e.node()) + ": " + e.text(), e.node());
    rethrow(e);
  }
}

am::pending_call* send(const farcall::detail::call_place& to, const remote_function& f,
                       const argument* arguments, bool is_stoppable) {
  const std::span<const parameter> parameters = f.type->parameters;
  std::size_t size = parameters.size() * word_bytes;
  if (f.type->has_buffers) {
    buffer_places places(size);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const argument& a = arguments[i];
      if (is_sent(parameters[i].way) && a.address() != nullptr)
        (void)places.next(sent_bytes(parameters[i].way, a.size()));
    }
    size = places.end();
  }
  const auto fill = [&](std::byte* to_bytes) noexcept {
    buffer_places places(parameters.size() * word_bytes);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const argument& a = arguments[i];
      const passing way = parameters[i].way;
      std::uint64_t word = 0;
      if (way == passing::value) {
        word = widened(parameters[i].kind, a.word());
      } else if (a.address() == nullptr) {
        word = no_buffer;
      } else {
        word = a.size();
        if (is_sent(way)) {
          const std::size_t before = places.end();
          const std::size_t at = places.next(sent_bytes(way, word));
          std::memset(to_bytes + before, 0, at - before);
          if (word != 0) std::memcpy(to_bytes + at, a.address(), word);
          std::memset(to_bytes + at + word, 0, places.end() - at - word);
        }
      }
      std::memcpy(to_bytes + i * word_bytes, &word, sizeof word);
    }
  };
  const am::handler_key key =
      key_resolver::key_for(to.messages, native_entry, to.job.context, to.deadline);
  const native_call call{f.library, f.number, static_cast<std::uint32_t>(parameters.size())};
  const auto send_as = [&]<farcall::detail::call_mode Mode>() {
    return farcall::detail::send_message<Mode>(to.messages, key, function_handle{f.name},
                                               to.deadline, call, payload_in_place(size, fill));
  };
  return is_stoppable ? send_as.template operator()<farcall::detail::call_mode::stoppable>()
                      : send_as.template operator()<farcall::detail::call_mode::awaited>();
}

reply_head take_reply(std::span<const std::byte> reply, const signature& type,
                      const argument* arguments) {
  reply_head head{};
  buffer_places places(sizeof head);
  const auto for_each_buffer = [&](const auto& take) {
    if (!type.has_buffers) return;
    for (std::size_t i = 0; i < type.parameters.size(); ++i) {
      const argument& a = arguments[i];
      if (is_returned(type.parameters[i].way) && a.address() != nullptr)
        take(places.next(a.size()), a);
    }
  };
  for_each_buffer([](std::size_t, const argument&) {});
  if (reply.size() != places.end())
    throw malformed_message("the reply to a native call has the wrong size");
  std::memcpy(&head, reply.data(), sizeof head);
  places = buffer_places(sizeof head);
  for_each_buffer([&](std::size_t at, const argument& a) {
    if (a.size() != 0) std::memcpy(a.address(), reply.data() + at, a.size());
  });
  return head;
}

} // namespace farcall::native
