// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace farcall::tcp {

/// Compares the bytes in a time that depends only on the sizes, not on the values.
[[nodiscard]] bool same_in_constant_time(std::span<const std::byte> a,
                                         std::span<const std::byte> b) noexcept;

/// Fills `bytes` from the kernel's random generator. Blocks only early in the boot. Throws error.
/// Use it for public bytes, such as nonces; use secret::random() for secret bytes.
void fill_with_random(std::span<std::byte> bytes);

/// Secret bytes on pages of their own. These pages are left out of core dumps, are locked in memory
/// if the limit allows it, and are zero in forked processes. The destructor overwrites the bytes.
/// Never print such bytes, or pass them on in arguments or the environment.
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

  /// Makes `size` random bytes, like fill_with_random().
  [[nodiscard]] static secret random(std::size_t size);

  /// Makes a copy of the bytes; the caller overwrites the original. Throws error.
  [[nodiscard]] static secret copy_of(std::span<const std::byte> bytes);

  /// Converts hexadecimal digits to bytes. Returns an empty secret if `digits` contains any other
  /// character, or an odd number of digits. Throws error.
  [[nodiscard]] static secret of_digits(std::span<const std::byte> digits);

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

  /// True if all bytes are zero, as in a forked process. Such a key must not be used, because
  /// anybody can guess it.
  [[nodiscard]] bool is_wiped() const noexcept;

  [[nodiscard]] friend bool operator==(const secret& a, const secret& b) noexcept {
    return same_in_constant_time(a.bytes(), b.bytes());
  }

 private:
  explicit secret(std::size_t size);
  friend secret read_private_file(const std::string& path, std::size_t max_bytes, const char* what);

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

inline constexpr std::size_t key_bytes = 32;

/// A key and the name of the client that it belongs to. A key without a name belongs to a group.
struct named_key {
  std::string name;
  secret key;
};

/// True if `name` has 1 to 63 letters, digits and characters of "._@-", and begins with a letter or
/// digit. The limit excludes keys, which are longer.
[[nodiscard]] bool is_client_name(std::string_view name) noexcept;

/// Reads a file that write_key_file() has made: one line with 64 hexadecimal digits. If the key has
/// a name, the client's name and a space precede the digits. Throws setting_error like
/// read_private_file(), and if the file contains anything else.
[[nodiscard]] named_key read_key_file(const std::string& path);

/// Makes a file with a new random key. Only the file's owner may read it (mode 0600, whatever the
/// umask). `client` is the name of a client, or empty. Throws setting_error if the name is invalid,
/// the file exists or its folder is missing.
void write_key_file(const std::string& path, std::string_view client = {});

/// Writes a new random key to an open file, in the format that read_key_file() reads. Throws error.
void write_key(int file, std::string_view client = {});

/// Reads a file that only its owner can read. Throws setting_error if the file is missing, is not
/// regular, is larger than `max_bytes`, can be accessed by group or others, or is owned by another
/// user than this process runs as. This also holds if root runs the process, because the owner of a
/// key file knows the key, and would get root's rights by it. Errors call the file `what`.
[[nodiscard]] secret read_private_file(const std::string& path, std::size_t max_bytes,
                                       const char* what = "key file");

} // namespace farcall::tcp
