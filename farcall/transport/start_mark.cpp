// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/memory/segment.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/start_mark.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace farcall {
namespace {

/// Prefix of the abstract socket names that mark the sockets of targets.
constexpr std::string_view target_socket_name = "farcall-target-";
/// Prefix of the abstract socket names by which a process has claimed a target's socket.
constexpr std::string_view claimed_socket_name = "farcall-claimed-";
/// Label of the memory file in which a host keeps its start records.
constexpr const char* table_label = "farcall-starts";
/// Largest number of children that one host starts at the same time.
constexpr std::size_t max_entries = 4096;
/// Longest time for which a child waits for the host to store the child's process number. The limit
/// is needed because the host may be stopped before it stores the number.
constexpr std::chrono::seconds time_to_name{10};

constexpr pid_t no_entry = 0;

struct entry {
  std::atomic<pid_t> child;
  std::atomic<lost_mark> lost;
};

/// Memory that a host shares with its children. All bytes are zero at first.
struct records {
  std::atomic<std::uint32_t> starts_under_way;
  entry entries[max_entries];
};
static_assert(std::atomic<pid_t>::is_always_lock_free &&
              std::atomic<lost_mark>::is_always_lock_free);

records& records_in(const segment& memory) noexcept {
  return *std::launder(reinterpret_cast<records*>(memory.data()));
}

entry* entry_of(records& all, pid_t child) noexcept {
  for (entry& e : all.entries) {
    // Acquire, paired with the release store in name(), so that the entry's other values are
    // visible.
    if (e.child.load(std::memory_order_acquire) == child) return &e;
  }
  return nullptr;
}

/// Returns the entry of the process `child`. While the host is starting children, the entry may
/// still lack its number. Therefore waits until the host has stored the numbers of these children.
/// Returns null if there is no entry for `child`.
entry* await_entry_of(records& all, pid_t child) noexcept {
  const time_point end = clock::now() + time_to_name;
  for (;;) {
    // Load the counter before the search. The host stores a child's number first and decrements the
    // counter afterwards. If the counter is zero here, the search therefore finds every number.
    // Acquire, paired with the release in name(), keeps this order.
    const bool are_named = all.starts_under_way.load(std::memory_order_acquire) == 0;
    if (entry* const found = entry_of(all, child)) return found;
    if (are_named || clock::now() > end) return nullptr;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Returns the start records that the process `host` keeps as a host. Returns an empty segment if
/// it has none, or if it denies access.
segment records_of(pid_t host) {
  const std::string folder = "/proc/" + std::to_string(host) + "/fd";
  std::error_code hidden;
  for (std::filesystem::directory_iterator at(folder, hidden), end; !hidden && at != end;
       at.increment(hidden)) {
    std::error_code closed;
    const std::string file = std::filesystem::read_symlink(at->path(), closed).string();
    if (closed || !file.starts_with(std::string("/memfd:") + table_label)) continue;
    unique_fd opened(::open(at->path().c_str(), O_RDWR | O_CLOEXEC));
    if (!opened) continue;
    const int seals = ::fcntl(opened.get(), F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) continue;
    return segment::map(std::move(opened), sizeof(records));
  }
  return {};
}

/// Returns the parent of a process; 0 if this process cannot see the parent.
pid_t parent_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  // Search for the end of the program's name from the end of the line. The name is in parentheses,
  // and may itself contain any characters.
  const auto name_end = line.rfind(") ");
  if (name_end == std::string::npos || name_end + 4 >= line.size()) return 0;
  pid_t parent = 0;
  (void)std::from_chars(line.data() + name_end + 4, line.data() + line.size(), parent);
  return parent;
}

bool is_marked(int fd) noexcept {
  sockaddr_un address{};
  socklen_t bytes = sizeof address;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0 ||
      address.sun_family != AF_UNIX ||
      bytes <= offsetof(sockaddr_un, sun_path) + target_socket_name.size()) {
    return false;
  }
  return address.sun_path[0] == '\0' &&
         std::string_view(address.sun_path + 1, target_socket_name.size()) == target_socket_name;
}

/// Gives a socket an abstract name that starts with `begin`. The socket keeps this name. Returns 0
/// or an error number.
int give_name(int socket, std::string_view begin) noexcept {
  // Use a random number in the name. The process number would not do, because it is unique only
  // within one PID namespace.
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number) return EAGAIN;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  char* at = address.sun_path + 1;
  std::memcpy(at, begin.data(), begin.size());
  at += begin.size();
  const auto end = std::to_chars(at, std::end(address.sun_path), number, 16);
  const auto bytes = static_cast<socklen_t>(end.ptr - reinterpret_cast<char*>(&address));
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), bytes) == 0 ? 0 : errno;
}

