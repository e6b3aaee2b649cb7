#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace farcall::tcp {

/// Takes the same time wherever two of one size differ.
[[nodiscard]] bool same_in_constant_time(std::span<const std::byte> a,
                                         std::span<const std::byte> b) noexcept;

/// Fresh bytes from the kernel's generator; blocks only early in the boot. Throws error. For what
/// others may see: secret::random() makes what they may not.
void fill_with_random(std::span<std::byte> bytes);

/// Bytes that nobody else may see. They lie on pages of their own, which core dumps leave out,
/// which are not swapped where the limit of locked memory allows, and which forks have empty; they
/// are wiped at the end of their life. Never print them, nor pass them on by argv or environment.
class secret {
 public:
  secret() noexcept = default;
  secret(secret&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  secret& operator=(secret&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  secret(const secret&) = delete;
  secret& operator=(const secret&) = delete;
  ~secret();

  /// As fill_with_random().
  [[nodiscard]] static secret random(std::size_t size);

  /// A copy; wiping the original is up to the caller. Throws error.
  [[nodiscard]] static secret copy_of(std::span<const std::byte> bytes);

  /// What `digits` say in hexadecimal; empty where they are something else. Throws error.
  [[nodiscard]] static secret of_digits(std::span<const std::byte> digits);

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

  /// Nothing but zeros: as forks have it. Everybody knows that key, so it must not be used.
  [[nodiscard]] bool is_wiped() const noexcept;

  [[nodiscard]] friend bool operator==(const secret& a, const secret& b) noexcept {
    return same_in_constant_time(a.bytes(), b.bytes());
  }

 private:
  explicit secret(std::size_t size);
  friend secret read_private_file(const std::string& path, std::size_t most_bytes,
                                  const char* what);

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

inline constexpr std::size_t key_bytes = 32;

/// A key, and the client whose it is; without a name it is that of a group.
struct named_key {
  std::string name;
  secret key;
};

/// 1 to 63 letters, digits and "._@-", a letter or digit first: too short for a key to be one.
[[nodiscard]] bool is_client_name(std::string_view name) noexcept;

/// The key in a file made by write_key_file: one line of 64 hexadecimal digits, behind the name of
/// a client and a space if it is one's. Throws setting_error under the conditions of
/// read_private_file, and when the file holds anything else.
[[nodiscard]] named_key read_key_file(const std::string& path);

/// Makes a file with a new random key that only its owner may read (mode 0600, whatever the
/// umask); `client` is a client's name or empty. Throws setting_error when that is no name,
/// something is there already, or the folder is missing.
void write_key_file(const std::string& path, std::string_view client = {});

/// Writes a new random key, as read_key_file() wants it, to an open file. Throws error.
void write_key(int file, std::string_view client = {});

/// What a file holds that only its owner can read. Throws setting_error when it is missing, no
/// regular file, larger than `most_bytes`, open to the group or to others, or owned by another user
/// than the one this process runs as. That goes for root too: the owner of a key file knows the
/// key, and would get root's rights by it. Errors call it `what`.
[[nodiscard]] secret read_private_file(const std::string& path, std::size_t most_bytes,
                                       const char* what = "key file");

} // namespace farcall::tcp
