// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/node_table.hpp>
#include <farcall/base/symbol_name.hpp>
#include <farcall/base/zeroed_array.hpp>
#include <farcall/call/caller.hpp>
#include <farcall/call/key_resolver.hpp>
#include <farcall/call/late_callables.hpp>
#include <farcall/call/peer_table.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/transport.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <unordered_map>

namespace farcall {
namespace {

/// Keys of the handlers of this layer itself. The keys of the callables in the function registry
/// follow.
constexpr am::handler_key names_key = am::first_user_key;
constexpr am::handler_key resolve_key = am::first_user_key + 1;
static_assert(key_resolver::first_row_key > resolve_key);
/// Key of the handler callable_call. Row 0 of the function registry has no callable, so its key is
/// free for this handler.
constexpr am::handler_key callable_key = key_resolver::first_row_key;
static_assert(function_registry::first_index > 0);

using name_list = std::vector<std::pair<std::string, std::string>>;

/// Returns the names and signatures of this program's callables. Row 0 has no callable, so its
/// signature is replaced by the path of the program.
name_list names_here() {
  name_list all = function_registry::instance().names();
  all.front().second = own_program();
  return all;
}

std::uint32_t resolve_here(const std::string& symbol) {
  return current_context()->functions->resolve(symbol);
}

/// Serves a peer that has found no key for a callable in its own tables. Returns the key of that
/// callable on this node, or no_key if this node does not know the callable, either.
std::uint32_t callable_here(const std::string& name, const std::string& signature) {
  const function_registry& own = function_registry::instance();
  if (const std::uint32_t row = own.row_of(name, signature); row != 0) {
    return key_resolver::first_row_key + row;
  }
  const std::uint32_t number = late_callables::number_of(name, signature);
  if (number == late_callables::none) return key_resolver::no_key;
  return key_resolver::first_row_key + static_cast<std::uint32_t>(own.rows().size()) + number;
}

using names_call = detail::remote_call<fn_t<&names_here>, name_list>;
using resolve_call = detail::remote_call<fn_t<&resolve_here>, std::uint32_t, const std::string&>;
using callable_call = detail::remote_call<fn_t<&callable_here>, std::uint32_t, const std::string&,
                                          const std::string&>;

template <class R, class... S>
am::pending_call* send_awaited(am::requester& l, am::handler_key key, time_point deadline,
                               const S&... args) {
  if (deadline == without_waiting) {
    throw timeout(node_text(l.peer()) +
                      " runs another program, and was not asked yet for the names " +
                      "of its functions; a call that waits does so",
                  l.peer());
  }
  return detail::send<detail::call_mode::awaited, R>(l, key, {}, deadline, args...);
}

/// Waits for the reply to the pending call `slot` and returns its value. Throws timeout, and the
/// error with which the call has failed.
template <class R>
R take(am::pending_call& slot, time_point deadline) {
  bool is_ready = false;
  try {
    is_ready = slot.owner()->wait(slot, deadline);
  } catch (...) {
    slot.source()->abandon(slot);
    throw;
  }
  if (!is_ready) {
    const node_id peer = slot.source()->peer();
    slot.source()->abandon(slot);
    throw timeout(node_text(peer) + " did not say before the deadline what its program calls the " +
                      "function",
                  peer);
  }
  if (const std::exception_ptr failure = slot.failure()) {
    slot.source()->free_call(slot);
    std::rethrow_exception(failure);
  }
  R result = std::move(detail::result_in<R>(slot));
  detail::destroy_result<R>(slot);
  slot.source()->free_call(slot);
  return result;
}

} // namespace

named_program program_of_peer(am::requester& l, time_point deadline) {
  named_program its;
  its.names = take<name_list>(*send_awaited<name_list>(l, names_key, deadline, fn_t<&names_here>{}),
                              deadline);
  if (!its.names.empty()) its.path = std::exchange(its.names.front().second, std::string());
  return its;
}

/// For each row of this program's function registry, the row of a peer's function registry with the
/// same callable. Also has details for the errors about callables that the peer lacks.
struct key_resolver::peer_rows {
  std::vector<std::uint32_t> rows;
  /// Standard library of the peer; empty if it is the same as this node's.
  std::string differing_library;
  /// The peer's signatures of callables that have the same name but another signature there, by row
  /// of this program.
  std::map<std::uint32_t, std::string> other_signature;
  /// Path of the program on the peer's machine; may be empty.
  std::string program;
};

struct key_resolver::state {
  /// Names and keys that were found for a node at its first call.
  struct node_names {
    std::mutex mutex;
    /// Keys of the peer. Set at the first call to the node, and constant afterwards.
    std::unique_ptr<const peer_keys> keys;
    peer_rows known; ///< rows of the peer; constant once `keys` is set
    std::unordered_map<any_function, std::uint32_t> handles;
    std::unordered_map<const entry*, am::handler_key> late; ///< individually resolved keys
  };
  struct node_entry {
    std::uint64_t key_digest = 0;
    bool is_of_same_build = false;
    const transport* way = nullptr;    ///< transport to the node; null if there is none
    std::unique_ptr<node_names> names; ///< made at the first use, and constant afterwards
  };