/// Layout of a limit's value that serves as a mark: the constant `limit_begin`, a hash of the
/// program's file in 24 bits, and a hash of its path in 24 bits. Both hashes are zero if the mark
/// is for any program.
constexpr std::uint64_t limit_begin = 0x4643;
constexpr unsigned part_bits = 24;
constexpr std::uint64_t part_mask = (std::uint64_t{1} << part_bits) - 1;
/// Process number of this process during a limit_scope, otherwise zero. While the number is not
/// zero, this process ignores the limit mark, because the scope's limit marks only the children. A
/// child that is forked during the scope inherits this variable, so that the child ignores the
/// mark, too.
constinit std::atomic<pid_t> marking_process{0};

/// Returns the upper 24 bits of the text's FNV-1a hash, which is the same in all builds. Never
/// returns zero.
std::uint64_t part_of(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return std::max<std::uint64_t>(hash >> (64 - part_bits), 1);
}

/// Returns 24 bits of a hash that identifies the file which this process runs; zero if the system
/// does not tell the file.
std::uint64_t file_part() {
  struct stat status{};
  if (::stat("/proc/self/exe", &status) != 0) return 0;
  return part_of(std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino));
}

/// True if this process runs the program that these two hash parts describe. The program may also
/// run in an emulator or in the dynamic linker, whose command line names the program.
bool runs_program(std::uint64_t path, std::uint64_t file) {
  if (path == part_of(own_program()) || (file != 0 && file == file_part())) return true;
  return std::ranges::any_of(own_arguments(),
                             [&](const std::string& word) { return part_of(word) == path; });
}

} // namespace

std::string text_of(lost_mark lost) {
  switch (lost) {
  case lost_mark::variable:
    return "its environment was emptied before its farcall::job, so that FARCALL_BOOTSTRAP, the "
           "mark of targets, is missing: keep this variable and open descriptors (env without -i, "
           "no sudo), or call farcall::serve_if_target() before the program empties its "
           "environment";
  case lost_mark::socket:
    return "the descriptor that FARCALL_BOOTSTRAP names was closed before its farcall::job: leave "
           "inherited descriptors open, or call farcall::serve_if_target() before the program "
           "closes them";
  case lost_mark::none:
    break;
  }
  return "";
}

// ---- mark: the socket ---------------------------------------------------------------------------

void mark_target_socket(int socket) noexcept {
  // Ignore a failure, because the other marks also mark the target.
  (void)give_name(socket, target_socket_name);
}

bool claim_target_socket(int socket) noexcept {
  // Claim the socket by giving it a name. A socket can get only one name, so that only the first
  // process that claims the socket succeeds.
  return give_name(socket, claimed_socket_name) != EINVAL;
}

