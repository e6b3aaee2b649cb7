// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/report/model.hpp>
#include <tools/common/json.hpp>

namespace farcall::tool {

/// Returns the report in the form that charts.py reads; values that are not finite become null.
[[nodiscard]] json report_json(const report& r);

} // namespace farcall::tool
