#include <farcall/base/error.hpp>
#include <farcall/call/device_code.hpp>
#include <farcall/call/directory.hpp>
#include <farcall/call/request.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace farcall {
namespace {

/// Keys of what this layer itself calls; the rows of the entry table follow.
constexpr am::handler_key names_key = am::first_user_key;
constexpr am::handler_key grant_key = am::first_user_key + 1;
constexpr am::handler_key first_row_key = am::first_user_key + 2;

using name_list = std::vector<std::pair<std::string, std::string>>;

device_code::kind kind_of(const card& device) {
  return device.transport == "cuda" ? device_code::kind::gpu : device_code::kind::threads;
}

device_code::kind launches_of(const card& device) {
  return kind_of(device) == device_code::kind::gpu ? device_code::kind::launch_on_gpu
                                                   : device_code::kind::launch_on_threads;
}

name_list names_here() { return entry_table::instance().names(); }

std::uint32_t grant_here(const std::string& symbol) {
  return current_context()->functions->grant(symbol);
}

using names_call = detail::far_call<fn_t<&names_here>, name_list>;
using grant_call = detail::far_call<fn_t<&grant_here>, std::uint32_t, const std::string&>;

/// Waits for the answer in `slot` and takes it. Throws timeout.
template <class R>
R take(am::call_slot& slot, time_point deadline) {
  if (!slot.owner()->wait(slot, deadline)) {
    const node_id peer = slot.source()->peer();
    slot.source()->abandon(slot);
    throw timeout(node_text(peer) + " did not say before the deadline what its program calls the " +
                      "function",
                  peer);
  }
  if (const std::exception_ptr failure = slot.failure()) {
    slot.source()->free_slot(slot);
    std::rethrow_exception(failure);
  }
  R result = std::move(detail::result_in<R>(slot));
  detail::destroy_result<R>(slot);
  slot.source()->free_slot(slot);
  return result;
}

} // namespace

const call_context* current_context() noexcept { return detail::context_scope::current_; }

namespace {

/// CUDA's compiler gives these other names than the processor's, so that a program that the other
/// one has built would not know them.
void refuse_unstable_names() {
  const std::vector<bool> code = device_code::existing(device_code::kind::gpu);
  for (std::uint32_t row = 0; row < code.size(); ++row) {
    if (!code[row]) continue;
    const entry_table::row& r = entry_table::instance().rows()[row];
    if (r.name.find("_GLOBAL__N_") == std::string::npos &&
        r.name.find("__nv_") == std::string::npos) {
      continue;
    }
    throw error("the function " + demangle(r.name.c_str()) +
                " cannot be called on GPUs: CUDA's compiler makes up names for what is in an "
                "unnamed namespace and for lambdas; put it into a namespace that has a name");
  }
}

} // namespace

am::handler_key directory::own_key(const entry& e) noexcept { return first_row_key + e.index(); }

std::vector<std::uint64_t> directory::device_handlers(device_code::kind kind) {
  if (kind == device_code::kind::gpu) refuse_unstable_names();
  std::vector<std::uint64_t> by_key(first_row_key);
  by_key[am::fence_key] = static_cast<std::uint64_t>(am::device_code_address::nothing);
  by_key[am::device_write_key] = static_cast<std::uint64_t>(am::device_code_address::write);
  by_key[am::device_read_key] = static_cast<std::uint64_t>(am::device_code_address::read);
  for (const std::uint64_t address : device_code::addresses(kind))
    by_key.push_back(address);
  return by_key;
}

directory::launch_finder directory::device_launches(device_code::kind kind) {
  std::vector<std::uint64_t> by_row = device_code::addresses(kind);
  if (std::all_of(by_row.begin(), by_row.end(), [](std::uint64_t a) { return a == 0; })) return {};
  return [by_row = std::move(by_row)](const std::byte* record, std::uint32_t bytes,
                                      cuda::launch_plan& plan) -> cuda::launcher {
    const auto* const header = reinterpret_cast<const am::request_header*>(record);
    const std::uint32_t row = header->key - first_row_key;
    if (header->key < first_row_key || row >= by_row.size() || by_row[row] == 0) return nullptr;
    plan.arguments = record + am::request_body;
    plan.bytes = bytes - am::request_body;
    std::memcpy(&plan.shape, plan.arguments, sizeof plan.shape);
    return reinterpret_cast<cuda::launcher>(by_row[row]);
  };
}