int find_target_socket() noexcept {
  try {
    std::error_code hidden;
    for (std::filesystem::directory_iterator at("/proc/self/fd", hidden), end; !hidden && at != end;
         at.increment(hidden)) {
      const std::string name = at->path().filename().string();
      int fd = -1;
      (void)std::from_chars(name.data(), name.data() + name.size(), fd);
      // Skip close-on-exec descriptors. This process has opened them itself, because an exec closes
      // such descriptors, so that none of them is inherited.
      if (fd > STDERR_FILENO && (::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0 && is_marked(fd))
        return fd;
    }
  } catch (const std::exception&) {
    return -1; // Without memory, rely on the host's record, which also marks the target.
  }
  return -1;
}

// ---- mark: the limit ----------------------------------------------------------------------------

limit_scope::limit_scope(target_program runs) noexcept {
  const pid_t self = ::getpid();
  for (pid_t now = marking_process.load();
       now == self || !marking_process.compare_exchange_weak(now, self);
       now = marking_process.load()) {
    if (now == self) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  try {
    std::uint64_t value = limit_begin << (2 * part_bits);
    if (runs == target_program::of_host)
      value |= (file_part() << part_bits) | part_of(own_program());
    rlimit limit{};
    if (::getrlimit(RLIMIT_LOCKS, &limit) != 0 || limit.rlim_max < value) return;
    const auto before = std::exchange(limit.rlim_cur, value);
    if (::setrlimit(RLIMIT_LOCKS, &limit) == 0) before_ = before;
  } catch (const std::exception&) {
    return; // Without memory, rely on the other marks.
  }
}

limit_scope::~limit_scope() {
  rlimit limit{};
  if (before_ != 0 && ::getrlimit(RLIMIT_LOCKS, &limit) == 0) {
    limit.rlim_cur = before_;
    (void)::setrlimit(RLIMIT_LOCKS, &limit);
  }
  marking_process.store(0);
}

limit_mark find_limit_mark() noexcept {
  if (marking_process.load() != 0) return limit_mark::none;
  rlimit now{};
  if (::getrlimit(RLIMIT_LOCKS, &now) != 0 || now.rlim_cur >> (2 * part_bits) != limit_begin)
    return limit_mark::none;
  const std::uint64_t path = now.rlim_cur & part_mask;
  const std::uint64_t file = (now.rlim_cur >> part_bits) & part_mask;
  try {
    if (path != 0 && !runs_program(path, file)) return limit_mark::other_program;
  } catch (const std::exception&) {
    // Treat this process as a target if there is no memory, because a process without memory could
    // start no targets of its own anyway.
  }
  return limit_mark::this_program;
}

void drop_limit_mark() noexcept {
  rlimit now{};
  if (::getrlimit(RLIMIT_LOCKS, &now) != 0 || now.rlim_cur >> (2 * part_bits) != limit_begin)
    return;
  now.rlim_cur = now.rlim_max;
  (void)::setrlimit(RLIMIT_LOCKS, &now);
}

// ---- mark: the host's record --------------------------------------------------------------------

struct start_record::table {
  segment memory = segment::create(table_label, sizeof(records));
};

start_record::start_record(start_record&& other) noexcept
    : table_(std::move(other.table_)), entry_(other.entry_) {}

start_record& start_record::operator=(start_record&& other) noexcept {
  std::swap(table_, other.table_);
  std::swap(entry_, other.entry_);
  return *this;
}

start_record::~start_record() {
  if (table_) records_in(table_->memory).entries[entry_].child.store(no_entry);
}

start_record start_record::open() noexcept {
  static std::mutex mutex;
  static std::weak_ptr<table> shared;
  start_record made;
  try {
    const std::lock_guard guard(mutex);
    made.table_ = shared.lock();
    if (!made.table_) shared = made.table_ = std::make_shared<table>();
  } catch (const std::exception&) {
    return {}; // Without memory or a descriptor, rely on the other marks.
  }
  records& all = records_in(made.table_->memory);
  for (; made.entry_ < max_entries; ++made.entry_) {
    pid_t expected = no_entry;
    entry& e = all.entries[made.entry_];
    if (!e.child.compare_exchange_strong(expected, no_child)) continue;
    e.lost.store(lost_mark::none);
    all.starts_under_way.fetch_add(1);
    return made;
  }
  made.table_.reset();
  return made;
}

void start_record::name(pid_t child) noexcept {
  if (!table_) return;
  records& all = records_in(table_->memory);
  // Release, paired with the acquire loads in entry_of() and await_entry_of(), so that a child that
  // finds the counter at zero also finds all process numbers.
  all.entries[entry_].child.store(child, std::memory_order_release);
  all.starts_under_way.fetch_sub(1, std::memory_order_release);
}

lost_mark start_record::lost() const noexcept {
  if (!table_) return lost_mark::none;
  return records_in(table_->memory).entries[entry_].lost.load(std::memory_order_acquire);
}

bool tell_lost_mark(lost_mark lost) noexcept {
  try {
    pid_t child = ::getpid();
    for (pid_t host = ::getppid(); host > 0; child = std::exchange(host, parent_of(host))) {
      const segment memory = records_of(host);
      if (!memory) continue;
      if (entry* const found = await_entry_of(records_in(memory), child)) {
        if (lost != lost_mark::none) found->lost.store(lost, std::memory_order_release);
        return true;
      }
    }
  } catch (const std::exception&) {
    return false; // no memory, or records of another version of farcall
  }
  return false;
}

} // namespace farcall
