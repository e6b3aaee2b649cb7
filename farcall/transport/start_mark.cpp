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

/// Begin of the abstract names of sockets that targets inherit.
constexpr std::string_view target_socket_name = "farcall-target-";
/// Begin of the abstract names that sockets of targets get which a process has taken.
constexpr std::string_view claimed_socket_name = "farcall-claimed-";
/// Label of the memory file with a host's records.
constexpr const char* table_label = "farcall-starts";
/// As many children as one host starts at a time.
constexpr std::size_t most_entries = 4096;
/// How long a child waits for the host to name it: the host may be stopped.
constexpr std::chrono::seconds time_to_name{10};

constexpr pid_t no_entry = 0;

struct entry {
  std::atomic<pid_t> child;
  std::atomic<lost_mark> lost;
};

/// In memory that host and children share; zero at first.
struct records {
  std::atomic<std::uint32_t> starts_under_way;
  entry entries[most_entries];
};
static_assert(std::atomic<pid_t>::is_always_lock_free &&
              std::atomic<lost_mark>::is_always_lock_free);

records& records_in(const segment& memory) noexcept {
  return *std::launder(reinterpret_cast<records*>(memory.data()));
}

entry* entry_of(records& all, pid_t child) noexcept {
  for (entry& e : all.entries) {
    // Acquire; partner: the release store in name().
    if (e.child.load(std::memory_order_acquire) == child) return &e;
  }
  return nullptr;
}

/// Returns the entry of `child`, once all starts that are under way have been named. Null if there
/// is none.
entry* await_entry_of(records& all, pid_t child) noexcept {
  const time_point end = clock::now() + time_to_name;
  for (;;) {
    // Acquire; partner: the release in name(). Before the entries, since a name comes first.
    const bool are_named = all.starts_under_way.load(std::memory_order_acquire) == 0;
    if (entry* const found = entry_of(all, child)) return found;
    if (are_named || clock::now() > end) return nullptr;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Records of that process as a host; an empty segment if it has none, or lets nobody look.
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

/// Parent of a process; 0 if there is none to be seen.
pid_t parent_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  // The name of the program, in parentheses, may hold any characters.
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

/// Gives a socket an abstract name, which it keeps. Returns 0 or the reason.
int give_name(int socket, std::string_view begin) noexcept {
  // Process numbers are unique in one namespace only, so the name has a random number.
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

/// Parts of a limit that is a mark: a constant, and 24 bits each for the file and the path of the
/// program; zero for any program.
constexpr std::uint64_t limit_begin = 0x4643;
constexpr unsigned part_bits = 24;
constexpr std::uint64_t part_mask = (std::uint64_t{1} << part_bits) - 1;
/// Number of the process, if it has a limit_scope: its limit marks the children, not the process.
/// Zero outside scopes. The child of a fork in that time is unmarked, too.
constinit std::atomic<pid_t> marking_process{0};

/// 24 bits of the FNV-1a hash, which are the same in all builds; never zero.
std::uint64_t part_of(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return std::max<std::uint64_t>(hash >> (64 - part_bits), 1);
}

/// Part for the file that this process runs; zero if the system does not tell.
std::uint64_t file_part() {
  struct stat status{};
  if (::stat("/proc/self/exe", &status) != 0) return 0;
  return part_of(std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino));
}

/// True if this process runs the program of these parts, also by an emulator or the dynamic linker,
/// whose command line names the program.
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

// ---- the socket ---------------------------------------------------------------------------------

void mark_target_socket(int socket) noexcept {
  // Without it, the other marks are left.
  (void)give_name(socket, target_socket_name);
}

bool claim_target_socket(int socket) noexcept {
  // A socket takes one name, from the first process that gives it one.
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
      // Own sockets of this process are closed on exec.
      if (fd > STDERR_FILENO && (::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0 && is_marked(fd))
        return fd;
    }
  } catch (const std::exception&) {
    return -1; // no memory; the record is left
  }
  return -1;
}

// ---- the limit ----------------------------------------------------------------------------------

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
    return; // no memory; the other marks are left
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
    // Without memory the process could start nothing.
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

// ---- the record ---------------------------------------------------------------------------------

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
    return {}; // no memory or descriptor; the other marks are left
  }
  records& all = records_in(made.table_->memory);
  for (; made.entry_ < most_entries; ++made.entry_) {
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
  // Release; partners: the acquire loads of children that look.
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
    return false; // no memory, or records of another farcall
  }
  return false;
}

} // namespace farcall