std::vector<am::handler> directory::handlers(const call_context& context) {
  std::vector<am::handler> all{{&names_call::run, &context}, {&grant_call::run, &context}};
  for (const entry_table::row& r : entry_table::instance().rows()) {
    all.push_back({r.code == nullptr ? nullptr : r.code->run(), &context});
  }
  return all;
}

directory::directory(std::vector<card> cards)
    : image_(&program_image::instance()), cards_(std::move(cards)),
      granted_(std::make_unique<std::atomic<any_function>[]>(most_grants)) {
  for (const card& c : cards_) {
    nodes_.push_back(std::make_unique<node_names>());
    same_build_.push_back(c.build == image_->build() ? 1 : 0);
  }
}

directory::peer_rows directory::rows_of_peer(am::lane& l, time_point deadline) {
  const entry_table& own = entry_table::instance();
  peer_rows found;
  if (cards_[l.peer()].key_digest == own.digest()) {
    found.rows.resize(own.rows().size());
    std::iota(found.rows.begin(), found.rows.end(), 0U);
    if (is_device(cards_[l.peer()])) {
      const std::vector<bool> code = device_code::existing(kind_of(cards_[l.peer()]));
      const std::vector<bool> launches = device_code::existing(launches_of(cards_[l.peer()]));
      for (std::uint32_t row = 0; row < code.size(); ++row) {
        if (!code[row] && !launches[row]) found.rows[row] = 0;
      }
    }
    return found;
  }
  const auto theirs = take<name_list>(
      *detail::send<name_list>(l, names_key, {}, deadline, false, fn_t<&names_here>{}), deadline);
  const name_list ours = own.names();
  found.rows = match_tables(ours, theirs);
  if (!theirs.empty() && theirs.front().first != ours.front().first) {
    found.differing_library = theirs.front().first;
  }
  std::map<std::string_view, std::string_view> signatures;
  for (const auto& [name, signature] : theirs)
    signatures.emplace(name, signature);
  for (std::uint32_t row = entry_table::first_index; row < found.rows.size(); ++row) {
    const auto at = signatures.find(ours[row].first);
    if (found.rows[row] == 0 && at != signatures.end() && at->second != ours[row].second) {
      found.other_signature.emplace(row, at->second);
    }
  }
  return found;
}

std::string directory::why_missing(node_id peer, std::uint32_t row) const {
  const peer_rows& known = nodes_[peer]->known;
  if (!known.differing_library.empty()) {
    return "; it is built with another standard library, " + known.differing_library +
           ", so only functions whose types name nothing of std, and hold no classes, are the same";
  }
  const auto at = known.other_signature.find(row);
  if (at == known.other_signature.end()) return "";
  return "; it has one of that name with signature " + at->second +
         ": a type has changed, or has another layout there";
}

void directory::prepare(am::lane& l, time_point deadline) {
  node_names& names = *nodes_[l.peer()];
  if (names.keys.load(std::memory_order_acquire) == nullptr) {
    // Without the lock: the wait inside may run handlers that come here too.
    peer_rows found = rows_of_peer(l, deadline);
    const std::lock_guard guard(names.mutex);
    if (names.storage.empty()) {
      for (const std::uint32_t row : found.rows) {
        names.storage.push_back(row == 0 ? no_key : first_row_key + row);
      }
      names.known = std::move(found);
      names.keys.store(names.storage.data(), std::memory_order_release);
    }
  }
  // Release; partner: the acquire load in key_for().
  l.keys.store(names.keys.load(std::memory_order_acquire), std::memory_order_release);
}

