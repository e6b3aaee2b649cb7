#pragma once

#include <bench/report/model.hpp>

#include <string>

namespace farcall::tool {

/// One HTML document with the charts, a table of all figures, and the circumstances. It loads
/// nothing, and is well-formed XML, too.
[[nodiscard]] std::string html_page(const report& r);

/// One SVG picture of all charts, one below the other.
[[nodiscard]] std::string svg_picture(const report& r);

} // namespace farcall::tool
