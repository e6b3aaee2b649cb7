// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/base/wipe.hpp>
#include <farcall/transport/tcp/secret.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <span>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::tcp {
namespace {

constexpr std::size_t hex_digits = 2 * key_bytes;

/// Quotes the path, so that a shell command has it as one word.
std::string quoted(const std::string& path) {
  std::string text = "'";
  for (const char c : path) {
    if (c == '\'') {
      text += "'\\''";
    } else {
      text += c;
    }
  }
  return text + "'";
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

void note_unlocked(int reason) noexcept {
  static std::atomic_flag is_said = ATOMIC_FLAG_INIT;
  // Relaxed: publishes nothing else.
  if (!log::enabled(log::level::debug) || is_said.test_and_set(std::memory_order_relaxed)) return;
  try {
    log::debug("keys may come to be swapped, as memory cannot be locked (" + reason_text(reason) +
               "); 'ulimit -l' says how much may be");
  } catch (const std::exception&) {
    // Logging fails if memory is exhausted; continue without it.
  }
}

bool is_letter_or_digit(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Returns the value of a hexadecimal digit, 0 to 15; -1 if the character is no such digit.
int digit_value(std::byte digit) noexcept {
  const int c = std::to_integer<int>(digit);
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Throws setting_error unless the file is private. `file` names the kind of file and its path in
/// messages.
void check_private(const struct stat& status, const std::string& path, const std::string& file) {
  if (!S_ISREG(status.st_mode)) {
    throw setting_error(file + " is not a regular file; name a file");
  }
  if (status.st_uid != ::geteuid()) {
    throw setting_error(
        file + " belongs to user " + std::to_string(status.st_uid) +
        ", who knows the key, but this process runs as user " + std::to_string(::geteuid()) +
        "; if you trust that user, use a copy: " + "install -m 600 " + quoted(path) + " my.key");
  }
  if ((status.st_mode & 077) != 0) {
    constexpr const char* octal = "01234567";
    const std::string mode{octal[status.st_mode >> 6 & 7], octal[status.st_mode >> 3 & 7],
                           octal[status.st_mode & 7]};
    throw setting_error(file + " can be used by others than its owner (mode " + mode +
                        "); run: chmod 600 " + quoted(path) +
                        " (and make new keys if somebody may have read it)");
  }
}

} // namespace

void fill_with_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system_error("getting random bytes", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

// Maps whole pages for the secret, because madvise() works on pages.
secret::secret(std::size_t size) : size_(size) {
  if (size == 0) return;
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw_system_error("getting memory for a key", errno);
  // Ignore failures of these calls, because the key can be used without them.
  (void)::madvise(data, size, MADV_DONTDUMP);
  (void)::madvise(data, size, MADV_WIPEONFORK);
  if (::mlock(data, size) != 0) note_unlocked(errno);
  data_ = static_cast<std::byte*>(data);
}

secret::~secret() {
  if (data_ == nullptr) return;
  wipe(std::span(data_, size_));
  ::munmap(data_, size_);
}

secret secret::random(std::size_t size) {
  secret made(size);
  fill_with_random({made.data_, size});
  return made;
}

secret secret::copy_of(std::span<const std::byte> bytes) {
  secret made(bytes.size());
  if (made.data_ != nullptr) std::memcpy(made.data_, bytes.data(), bytes.size());
  return made;
}

secret secret::of_digits(std::span<const std::byte> digits) {
  if (digits.size() % 2 != 0) return {};
  secret made(digits.size() / 2);
  for (std::size_t at = 0; at < made.size_; ++at) {
    const int high = digit_value(digits[2 * at]);
    const int low = digit_value(digits[2 * at + 1]);
    if (high < 0 || low < 0) return {};
    made.data_[at] = static_cast<std::byte>(high << 4 | low);
  }
  return made;
}

bool secret::is_wiped() const noexcept {
  return std::all_of(data_, data_ + size_, [](std::byte b) { return b == std::byte{0}; });
}

bool same_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  if (a.size() != b.size()) return false;
  // Use a volatile variable, because the compiler might otherwise end the loop at the first
  // difference.
  volatile unsigned char difference = 0;
  for (std::size_t at = 0; at < a.size(); ++at)
    difference = static_cast<unsigned char>(difference | std::to_integer<unsigned>(a[at] ^ b[at]));
  return difference == 0;
}

secret read_private_file(const std::string& path, std::size_t max_bytes, const char* what) {
  const std::string name = std::string(what) + " " + path;
  // Open without blocking, because opening a FIFO would wait for its writer.
  const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) {
    const int reason = errno;
    std::string advice;
    if (reason == ENOENT) advice = "; copy it here from the machine on which it was made";
    if (reason == EACCES) advice = "; it must belong to the user that runs this, with mode 600";
    throw setting_error(name + " cannot be opened: " + reason_text(reason) + advice);
  }
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) throw_system_error("looking at " + name, errno);
  check_private(status, path, name);

  // Read one byte more than allowed, in order to notice a longer file.
  secret content(max_bytes + 1);
  std::size_t size = 0;
  while (size <= max_bytes) {
    const ssize_t got = ::read(file.get(), content.data_ + size, max_bytes + 1 - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw setting_error(name + " cannot be read: " + reason_text(errno));
    }
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > max_bytes) {
    throw setting_error(name + " has more than " + std::to_string(max_bytes) +
                        " bytes; name another file");
  }
  return secret::copy_of(content.bytes().first(size));
}

bool is_client_name(std::string_view name) noexcept {
  constexpr std::size_t longest = hex_digits - 1;
  constexpr std::string_view others = "._@-";
  return !name.empty() && name.size() <= longest && is_letter_or_digit(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return is_letter_or_digit(c) || others.find(c) != std::string_view::npos;
         });
}