am::handler_key directory::key_slow(am::lane& l, const entry& e, time_point deadline) {
  if (l.keys.load(std::memory_order_acquire) == nullptr) prepare(l, deadline);
  const am::handler_key key = l.keys.load(std::memory_order_relaxed)[e.index()];
  if (key != no_key) return key;

  const std::string what = demangle(e.name()) + " with signature " + e.signature();
  if (e.index() == 0) {
    throw unknown_function("the callable " + what + " came with a library that was loaded after " +
                               "the first job was made; load it before",
                           l.peer());
  }
  if (entry_table::instance().rows()[e.index()].twice) {
    throw unknown_function("the callable " + what + " exists more than once in this program, and " +
                               node_text(l.peer()) + " runs another build, so it cannot be told " +
                               "which is meant; give the functions different names",
                           l.peer());
  }
  if (is_device(cards_[l.peer()])) {
    throw unknown_function(node_text(l.peer()) + " is a device, and this program has no code for " +
                               "it that runs " + what +
                               "; call a function as fc::device_fn<f> or " + "fc::team_fn<f>" +
                               (kind_of(cards_[l.peer()]) == device_code::kind::gpu
                                    ? ", in a file that CUDA's compiler reads"
                                    : ""),
                           l.peer());
  }
  throw unknown_function("the program of " + node_text(l.peer()) + " has no callable " + what +
                             ", or has it more than once, or one of the programs is stripped of "
                             "its symbols; build both programs from the same " +
                             "sources, with the call in both" + why_missing(l.peer(), e.index()),
                         l.peer());
}

void directory::refuse_long_on_device(node_id peer, std::uint64_t bytes, std::uint64_t most) const {
  if (!is_device(cards_[peer])) return;
  throw error(node_text(peer) + " is a device, which takes " + std::to_string(most) +
                  " bytes of arguments at most, not " + std::to_string(bytes) +
                  "; put them into a buffer and pass its span, or raise the job's lane_bytes",
              peer);
}

function_token directory::token_slow(am::lane& l, any_function f, time_point deadline) {
  if (f == nullptr)
    throw error("a null function pointer cannot be called on " + node_text(l.peer()));
  node_names& names = *nodes_[l.peer()];
  {
    const std::lock_guard guard(names.mutex);
    const auto at = names.tokens.find(f);
    if (at != names.tokens.end()) return {at->second};
  }
  const std::string symbol = image_->name_of(f);
  if (symbol.empty()) {
    throw unknown_function(
        "this function has no symbol name of its own (program stripped, or two " +
            std::string("static functions of one name), and ") + node_text(l.peer()) +
            " runs another build; call it as fc::fn<f>",
        l.peer());
  }
  const auto number = take<std::uint32_t>(
      *detail::send<std::uint32_t>(l, grant_key, {}, deadline, false, fn_t<&grant_here>{}, symbol),
      deadline);
  if (number == 0) {
    throw unknown_function("the program of " + node_text(l.peer()) + " has no function " +
                               demangle(symbol.substr(0, symbol.find('@')).c_str()) +
                               ", has it twice, or is stripped; " +
                               "build both from the same sources, or call it as fc::fn<f>" +
                               why_missing(l.peer(), 0),
                           l.peer());
  }
  const std::lock_guard guard(names.mutex);
  names.tokens.emplace(f, number | granted_bit);
  return {number | granted_bit};
}

any_function directory::granted(std::uint32_t number) const noexcept {
  // Acquire; partner: the release store in grant().
  return number < most_grants ? granted_[number].load(std::memory_order_acquire) : nullptr;
}

std::uint32_t directory::grant(const std::string& symbol) {
  const std::lock_guard guard(grant_mutex_);
  if (const auto at = granted_numbers_.find(symbol); at != granted_numbers_.end())
    return at->second;
  const any_function f = image_->by_name(symbol);
  const auto number = static_cast<std::uint32_t>(granted_numbers_.size() + 1);
  if (f == nullptr || number >= most_grants) return 0;
  granted_[number].store(f, std::memory_order_release);
  granted_numbers_.emplace(symbol, number);
  return number;
}

} // namespace farcall
