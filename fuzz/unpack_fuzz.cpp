// SPDX-License-Identifier: Apache-2.0

// Unpacks arguments from arbitrary bytes. The first byte of the input selects the types, the others
// are the message. Unpacking gives values or malformed_message only; unpacked values can be packed,
// and unpack to the same values again.

#include <farcall/base/error.hpp>
#include <farcall/call/pack.hpp>

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace {

enum class flag : bool { off, on };

/// A type that contains itself in two ways, so that the bytes determine the depth.
struct tree {
  std::string name;
  std::vector<tree> children;
  std::unique_ptr<tree> next;
};

/// A type that packs to nothing.
struct silent {
  std::string unused;
};

} // namespace

template <>
struct farcall::packer<tree> {
  static void pack(writer& w, const tree& t) { w(t.name, t.children, t.next); }
  static tree unpack(reader& r) {
    tree result{r.read<std::string>(), {}, nullptr};
    result.children = r.read<std::vector<tree>>();
    result.next = r.read<std::unique_ptr<tree>>();
    return result;
  }
};

template <>
struct farcall::packer<silent> {
  static void pack(writer&, const silent&) {}
  static silent unpack(reader&) { return {}; }
};

namespace {

/// A message in its own allocation, aligned like messages and exactly as long, so that
/// AddressSanitizer detects reads past the end.
class body {
 public:
  explicit body(std::size_t size)
      : bytes_(static_cast<std::byte*>(
            ::operator new(size, std::align_val_t{farcall::body_alignment}))),
        size_(size) {}

  [[nodiscard]] std::byte* data() const { return bytes_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct release {
    void operator()(std::byte* bytes) const {
      ::operator delete(bytes, std::align_val_t{farcall::body_alignment});
    }
  };
  std::unique_ptr<std::byte, release> bytes_;
  std::size_t size_;
};

void require(bool condition) {
  if (!condition) std::abort();
}

template <class T>
body pack(const T& value) {
  body result(farcall::packed_size(value));
  farcall::writer w(result.data(), result.size());
  w(value);
  require(w.size() == result.size());
  return result;
}

/// `lost` for unordered containers, whose order changes, and with it the padding.
enum class order { kept, lost };

template <class T, order Order = order::kept>
void try_type(const body& bytes) {
  farcall::reader r(bytes.data(), bytes.size());
  const body first = pack(r.read<T>());

  farcall::reader again(first.data(), first.size());
  const body second = pack(again.read<T>());
  require(again.remaining() == 0);
  if constexpr (Order == order::kept) {
    require(first.size() == second.size());
    require(first.size() == 0 || std::memcmp(first.data(), second.data(), first.size()) == 0);
  }
}

/// Tests the path of calls with bitwise arguments only.
template <class... T>
void try_layout(const body& bytes) {
  using layout = farcall::bitwise_layout<T...>;
  if (bytes.size() < layout::size) farcall::throw_message_too_short(layout::size, bytes.size());
  const body copy(layout::size);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    layout::store(copy.data(), layout::template load<I>(bytes.data())...);
  }(std::index_sequence_for<T...>{});
}

// Without long double, whose padding may change.
using numbers = std::tuple<char, double, bool, float, flag, std::array<bool, 3>>;
using views = std::tuple<std::string_view, std::span<const double>, std::u16string_view,
                         std::span<const bool>, std::span<const std::uint16_t, 2>>;
using choices =
    std::vector<std::variant<std::monostate, bool, std::string, std::optional<std::vector<char>>>>;
using maps = std::map<std::string, std::map<int, std::set<std::string>>>;
using unordered_maps = std::map<std::string, std::unordered_map<int, std::set<std::string>>>;

constexpr std::array tries{
    &try_type<numbers>,
    &try_type<views>,
    &try_type<choices>,
    &try_type<maps>,
    &try_type<tree>,
    &try_type<std::vector<double>>,
    &try_type<std::vector<std::vector<bool>>>,
    &try_type<std::vector<std::vector<std::tuple<>>>>,
    &try_type<std::list<std::pair<silent, std::deque<short>>>>,
    &try_type<std::multimap<std::string_view, std::bitset<5>>>,
    &try_type<std::vector<std::unique_ptr<std::array<std::optional<std::filesystem::path>, 2>>>>,
    &try_type<unordered_maps, order::lost>,
    &try_layout<char, bool, long double, flag, std::bitset<77>, std::uint16_t>,
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const body bytes(size - 1);
  if (size != 1) std::memcpy(bytes.data(), data + 1, size - 1);
  try {
    tries[data[0] % tries.size()](bytes);
  } catch (const farcall::malformed_message&) {
    return 0;
  }
  return 0;
}