  static constexpr std::size_t max_resolved = 65536;

  explicit state(std::size_t capacity) : nodes(capacity) {}

  /// Returns the transport to `peer`, which says for which handlers the peer has code. Returns null
  /// if add() was given no transport; then the peer is taken to have the code of all handlers.
  [[nodiscard]] const transport* route_to(node_id peer) const noexcept {
    return nodes.find(peer)->way;
  }

  /// Returns the names and keys of a node that was added before.
  [[nodiscard]] node_names& names_of(node_id peer) {
    node_entry& of = *nodes.find(peer);
    const std::lock_guard guard(names_mutex);
    if (!of.names) of.names = std::make_unique<node_names>();
    return *of.names;
  }

  node_table<node_entry> nodes;
  std::mutex names_mutex;
  std::mutex resolve_mutex;
  std::unordered_map<std::string, std::uint32_t> resolved_numbers;
  /// Returns the function with a number; null if the number was not assigned.
  [[nodiscard]] std::atomic_ref<any_function> resolved(std::uint32_t number) const noexcept {
    return std::atomic_ref<any_function>(functions[number]);
  }

  zeroed_array<any_function> functions{max_resolved};
};

am::handler_key key_resolver::own_key(const entry& e) noexcept { return first_row_key + e.index(); }

std::vector<am::handler_function> key_resolver::handlers() {
  std::vector<am::handler_function> all{&names_call::run, &resolve_call::run};
  for (const function_registry::row& r : function_registry::instance().rows())
    all.push_back(r.code == nullptr ? &callable_call::run : r.code->run());
  const auto late = late_callables::handlers();
  all.insert(all.end(), late.begin(), late.end());
  return all;
}

key_resolver::key_resolver(std::size_t capacity)
    : image_(&program_image::instance()), state_(new state(capacity)) {}

void key_resolver::add(const card& its, const transport* way) {
  auto made = state_->nodes.make(its.id);
  made->value.key_digest = its.key_digest;
  made->value.is_of_same_build = its.build == image_->build();
  made->value.way = way;
  state_->nodes.publish(std::move(made));
}

key_resolver::~key_resolver() { delete state_; }

key_resolver::peer_rows key_resolver::rows_of_peer(am::requester& l, time_point deadline) {
  const function_registry& own = function_registry::instance();
  peer_rows found;
  if (state_->nodes.find(l.peer())->key_digest == own.digest()) {
    found.rows.resize(own.rows().size());
    std::iota(found.rows.begin(), found.rows.end(), 0U);
    if (const transport* const way = state_->route_to(l.peer())) {
      for (std::uint32_t row = function_registry::first_index; row < found.rows.size(); ++row) {
        if (!way->runs_handler(first_row_key + row)) found.rows[row] = 0;
      }
    }
    return found;
  }
  const auto [theirs, program] = program_of_peer(l, deadline);
  found.program = program;
  const name_list ours = own.names();
  found.rows = match_tables(ours, theirs);
  if (!theirs.empty() && theirs.front().first != ours.front().first) {
    found.differing_library = theirs.front().first;
  }
  std::map<std::string_view, std::string_view> signatures;
  for (const auto& [name, signature] : theirs)
    signatures.emplace(name, signature);
  for (std::uint32_t row = function_registry::first_index; row < found.rows.size(); ++row) {
    const auto at = signatures.find(ours[row].first);
    if (found.rows[row] == 0 && at != signatures.end() && at->second != ours[row].second) {
      found.other_signature.emplace(row, at->second);
    }
  }
  return found;
}

std::string key_resolver::program_text(node_id peer) const {
  const std::string& there = state_->names_of(peer).known.program;
  if (there.empty()) return "the program of " + node_text(peer);
  return node_text(peer) + " runs " + there + ", this program is " + own_program() + ", and " +
         node_text(peer);
}

std::string key_resolver::why_missing(node_id peer, std::uint32_t row) const {
  const peer_rows& known = state_->names_of(peer).known;
  if (!known.differing_library.empty()) {
    return "; it is built with another standard library, " + known.differing_library +
           ", so only functions whose types name nothing of std, and hold no classes, are the same";
  }
  const auto at = known.other_signature.find(row);
  if (at == known.other_signature.end()) return "";
  return "; it has one of that name with signature " + at->second +
         ": a type has changed, or has another layout there";
}

void key_resolver::prepare(am::requester& l, time_point deadline) {
  state::node_names& names = state_->names_of(l.peer());
  std::unique_lock guard(names.mutex);
  if (!names.keys) {
    guard.unlock();
    // Release the lock while waiting, because the waiting thread may run handlers that take the
    // lock, too.
    peer_rows found = rows_of_peer(l, deadline);
    std::vector<am::handler_key> keys;
    for (const std::uint32_t row : found.rows)
      keys.push_back(row == 0 ? no_key : first_row_key + row);
    guard.lock();
    if (!names.keys) {
      const bool is_of_same_build = state_->nodes.find(l.peer())->is_of_same_build;
      names.known = std::move(found);
      names.keys.reset(peer_keys::make(keys, is_of_same_build ? image_ : nullptr));
    }
  }
  // Release, paired with the acquire load in key_for(), so that the keys are visible there.
  l.keys.store(names.keys.get(), std::memory_order_release);
}

am::handler_key key_resolver::key_slow(am::requester& l, const entry& e, time_point deadline,
                                       any_function f) {
  l.owner().require_own_process();
  if (l.keys.load(std::memory_order_acquire) == nullptr) prepare(l, deadline);
  const am::handler_key key = (*l.keys.load(std::memory_order_relaxed))[e.index()];
  if (key != no_key) return key;

  state::node_names& names = state_->names_of(l.peer());
  {
    const std::lock_guard guard(names.mutex);
    const auto at = names.late.find(&e);
    if (at != names.late.end()) return at->second;
  }
  const auto what = [&] {
    // Name the function `f` rather than the entry, because all plain functions of one type share an
    // entry.
    const std::string symbol = f == nullptr ? "" : image_->name_of(f);
    const std::string name =
        symbol.empty() ? demangle(e.name()) : demangle(symbol.substr(0, symbol.find('@')).c_str());
    return name + " with signature " + e.signature();
  };
  if (e.index() != 0 && function_registry::instance().rows()[e.index()].twice) {
    throw unknown_function("the callable " + what() +
                               " exists more than once in this program, and " +
                               node_text(l.peer()) + " runs another build, so it cannot be told " +
                               "which is meant; give the functions different names",
                           l.peer());
  }
  if (const transport* const way = state_->route_to(l.peer())) {
    const std::string why = way->missing_handler_text(what());
    if (!why.empty()) throw unknown_function(node_text(l.peer()) + why, l.peer());
  }
  // Ask the peer by name, because this node, the peer, or both may have the callable from a library
  // that was loaded later.
  const auto there = take<std::uint32_t>(
      *send_awaited<std::uint32_t>(l, callable_key, deadline, fn_t<&callable_here>{},
                                   e.name_for_peers(), e.signature()),
      deadline);
  if (there != no_key) {
    const std::lock_guard guard(names.mutex);
    names.late.emplace(&e, there);
    return there;
  }
  if (e.index() == 0) {
    const std::string which = "the callable " + what();
    throw unknown_function(
        image_->offset_of(reinterpret_cast<any_function>(e.run()))
            ? which + " was registered after the first job was made, as by an object of namespace "
                      "scope; make the job in main(), or in a static object of a function"
            : which + " came with a library that was loaded after the first job was made, and " +
                  node_text(l.peer()) + " has not loaded that library; load it there, too",
        l.peer());
  }
  throw unknown_function(program_text(l.peer()) + " has no callable " + what() +
                             ", or has it more than once, or has not loaded the library that it is "
                             "in, or one of the programs is stripped of its symbols; build both " +
                             "programs from the same sources, with the call in both" +
                             why_missing(l.peer(), e.index()),
                         l.peer());
}

function_handle key_resolver::handle_slow(am::requester& l, any_function f, time_point deadline) {
  l.owner().require_own_process();
  if (f == nullptr)
    throw error("a null function pointer cannot be called on " + node_text(l.peer()));
  if (state_->nodes.find(l.peer())->is_of_same_build) {
    const auto offset = image_->offset_of(f);
    if (offset && *offset < resolved_bit) return {static_cast<std::uint32_t>(*offset)};
  }
  state::node_names& names = state_->names_of(l.peer());
  {
    const std::lock_guard guard(names.mutex);
    const auto at = names.handles.find(f);
    if (at != names.handles.end()) return {at->second};
  }
  const std::string symbol = image_->name_of(f);
  if (symbol.empty()) {
    const std::string which = "program stripped, two static functions of one name, or a static "
                              "one of a library that was loaded later";
    throw unknown_function("this function has no symbol name of its own (" + which + "), and " +
                               node_text(l.peer()) +
                               " can find it by nothing else; call it as fc::fn<f>",
                           l.peer());
  }
  const auto number = take<std::uint32_t>(
      *send_awaited<std::uint32_t>(l, resolve_key, deadline, fn_t<&resolve_here>{}, symbol),
      deadline);
  if (number == 0) {
    const std::string why = ", has it twice, is stripped, or has loaded the library that it is in "
                            "without RTLD_GLOBAL";
    throw unknown_function(program_text(l.peer()) + " has no function " +
                               demangle_symbol(symbol.substr(0, symbol.find('@'))) + why +
                               "; build both from the same sources, or call it as fc::fn<f>" +
                               why_missing(l.peer(), 0),
                           l.peer());
  }
  const std::lock_guard guard(names.mutex);
  names.handles.emplace(f, number | resolved_bit);
  return {number | resolved_bit};
}

any_function key_resolver::resolved(std::uint32_t number) const noexcept {
  // Acquire, paired with the release store in resolve().
  return number < state::max_resolved ? state_->resolved(number).load(std::memory_order_acquire)
                                      : nullptr;
}

std::uint32_t key_resolver::resolve(const std::string& symbol) {
  const std::lock_guard guard(state_->resolve_mutex);
  if (const auto at = state_->resolved_numbers.find(symbol); at != state_->resolved_numbers.end())
    return at->second;
  const any_function f = image_->by_name(symbol);
  const auto number = static_cast<std::uint32_t>(state_->resolved_numbers.size() + 1);
  if (f == nullptr || number >= state::max_resolved) return 0;
  state_->resolved(number).store(f, std::memory_order_release);
  state_->resolved_numbers.emplace(symbol, number);
  return number;
}

} // namespace farcall