named_key read_key_file(const std::string& path) {
  const secret content = read_private_file(path, 4096);
  std::span<const std::byte> text = content.bytes();
  // Remove both CR and LF, because editors of some systems end lines with CR LF.
  for (const char end : {'\n', '\r'}) {
    if (!text.empty() && text.back() == static_cast<std::byte>(end))
      text = text.first(text.size() - 1);
  }
  named_key made;
  const auto space = std::find(text.begin(), text.end(), std::byte{' '});
  const bool is_named = space != text.end();
  if (is_named) {
    const auto name = text.first(static_cast<std::size_t>(space - text.begin()));
    made.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
    text = text.subspan(name.size() + 1);
  }
  const std::string wanted =
      "; it must hold one line of " + std::to_string(hex_digits) +
      " hexadecimal digits, behind a client's name and a space if it is one's";
  if (text.size() != hex_digits) {
    throw setting_error("key file " + path + " is too " +
                        (text.size() < hex_digits ? "short" : "long") + ": " +
                        std::to_string(text.size()) + " characters" + wanted);
  }
  made.key = secret::of_digits(text);
  if (made.key.bytes().empty() || (is_named && !is_client_name(made.name))) {
    throw setting_error("key file " + path + " holds something else than a key" + wanted);
  }
  return made;
}

void write_key(int file, std::string_view client) {
  const secret key = secret::random(key_bytes);
  std::array<char, 256> text{};
  std::size_t size = client.copy(text.data(), text.size() / 2);
  if (size != 0) text[size++] = ' ';
  constexpr const char* hex = "0123456789abcdef";
  for (const std::byte b : key.bytes()) {
    const auto value = std::to_integer<unsigned>(b);
    text[size++] = hex[value >> 4];
    text[size++] = hex[value & 15];
  }
  text[size++] = '\n';
  int reason = 0;
  for (std::size_t at = 0; reason == 0 && at < size;) {
    const ssize_t put = ::write(file, text.data() + at, size - at);
    if (put < 0 && errno != EINTR) reason = errno;
    if (put > 0) at += static_cast<std::size_t>(put);
  }
  wipe(std::span(text));
  if (reason != 0) throw_system_error("writing a key", reason);
}

void write_key_file(const std::string& path, std::string_view client) {
  if (!client.empty() && !is_client_name(client)) {
    throw setting_error("a client's name has 1 to 63 letters, digits and \"._@-\", a letter or "
                        "digit first; give another one");
  }
  const unique_fd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, S_IRUSR | S_IWUSR));
  if (!file) {
    const int reason = errno;
    std::string advice;
    if (reason == EEXIST) {
      advice = "; a key is never overwritten: name another file, or delete this one if nobody "
               "needs it any more: rm " +
               quoted(path);
    }
    if (reason == ENOENT)
      advice = "; make its folder first: mkdir -p -m 700 " + quoted(folder_of(path));
    throw setting_error("key file " + path + " cannot be made: " + reason_text(reason) + advice);
  }
  try {
    // Set the mode again, because the umask may have removed the owner's rights.
    if (::fchmod(file.get(), S_IRUSR | S_IWUSR) != 0) throw_system_error("setting its mode", errno);
    write_key(file.get(), client);
    if (::fsync(file.get()) != 0 && errno != EINVAL) throw_system_error("keeping a key", errno);
  } catch (const std::exception& e) {
    // Remove the incomplete key file.
    ::unlink(path.c_str());
    throw setting_error("key file " + path + " cannot be made: " + e.what());
  }
}

} // namespace farcall::tcp
